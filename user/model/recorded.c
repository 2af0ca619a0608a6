// SPDX-License-Identifier: BSD-2-Clause
#include "model/recorded.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/file_name.h"
#include "base/file_view.h"
#include "base/util.h"
#include "format/fdr_reader.h"
#include "format/gperf_reader.h"
#include "format/manifest_reader.h"
#include "format/perfdata_reader.h"
#include "model/facts.h"

/* Limit of the data from all manifests. A process may have many logs, and each has a copy of its data. */
#define BYTES_MAX (256u << 20)
#define COMM_BYTES_MAX 64 /* kernel names have at most 15 bytes */
#define TIME_BYTES_MAX 64

/* A directory whose files are being added. */
struct place {
	const char *path;
	json_t *manifest; /* NULL: none */
	/* The manifest's entries by file name, so that many files do not need quadratic time. */
	json_t *profiles; /* {file: entry of samples.profiles} */
	json_t *logs;	  /* {file: entry of processes} */
	json_t *flights;  /* {file: index among the flights of its process, from 1} */
	bool cut_off;	  /* the directory contains a spool */
	const struct xp_recorded_binaries *binaries;
};

/* ---- the manifest ---- */

/* If a name occurs twice, the first value stays. */
static void add_named(json_t *index, const json_t *object, const char *key, json_t *value)
{
	const char *name = xp_manifest_string(object, key);

	if (name && !json_object_get(index, name))
		json_object_set(index, name, value);
}

static void index_flights(struct place *place, json_t *process)
{
	const json_t *list = json_object_get(process, "flights");

	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *flight = json_array_get(list, i);
		uint64_t named = xp_manifest_number(flight, "number"); /* number of a recovered log */
		json_t *number = json_integer(named ? (json_int_t)named : (json_int_t)i + 1);

		add_named(place->logs, flight, "log", process);
		add_named(place->flights, flight, "log", number);
		json_decref(number);
	}
}

/* If there is no memory for an entry, its file is shown without it. */
static void index_manifest(struct place *place)
{
	const json_t *profiles = json_object_get(json_object_get(place->manifest, "samples"), "profiles");
	const json_t *processes = json_object_get(place->manifest, "processes");

	place->profiles = json_object();
	place->logs = json_object();
	place->flights = json_object();
	for (size_t i = 0; i < json_array_size(profiles); i++)
		add_named(place->profiles, json_array_get(profiles, i), "file", json_array_get(profiles, i));
	for (size_t i = 0; i < json_array_size(processes); i++)
		add_named(place->logs, json_array_get(processes, i), "log", json_array_get(processes, i));
	for (size_t i = 0; i < json_array_size(processes); i++)
		index_flights(place, json_array_get(processes, i));
}

static void forget_manifest(struct place *place)
{
	json_decref(place->profiles);
	json_decref(place->logs);
	json_decref(place->flights);
	json_decref(place->manifest);
}

/* Returns false if the limit is reached. */
static bool take_bytes(struct xp_recorded *recorded, size_t bytes)
{
	bool fits = !recorded->is_full && bytes <= BYTES_MAX - recorded->bytes;

	if (fits)
		recorded->bytes += bytes;
	else if (!recorded->is_full)
		xp_warn("the manifest has too many entries; the rest is ignored, so some functions may have no names");
	recorded->is_full |= !fits;
	return fits;
}

static int add_taken_out(struct xp_recorded *recorded, struct xp_recorded_process *process,
			 const struct xp_recorded_object *object, const json_t *list)
{
	size_t count = json_array_size(list);
	struct xp_recorded_taken_out *all;

	if (!count || !take_bytes(recorded, count * sizeof(*all)))
		return 0;
	all = reallocarray(process->taken_out, process->taken_out_count + count, sizeof(*all));
	if (!all)
		return -ENOMEM;
	process->taken_out = all;
	for (size_t i = 0; i < count; i++) {
		const json_t *json = json_array_get(list, i);
		uint64_t id = xp_manifest_number(json, "id");

		if (!id || id > object->functions)
			continue;
		all[process->taken_out_count++] = (struct xp_recorded_taken_out){
			.id = object->first_id + (uint32_t)id - 1,
			.out_s = json_number_value(json_object_get(json, "out_s")),
			.counted_s = json_number_value(json_object_get(json, "counted_s")),
			.calls = xp_manifest_number(json, "calls_counted"),
		};
	}
	return 0;
}

