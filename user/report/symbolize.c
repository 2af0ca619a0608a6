// SPDX-License-Identifier: BSD-2-Clause
#include "report/symbolize.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/u64_map.h"
#include "base/text_pool.h"
#include "base/util.h"
#include "elf/demangle.h"
#include "elf/symbols.h"

#define NS_PER_S 1000000000ull

/*
 * Memory limit of a reader. Files are mapped in full: the lines of a 1.2 GB library, most of it debug information, take
 * 2.0 GB; 1.7 GB if that information is compressed to 0.5 GB.
 */
#define READER_BYTES ((rlim_t)6 << 30)
#define READER_SECONDS 90
/* Examining a file takes milliseconds, unless the file is made to take long. */
#define LOOK_BYTES ((rlim_t)2 << 30)
#define LOOK_NS (10 * NS_PER_S)
#define SOURCE_BYTES_MAX 4096
#define SLOTS (1 << 16)

struct file {
	char *path;
	char *real_path; /* NULL: unknown */
	uint32_t next;	 /* next file with the same hash: index + 1; 0: none */
	bool readable;	 /* an ELF file, and the one that was recorded */
	bool is_other;	 /* for those who want another build ID; they get no names from it */
	bool is_late;	 /* not all its names were ready in time */
	uint8_t build_id[64];
	size_t build_id_bytes;
	struct xp_elf_segment segments[XP_ELF_SEGMENTS_MAX];
	size_t segment_count;
	struct xp_u64_map places; /* by address */
	uint32_t *wanted;	  /* places still to be named */
	size_t wanted_count;
	size_t wanted_room;
};

struct xp_symbolizer {
	enum xp_name_detail detail;
	struct file **files;
	size_t file_count;
	uint32_t file_slots[SLOTS]; /* hash table by path: index + 1; 0: none */
	uint64_t left_ns;	    /* remaining time of all readers */
	struct xp_place *places;
	size_t place_count;
	size_t place_room;
	struct xp_text_pool texts;
};

/* ---- texts ---- */

const char *xp_symbolizer_text(struct xp_symbolizer *symbolizer, const char *text)
{
	size_t bytes = strlen(text) + 1;
	char *clean = malloc(bytes);
	const char *kept;

	if (!clean)
		return NULL;
	xp_clean_text(clean, bytes, text);
	kept = xp_text_pool_keep(&symbolizer->texts, clean);
	free(clean);
	return kept;
}

/* ---- files and places ---- */

int xp_symbolizer_new(struct xp_symbolizer **symbolizer, enum xp_name_detail detail)
{
	*symbolizer = calloc(1, sizeof(**symbolizer));
	if (!*symbolizer)
		return -ENOMEM;
	(*symbolizer)->detail = detail;
	(*symbolizer)->texts.bytes_max = XP_NAMES_BYTES_MAX;
	(*symbolizer)->left_ns = XP_NAMES_SECONDS * NS_PER_S;
	return 0;
}

void xp_symbolizer_limit(struct xp_symbolizer *symbolizer, uint64_t ns)
{
	symbolizer->left_ns = ns;
}

static void file_free(struct file *file)
{
	if (!file)
		return;
	xp_u64_map_free(&file->places);
	free(file->wanted);
	free(file->path);
	free(file->real_path);
	free(file);
}

void xp_symbolizer_free(struct xp_symbolizer *symbolizer)
{
	if (!symbolizer)
		return;
	for (size_t i = 0; i < symbolizer->file_count; i++)
		file_free(symbolizer->files[i]);
	for (size_t i = 0; i < symbolizer->place_count; i++)
		free(symbolizer->places[i].frames);
	xp_text_pool_free(&symbolizer->texts);
	free(symbolizer->files);
	free(symbolizer->places);
	free(symbolizer);
}

static void warn_of(const struct file *file, const char *what)
{
	char clean[1024];

	xp_clean_text(clean, sizeof(clean), file->path);
	xp_warn("%s: %s", clean, what);
}

/* ---- limits of readers; the time limit is for all together ---- */

