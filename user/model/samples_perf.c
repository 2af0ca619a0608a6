// SPDX-License-Identifier: BSD-2-Clause
#include "model/samples_perf.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/code_places.h"
#include "base/progress_line.h"
#include "base/util.h"
#include "elf/symbol_file.h"
#include "model/objects.h"
#include "model/read_waits.h"

#define FOUR_GIB (1ull << 32)
#define FRAMES_MAX 8192 /* a record has a 16-bit size */
/*
 * Limit of the stacks. In a compressed file, a byte may expand to thousands of different stacks. A real recording has
 * at most one stack per 8 bytes of its records, and a file that expands has fewer. A report uses up to 600 bytes per
 * stack, because its function may have a row in the table of all threads and one in the table of its thread.
 */
#define STACKS_ALWAYS (64u << 10)
#define STACKS_PER_BYTE 4

/* How to find addresses of a mapping in a file. */
struct xp_perf_code {
	bool known;
	uint32_t object; /* index in the model */
	uint64_t bias;	 /* difference between the address in memory and the address as linked */
};

/* An address of a call chain. */
struct frame {
	uint64_t address; /* address in the call instruction, except for the sampled address */
	bool is_kernel;
};

/* The second pass over a file. */
struct adding {
	struct xp_perf_samples *samples;
	struct xp_model *model;
	const struct xp_model_source *source;
	const struct xp_recorded_binaries *binaries; /* NULL: unknown */
	uint64_t start_ns;			     /* start of the recording on the file's clock */
	struct frame frames[FRAMES_MAX];
	size_t frame_count;
	/* IDs of the last sample: */
	int32_t pid, tid;
	size_t generation;
	uint64_t image_end_ns;
	uint32_t thread;
	bool is_selected;
	bool has_thread;
};

/* ---- first pass ---- */

static bool is_wait(const struct xp_perfdata_record *record, struct xp_wait_record *wait)
{
	return record->sample.raw && xp_wait_record_read(wait, record->sample.raw, record->sample.raw_bytes);
}

/* xprof writes only one event of this type. In other files, such events are not CPU samples either. */
static bool is_usdt(const struct xp_perfdata_reader *reader)
{
	const struct perf_event_attr *attr = &reader->events.current.attr;

	return attr->type == PERF_TYPE_SOFTWARE && attr->config == PERF_COUNT_SW_BPF_OUTPUT;
}

static int look_at(struct xp_perf_samples *samples, const struct xp_perfdata_record *record)
{
	if (record->type == PERF_RECORD_SAMPLE) {
		struct xp_wait_record wait;

		if (!is_wait(record, &wait) && (!samples->count++ || record->time_ns < samples->first_ns))
			samples->first_ns = record->time_ns;
		xp_perf_tracks_get(&samples->tracks, record->pid);
		return 0;
	}
	if (record->type == XP_PERFDATA_TIME_CONV && record->conversion.has_zero && record->conversion.shift <= 32 &&
	    record->conversion.mult <= UINT32_MAX) {
		samples->converts = true;
		samples->conversion = (struct xp_perfdata_conversion){
			.shift = (uint16_t)record->conversion.shift,
			.mult = (uint32_t)record->conversion.mult,
			.zero = record->conversion.zero,
		};
	}
	return xp_perf_tracks_add(&samples->tracks, record);
}

int xp_perf_samples_look(struct xp_perf_samples *samples, const struct xp_file_view *view, const char *directory,
			 struct xp_violation *violation, bool *broken)
{
	struct xp_perfdata_reader reader;
	struct xp_perfdata_record record;
	struct xp_progress_line line;
	int more = xp_perfdata_reader_init(&reader, view->bytes, view->size, violation), err = 0;