static int add_object(struct xp_recorded *recorded, struct xp_recorded_process *process, const json_t *json)
{
	struct xp_recorded_object *object = &process->objects[process->object_count];
	const char *path = xp_manifest_string(json, "path"), *names = xp_manifest_string(json, "names");

	if (!path || !take_bytes(recorded, strlen(path)))
		return 0;
	object->path = strdup(path);
	if (!object->path)
		return -ENOMEM;
	object->build_id_bytes =
	    xp_recorded_hex(xp_manifest_string(json, "build_id"), object->build_id, sizeof(object->build_id));
	object->first_id = (uint32_t)XP_MIN(xp_manifest_number(json, "first_id"), (uint64_t)UINT32_MAX);
	object->functions = (uint32_t)XP_MIN(xp_manifest_number(json, "functions"), (uint64_t)UINT32_MAX);
	object->selection = (uint32_t)xp_manifest_number(json, "selection");
	if (names)
		object->binary = xp_recorded_binaries_named(process->binaries, names);
	process->object_count++;
	return add_taken_out(recorded, process, object, json_object_get(json, "taken_out"));
}

static int add_objects(struct xp_recorded *recorded, struct xp_recorded_process *process, const json_t *list)
{
	size_t count = json_array_size(list);
	int err = 0;

	if (!count || process->objects || !take_bytes(recorded, count * sizeof(*process->objects)))
		return 0;
	process->objects = calloc(count, sizeof(*process->objects));
	if (!process->objects)
		return -ENOMEM;
	for (size_t i = 0; !err && i < count; i++)
		err = add_object(recorded, process, json_array_get(list, i));
	return err;
}

/* Formats a text as printf does, and cleans it. Returns NULL if out of memory. */
static __attribute__((format(printf, 1, 2))) char *clean_text(const char *format, ...)
{
	char *text, *clean;
	va_list args;
	int length;

	va_start(args, format);
	length = vasprintf(&text, format, args);
	va_end(args);
	if (length < 0)
		return NULL;
	clean = malloc((size_t)length + 1);
	if (clean)
		xp_clean_text(clean, (size_t)length + 1, text);
	free(text);
	return clean;
}

/* Describes how many user stacks are incomplete, and why. */
static int describe_stacks(struct xp_recorded_process *process, const json_t *json)
{
	uint64_t ends[XP_UNWIND_ENDS];
	char text[XP_UNWIND_ENDS_TEXT_BYTES];

	xp_facts_stack_ends(ends, json);
	if (process->stacks || !xp_unwind_ends_text(text, ends))
		return 0;
	process->stacks = strdup(text);
	return process->stacks ? 0 : -ENOMEM;
}

/* flight: as in struct xp_recorded_process. */
static int describe(struct xp_recorded *recorded, struct xp_recorded_process *process, const json_t *json,
		    unsigned int flight)
{
	const char *comm = xp_manifest_string(json, "comm");
	char *name;
	int err;

	process->pid = xp_manifest_number(json, "pid");
	process->image = xp_manifest_number(json, "image");
	if (comm && !process->flight) {
		process->flight = flight;
		if (flight)
			name = clean_text("%.*s (%" PRIu64 "), flight %u", COMM_BYTES_MAX, comm, process->pid, flight);
		else if (process->pid)
			name = clean_text("%.*s (%" PRIu64 ")", COMM_BYTES_MAX, comm, process->pid);
		else
			name = clean_text("%.*s", COMM_BYTES_MAX, comm);
		if (!name)
			return -ENOMEM;
		free(process->name);
		process->name = name;
	}
	err = describe_stacks(process, json_object_get(json, "stacks"));
	return err ? err : add_objects(recorded, process, json_object_get(json, "objects"));
}

/* Writes ", N of M events lost", or "" if their number is not given. */
static void describe_losses(char *to, size_t size, uint64_t lost, uint64_t seen, const char *what)
{
	to[0] = 0;
	if (seen)
		snprintf(to, size, ", %" PRIu64 " of %" PRIu64 " %s lost", lost, seen, what);
}