static struct xp_confined_limits limits_of(const struct xp_symbolizer *symbolizer, uint64_t ns, rlim_t bytes)
{
	return (struct xp_confined_limits){
		.ns = XP_MIN(ns, symbolizer->left_ns),
		.cpu_seconds = READER_SECONDS,
		.address_bytes = bytes,
	};
}

static void take_time(struct xp_symbolizer *symbolizer, uint64_t start_ns)
{
	symbolizer->left_ns -= XP_MIN(symbolizer->left_ns, xp_now_ns() - start_ns);
}

static bool same_build(const struct file *file, const uint8_t *build_id, size_t bytes)
{
	return !bytes || (file->build_id_bytes == bytes && memcmp(file->build_id, build_id, bytes) == 0);
}

/* Gets facts about the file that do not need libdw. */
static int look_at(struct xp_symbolizer *symbolizer, struct file *file)
{
	const struct xp_confined_limits limits = limits_of(symbolizer, LOOK_NS, LOOK_BYTES);
	uint64_t start_ns = xp_now_ns();
	struct xp_elf_facts facts;
	int err;

	file->is_late = *file->path == '/' && !limits.ns;
	if (*file->path != '/' || file->is_late)
		return 0;
	err = xp_elf_ask_facts(&facts, file->path, &limits);
	take_time(symbolizer, start_ns);
	if (*facts.real_path && !(file->real_path = strdup(facts.real_path)))
		return -ENOMEM;
	file->is_late = err == -ETIMEDOUT;
	if (err)
		return err == -ENOMEM ? err : 0;
	file->readable = true;
	memcpy(file->build_id, facts.build_id, sizeof(file->build_id));
	file->build_id_bytes = facts.build_id_bytes;
	memcpy(file->segments, facts.segments, sizeof(file->segments));
	file->segment_count = facts.segment_count;
	return 0;
}

static struct file *file_new(const char *path)
{
	struct file *file = calloc(1, sizeof(*file));

	if (file)
		file->path = strdup(path);
	if (file && !file->path) {
		free(file);
		return NULL;
	}
	return file;
}

static struct file *find_file(const struct xp_symbolizer *symbolizer, const char *path, bool is_other, uint32_t *number)
{
	for (uint32_t i = symbolizer->file_slots[xp_text_hash(path) % SLOTS]; i; i = symbolizer->files[i - 1]->next) {
		struct file *file = symbolizer->files[i - 1];

		if (file->is_other == is_other && strcmp(file->path, path) == 0) {
			*number = i - 1;
			return file;
		}
	}
	return NULL;
}

/* Takes ownership of the file. */
static int add_file(struct xp_symbolizer *symbolizer, struct file *file, uint32_t *number)
{
	uint32_t *slot = &symbolizer->file_slots[xp_text_hash(file->path) % SLOTS];
	size_t count = symbolizer->file_count;
	struct file **files = reallocarray(symbolizer->files, count + 1, sizeof(*files));

	if (!files) {
		file_free(file);
		return -ENOMEM;
	}
	symbolizer->files = files;
	file->next = *slot;
	*slot = (uint32_t)count + 1;
	files[count] = file;
	symbolizer->file_count++;
	*number = (uint32_t)count;
	return 0;
}

static int add_other(struct xp_symbolizer *symbolizer, const struct file *file, uint32_t *number)
{
	struct file *other = file_new(file->path);

	if (!other)
		return -ENOMEM;
	other->is_other = true;
	memcpy(other->segments, file->segments, sizeof(other->segments));
	other->segment_count = file->segment_count;
	if (file->real_path && !(other->real_path = strdup(file->real_path))) {
		file_free(other);
		return -ENOMEM;
	}
	warn_of(other, "not the file that was recorded (another build id); its functions stay without names");
	return add_file(symbolizer, other, number);
}

/* Two recordings may want different builds of the same file. */
int xp_symbolizer_file(struct xp_symbolizer *symbolizer, const char *path, const uint8_t *build_id,
		       size_t build_id_bytes, uint32_t *number)
{
	struct file *file = find_file(symbolizer, path, false, number);
	int err;

	if (!file) {
		file = file_new(path);
		err = file ? look_at(symbolizer, file) : -ENOMEM;
		if (err)
			file_free(file);
		else
			err = add_file(symbolizer, file, number);
		if (err)
			return err;
	}
	if (!file->readable || same_build(file, build_id, build_id_bytes) || find_file(symbolizer, path, true, number))
		return 0;
	return add_other(symbolizer, file, number);
}