	if (more)
		return more;
	xp_progress_line_begin(&line, "looking at samples", XP_PROGRESS_BYTES, view->size);
	while (!err && (more = xp_perfdata_reader_next(&reader, &record, violation)) > 0) {
		xp_progress_line_step(&line, record.offset);
		if (record.type == PERF_RECORD_SAMPLE && is_usdt(&reader))
			xp_perf_tracks_get(&samples->tracks, record.pid);
		else
			err = look_at(samples, &record);
	}
	xp_progress_line_end(&line);
	xp_perfdata_reader_end(&reader);
	if (!err)
		err = xp_jit_codes_read(&samples->jit, directory, &samples->tracks,
					samples->converts ? &samples->conversion : NULL, broken);
	if (!err)
		err = xp_perf_tracks_sort(&samples->tracks);
	return err ? err : more;
}

void xp_perf_samples_free(struct xp_perf_samples *samples)
{
	xp_perf_tracks_free(&samples->tracks);
	xp_jit_codes_free(&samples->jit);
	xp_u64_map_free(&samples->kernel);
	free(samples->codes);
	memset(samples, 0, sizeof(*samples));
}

/* ---- code ---- */

/*
 * Finds the object of a file that is this binary in the recording's list. NULL: only its build ID can show that the
 * file at the path is the recorded one.
 */
static int file_object(struct xp_model *model, const struct xp_perf_dso *dso, const struct xp_recorded_binary *binary,
		       uint32_t *object, uint32_t *file)
{
	const struct xp_symbolizer_file wanted = { dso->path, dso->build_id, dso->build_id_bytes, XP_FILE_RECORDED };
	struct xp_model_object new = {
		.build_id_bytes = dso->build_id_bytes,
		.kind = XP_CODE_USER,
		.binary = binary,
	};
	int err = binary ? xp_symbolizer_binary(model->symbolizer, binary, file)
			 : xp_symbolizer_file(model->symbolizer, &wanted, file);

	if (err)
		return err;
	new.file = *file;
	new.path = xp_model_text(model, binary ? binary->path : dso->path);
	new.name = xp_model_text(model, xp_object_base_name(binary ? binary->path : dso->path));
	memcpy(new.build_id, dso->build_id, dso->build_id_bytes);
	return new.path &&new.name ? xp_model_object(model, &new, object) : -ENOMEM;
}

static const struct xp_recorded_binary *find_binary(const struct adding *adding, const struct xp_perf_dso *dso)
{
	const struct xp_mapped_binary mapped = { dso->path, dso->build_id, dso->build_id_bytes, dso->inode };

	return adding->binaries ? xp_recorded_binaries_find(adding->binaries, &mapped) : NULL;
}

/* Finds the object of code in no file, whose names are in sym/ at this path. NULL: there are no names. */
static int symbols_object(struct xp_model *model, const char *symbols, const struct xp_model_object *without,
			  uint32_t *object)
{
	struct xp_model_object new = *without;
	char path[PATH_MAX];
	int err;

	if (!symbols || !realpath(symbols, path))
		return xp_model_object_named(model, new.name, new.path, new.kind, object);
	err = xp_symbolizer_file(model->symbolizer, &(struct xp_symbolizer_file){ .path = path }, &new.file);
	if (err)
		return err;
	new.name = xp_model_text(model, new.name);
	new.path = xp_model_text(model, new.path);
	return new.name &&new.path ? xp_model_object(model, &new, object) : -ENOMEM;
}

static int find_vdso(struct adding *adding, const struct xp_perf_mapping *mapping, struct xp_perf_code *code)
{
	const struct xp_model_object vdso = { .name = "vdso", .path = "[vdso]", .kind = XP_CODE_UNKNOWN };
	const char *names = adding->binaries && mapping->start >= FOUR_GIB ? adding->binaries->vdso : NULL;

	code->bias = XP_SYM_ELF_OFFSET - mapping->start;
	return symbols_object(adding->model, names, &vdso, &code->object);
}