static int add_heading(struct xp_recorded *recorded, const struct place *place)
{
	const json_t *totals = json_object_get(place->manifest, "totals");
	const json_t *samples = json_object_get(place->manifest, "samples");
	const char *started = xp_manifest_string(place->manifest, "started");
	double attached_after_s = json_number_value(json_object_get(place->manifest, "attached_after_s"));
	double duration_s = json_number_value(json_object_get(place->manifest, "duration_s"));
	char events_lost[96], samples_lost[96], duration[64];
	char *heading;

	if (XP_ARRAY_RESERVE(recorded->headings, recorded->heading_room, recorded->heading_count + 1))
		return -ENOMEM;
	snprintf(duration, sizeof(duration), "%.1f s", duration_s);
	if (attached_after_s > 0) /* all times count from the start, which is before sleds are attached */
		snprintf(duration, sizeof(duration), "%.1f s (from %.1f s to %.1f s)", duration_s, attached_after_s,
			 attached_after_s + duration_s);
	describe_losses(events_lost, sizeof(events_lost), xp_manifest_number(json_object_get(totals, "lost"), "total"),
			xp_manifest_number(totals, "seen"), "events");
	describe_losses(samples_lost, sizeof(samples_lost), xp_manifest_number(samples, "lost"),
			xp_manifest_number(samples, "seen"), "samples");
	heading = clean_text(
	    "%s: %.*s, %s%s%s", place->path, TIME_BYTES_MAX, started ? started : "at an unknown time",
	    json_is_true(json_object_get(place->manifest, "recovered")) ? "recovered after an interruption" : duration,
	    samples_lost, events_lost);
	if (!heading)
		return -ENOMEM;
	recorded->headings[recorded->heading_count++] = heading;
	return 0;
}

/* ---- files ---- */

static uint64_t stem_key(const char *directory, const char *stem)
{
	return xp_hash_mix(xp_hash_text(directory), xp_hash_text(stem));
}

static uint64_t pid_key(const char *directory, uint64_t pid, uint64_t image)
{
	return xp_hash_mix(xp_hash_mix(xp_hash_text(directory), pid), image);
}

static struct xp_recorded_process *look_up(const struct xp_recorded *recorded, const struct xp_u64_map *map,
					   uint64_t key, const char *directory)
{
	const uint32_t *index = xp_u64_map_find(map, key);
	struct xp_recorded_process *process = index ? &recorded->processes[*index] : NULL;

	return process && !strcmp(process->directory, directory) ? process : NULL;
}

static int enter(struct xp_u64_map *map, uint64_t key, size_t index)
{
	uint32_t *value = xp_u64_map_add(map, key, (uint32_t)index);

	if (value)
		*value = (uint32_t)index;
	return value ? 0 : -ENOMEM;
}

/*
 * Returns the newest process that this file may belong to. The profile and the log of a process have the same stem,
 * unless the process changed its name in between; then the manifest has both names. A flight recorder may write several
 * logs.
 */
static struct xp_recorded_process *find_same(const struct xp_recorded *recorded, const char *directory,
					     const char *stem, const json_t *json, bool is_profile)
{
	uint64_t pid = xp_manifest_number(json, "pid"), image = xp_manifest_number(json, "image");
	struct xp_recorded_process *process =
	    look_up(recorded, &recorded->by_stem, stem_key(directory, stem), directory);

	if (process && strcmp(process->stem, stem) == 0 && (is_profile || !process->log))
		return process;
	process = pid ? look_up(recorded, &recorded->by_pid, pid_key(directory, pid, image), directory) : NULL;
	if (process && process->pid == pid && process->image == image && (is_profile || !process->log))
		return process;
	return NULL;
}

/* Finds the process of a file, or adds it. Returns NULL if out of memory. */
static struct xp_recorded_process *find_process(struct xp_recorded *recorded, const char *directory, const char *stem,
						const json_t *json, bool is_profile)
{
	struct xp_recorded_process *process = find_same(recorded, directory, stem, json, is_profile);

	if (process)
		return process;
	if (XP_ARRAY_RESERVE(recorded->processes, recorded->process_room, recorded->process_count + 1))
		return NULL;
	process = &recorded->processes[recorded->process_count++];
	*process = (struct xp_recorded_process){
		.name = clean_text("%s", stem),
		.directory = strdup(directory),
		.stem = strdup(stem),
	};
	return process->name && process->directory && process->stem ? process : NULL;
}

/* Indexes the process, to find it for its other file. */
static int enter_process(struct xp_recorded *recorded, const struct xp_recorded_process *process)
{
	size_t index = (size_t)(process - recorded->processes);
	int err = enter(&recorded->by_stem, stem_key(process->directory, process->stem), index);

	if (!err && process->pid)
		err = enter(&recorded->by_pid, pid_key(process->directory, process->pid, process->image), index);
	return err;
}

