// SPDX-License-Identifier: BSD-2-Clause
#include "jit/dump_out.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/array.h"
#include "base/own_file.h"
#include "base/util.h"
#include "format/jitdump.h"

#define FILL_BYTE 0xcc /* int3. A disassembler prints one row per byte, and compilers do not generate such code */
#define PATH_BYTES 4096
/* Space for the headers of a record, in addition to the name and the code. */
#define RECORD_BYTES 200
/* Free disk space that is left to other files: 1/SPARE_SHARE of the disk, at most SPARE_BYTES_MAX. */
#define SPARE_SHARE 20
#define SPARE_BYTES_MAX (16u << 20)
#define GRANT_BYTES (256u << 10) /* number of bytes written between two checks of the free disk space */

struct xp_jit_dump_out {
	struct xp_jit_dump_out_options options;
	char name[48];
	int fd; /* -1: no code yet */
	int err;
	struct xp_jitdump *dump;
	struct xp_jit_dump_out_counts counts;
	/* the part of `counts` that is not safely in the file: an error would remove these records */
	struct xp_jit_dump_out_counts unsafe;
	uint64_t charged_bytes; /* bytes of the file that were subtracted from options.bytes_left */
	uint64_t granted_bytes; /* size up to which the disk has space */
	uint64_t whole_bytes;	/* bytes of complete records at the last check */
	uint8_t *lost;		/* bitmap: code that was not written; its moves are not written either */
	uint8_t *fill;
};

int xp_jit_dump_out_new(struct xp_jit_dump_out **out, const struct xp_jit_dump_out_options *options)
{
	struct xp_jit_dump_out *made = calloc(1, sizeof(*made));

	if (!made)
		return -ENOMEM;
	made->options = *options;
	made->fd = -1;
	/*
	 * The file name contains the PID and the number of the image, so that each image has its own file. perf accepts
	 * any digits if the marker has no process, and no PID has as many digits.
	 */
	if (options->image)
		snprintf(made->name, sizeof(made->name), "jit-%d%09u.dump", options->pid, options->image);
	else
		snprintf(made->name, sizeof(made->name), "jit-%d.dump", options->pid);
	*out = made;
	return 0;
}

const char *xp_jit_dump_out_name(const struct xp_jit_dump_out *out)
{
	return out->name;
}

static int begin(struct xp_jit_dump_out *out)
{
	const struct xp_jitdump_options options = {
		.pid = (uint32_t)out->options.pid,
		.timestamp = out->options.start_tsc,
		.arch_timestamp = true,
	};

	out->lost = calloc(XP_JIT_CODES_MAX / 8, 1);
	if (!out->lost)
		return -ENOMEM;
	out->fd = xp_own_file_create(out->options.dir_fd, out->name, O_RDWR);
	if (out->fd < 0)
		return out->fd;
	return xp_jitdump_new(&out->dump, out->fd, &options);
}

static uint64_t timestamp_of(const struct xp_jit_dump_out *out, uint64_t tsc)
{
	return XP_MAX(tsc, out->options.start_tsc);
}

/*
 * Returns the code index for perf. perf identifies code by PID and index, even across files, so each image uses its own
 * indices.
 */
static uint64_t code_index(const struct xp_jit_dump_out *out, uint32_t index)
{
	return (uint64_t)out->options.image * XP_JIT_CODES_MAX + index;
}

/* ---- lines ---- */

/* Copies of strings that had to be cleaned. */
struct texts {
	char **all;
	size_t count;
	size_t room;
};

static const char *clean(struct texts *texts, const char *text)
{
	char cleaned[PATH_BYTES], *copy;

	xp_clean_text(cleaned, sizeof(cleaned), text);
	if (!strcmp(cleaned, text))
		return text;
	if (texts->count && !strcmp(cleaned, texts->all[texts->count - 1]))
		return texts->all[texts->count - 1];
	copy = XP_ARRAY_RESERVE(texts->all, texts->room, texts->count + 1) ? NULL : strdup(cleaned);
	if (copy)
		texts->all[texts->count++] = copy;
	return copy;
}

static void free_texts(struct texts *texts)
{
	for (size_t i = 0; i < texts->count; i++)
		free(texts->all[i]);
	free(texts->all);
}

