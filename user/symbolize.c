// SPDX-License-Identifier: BSD-2-Clause
#include "symbolize.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "demangle.h"
#include "elf_image.h"
#include "number_map.h"
#include "util.h"

/* Of a child. Its debug file may come over the network; and a program's debug file of 4 GB is mapped as a whole. */
#define CHILD_SECONDS 120
#define CHILD_BYTES ((rlim_t)16 << 30)
#define SOURCE_BYTES_MAX 4096

struct file {
	char *path;
	bool readable; /* an ELF file, and the right one */
	struct xp_elf_segment segments[XP_ELF_SEGMENTS_MAX];
	size_t segment_count;
	struct xp_number_map places; /* by address */
	uint32_t *wanted;	     /* places that are not named yet */
	size_t wanted_count;
	size_t wanted_room;
};

struct text {
	struct text *next; /* with the same hash */
	char text[];
};

struct xp_symbolizer {
	enum xp_name_detail detail;
	struct file **files;
	size_t file_count;
	struct xp_place *places;
	size_t place_count;
	size_t place_room;
	struct text *texts[1 << 16]; /* hash table */
	size_t text_bytes;
};

/* ---- texts ---- */

static size_t text_slot(const char *text)
{
	uint32_t hash = 2166136261u; /* FNV-1a */

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 16777619u;
	return (hash ^ hash >> 16) & 0xffff;
}

/* The one copy of this text. NULL: out of memory, or the limit is reached. */
static const char *keep_text(struct xp_symbolizer *symbolizer, const char *text)
{
	struct text **slot = &symbolizer->texts[text_slot(text)], *kept;
	size_t bytes = strlen(text) + 1;

	for (kept = *slot; kept; kept = kept->next)
		if (strcmp(kept->text, text) == 0)
			return kept->text;
	if (symbolizer->text_bytes + bytes > XP_NAMES_BYTES_MAX)
		return NULL;
	kept = malloc(sizeof(*kept) + bytes);
	if (!kept)
		return NULL;
	memcpy(kept->text, text, bytes);
	kept->next = *slot;
	*slot = kept;
	symbolizer->text_bytes += bytes;
	return kept->text;
}

const char *xp_symbolizer_text(struct xp_symbolizer *symbolizer, const char *text)
{
	size_t bytes = strlen(text) + 1;
	char *clean = malloc(bytes);
	const char *kept;

	if (!clean)
		return NULL;
	xp_clean_text(clean, bytes, text);
	kept = keep_text(symbolizer, clean);
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
	return 0;
}

static void file_free(struct file *file)
{
	if (!file)
		return;
	xp_number_map_free(&file->places);
	free(file->wanted);
	free(file->path);
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
	for (size_t i = 0; i < XP_ARRAY_SIZE(symbolizer->texts); i++)
		for (struct text *text = symbolizer->texts[i], *next; text; text = next) {
			next = text->next;
			free(text);
		}
	free(symbolizer->files);
	free(symbolizer->places);
	free(symbolizer);
}

/* A regular file only: a profile may name a FIFO, whose reader would wait, or a device. */
static int open_regular(const char *path)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return -errno;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode))
		return fd;
	close(fd);
	return -EINVAL;
}

static bool same_build(struct xp_elf_image *image, const uint8_t *build_id, size_t bytes)
{
	uint8_t found[64];
	size_t found_bytes = xp_elf_image_build_id(image, found, sizeof(found));

	return !bytes || (found_bytes == bytes && memcmp(found, build_id, bytes) == 0);
}

/* What can be said of the file without libdw. */
static void look_at(struct file *file, const uint8_t *build_id, size_t build_id_bytes)
{
	int fd = *file->path == '/' ? open_regular(file->path) : -EINVAL;
	struct xp_elf_image image;
	char why[256], clean[1024];

	if (fd < 0)
		return;
	if (!xp_elf_image_fd(&image, fd, why, sizeof(why))) {
		file->readable = same_build(&image, build_id, build_id_bytes);
		memcpy(file->segments, image.segments, sizeof(file->segments));
		file->segment_count = image.segment_count;
		if (!file->readable) {
			xp_clean_text(clean, sizeof(clean), file->path);
			xp_warn(
			    "%s: not the file that was recorded (another build id); its functions stay without names",
			    clean);
		}
	}
	xp_elf_image_close(&image);
	close(fd);
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

int xp_symbolizer_file(struct xp_symbolizer *symbolizer, const char *path, const uint8_t *build_id,
		       size_t build_id_bytes, uint32_t *number)
{
	size_t count = symbolizer->file_count;
	struct file **files, *file;

	for (size_t i = 0; i < count; i++)
		if (strcmp(symbolizer->files[i]->path, path) == 0) {
			*number = (uint32_t)i;
			return 0;
		}
	files = reallocarray(symbolizer->files, count + 1, sizeof(*files));
	if (!files)
		return -ENOMEM;
	symbolizer->files = files;
	file = file_new(path);
	if (!file)
		return -ENOMEM;
	look_at(file, build_id, build_id_bytes);
	files[count] = file;
	symbolizer->file_count++;
	*number = (uint32_t)count;
	return 0;
}

const char *xp_symbolizer_path(const struct xp_symbolizer *symbolizer, uint32_t number)
{
	return symbolizer->files[number]->path;
}

/* The kernel maps whole pages, so a mapping may begin before the segment that it is for. */
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
	if (file->wanted_count == file->wanted_room) {
		size_t room = XP_MAX(file->wanted_room * 2, (size_t)64);
		uint32_t *wanted = reallocarray(file->wanted, room, sizeof(*wanted));

		if (!wanted)
			return -ENOMEM;
		file->wanted = wanted;
		file->wanted_room = room;
	}
	file->wanted[file->wanted_count++] = place;
	return 0;
}