/* Takes ownership of stem. */
static int set_file(struct xp_recorded_process *process, const struct place *place, const char *name, char *stem,
		    bool is_profile)
{
	char **path = is_profile ? &process->profile : &process->log;

	if (is_profile) {
		free(stem);
	} else {
		free(process->stem);
		process->stem = stem;
	}
	if (!*path && asprintf(path, "%s/%s", place->path, name) < 0) {
		*path = NULL;
		return -ENOMEM;
	}
	return 0;
}

static int add_file(struct xp_recorded *recorded, const struct place *place, const char *name, bool is_profile)
{
	bool suffixed = xp_file_ends_with(name, is_profile ? ".prof" : ".fdr");
	char *stem = strndup(name, suffixed ? (size_t)(strrchr(name, '.') - name) : strlen(name));
	const json_t *json = json_object_get(is_profile ? place->profiles : place->logs, name);
	struct xp_recorded_process *process = stem ? find_process(recorded, place->path, stem, json, is_profile) : NULL;
	int err;

	if (!process) {
		free(stem);
		return -ENOMEM;
	}
	err = set_file(process, place, name, stem, is_profile);
	process->binaries = place->binaries;
	process->duration_s = json_number_value(json_object_get(place->manifest, "duration_s"));
	if (!err && json)
		err = describe(recorded, process, json,
			       is_profile ? 0 : (unsigned int)xp_manifest_number(place->flights, name));
	return err ? err : enter_process(recorded, process);
}

/* Returns -ENOENT if the file is neither a profile nor a log. */
static int add_entry(struct xp_recorded *recorded, struct place *place, int dir_fd, const char *name)
{
	struct xp_file_view view;
	int err = xp_file_view_open(&view, dir_fd, name);
	bool is_profile, is_log;

	if (err)
		return err;
	is_profile = xp_gperf_probe(view.bytes, view.size);
	is_log = !is_profile && xp_fdr_probe(view.bytes, view.size);
	xp_file_view_close(&view);
	if (is_profile || is_log)
		return add_file(recorded, place, name, is_profile);
	place->cut_off |= xp_file_is_spool(name);
	return -ENOENT;
}

static int add_directory(struct xp_recorded *recorded, struct place *place, int dir_fd)
{
	struct dirent **entries;
	int count = scandirat(dir_fd, ".", &entries, NULL, alphasort), err = 0, added = 0;

	if (count < 0)
		return -errno;
	for (int i = 0; i < count; i++) {
		/* A profile of waits contains us of waiting instead of samples of CPU time. */
		bool is_left_out = err == -ENOMEM || xp_file_ends_with(entries[i]->d_name, XP_WAIT_PROFILE_SUFFIX);
		bool is_perf = !strcmp(entries[i]->d_name, XP_PERF_DATA_NAME);
		int its_err = is_left_out || is_perf ? -ENOENT : add_entry(recorded, place, dir_fd, entries[i]->d_name);

		recorded->has_perf_data |= is_perf;
		if (its_err == -ENOMEM)
			err = its_err;
		added += !its_err || is_perf;
		free(entries[i]);
	}
	free(entries);
	if (added && place->cut_off)
		xp_warn("%s: incomplete: the recording was interrupted, or still runs; `xprof recover` writes the "
			"missing files",
			place->path);
	/* A complete recording may have no files: for example a part in which the target slept. */
	added |= place->manifest && !place->cut_off;
	if (!err && place->manifest && added)
		err = add_heading(recorded, place);
	return err || added ? err : -ENOENT;
}

static bool is_perf_data(const char *path)
{
	struct xp_file_view view;
	bool is;

	if (xp_file_view_open(&view, AT_FDCWD, path))
		return false;
	is = xp_perfdata_probe(view.bytes, view.size);
	xp_file_view_close(&view);
	return is;
}

static void report_error(const char *path, int err, const struct place *place, bool is_directory)
{
	if (err == -EPROTO)
		return; /* told already */
	if (err != -ENOENT || access(path, F_OK))
		xp_error("%s: cannot read it: %s", path, xp_file_view_error(err));
	else if (place->cut_off)
		xp_error("%s: the recording was interrupted; `xprof recover` writes its files", path);
	else if (is_directory)
		xp_error("%s: no perf.data, gperftools profile or XRay FDR log in this directory", path);
	else if (is_perf_data(path))
		xp_error("%s: cannot read perf.data alone: give the directory of the recording", path);
	else
		xp_error("%s: neither a gperftools profile nor an XRay FDR log", path);
}