const char *xp_symbolizer_path(const struct xp_symbolizer *symbolizer, uint32_t number)
{
	return symbolizer->files[number]->path;
}

bool xp_symbolizer_is_readable(const struct xp_symbolizer *symbolizer, uint32_t number)
{
	return symbolizer->files[number]->readable;
}

const char *xp_symbolizer_real_path(const struct xp_symbolizer *symbolizer, uint32_t number)
{
	const struct file *file = symbolizer->files[number];

	return file->real_path ? file->real_path : file->path;
}

int xp_symbolizer_functions(struct xp_symbolizer *symbolizer, uint32_t number, size_t max,
			    struct xp_elf_functions *functions)
{
	const struct xp_confined_limits limits = limits_of(symbolizer, LOOK_NS, LOOK_BYTES);
	struct file *file = symbolizer->files[number];
	uint64_t start_ns = xp_now_ns();
	int err;

	if (!file->readable)
		return -ENOEXEC;
	file->is_late |= !limits.ns;
	if (!limits.ns)
		return -ETIMEDOUT;
	err = xp_elf_ask_functions(functions, file->path, max, &limits);
	take_time(symbolizer, start_ns);
	file->is_late |= err == -ETIMEDOUT;
	return err;
}

/* The kernel maps whole pages, so a mapping may begin before its segment. */
static const struct xp_elf_segment *segment_of(const struct file *file, uint64_t offset)
{
	for (size_t i = 0; i < file->segment_count; i++) {
		const struct xp_elf_segment *segment = &file->segments[i];

		if (offset >= (segment->offset & ~4095ull) && offset - (segment->offset & ~4095ull) < segment->bytes)
			return segment;
	}
	return file->segment_count ? &file->segments[0] : NULL;
}

uint64_t xp_symbolizer_vaddr(const struct xp_symbolizer *symbolizer, uint32_t number, uint64_t offset,
			     uint64_t distance)
{
	const struct xp_elf_segment *segment = segment_of(symbolizer->files[number], offset);

	return distance + offset + (segment ? segment->vaddr - segment->offset : 0);
}

static int add_wanted(struct file *file, uint32_t place)
{
	if (XP_ARRAY_RESERVE(file->wanted, file->wanted_room, file->wanted_count + 1))
		return -ENOMEM;
	file->wanted[file->wanted_count++] = place;
	return 0;
}

int xp_symbolizer_want(struct xp_symbolizer *symbolizer, uint32_t number, uint64_t vaddr, uint32_t *place)
{
	struct file *file = symbolizer->files[number];
	uint32_t *found = xp_u64_map_find(&file->places, vaddr);

	if (found) {
		*place = *found;
		return 0;
	}
	if (symbolizer->place_count == XP_PLACES_MAX)
		return -E2BIG;
	if (XP_ARRAY_RESERVE(symbolizer->places, symbolizer->place_room, symbolizer->place_count + 1))
		return -ENOMEM;
	*place = (uint32_t)symbolizer->place_count;
	if (!xp_u64_map_add(&file->places, vaddr, *place) || add_wanted(file, *place))
		return -ENOMEM;
	symbolizer->places[symbolizer->place_count++] = (struct xp_place){ .vaddr = vaddr };
	return 0;
}

const struct xp_place *xp_symbolizer_place(const struct xp_symbolizer *symbolizer, uint32_t place)
{
	return &symbolizer->places[place];
}

/* ---- the child: for each wanted place a struct answer, then per frame a struct answer_frame and two strings ---- */

struct answer {
	uint32_t place;
	uint32_t frame_count;
};

struct answer_frame {
	uint32_t line;
	uint32_t function_bytes; /* 0: unknown */
	uint32_t file_bytes;
};

static size_t bounded_length(const char *text, size_t max)
{
	return text ? strnlen(text, max) : 0;
}