static int find_code(struct adding *adding, const struct xp_perf_mapping *mapping, uint64_t address,
		     struct xp_perf_code *code)
{
	const struct xp_perf_dso *dso = &adding->samples->tracks.dsos[mapping->dso];
	const struct xp_recorded_binary *binary = xp_path_is_of_file(dso->path) ? find_binary(adding, dso) : NULL;
	struct xp_model *model = adding->model;
	uint32_t file;
	int err;

	code->known = true;
	if (strcmp(dso->path, "[vdso]") == 0)
		return find_vdso(adding, mapping, code);
	if (!xp_path_is_of_file(dso->path))
		return xp_model_object_named(model, "anon", "[anon]", XP_CODE_UNKNOWN, &code->object);
	/* The recording has no copy of the stub. */
	if (!binary && strcmp(dso->path, XP_STUB_PATH) == 0)
		return xp_model_object_named(model, "xprof", "[xprof]", XP_CODE_UNKNOWN, &code->object);
	/* Do not open the file itself: its file system may not respond. */
	if (model->only_jit_names && (!binary || !binary->names))
		return xp_model_object_named(model, xp_object_base_name(dso->path), dso->path, XP_CODE_USER,
					     &code->object);
	err = file_object(model, dso, binary, &code->object, &file);
	if (!err)
		code->bias =
		    xp_symbolizer_vaddr(model->symbolizer, file, mapping->file_offset, address - mapping->start) -
		    address;
	return err;
}

static int user_location(struct adding *adding, const struct xp_perf_track *track, uint64_t address, uint64_t at_ns,
			 uint32_t *location)
{
	struct xp_perf_tracks *tracks = &adding->samples->tracks;
	struct xp_model *model = adding->model;
	const struct xp_perf_mapping *mapping = xp_perf_tracks_mapping(tracks, track, address, at_ns);
	const struct xp_perf_dso *dso = mapping ? &tracks->dsos[mapping->dso] : NULL;
	bool may_be_jit = !dso || !xp_path_is_of_file(dso->path) || strncmp(dso->path, "/memfd:", 7) == 0;
	const struct xp_span *jit = may_be_jit ? xp_spans_find(&track->jit, address, at_ns) : NULL;
	struct xp_perf_code *code = mapping ? &adding->samples->codes[mapping - tracks->mappings] : NULL;
	uint32_t object;
	int err = 0;

	if (jit) {
		err = xp_model_object_named(model, "jit", "[jit]", XP_CODE_JIT, &object);
		return err ? err : xp_model_location(model, object, address, jit->index, location);
	}
	if (!code) {
		err = xp_model_object_named(model, "[unknown]", "[unknown]", XP_CODE_UNKNOWN, &object);
		return err ? err : xp_model_location(model, object, address, XP_MODEL_NONE, location);
	}
	if (!code->known)
		err = find_code(adding, mapping, address, code);
	return err ? err : xp_model_location(model, code->object, address + code->bias, XP_MODEL_NONE, location);
}

/* Data has the same distance between address and file offset as the file's code. */
static int data_location(struct adding *adding, const struct xp_perf_track *track, uint64_t address, uint64_t at_ns,
			 uint32_t *location)
{
	struct xp_perf_tracks *tracks = &adding->samples->tracks;
	const struct xp_perf_mapping *mapping = xp_perf_tracks_code_below(tracks, track, address, at_ns);
	struct xp_perf_code *code = mapping ? &adding->samples->codes[mapping - tracks->mappings] : NULL;
	int err = 0;

	*location = XP_MODEL_NONE;
	if (!code || !xp_path_is_of_file(tracks->dsos[mapping->dso].path))
		return 0;
	if (!code->known)
		err = find_code(adding, mapping, mapping->start, code);
	return err ?: xp_model_location(adding->model, code->object, address + code->bias, XP_MODEL_NONE, location);
}