static const struct xp_recorded_directory *find_directory(const struct xp_recorded *recorded, const char *path)
{
	for (size_t i = 0; i < recorded->directory_count; i++)
		if (!strcmp(recorded->directories[i].binaries->directory, path))
			return &recorded->directories[i];
	return NULL;
}

const struct xp_recorded_binaries *xp_recorded_binaries_of(const struct xp_recorded *recorded, const char *directory)
{
	const struct xp_recorded_directory *found = find_directory(recorded, directory);

	return found ? found->binaries : NULL;
}

const struct xp_facts *xp_recorded_facts(const struct xp_recorded *recorded, const char *directory)
{
	const struct xp_recorded_directory *found = find_directory(recorded, directory);

	return found ? found->facts : NULL;
}

uint64_t xp_recorded_offset_ns(const struct xp_recorded *recorded, const char *directory)
{
	const struct xp_recorded_directory *found = find_directory(recorded, directory);

	return found ? found->offset_ns : 0;
}

static int read_manifest(struct xp_recorded *recorded, struct place *place)
{
	struct xp_recorded_directory *new;
	uint64_t offset_ns = 0;
	int err = xp_manifest_read(&place->manifest, place->path);

	if (err)
		return err;
	index_manifest(place);
	place->binaries = xp_recorded_binaries_of(recorded, place->path);
	if (place->binaries)
		return 0;
	if (XP_ARRAY_RESERVE(recorded->directories, recorded->directory_room, recorded->directory_count + 1))
		return -ENOMEM;
	new = &recorded->directories[recorded->directory_count];
	err = xp_facts_new(&new->facts, place->manifest);
	if (err)
		return err;
	if (recorded->directory_count) {
		offset_ns = new[-1].offset_ns;
		offset_ns += XP_MIN(xp_facts_ns_between(new[-1].facts, new->facts), UINT64_MAX - offset_ns);
	}
	new->offset_ns = offset_ns;
	recorded->directory_count++;
	err = xp_recorded_binaries_read(&new->binaries, place->path, place->manifest);
	place->binaries = new->binaries;
	return err;
}

static int add_path(struct xp_recorded *recorded, struct place *place, const char *path, int dir_fd)
{
	const char *slash = strrchr(path, '/');
	char *directory;
	int err;

	if (dir_fd >= 0) {
		place->path = path;
		err = read_manifest(recorded, place);
		return err ?: add_directory(recorded, place, dir_fd);
	}
	directory = slash ? strndup(path, XP_MAX((size_t)(slash - path), (size_t)1)) : strdup(".");
	if (!directory)
		return -ENOMEM;
	place->path = directory;
	err = read_manifest(recorded, place);
	dir_fd = err ? -1 : open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (!err)
		err = dir_fd < 0 ? -errno : add_entry(recorded, place, dir_fd, slash ? slash + 1 : path);
	if (dir_fd >= 0)
		close(dir_fd);
	place->path = NULL;
	free(directory);
	return err;
}

int xp_recorded_add(struct xp_recorded *recorded, const char *path)
{
	struct place place = { 0 };
	int dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int err = dir_fd < 0 && errno != ENOTDIR ? -errno : add_path(recorded, &place, path, dir_fd);

	if (dir_fd >= 0)
		close(dir_fd);
	forget_manifest(&place);
	if (!err || err == -ENOMEM)
		return err;
	report_error(path, err, &place, dir_fd >= 0);
	return -ENOENT;
}

static void process_free(struct xp_recorded_process *process)
{
	for (size_t i = 0; i < process->object_count; i++)
		free(process->objects[i].path);
	free(process->objects);
	free(process->taken_out);
	free(process->name);
	free(process->directory);
	free(process->stem);
	free(process->profile);
	free(process->stacks);
	free(process->log);
}

void xp_recorded_free(struct xp_recorded *recorded)
{
	for (size_t i = 0; i < recorded->process_count; i++)
		process_free(&recorded->processes[i]);
	for (size_t i = 0; i < recorded->heading_count; i++)
		free(recorded->headings[i]);
	for (size_t i = 0; i < recorded->directory_count; i++) {
		xp_recorded_binaries_free(recorded->directories[i].binaries);
		xp_facts_free(recorded->directories[i].facts);
	}
	free(recorded->directories);
	free(recorded->processes);
	xp_u64_map_free(&recorded->by_stem);
	xp_u64_map_free(&recorded->by_pid);
	free(recorded->headings);
	memset(recorded, 0, sizeof(*recorded));
}