static bool put_frame(FILE *out, const struct xp_name_frame *frame)
{
	char *demangled = frame->symbol ? xp_demangle(frame->symbol) : NULL;
	const char *function = demangled ? demangled : frame->symbol;
	struct answer_frame head = {
		.line = frame->line,
		.function_bytes = (uint32_t)bounded_length(function, XP_DEMANGLED_BYTES_MAX),
		.file_bytes = (uint32_t)bounded_length(frame->file, SOURCE_BYTES_MAX),
	};
	bool good = fwrite(&head, sizeof(head), 1, out) == 1;

	if (head.function_bytes)
		good &= fwrite(function, head.function_bytes, 1, out) == 1;
	if (head.file_bytes)
		good &= fwrite(frame->file, head.file_bytes, 1, out) == 1;
	free(demangled);
	return good;
}

struct question {
	const struct xp_symbolizer *symbolizer;
	const struct file *file;
	enum xp_name_detail detail;
};

static bool put_answer(FILE *out, uint32_t place, const struct xp_name_frame *frames, size_t count)
{
	const struct answer answer = { .place = place, .frame_count = (uint32_t)count };
	bool good = fwrite(&answer, sizeof(answer), 1, out) == 1;

	for (size_t i = 0; good && i < count; i++)
		good = put_frame(out, &frames[i]);
	return good;
}

/* Handles files with only names. libdw rejects them, since they have no segments. */
static int answer_by_symbols(int fd, FILE *out, const struct question *question)
{
	const struct file *file = question->file;
	struct xp_function *functions = calloc(XP_MAX(file->wanted_count, (size_t)1), sizeof(*functions));
	struct xp_elf_file image;
	char *pool = NULL;
	bool good = functions && !xp_elf_file_fd(&image, fd, NULL, 0);

	for (size_t i = 0; good && i < file->wanted_count; i++)
		functions[i].vaddr = question->symbolizer->places[file->wanted[i]].vaddr;
	good = good && !xp_symbols_name(&image, functions, file->wanted_count, &pool);
	for (size_t i = 0; good && i < file->wanted_count; i++) {
		const struct xp_name_frame frame = { .symbol = functions[i].name };

		good = put_answer(out, file->wanted[i], &frame, frame.symbol ? 1 : 0);
	}
	return good ? 0 : 1; /* the process ends next */
}

static int answer_all(int fd, FILE *out, const void *arg)
{
	const struct question *question = arg;
	const struct file *file = question->file;
	struct xp_name_frame frames[XP_NAME_FRAMES_MAX];
	struct xp_elf_names *names;
	bool good = true;
	int err = xp_elf_names_open(&names, fd, file->real_path ? file->real_path : file->path, question->detail);

	if (err)
		return err == -EINVAL ? answer_by_symbols(fd, out, question) : 1;
	for (size_t i = 0; good && i < file->wanted_count; i++) {
		uint64_t vaddr = question->symbolizer->places[file->wanted[i]].vaddr;

		good = put_answer(out, file->wanted[i], frames, xp_elf_names_at(names, vaddr, frames));
	}
	return good ? 0 : 1;
}

/* ---- reading the child's output, which is as untrusted as the file ---- */

static bool get_text(struct xp_symbolizer *symbolizer, FILE *in, uint32_t bytes, size_t max, const char **kept)
{
	char text[XP_DEMANGLED_BYTES_MAX + 1], clean[sizeof(text)];

	*kept = NULL;
	if (bytes > max || (bytes && fread(text, bytes, 1, in) != 1))
		return false;
	if (!bytes)
		return true;
	text[bytes] = 0;
	xp_clean_text(clean, sizeof(clean), text);
	*kept = xp_text_pool_keep(&symbolizer->texts, clean);
	return true;
}

static bool get_frame(struct xp_symbolizer *symbolizer, FILE *in, struct xp_source_frame *frame)
{
	struct answer_frame head;

	if (fread(&head, sizeof(head), 1, in) != 1)
		return false;
	frame->line = head.line;
	return get_text(symbolizer, in, head.function_bytes, XP_DEMANGLED_BYTES_MAX, &frame->function) &&
	       get_text(symbolizer, in, head.file_bytes, SOURCE_BYTES_MAX, &frame->file);
}

