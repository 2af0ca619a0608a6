// SPDX-License-Identifier: BSD-2-Clause
#include "jit/src_dump.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/u64_map.h"
#include "base/util.h"
#include "format/jitdump_reader.h"
#include "jit/eh_frame.h"
#include "jit/stdio_tail.h"
#include "target/untrusted_file.h"
#include "target/status.h"
#include "target/target.h"

#define REFRESH_BYTES_MAX (1u << 20)
#define BUFFER_BYTES_MIN (64u << 10)
#define RECORD_BYTES_MAX (1u << 20) /* a longer load record gives only the name */
#define LINES_MAX 20000		    /* maximum number of lines per function */

/*
 * Bias of line addresses in jitdumps of V8 and LLVM. perf's images had an ELF header of 64 bytes before the code until
 * perf 6.1, and these compilers still add its size (V8: src/diagnostics/perf-jit.cc, kElfHeaderSize).
 */
#define LINE_BIAS 0x40

/* A copy of a record that belongs to the function of the next load record. */
struct pending {
	uint8_t *bytes;
	size_t size; /* 0: none */
	size_t room;
};

struct xp_jit_src_dump {
	int fd;
	uint32_t inner_pid;
	bool has_header;
	bool is_dead; /* true: the source stopped reading because of an error */
	pid_t pid;    /* 0: read only the file, not the process */
	uint64_t start_time;
	struct xp_stdio_tail tail;
	uint8_t *tail_bytes;
	uint64_t file_bytes; /* size of the file at the last poll */
	struct xp_jitdump_header header;
	uint64_t offset; /* offset of the next record */
	uint64_t skipped;
	bool has_plain_lines; /* true: line addresses have no bias */
	uint8_t *buffer;
	size_t room;
	struct pending debug;
	struct pending unwinding;
	struct xp_jit_line *lines; /* [LINES_MAX], from the first use */
	struct xp_u64_map codes;   /* code index in the file -> in the registry */
};

bool xp_jit_src_dump_is_marker(const char *path)
{
	const char *name = strrchr(path, '/'), *digits;

	if (!name || strncmp(name, "/jit-", 5) != 0)
		return false;
	digits = name += 5;
	while (isdigit((unsigned char)*name))
		name++;
	return name > digits && !strcmp(name, ".dump");
}

int xp_jit_src_dump_new(struct xp_jit_src_dump **dump, int fd, pid_t inner_pid)
{
	struct xp_jit_src_dump *made = calloc(1, sizeof(*made));

	if (!made)
		return -ENOMEM;
	made->buffer = malloc(BUFFER_BYTES_MIN);
	if (!made->buffer) {
		free(made);
		return -ENOMEM;
	}
	made->room = BUFFER_BYTES_MIN;
	made->fd = fd;
	made->inner_pid = (uint32_t)inner_pid;
	*dump = made;
	return 0;
}

static int open_path(struct xp_jit_src_dump **dump, pid_t pid, uint64_t start_time, const char *path)
{
	struct xp_target_status status;
	int err = xp_target_status(&status, pid, start_time), fd;

	if (err)
		return err;
	fd = xp_target_file_open(pid, start_time, path, XP_JIT_SRC_DUMP_BYTES_MAX);
	if (fd < 0)
		return fd;
	err = xp_jit_src_dump_new(dump, fd, status.inner_pid);
	if (err) {
		close(fd);
		return err;
	}
	(*dump)->pid = pid;
	(*dump)->start_time = start_time;
	return 0;
}

int xp_jit_src_dump_open(struct xp_jit_src_dump **dump, pid_t pid, uint64_t start_time, const char *path)
{
	struct xp_mappings mappings;
	int err;

	if (path)
		return open_path(dump, pid, start_time, path);
	err = xp_mappings_read(&mappings, pid);
	if (err)
		return err;
	err = -ENOENT;
	for (size_t i = 0; i < mappings.count && err; i++)
		if (xp_jit_src_dump_is_marker(mappings.list[i].path))
			err = open_path(dump, pid, start_time, mappings.list[i].path);
	xp_mappings_free(&mappings);
	return err;
}

void xp_jit_src_dump_read_with(struct xp_jit_src_dump *dump, struct xp_target_memory *memory)
{
	dump->tail.memory = memory;
}

void xp_jit_src_dump_free(struct xp_jit_src_dump *dump)
{
	if (!dump)
		return;
	close(dump->fd);
	free(dump->buffer);
	free(dump->debug.bytes);
	free(dump->unwinding.bytes);
	free(dump->lines);
	free(dump->tail_bytes);
	xp_u64_map_free(&dump->codes);
	free(dump);
}

uint64_t xp_jit_src_dump_skipped(const struct xp_jit_src_dump *dump)
{
	return dump->skipped;
}

/* ---- records ---- */