int xp_symbolizer_want(struct xp_symbolizer *symbolizer, uint32_t number, uint64_t vaddr, uint32_t *place)
{
	struct file *file = symbolizer->files[number];
	uint32_t *found = xp_number_map_find(&file->places, vaddr);

	if (found) {
		*place = *found;
		return 0;
	}
	if (symbolizer->place_count == XP_PLACES_MAX)
		return -E2BIG;
	if (symbolizer->place_count == symbolizer->place_room) {
		size_t room = XP_MAX(symbolizer->place_room * 2, (size_t)1024);
		struct xp_place *places = reallocarray(symbolizer->places, room, sizeof(*places));

		if (!places)
			return -ENOMEM;
		symbolizer->places = places;
		symbolizer->place_room = room;
	}
	*place = (uint32_t)symbolizer->place_count;
	if (!xp_number_map_add(&file->places, vaddr, *place) || add_wanted(file, *place))
		return -ENOMEM;
	symbolizer->places[symbolizer->place_count++] = (struct xp_place){ .vaddr = vaddr };
	return 0;
}

const struct xp_place *xp_symbolizer_place(const struct xp_symbolizer *symbolizer, uint32_t place)
{
	return &symbolizer->places[place];
}

/* ---- the child: for each wanted place struct answer, then frames of struct answer_frame and two texts ---- */

struct answer {
	uint32_t place;
	uint32_t frame_count;
};

struct answer_frame {
	uint32_t line;
	uint32_t function_bytes; /* 0: not known */
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

static int answer_all(const struct xp_symbolizer *symbolizer, const struct file *file, int fd,
		      enum xp_name_detail detail, FILE *out)
{
	struct xp_name_frame frames[XP_NAME_FRAMES_MAX];
	struct xp_elf_names *names;
	bool good = true;

	if (xp_elf_names_open(&names, fd, file->path, detail))
		return 1;
	for (size_t i = 0; good && i < file->wanted_count; i++) {
		struct answer answer = { .place = file->wanted[i] };

		answer.frame_count = (uint32_t)xp_elf_names_at(names, symbolizer->places[answer.place].vaddr, frames);
		good = fwrite(&answer, sizeof(answer), 1, out) == 1;
		for (uint32_t j = 0; good && j < answer.frame_count; j++)
			good = put_frame(out, &frames[j]);
	}
	return good && !fflush(out) ? 0 : 1;
}

static __attribute__((noreturn)) void child(const struct xp_symbolizer *symbolizer, const struct file *file, int to,
					    enum xp_name_detail detail)
{
	const struct xp_child_limits limits = { .seconds = CHILD_SECONDS, .address_bytes = CHILD_BYTES };
	FILE *out = fdopen(to, "w");
	int fd;

	xp_child_reset_signals();
	xp_child_limit(&limits);
	fd = open_regular(file->path);
	_exit(!out || fd < 0 ? 1 : answer_all(symbolizer, file, fd, detail, out));
}

/* ---- reading what it says, which is as little to be trusted as the file ---- */

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
	*kept = keep_text(symbolizer, clean);
	return true;
}

static bool get_frame(struct xp_symbolizer *symbolizer, FILE *in, struct xp_frame *frame)
{
	struct answer_frame head;

	if (fread(&head, sizeof(head), 1, in) != 1)
		return false;
	frame->line = head.line;
	return get_text(symbolizer, in, head.function_bytes, XP_DEMANGLED_BYTES_MAX, &frame->function) &&
	       get_text(symbolizer, in, head.file_bytes, SOURCE_BYTES_MAX, &frame->file);
}

/* The answers come in the order of the questions. Returns how many came. */
static size_t get_answers(struct xp_symbolizer *symbolizer, const struct file *file, FILE *in)
{
	struct xp_frame frames[XP_NAME_FRAMES_MAX];
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

static int ask_child(struct xp_symbolizer *symbolizer, struct file *file, enum xp_name_detail detail)
{
	int ends[2];
	FILE *in;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC))
		return -errno;
	pid = fork();
	if (pid < 0) {
		int err = -errno;

		close(ends[0]);
		close(ends[1]);
		return err;
	}
	if (!pid) {
		close(ends[0]);
		child(symbolizer, file, ends[1], detail);
	}
	close(ends[1]);
	in = fdopen(ends[0], "r");
	if (in) {
		forget_answered(file, get_answers(symbolizer, file, in));
		fclose(in);
	} else {
		close(ends[0]);
	}
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return in ? 0 : -ENOMEM;
}

static int name_file(struct xp_symbolizer *symbolizer, struct file *file)
{
	int err = 0;

	if (file->readable && file->wanted_count)
		err = ask_child(symbolizer, file, symbolizer->detail);
	if (!err && file->readable && file->wanted_count) {
		char clean[1024];

		xp_clean_text(clean, sizeof(clean), file->path);
		xp_warn("%s: cannot read its debug information; taking the symbol table alone", clean);
		err = ask_child(symbolizer, file, XP_NAMES_SYMBOLS);
	}
	file->wanted_count = 0;
	return err;
}

int xp_symbolizer_run(struct xp_symbolizer *symbolizer)
{
	int err = 0;

	for (size_t i = 0; !err && i < symbolizer->file_count; i++)
		err = name_file(symbolizer, symbolizer->files[i]);
	return err;
}