static int find_kernel(struct adding *adding, uint64_t address, uint32_t *location)
{
	const struct xp_model_object kernel = { .name = "kernel", .path = "[kernel]", .kind = XP_CODE_KERNEL };
	uint64_t vaddr = address;
	const char *names = adding->binaries ? xp_recorded_binaries_kernel(adding->binaries, address, &vaddr) : NULL;
	uint32_t object;
	int err = symbols_object(adding->model, names, &kernel, &object);

	return err ? err : xp_model_location(adding->model, object, names ? vaddr : address, XP_MODEL_NONE, location);
}

static int kernel_location(struct adding *adding, uint64_t address, uint32_t *location)
{
	const uint32_t *known = xp_u64_map_find(&adding->samples->kernel, address);
	int err;

	if (known) {
		*location = *known;
		return 0;
	}
	err = find_kernel(adding, address, location);
	if (err)
		return err;
	return xp_u64_map_add(&adding->samples->kernel, address, *location) ? 0 : -ENOMEM;
}

/* ---- samples ---- */

/* All addresses are return addresses, except the first one, and the first user address after kernel addresses. */
static void take_frames(struct adding *adding, const struct xp_perfdata_record *record)
{
	bool is_kernel = record->sample.ip >> 63, is_return = false;

	adding->frame_count = 0;
	for (uint64_t i = 0; i < record->sample.chain_count && adding->frame_count < FRAMES_MAX; i++) {
		uint64_t address = xp_perfdata_record_chain(record, i);

		if (address >= (uint64_t)PERF_CONTEXT_MAX) {
			is_kernel = address == (uint64_t)PERF_CONTEXT_KERNEL;
			is_return = false;
			continue;
		}
		adding->frames[adding->frame_count++] = (struct frame){ address - is_return, is_kernel };
		is_return = true;
	}
	if (!adding->frame_count)
		adding->frames[adding->frame_count++] = (struct frame){ record->sample.ip, is_kernel };
}

/* Sets when an image was first sampled. Returns false if the manifest has no such image. */
static bool image_since(const struct adding *adding, uint64_t pid, uint32_t image, uint64_t *since_ns)
{
	uint64_t tsc;

	if (!adding->samples->converts || !xp_facts_since(adding->source->facts, pid, image, &tsc))
		return false;
	*since_ns = tsc ? xp_perfdata_ns(&adding->samples->conversion, tsc) : 0;
	return true;
}

/*
 * Returns the image of a process at a time: the last image that was sampled before, from 1. 0: the manifest does not
 * contain it. *end_ns: end of its time.
 */
static uint32_t image_at(const struct adding *adding, uint64_t pid, uint64_t at_ns, uint64_t *end_ns)
{
	uint32_t low = 0, high = 1; /* low is 0 or has begun; high is 0 or has not begun */
	uint64_t since_ns;

	*end_ns = UINT64_MAX;
	for (; image_since(adding, pid, high, &since_ns) && since_ns <= at_ns && high < UINT32_MAX / 2; high *= 2)
		low = high;
	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;

		if (image_since(adding, pid, middle, &since_ns) && since_ns <= at_ns)
			low = middle;
		else
			high = middle;
	}
	if (image_since(adding, pid, high, &since_ns))
		*end_ns = since_ns;
	return low && image_since(adding, pid, low, &since_ns) && since_ns ? low : 0;
}