struct taker {
	struct xp_jit_src_dump *dump;
	struct xp_jit_code *code;
	const struct xp_clock *clock;
	uint64_t now_tsc;
};

/* Converts the time of a record to TSC. A time in the future becomes the current time. */
static uint64_t tsc_of(const struct taker *taker, uint64_t timestamp)
{
	bool is_tsc = taker->dump->header.flags & XP_JITDUMP_FLAG_ARCH_TIMESTAMP;
	uint64_t tsc = is_tsc ? timestamp : xp_clock_tsc(taker->clock, timestamp);

	return XP_MIN(tsc, taker->now_tsc);
}

/*
 * Returns whether a record applies to this process. The header has the PID of the process that created the file: a
 * forked child inherits the file and the code of its parent.
 */
static bool is_of_process(const struct xp_jit_src_dump *dump, uint32_t pid)
{
	return pid == dump->inner_pid || pid == dump->header.pid;
}

static int keep(struct pending *pending, const uint8_t *record, size_t size)
{
	pending->size = 0;
	if (XP_ARRAY_RESERVE(pending->bytes, pending->room, size))
		return -ENOMEM;
	memcpy(pending->bytes, record, size);
	pending->size = size;
	return 0;
}

static int by_address(const void *a, const void *b)
{
	const struct xp_jit_line *first = a, *second = b;

	return (first->address > second->address) - (first->address < second->address);
}

/* Returns the bias of the line addresses of a function. If one function has no bias, all later functions have none. */
static uint64_t line_bias(struct xp_jit_src_dump *dump, uint64_t start, size_t count)
{
	if (!dump->has_plain_lines && count && dump->lines[0].address < start + LINE_BIAS)
		dump->has_plain_lines = true;
	return dump->has_plain_lines ? 0 : LINE_BIAS;
}

/* Removes lines outside the code, sorts the others by address and subtracts the bias. Returns the number of lines. */
static size_t order_lines(struct xp_jit_src_dump *dump, const struct xp_jit_load *load, size_t count)
{
	struct xp_jit_line *lines = dump->lines;
	uint64_t bias;
	size_t kept = 0;

	qsort(lines, count, sizeof(*lines), by_address);
	bias = line_bias(dump, load->start, count);
	for (size_t i = 0; i < count; i++) {
		uint64_t at = lines[i].address - bias - load->start;

		if (at >= load->size)
			continue;
		lines[kept] = lines[i];
		lines[kept++].address -= bias;
	}
	return kept;
}

static int take_lines(struct xp_jit_src_dump *dump, struct xp_jit_load *load)
{
	struct xp_violation violation;
	struct xp_jitdump_record record;
	struct xp_jitdump_lines lines;
	struct xp_jitdump_line line;
	size_t count = 0;

	if (!dump->debug.size)
		return 0;
	if (!dump->lines)
		dump->lines = malloc(LINES_MAX * sizeof(*dump->lines));
	if (!dump->lines)
		return -ENOMEM;
	/* This cannot fail, because the record was valid when it was copied. */
	xp_jitdump_read_record(dump->debug.bytes, 0, &record, &violation);
	if (record.debug.code_addr != load->start)
		return 0;
	xp_jitdump_lines_start(&lines, &record);
	while (count < LINES_MAX && xp_jitdump_lines_next(&lines, &line))
		dump->lines[count++] = (struct xp_jit_line){ line.address, line.line, line.discriminator, line.file };
	load->lines = dump->lines;
	load->line_count = order_lines(dump, load, count);
	return 0;
}

/*
 * Reads the entries of the unwinding data. The addresses in the data assume that the data is placed after the code.
 * Returns 0 or -ENOMEM.
 */
static int take_unwinding(const struct xp_jit_src_dump *dump, const struct xp_jit_load *load, struct xp_cfi_fdes *fdes)
{
	struct xp_violation violation;
	struct xp_jitdump_record record;

	if (!dump->unwinding.size)
		return 0;
	xp_jitdump_read_record(dump->unwinding.bytes, 0, &record, &violation);
	return xp_jit_eh_frame_read(fdes, record.unwinding.eh_frame, record.unwinding.eh_frame_bytes,
				    load->start + ((load->size + 7) & ~7ull));
}