/*
 * Writes the lines of a function. perf ends its line table at the address of the last line, so that line would cover no
 * code. Repeats the last line at the end of the code.
 */
static int put_lines(struct xp_jit_dump_out *out, const struct xp_jit_load *load)
{
	struct xp_jitdump_line *lines;
	struct texts texts = { 0 };
	size_t count = load->line_count;
	int err = 0;

	if (!count)
		return 0;
	lines = calloc(count + 1, sizeof(*lines));
	if (!lines)
		return -ENOMEM;
	for (size_t i = 0; i < count && !err; i++) {
		const struct xp_jit_line *from = &load->lines[i];

		lines[i] = (struct xp_jitdump_line){ from->address, from->line, from->discriminator,
						     clean(&texts, from->file) };
		err = lines[i].file ? 0 : -ENOMEM;
	}
	lines[count] = lines[count - 1];
	lines[count].address = load->start + load->size;
	if (!err)
		err = xp_jitdump_debug_info(out->dump, timestamp_of(out, load->tsc), load->start, lines, count + 1);
	free_texts(&texts);
	free(lines);
	return err;
}

/* ---- code ---- */

/* Returns a buffer full of int3 instructions, large enough for any code with unknown bytes. */
static const uint8_t *fill(struct xp_jit_dump_out *out)
{
	if (!out->fill) {
		out->fill = malloc(XP_JIT_DUMP_OUT_FILL_BYTES_MAX);
		if (out->fill)
			memset(out->fill, FILL_BYTE, XP_JIT_DUMP_OUT_FILL_BYTES_MAX);
	}
	return out->fill;
}

/*
 * Returns whether the disk has space for the bytes. Some space stays free for the essential files: profiles, logs, the
 * manifest.
 */
static bool disk_has_room(struct xp_jit_dump_out *out, uint64_t bytes)
{
	struct statvfs fs;
	uint64_t spare;

	bytes += xp_jitdump_bytes(out->dump);
	if (bytes <= out->granted_bytes || fstatvfs(out->fd, &fs))
		return true;
	spare = XP_MIN((uint64_t)fs.f_blocks * fs.f_frsize / SPARE_SHARE, (uint64_t)SPARE_BYTES_MAX);
	bytes += GRANT_BYTES;
	if ((uint64_t)fs.f_bavail * fs.f_frsize < bytes - out->granted_bytes + spare)
		return false;
	out->granted_bytes = bytes;
	return true;
}

/* Subtracts the bytes written since the last call from the budget of all files. */
static void charge(struct xp_jit_dump_out *out)
{
	uint64_t bytes = xp_jitdump_bytes(out->dump), more;

	if (bytes <= out->charged_bytes)
		return;
	more = XP_MIN(bytes - out->charged_bytes, *out->options.bytes_left);
	*out->options.bytes_left -= more;
	out->charged_bytes += more;
}

/*
 * Returns whether this file and the budget of all files have space for the bytes. A file may not become larger than the
 * rest of the budget.
 */
static bool files_have_room(const struct xp_jit_dump_out *out, uint64_t bytes)
{
	uint64_t left = *out->options.bytes_left, after = xp_jitdump_bytes(out->dump) + bytes;

	return after <= XP_JIT_DUMP_OUT_BYTES_MAX && bytes <= left && after <= left - bytes;
}

static bool has_room(struct xp_jit_dump_out *out, const struct xp_jit_load *load)
{
	uint64_t bytes = load->size + strlen(load->name);

	for (size_t i = 0; i < load->line_count; i++)
		bytes += RECORD_BYTES + strlen(load->lines[i].file);
	return (load->code || (load->size <= XP_JIT_DUMP_OUT_FILL_BYTES_MAX && fill(out))) &&
	       files_have_room(out, bytes + RECORD_BYTES) && disk_has_room(out, bytes + RECORD_BYTES);
}

static int put_code(struct xp_jit_dump_out *out, uint32_t index, const struct xp_jit_load *load)
{
	struct xp_jitdump_load record = {
		.pid = (uint32_t)out->options.pid,
		.tid = (uint32_t)out->options.pid,
		.code_addr = load->start,
		.code_size = load->size,
		.code_index = code_index(out, index),
		.name = load->name,
		.code = load->code ? load->code : out->fill,
	};

	return xp_jitdump_load(out->dump, timestamp_of(out, load->tsc), &record);
}