static int add_thread(struct adding *adding, const struct xp_perf_track *track, int32_t tid, uint64_t at_ns)
{
	const struct xp_perf_tracks *tracks = &adding->samples->tracks;
	const char *comm = xp_perf_tracks_name(tracks, track, track->pid, at_ns);
	const char *thread_comm = xp_perf_tracks_name(tracks, track, tid, at_ns);
	struct xp_model *model = adding->model;
	struct xp_model_process process = { .pid = (uint32_t)track->pid };
	struct xp_model_thread thread = { .tid = (uint32_t)tid };
	const char *known;
	int err;

	process.image = image_at(adding, process.pid, at_ns, &adding->image_end_ns);
	if (!process.image)
		process.image = (uint32_t)adding->generation + 1;
	known = xp_facts_comm(adding->source->facts, process.pid, process.image);
	if (!known)
		known = comm ? comm : thread_comm ? thread_comm : "";
	process.name = xp_model_text(model, known);
	thread.name = xp_model_text(model, thread_comm ? thread_comm : known);
	if (!process.name || !thread.name)
		return -ENOMEM;
	err = xp_model_cgroup(model, xp_facts_cgroup(adding->source->facts, process.pid, process.image), &process);
	if (err)
		return err;
	adding->is_selected =
	    xp_select_thread(adding->source->select, process.pid, thread.tid, process.name, thread.name);
	if (!adding->is_selected)
		return 0;
	err = xp_model_process(model, &process, &thread.process);
	return err ? err : xp_model_thread(model, &thread, &adding->thread);
}

/* Most samples belong to the same thread as the previous one. */
static int find_thread(struct adding *adding, const struct xp_perf_track *track,
		       const struct xp_perfdata_record *record)
{
	size_t generation = xp_spans_generation(&track->mappings, record->time_ns);
	int err;

	if (adding->has_thread && adding->pid == record->pid && adding->tid == record->tid &&
	    adding->generation == generation && record->time_ns < adding->image_end_ns)
		return 0;
	adding->pid = record->pid;
	adding->tid = record->tid;
	adding->generation = generation;
	err = add_thread(adding, track, record->tid, record->time_ns);
	adding->has_thread = !err;
	return err;
}

static int add_stack(struct adding *adding, const struct xp_perf_track *track, uint64_t at_ns, uint32_t *stack)
{
	int err = 0;

	*stack = 0;
	for (size_t i = adding->frame_count; !err && i; i--) {
		const struct frame *frame = &adding->frames[i - 1];
		uint32_t location;

		err = frame->is_kernel ? kernel_location(adding, frame->address, &location)
				       : user_location(adding, track, frame->address, at_ns, &location);
		if (!err)
			err = xp_model_stack(adding->model, *stack, location, stack);
	}
	return err;
}

static uint64_t since_start(const struct adding *adding, const struct xp_perfdata_record *record)
{
	return xp_offset(adding->source->offset_ns, adding->start_ns, record->time_ns);
}

static uint32_t cpu_of(const struct xp_perfdata_record *record)
{
	return record->has & PERF_SAMPLE_CPU ? record->cpu : XP_MODEL_CPU_UNKNOWN;
}

/* Finds the thread. Returns 1 if the record is selected, 0 if not, or -errno. */
static int select_record(struct adding *adding, const struct xp_perfdata_record *record,
			 const struct xp_perf_track **track)
{
	int err;

	*track = xp_perf_tracks_find(&adding->samples->tracks, record->pid);
	if (!*track)
		return -E2BIG;
	if (!xp_select_time(adding->source->select, since_start(adding, record)))
		return 0;
	err = find_thread(adding, *track, record);
	return err ? err : adding->is_selected;
}

static int add_sample(struct adding *adding, const struct xp_perfdata_record *record)
{
	const struct xp_perf_track *track;
	struct xp_wait_record wait;
	struct xp_model_sample sample = {
		.cpu = cpu_of(record),
		.time_ns = since_start(adding, record),
		.values = { 1, adding->model->period_ns ? adding->model->period_ns : record->sample.period },
	};
	bool waits_here = is_wait(record, &wait);
	uint32_t variable = XP_MODEL_NONE;
	int err;

	if (waits_here ? !adding->model->keep_waits : adding->model->kind == XP_MODEL_WAITS)
		return 0;
	err = select_record(adding, record, &track);
	if (err <= 0)
		return err;
	sample.thread = adding->thread;
	take_frames(adding, record);
	err = add_stack(adding, track, record->time_ns, &sample.stack);
	if (!err && !waits_here)
		return xp_model_sample(adding->model, &sample);
	if (!err && adding->model->name_locks && wait.lock)
		err = data_location(adding, track, wait.lock, record->time_ns, &variable);
	err = err ?: xp_waits_add(adding->model, &sample, &wait, variable);
	if (err == -E2BIG && waits_here)
		adding->model->dropped_waits++;
	return err == -E2BIG && waits_here ? 0 : err;
}