/* Answers come in the order of the questions. Returns their number. */
static size_t get_answers(struct xp_symbolizer *symbolizer, const struct file *file, FILE *in)
{
	struct xp_source_frame frames[XP_NAME_FRAMES_MAX];
	struct answer answer;
	size_t count;

	for (count = 0; count < file->wanted_count; count++) {
		struct xp_place *place;

		if (fread(&answer, sizeof(answer), 1, in) != 1 || answer.place != file->wanted[count] ||
		    answer.frame_count > XP_NAME_FRAMES_MAX)
			break;
		for (uint32_t i = 0; i < answer.frame_count; i++)
			if (!get_frame(symbolizer, in, &frames[i]))
				return count;
		place = &symbolizer->places[answer.place];
		place->frames = calloc(XP_MAX(answer.frame_count, 1u), sizeof(*frames));
		if (!place->frames)
			break;
		memcpy(place->frames, frames, answer.frame_count * sizeof(*frames));
		place->frame_count = answer.frame_count;
	}
	return count;
}

static void forget_answered(struct file *file, size_t count)
{
	file->wanted_count -= count;
	memmove(file->wanted, file->wanted + count, file->wanted_count * sizeof(*file->wanted));
}

/* Places without an answer stay wanted. */
static int ask_reader(struct xp_symbolizer *symbolizer, struct file *file, enum xp_name_detail detail)
{
	const struct xp_confined_limits limits = limits_of(symbolizer, READER_SECONDS * NS_PER_S, READER_BYTES);
	const struct question question = { symbolizer, file, detail };
	uint64_t start_ns = xp_now_ns();
	struct xp_confined *reader;
	int err;

	if (!file->readable || !file->wanted_count)
		return 0;
	file->is_late |= !limits.ns;
	if (!limits.ns)
		return 0;
	err = xp_confined_start(&reader, file->path, answer_all, &question, &limits);
	if (!err) {
		forget_answered(file, get_answers(symbolizer, file, xp_confined_answers(reader)));
		if (xp_confined_end(reader) == XP_CONFINED_LATE)
			err = -ETIMEDOUT;
	}
	take_time(symbolizer, start_ns);
	file->is_late |= err == -ETIMEDOUT && file->wanted_count;
	return err == -ENOMEM || err == -EAGAIN ? err : 0;
}

/* Warns about files with missing names. */
static void tell_late(const struct xp_symbolizer *symbolizer)
{
	const struct file *first = NULL;
	char clean[1024], others[64] = "";
	size_t count = 0;

	for (size_t i = 0; i < symbolizer->file_count; i++) {
		if (symbolizer->files[i]->is_late && !count++)
			first = symbolizer->files[i];
	}
	if (!first)
		return;
	xp_clean_text(clean, sizeof(clean), first->path);
	if (count > 1)
		snprintf(others, sizeof(others), " and %zu other files", count - 1);
	xp_warn("finding function names took too long, so some in %s%s are missing; report fewer profiles at a time "
		"(xprof report FILE.prof)",
		clean, others);
}

/*
 * Asks for all files once before a second try, so that one that keeps its reader busy twice does not use the time of
 * the others.
 */
int xp_symbolizer_run(struct xp_symbolizer *symbolizer)
{
	int err = 0;

	for (size_t i = 0; !err && i < symbolizer->file_count; i++)
		err = ask_reader(symbolizer, symbolizer->files[i], symbolizer->detail);
	for (size_t i = 0; !err && i < symbolizer->file_count; i++) {
		struct file *file = symbolizer->files[i];

		if (!file->readable || !file->wanted_count)
			continue;
		if (symbolizer->left_ns && symbolizer->detail != XP_NAMES_SYMBOLS) {
			warn_of(file, "cannot read its debug information; taking the symbol table alone");
			err = ask_reader(symbolizer, file, XP_NAMES_SYMBOLS);
		}
		if (!err && file->wanted_count && !file->is_late)
			warn_of(file, "cannot read its symbol table either; its functions stay without names");
		file->wanted_count = 0;
	}
	tell_late(symbolizer);
	return err;
}