static int take_load(struct taker *taker, const struct xp_jitdump_record *record)
{
	struct xp_jit_src_dump *dump = taker->dump;
	struct xp_jit_load load = {
		.tsc = tsc_of(taker, record->timestamp),
		.start = record->load.code_addr,
		.size = record->load.code_size,
		.name = record->load.name,
		.code = record->load.code,
	};
	struct xp_cfi_fdes fdes = { 0 };
	uint32_t index, *place;
	bool is_other = !is_of_process(dump, record->load.pid);
	int err = take_lines(dump, &load);

	if (!err && !is_other)
		err = take_unwinding(dump, &load, &fdes);
	load.unwinding = &fdes;
	if (!err && !is_other)
		err = xp_jit_code_load(taker->code, &load, &index);
	xp_cfi_fdes_free(&fdes);
	dump->debug.size = 0;
	dump->unwinding.size = 0;
	if (err || is_other)
		return err == -ENOMEM ? err : 0; /* skip invalid code, and code that exceeds a limit */
	place = xp_u64_map_add(&dump->codes, record->load.code_index, index);
	if (!place)
		return -ENOMEM;
	*place = index;
	return 0;
}

static int take_move(struct taker *taker, const struct xp_jitdump_record *record)
{
	const uint32_t *index = xp_u64_map_find(&taker->dump->codes, record->move.code_index);
	int err;

	if (!index || !is_of_process(taker->dump, record->move.pid))
		return 0;
	err = xp_jit_code_move(taker->code, *index, tsc_of(taker, record->timestamp), record->move.new_code_addr);
	return err == -ENOMEM ? err : 0;
}

static int take_record(struct taker *taker, const uint8_t *bytes)
{
	struct xp_jit_src_dump *dump = taker->dump;
	struct xp_violation violation;
	struct xp_jitdump_record record;

	if (xp_jitdump_read_record(bytes, dump->offset, &record, &violation)) {
		dump->skipped++;
		return 0;
	}
	switch (record.kind) {
	case XP_JITDUMP_LOAD:
		return take_load(taker, &record);
	case XP_JITDUMP_MOVE:
		return take_move(taker, &record);
	case XP_JITDUMP_DEBUG_INFO:
		if (record.debug.surplus_bytes <= XP_JITDUMP_PADDING_BYTES_MAX)
			return keep(&dump->debug, bytes, record.bytes);
		dump->skipped++;
		return 0;
	case XP_JITDUMP_UNWINDING_INFO:
		/*
		 * The relative addresses in the data depend on the order of the two sections. Only perf's order is
		 * supported.
		 */
		if (record.unwinding.eh_frame_hdr_bytes && record.unwinding.order != XP_JITDUMP_HEADER_FIRST)
			return keep(&dump->unwinding, bytes, record.bytes);
		return 0;
	default:
		return 0;
	}
}

/* Uses the first bytes of a record that is longer than the buffer. */
static int take_head(struct taker *taker, const uint8_t *bytes, size_t size)
{
	struct xp_jit_src_dump *dump = taker->dump;
	struct xp_violation violation;
	struct xp_jitdump_record record;
	uint32_t prefix[2];

	memcpy(prefix, bytes, sizeof(prefix));
	if (!prefix[0] && !xp_jitdump_read_load_head(bytes, size, dump->offset, &record, &violation))
		return take_load(taker, &record);
	dump->skipped++;
	return 0;
}

/* ---- the file ---- */

static int take_header(struct xp_jit_src_dump *dump, const uint8_t *bytes, size_t size)
{
	struct xp_violation violation;
	int found = xp_jitdump_read_header(bytes, size, &dump->header, &violation);

	if (found <= 0)
		return found;
	dump->has_header = true;
	dump->offset = dump->header.bytes;
	return 0;
}

/*
 * Uses the record at `at`; the buffer holds `size` bytes of it. Returns 1 if the record was used, or 0 if the record is
 * not complete yet.
 */
static int take_next(struct taker *taker, const uint8_t *at, size_t size, uint64_t file_bytes)
{
	struct xp_jit_src_dump *dump = taker->dump;
	struct xp_violation violation;
	uint32_t bytes;
	int err;

	if (size < XP_JITDUMP_PREFIX_BYTES)
		return 0;
	err = xp_jitdump_record_bytes(at, dump->offset, &bytes, &violation);
	if (err || bytes > file_bytes - dump->offset)
		return err;
	if (bytes <= size)
		err = take_record(taker, at);
	else if (bytes <= RECORD_BYTES_MAX)
		return XP_ARRAY_RESERVE(dump->buffer, dump->room, bytes);
	else if (size < BUFFER_BYTES_MIN)
		return 0;
	else
		err = take_head(taker, at, size);
	dump->offset += bytes;
	return err ? err : 1;
}

/* Uses all complete records in the buffer. */
static int take_buffer(struct taker *taker, size_t size, uint64_t file_bytes)
{
	struct xp_jit_src_dump *dump = taker->dump;
	uint64_t begin = dump->offset;
	int more = 1;

	if (!dump->has_header)
		return take_header(dump, dump->buffer, size);
	while (more == 1 && dump->offset - begin < size)
		more =
		    take_next(taker, dump->buffer + (dump->offset - begin), size - (dump->offset - begin), file_bytes);
	return XP_MIN(more, 0);
}