/* The text is that of xp_perfdata_usdt(): "PROVIDER:NAME arg1=5 arg2=-1". */
static int split_hit(struct xp_model *model, const char *text, struct xp_model_hit *hit)
{
	const char *arguments = strstr(text, " arg1=");
	size_t bytes = arguments ? (size_t)(arguments - text) : strlen(text);
	char probe[XP_PERFDATA_USDT_BYTES];

	snprintf(probe, sizeof(probe), "%.*s", (int)XP_MIN(bytes, sizeof(probe)), text);
	hit->probe = xp_model_text(model, probe);
	hit->arguments = xp_model_text(model, arguments && model->keep_times ? arguments + 1 : "");
	return hit->probe && hit->arguments ? 0 : -ENOMEM;
}

static int add_hit(struct adding *adding, const struct xp_perfdata_record *record)
{
	const char *text = (const char *)record->sample.raw;
	struct xp_model *model = adding->model;
	const struct xp_perf_track *track;
	struct xp_model_hit hit = {
		.cpu = cpu_of(record),
		.time_ns = since_start(adding, record),
		.count = 1,
	};
	int err;

	if (!model->keep_hits || !text || !record->sample.raw_bytes || text[record->sample.raw_bytes - 1])
		return 0;
	err = select_record(adding, record, &track);
	if (err == 1) {
		hit.thread = adding->thread;
		err = split_hit(model, text, &hit) ?: xp_model_hit(model, &hit);
	}
	model->dropped_hits += err == -E2BIG;
	return err == -E2BIG ? 0 : err;
}

static int add_all(struct adding *adding, const struct xp_file_view *view)
{
	struct xp_violation violation;
	struct xp_perfdata_reader reader;
	struct xp_perfdata_record record;
	struct xp_progress_line line;
	int err = 0;

	if (xp_perfdata_reader_init(&reader, view->bytes, view->size, &violation))
		return 0;
	xp_progress_line_begin(&line, "reading samples", XP_PROGRESS_BYTES, view->size);
	while (!err && xp_perfdata_reader_next(&reader, &record, &violation) > 0) {
		xp_progress_line_step(&line, record.offset);
		if (record.type == PERF_RECORD_SAMPLE)
			err = is_usdt(&reader) ? add_hit(adding, &record) : add_sample(adding, &record);
		if (err == -E2BIG) {
			adding->model->dropped++;
			err = 0;
		}
	}
	xp_progress_line_end(&line);
	xp_perfdata_reader_end(&reader);
	return err;
}

int xp_perf_samples_add(struct xp_perf_samples *samples, const struct xp_file_view *view, struct xp_model *model,
			const struct xp_model_source *source)
{
	const struct xp_facts_summary *summary = xp_facts_summary(source->facts);
	struct adding *adding = calloc(1, sizeof(*adding));
	int err = -ENOMEM;

	samples->codes = calloc(XP_MAX(samples->tracks.mapping_count, (size_t)1), sizeof(*samples->codes));
	if (adding && samples->codes) {
		adding->samples = samples;
		adding->model = model;
		adding->source = source;
		adding->binaries = xp_recorded_binaries_of(source->recorded, source->directory);
		model->stack_max = XP_MIN(XP_MODEL_STACKS_MAX, STACKS_ALWAYS + (uint64_t)view->size * STACKS_PER_BYTE);
		adding->start_ns = samples->converts && summary->start_tsc
				       ? xp_perfdata_ns(&samples->conversion, summary->start_tsc)
				       : samples->first_ns;
		err = add_all(adding, view);
	}
	free(adding);
	return err;
}
