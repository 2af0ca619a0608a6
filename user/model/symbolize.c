// SPDX-License-Identifier: BSD-2-Clause
#include "model/symbolize.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/progress_line.h"
#include "base/array.h"
#include "base/text_pool.h"
#include "base/u64_map.h"
#include "base/util.h"

/*
 * Memory limit of a process that reads a large file. Files are mapped completely: the lines of a 1.2 GB library that is
 * mostly debug information need 2.0 GB; 1.7 GB if that information is compressed to 0.5 GB.
 */
#define READER_BYTES ((rlim_t)6 << 30)
#define READER_SECONDS 90
/* Examining a file takes milliseconds, unless the file is hostile. */
#define LOOK_BYTES ((rlim_t)2 << 30)
#define LOOK_NS (10 * XP_NS_PER_S)

struct file {
	char *path;
	char *original; /* the recorded binary to which these names belong; NULL: the file itself */
	struct xp_elf_facts facts;
	bool readable;		  /* an ELF file, and the recorded one */
	bool is_other;		  /* for callers that want another build ID; they get no names from this file */
	bool is_late;		  /* some names were not ready in time */
	struct xp_u64_map places; /* by address */
	uint64_t *wanted;	  /* addresses to be named */
	size_t wanted_count;
	size_t wanted_room;
	enum xp_names_lack lack;
};