/* Marks all records before the last complete state of the file as safe. Call this before you count the next record. */
static void see_whole(struct xp_jit_dump_out *out)
{
	uint64_t whole_bytes = xp_jitdump_whole_bytes(out->dump);

	if (whole_bytes != out->whole_bytes)
		out->unsafe = (struct xp_jit_dump_out_counts){ 0 };
	out->whole_bytes = whole_bytes;
}

/* Subtracts the records that did not reach the file from the counts of written records. */
static void fail(struct xp_jit_dump_out *out, int err)
{
	if (out->dump)
		see_whole(out);
	out->err = err;
	out->counts.functions -= out->unsafe.functions;
	out->counts.functions_filled -= out->unsafe.functions_filled;
	out->counts.functions_lost += out->unsafe.functions;
	out->counts.moves -= out->unsafe.moves;
}

static void lose(struct xp_jit_dump_out *out, uint32_t index)
{
	out->counts.functions_lost++;
	if (!out->err)
		out->lost[index / 8] |= 1u << index % 8;
}

static bool is_lost(const struct xp_jit_dump_out *out, uint32_t index)
{
	return out->lost[index / 8] & 1u << index % 8;
}

static void count_function(struct xp_jit_dump_out *out, bool is_filled)
{
	see_whole(out);
	out->unsafe.functions++;
	out->counts.functions++;
	out->unsafe.functions_filled += is_filled;
	out->counts.functions_filled += is_filled;
}

void xp_jit_dump_out_load(void *arg, uint32_t index, const struct xp_jit_load *load)
{
	struct xp_jit_dump_out *out = arg;
	int err = out->err;

	if (!err && !out->dump)
		err = begin(out);
	if (!out->err && err)
		fail(out, err);
	if (err || !has_room(out, load)) {
		lose(out, index);
		return;
	}
	err = put_lines(out, load);
	charge(out);
	if (err == -ENOMEM) { /* nothing was written */
		lose(out, index);
		return;
	}
	if (!err)
		err = put_code(out, index, load);
	charge(out);
	if (!err) {
		count_function(out, !load->code);
		return;
	}
	fail(out, err);
	lose(out, index);
}

void xp_jit_dump_out_move(void *arg, uint32_t index, uint64_t tsc, uint64_t old_start, uint64_t new_start,
			  uint64_t size)
{
	struct xp_jit_dump_out *out = arg;
	const struct xp_jitdump_move move = {
		.pid = (uint32_t)out->options.pid,
		.tid = (uint32_t)out->options.pid,
		.old_code_addr = old_start,
		.new_code_addr = new_start,
		.code_size = size,
		.code_index = code_index(out, index),
	};
	int err;

	if (out->err || !out->dump || is_lost(out, index) || !files_have_room(out, RECORD_BYTES))
		return;
	err = xp_jitdump_move(out->dump, timestamp_of(out, tsc), &move);
	charge(out);
	if (err) {
		fail(out, err);
		return;
	}
	see_whole(out);
	out->unsafe.moves++;
	out->counts.moves++;
}

int xp_jit_dump_out_close(struct xp_jit_dump_out *out, uint64_t tsc, struct xp_jit_dump_out_counts *counts)
{
	int err = out->err;

	if (out->dump && !err) {
		err = xp_jitdump_close(out->dump, timestamp_of(out, tsc));
		if (!err)
			err = xp_jitdump_flush(out->dump);
		charge(out);
		if (err)
			fail(out, err);
	}
	out->counts.bytes = out->counts.functions ? xp_jitdump_bytes(out->dump) : 0;
	*counts = out->counts;
	if (out->fd >= 0 && !out->counts.bytes) {
		unlinkat(out->options.dir_fd, out->name, 0); /* not even one function fitted on the disk */
		*out->options.bytes_left += out->charged_bytes;
	}
	if (out->fd >= 0 && close(out->fd) && !err)
		err = -errno;
	out->fd = -1;
	return err;
}

void xp_jit_dump_out_free(struct xp_jit_dump_out *out)
{
	if (!out)
		return;
	if (out->fd >= 0)
		close(out->fd);
	xp_jitdump_free(out->dump);
	free(out->lost);
	free(out->fill);
	free(out);
}