static uint64_t bytes_of(const struct stat *st)
{
	return XP_MIN((uint64_t)st->st_size, XP_JIT_SRC_DUMP_BYTES_MAX);
}

/*
 * Returns whether the file already contains the buffered bytes. The C library writes to the file first and empties its
 * buffer afterwards.
 */
static bool is_in_file(struct xp_jit_src_dump *dump, size_t bytes)
{
	_Static_assert(BUFFER_BYTES_MIN >= XP_STDIO_TAIL_BYTES_MAX, "the buffer takes a tail");

	return bytes <= dump->file_bytes &&
	       pread(dump->fd, dump->buffer, bytes, (off_t)(dump->file_bytes - bytes)) == (ssize_t)bytes &&
	       !memcmp(dump->buffer, dump->tail_bytes, bytes);
}

/*
 * Reads the data that the process has written but its C library still buffers. The data will appear in the file after
 * its current end. Returns 1 if the process wrote to the file meanwhile, because a record may be missing then.
 */
static int take_tail(struct taker *taker)
{
	struct xp_jit_src_dump *dump = taker->dump;
	uint64_t left = dump->file_bytes > dump->offset ? dump->file_bytes - dump->offset : 0;
	uint64_t taken = dump->file_bytes < dump->offset ? dump->offset - dump->file_bytes : 0;
	bool had_header = dump->has_header;
	struct stat st;
	ssize_t bytes;
	int err;

	if (!dump->tail.stream || left > RECORD_BYTES_MAX || xp_target_start_time(dump->pid) != dump->start_time)
		return 0;
	bytes = xp_stdio_tail_read(&dump->tail, dump->tail_bytes);
	if (fstat(dump->fd, &st))
		return 0;
	if (bytes < 0 || bytes_of(&st) != dump->file_bytes)
		return 1;
	if ((size_t)bytes <= taken || is_in_file(dump, (size_t)bytes))
		return 0;
	err = XP_ARRAY_RESERVE(dump->buffer, dump->room, left + (size_t)bytes);
	if (err)
		return err;
	if (pread(dump->fd, dump->buffer, left, (off_t)dump->offset) != (ssize_t)left)
		return 0;
	memcpy(dump->buffer + left, dump->tail_bytes + taken, (size_t)bytes - taken);
	err = take_buffer(taker, left + (size_t)bytes - taken, dump->file_bytes + (size_t)bytes);
	if (err == -EBADMSG) {
		/*
		 * The process changed the buffer meanwhile, or it is not a stdio buffer. Continue with the file alone.
		 */
		dump->tail.stream = 0;
		return 0;
	}
	return !err && !had_header && dump->has_header ? take_tail(taker) : err;
}

/* Finds the stdio stream for take_tail(). Does nothing before the file has data. */
static int find_tail(struct xp_jit_src_dump *dump)
{
	int err;

	if (!dump->pid || dump->tail_bytes)
		return 0;
	dump->tail_bytes = malloc(XP_STDIO_TAIL_BYTES_MAX);
	if (!dump->tail_bytes)
		return -ENOMEM;
	err = xp_stdio_tail_find(&dump->tail, dump->pid, dump->fd);
	return err == -ENOMEM ? err : 0;
}

/* Starts again at offset 0. Called if the file became shorter, because the runtime has rewritten it. */
static void begin_anew(struct xp_jit_src_dump *dump)
{
	dump->has_header = false;
	dump->offset = 0;
	dump->debug.size = 0;
	dump->unwinding.size = 0;
}

int xp_jit_src_dump_refresh(struct xp_jit_src_dump *dump, struct xp_jit_code *code, const struct xp_clock *clock,
			    uint64_t now_tsc)
{
	struct taker taker = { dump, code, clock, now_tsc };
	uint64_t bytes, end;
	struct stat st;
	int err = 0;

	if (dump->is_dead)
		return -EBADMSG;
	if (fstat(dump->fd, &st))
		return -errno;
	bytes = bytes_of(&st);
	if (bytes < dump->file_bytes)
		begin_anew(dump);
	dump->file_bytes = bytes;
	end = XP_MIN(bytes, dump->offset + REFRESH_BYTES_MAX);
	while (!err && dump->offset < end) {
		uint64_t before = dump->offset;
		size_t room = dump->room;
		ssize_t n = pread(dump->fd, dump->buffer, room, (off_t)before);

		if (n < 0)
			return -errno;
		err = take_buffer(&taker, (size_t)n, bytes);
		if (dump->offset == before && dump->room == room)
			break; /* the rest of the record is not written yet */
	}
	if (!err && dump->offset >= end && end < bytes)
		return 1;
	if (!err)
		err = find_tail(dump);
	if (!err)
		err = take_tail(&taker);
	dump->is_dead = err == -EBADMSG;
	return err;
}