struct xp_symbolizer {
	enum xp_name_detail detail;
	struct file **files;
	size_t file_count;
	size_t file_room;
	struct xp_hash by_path;	    /* the files */
	struct xp_u64_map by_inode; /* those with the names of recorded binaries: parts of a recording share them */
	uint64_t left_ns;	    /* remaining time of all readers */
	struct xp_place *places;
	size_t place_count;
	size_t place_room;
	struct xp_text_pool texts;
	bool is_told[XP_NAMES_LACKS]; /* has warned about files with this lack; 0: about late names */
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
	(*symbolizer)->left_ns = XP_NAMES_SECONDS * XP_NS_PER_S;
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
	free(file->original);
	free(file->facts.real_path);
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
	xp_hash_free(&symbolizer->by_path);
	xp_u64_map_free(&symbolizer->by_inode);
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

static bool is_wanted(const struct file *file, const struct xp_symbolizer_file *wanted)
{
	if (!wanted->build_id_bytes)
		return wanted->want == XP_FILE_ANY;
	return file->facts.build_id_bytes == wanted->build_id_bytes &&
	       memcmp(file->facts.build_id, wanted->build_id, wanted->build_id_bytes) == 0;
}

/* Reads facts about the file that do not need libdw. */
static int look_at(struct xp_symbolizer *symbolizer, struct file *file)
{
	const struct xp_confined_limits limits = limits_of(symbolizer, LOOK_NS, LOOK_BYTES);
	uint64_t start_ns = xp_now_ns();
	int err;

	file->is_late = *file->path == '/' && !limits.ns;
	if (*file->path != '/' || file->is_late)
		return 0;
	err = xp_elf_ask_facts(&file->facts, file->path, &limits);
	take_time(symbolizer, start_ns);
	file->is_late = err == -ETIMEDOUT;
	file->readable = !err;
	return err == -ENOMEM ? err : 0;
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

static uint64_t path_key(const void *files, uint32_t index)
{
	return xp_hash_text(((struct file *const *)files)[index]->path);
}

static struct file *find_file(const struct xp_symbolizer *symbolizer, const char *path, bool is_other, uint32_t *number)
{
	const struct xp_hash *hash = &symbolizer->by_path;

	for (const uint32_t *slot = xp_hash_first(hash, xp_hash_text(path)); *slot; slot = xp_hash_next(hash, slot)) {
		struct file *file = symbolizer->files[*slot - 1];

		if (file->is_other == is_other && strcmp(file->path, path) == 0) {
			*number = *slot - 1;
			return file;
		}
	}
	return NULL;
}

/* Takes ownership of the file. */
static int add_file(struct xp_symbolizer *symbolizer, struct file *file, uint32_t *number)
{
	*number = (uint32_t)symbolizer->file_count;
	if (XP_ARRAY_RESERVE(symbolizer->files, symbolizer->file_room, symbolizer->file_count + 1) ||
	    xp_hash_add(&symbolizer->by_path, xp_hash_text(file->path), *number, path_key, symbolizer->files)) {
		file_free(file);
		return -ENOMEM;
	}
	symbolizer->files[symbolizer->file_count++] = file;
	return 0;
}

static int add_other(struct xp_symbolizer *symbolizer, const struct file *file, bool has_id, uint32_t *number)
{
	struct file *other = file_new(file->path);

	if (!other)
		return -ENOMEM;
	other->is_other = true;
	other->facts = file->facts;
	other->facts.real_path = strdup(file->facts.real_path);
	if (!other->facts.real_path) {
		file_free(other);
		return -ENOMEM;
	}
	warn_of(other, has_id
			   ? "not the file that was recorded (another build id); its functions have no names"
			   : "may not be the file that was recorded (without a build id); its functions have no names");
	return add_file(symbolizer, other, number);
}

/* Returns the file that is now at a path. */
static int file_at(struct xp_symbolizer *symbolizer, const char *path, uint32_t *number)
{
	struct file *file;
	int err;

	if (find_file(symbolizer, path, false, number))
		return 0;
	file = file_new(path);
	err = file ? look_at(symbolizer, file) : -ENOMEM;
	if (!err)
		return add_file(symbolizer, file, number);
	file_free(file);
	return err;
}

/* Two recordings may need different builds of the same file. */
int xp_symbolizer_file(struct xp_symbolizer *symbolizer, const struct xp_symbolizer_file *wanted, uint32_t *number)
{
	int err = file_at(symbolizer, wanted->path, number);
	const struct file *file = err ? NULL : symbolizer->files[*number];

	if (err || !file->readable || is_wanted(file, wanted) || find_file(symbolizer, wanted->path, true, number))
		return err;
	return add_other(symbolizer, file, wanted->build_id_bytes, number);
}

/* Returns whether the file at the path of a binary is that binary, and has more names than the recording. */
static bool has_more(struct xp_symbolizer *symbolizer, const struct xp_recorded_binary *binary,
		     const struct xp_symbolizer_file *wanted)
{
	uint32_t number;

	return binary->lacks_debug && binary->build_id_bytes && !file_at(symbolizer, binary->path, &number) &&
	       symbolizer->files[number]->readable && is_wanted(symbolizer->files[number], wanted);
}

int xp_symbolizer_binary(struct xp_symbolizer *symbolizer, const struct xp_recorded_binary *binary, uint32_t *number)
{
	const struct xp_symbolizer_file wanted = { binary->path, binary->build_id, binary->build_id_bytes,
						   XP_FILE_RECORDED };
	char names[PATH_MAX];
	const uint32_t *known;
	struct file *file;
	struct stat st;
	uint64_t inode;
	int err;

	if (!binary->names || !realpath(binary->names, names) || stat(names, &st) ||
	    has_more(symbolizer, binary, &wanted))
		return xp_symbolizer_file(symbolizer, &wanted, number);
	inode = xp_hash_mix(st.st_dev, st.st_ino);
	known = xp_u64_map_find(&symbolizer->by_inode, inode);
	if (known) {
		*number = *known;
		return 0;
	}
	err = file_at(symbolizer, names, number);
	file = err ? NULL : symbolizer->files[*number];
	if (err || file->original)
		return err;
	file->original = strdup(binary->path);
	return file->original && xp_u64_map_add(&symbolizer->by_inode, inode, *number) ? 0 : -ENOMEM;
}

bool xp_symbolizer_is_readable(const struct xp_symbolizer *symbolizer, uint32_t number)
{
	return symbolizer->files[number]->readable;
}

static const char *real_path_of(const struct file *file)
{
	if (file->original)
		return file->original;
	return file->facts.real_path && *file->facts.real_path ? file->facts.real_path : file->path;
}

const char *xp_symbolizer_real_path(const struct xp_symbolizer *symbolizer, uint32_t number)
{
	return real_path_of(symbolizer->files[number]);
}

size_t xp_symbolizer_build_id(const struct xp_symbolizer *symbolizer, uint32_t number, uint8_t *to)
{
	const struct file *file = symbolizer->files[number];

	if (!file->readable)
		return 0;
	memcpy(to, file->facts.build_id, file->facts.build_id_bytes);
	return file->facts.build_id_bytes;
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
	for (size_t i = 0; i < file->facts.segment_count; i++) {
		const struct xp_elf_segment *segment = &file->facts.segments[i];

		if (offset >= (segment->offset & ~4095ull) && offset - (segment->offset & ~4095ull) < segment->bytes)
			return segment;
	}
	return file->facts.segment_count ? &file->facts.segments[0] : NULL;
}

uint64_t xp_symbolizer_vaddr(const struct xp_symbolizer *symbolizer, uint32_t number, uint64_t offset,
			     uint64_t distance)
{
	const struct xp_elf_segment *segment = segment_of(symbolizer->files[number], offset);

	return distance + offset + (segment ? segment->vaddr - segment->offset : 0);
}

static int add_wanted(struct file *file, uint64_t vaddr)
{
	return XP_ARRAY_ADD(file->wanted, file->wanted_count, file->wanted_room, vaddr);
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
	if (!xp_u64_map_add(&file->places, vaddr, *place) || add_wanted(file, vaddr))
		return -ENOMEM;
	symbolizer->places[symbolizer->place_count++] = (struct xp_place){ .vaddr = vaddr };
	return 0;
}

const struct xp_place *xp_symbolizer_place(const struct xp_symbolizer *symbolizer, uint32_t place)
{
	return &symbolizer->places[place];
}

/* ---- asking for names ---- */

/* The addresses of one file that are being named, in order. */
struct naming {
	struct xp_symbolizer *symbolizer;
	struct file *file;
	size_t done;
};

static int add_names(void *arg, uint64_t vaddr, const struct xp_source_frame *frames, uint32_t count)
{
	struct naming *naming = arg;
	struct xp_place *place = &naming->symbolizer->places[*xp_u64_map_find(&naming->file->places, vaddr)];

	place->frames = calloc(XP_MAX(count, 1u), sizeof(*frames));
	if (!place->frames)
		return -ENOMEM;
	memcpy(place->frames, frames, count * sizeof(*frames));
	place->frame_count = count;
	naming->done++;
	return 0;
}

/* Asks the reader. Addresses without an answer stay wanted. */
static int ask_reader(struct xp_symbolizer *symbolizer, struct file *file, enum xp_name_detail detail)
{
	const struct xp_confined_limits limits = limits_of(symbolizer, READER_SECONDS * XP_NS_PER_S, READER_BYTES);
	const struct xp_elf_addresses addresses = { real_path_of(file), detail, file->wanted, file->wanted_count };
	struct naming naming = { .symbolizer = symbolizer, .file = file };
	const struct xp_elf_named named = { &symbolizer->texts, add_names, &naming };
	uint64_t start_ns = xp_now_ns();
	int err;

	if (!file->readable || !file->wanted_count)
		return 0;
	file->is_late |= !limits.ns;
	if (!limits.ns)
		return 0;
	/* Facts about a function that the reader has found are used for all its addresses. */
	qsort(file->wanted, file->wanted_count, sizeof(*file->wanted), xp_compare_u64);
	err = xp_elf_ask_names(file->path, &addresses, &limits, &named);
	file->wanted_count -= naming.done;
	memmove(file->wanted, file->wanted + naming.done, file->wanted_count * sizeof(*file->wanted));
	take_time(symbolizer, start_ns);
	file->is_late |= err == -ETIMEDOUT && file->wanted_count;
	if (err > 0)
		file->lack = (enum xp_names_lack)err;
	return err == -ENOMEM || err == -EAGAIN ? err : 0;
}

/* Warns about all files with this lack, once. format: with the name of the first file, and the number of others. */
static void tell_lack(struct xp_symbolizer *symbolizer, enum xp_names_lack lack, const char *format)
{
	const struct file *first = NULL;
	char clean[1024], others[64] = "";
	size_t count = 0;

	for (size_t i = 0; i < symbolizer->file_count; i++) {
		const struct file *file = symbolizer->files[i];

		if ((lack ? file->lack == lack : file->is_late) && !count++)
			first = file;
	}
	if (!first || symbolizer->is_told[lack])
		return;
	symbolizer->is_told[lack] = true;
	xp_clean_text(clean, sizeof(clean), real_path_of(first));
	if (count > 1)
		snprintf(others, sizeof(others), " and %zu other file%s", count - 1, xp_plural_s(count - 1));
	xp_warn(format, clean, others);
}

static void tell_lacks(struct xp_symbolizer *symbolizer)
{
	tell_lack(symbolizer, XP_NAMES_COMPLETE,
		  "finding function names took too long, so some of %s%s are missing; report fewer profiles at a time "
		  "(xprof report FILE.prof)");
	tell_lack(symbolizer, XP_NAMES_UNREADABLE,
		  "inlined calls and lines of %s%s are missing: libdw cannot read the debug information; if it is "
		  "compressed by zstd, use elfutils 0.189 or later, or `objcopy --decompress-debug-sections`");
	tell_lack(symbolizer, XP_NAMES_SPLIT,
		  "inlined calls and lines of %s%s are missing: libdw finds no .dwo files; for a .dwp file or "
		  "-gsplit-dwarf=single, use elfutils 0.191 or later");
}

/* Asks for all files once before any second try: a file that stops its reader must not use up the time of others. */
int xp_symbolizer_run(struct xp_symbolizer *symbolizer)
{
	struct xp_progress_line line;
	int err = 0;

	xp_progress_line_begin(&line, "finding function names", XP_PROGRESS_FILES, symbolizer->file_count);
	for (size_t i = 0; !err && i < symbolizer->file_count; i++) {
		xp_progress_line_step(&line, i);
		err = ask_reader(symbolizer, symbolizer->files[i], symbolizer->detail);
	}
	xp_progress_line_end(&line);
	for (size_t i = 0; !err && i < symbolizer->file_count; i++) {
		struct file *file = symbolizer->files[i];

		if (!file->readable || !file->wanted_count)
			continue;
		if (symbolizer->left_ns && symbolizer->detail != XP_NAMES_SYMBOLS) {
			warn_of(file, "cannot read its debug information; using only its symbol table");
			err = ask_reader(symbolizer, file, XP_NAMES_SYMBOLS);
		}
		if (!err && file->wanted_count && !file->is_late)
			warn_of(file, "cannot read its symbol table either; its functions have no names");
		file->wanted_count = 0;
	}
	tell_lacks(symbolizer);
	return err;
}
