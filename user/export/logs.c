// SPDX-License-Identifier: BSD-2-Clause
#include "export/logs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/array.h"
#include "base/file_lock.h"
#include "base/own_file.h"
#include "base/progress_line.h"
#include "base/u64_map.h"
#include "base/util.h"
#include "format/fdr.h"

#define WINDOW_BYTES (1u << 20)
#define BUFFERS_PER_THREAD_MAX 16

/* The part of the spool in memory. */
struct window {
	int fd;
	uint64_t end; /* limit for reading */
	uint64_t start;
	size_t bytes;
	uint64_t punched; /* the blocks of the spool from its header to here have been freed */
	uint8_t *data;
};

/* Moves the window to pos and fills it. Keeps bytes that it already has: the spool may no longer contain them. */
static int window_move(struct window *window, uint64_t pos)
{
	size_t keep = 0;

	if (pos >= window->start && pos < window->start + window->bytes) {
		keep = window->start + window->bytes - pos;
		memmove(window->data, window->data + (pos - window->start), keep);
	}
	window->start = pos;
	window->bytes = keep;
	while (window->bytes < WINDOW_BYTES && pos + window->bytes < window->end) {
		size_t want = XP_MIN(WINDOW_BYTES - window->bytes, window->end - pos - window->bytes);
		ssize_t n = pread(window->fd, window->data + window->bytes, want, (off_t)(pos + window->bytes));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			break; /* the file has become shorter */
		window->bytes += n;
	}
	return 0;
}

/* Sets *data to the bytes at pos, at most WINDOW_BYTES of them, and *got to their number. */
static int window_get(struct window *window, uint64_t pos, size_t bytes, uint8_t **data, size_t *got)
{
	*got = 0;
	if (pos >= window->end)
		return 0;
	bytes = XP_MIN(bytes, window->end - pos);
	if (pos < window->start || pos + bytes > window->start + window->bytes) {
		int err = window_move(window, pos);

		if (err)
			return err;
		bytes = XP_MIN(bytes, window->bytes);
	}
	*data = window->data + (pos - window->start);
	*got = bytes;
	return 0;
}

/* All threads with the same TID: the log has at most 16 buffers for a TID. */
struct log_thread {
	int32_t tid;
	char name[16];	    /* the last name */
	uint64_t first_tsc; /* TSC of the first chunk */
	uint64_t chunks;
	uint64_t chunk_bytes;
	uint32_t chunk_bytes_max;
};

/* Sums that the layout of a log needs before it places the first chunk. So the spool is read twice. */
struct sums {
	struct log_thread *threads; /* in the order of their first chunks */
	size_t thread_count;
	size_t thread_room;
	struct xp_u64_map by_tid; /* -> threads */
	bool has_typed;
};

static struct log_thread *add_thread(struct sums *sums, const struct xp_spool_frame *frame)
{
	uint32_t *place = xp_u64_map_add(&sums->by_tid, (uint32_t)frame->tid, sums->thread_count);

	if (!place)
		return NULL;
	if (*place < sums->thread_count)
		return &sums->threads[*place];
	if (XP_ARRAY_RESERVE(sums->threads, sums->thread_room, sums->thread_count + 1))
		return NULL;
	sums->threads[sums->thread_count] = (struct log_thread){ .tid = frame->tid, .first_tsc = frame->first_tsc };
	return &sums->threads[sums->thread_count++];
}

static int add_chunk(struct sums *sums, const struct xp_spool_frame *frame)
{
	struct log_thread *thread = add_thread(sums, frame);

	if (!thread)
		return -ENOMEM;
	memcpy(thread->name, frame->name, sizeof(thread->name) - 1);
	thread->chunks++;
	thread->chunk_bytes += frame->chunk_bytes;
	thread->chunk_bytes_max = XP_MAX(thread->chunk_bytes_max, frame->chunk_bytes);
	sums->has_typed |= frame->flags & XP_SPOOL_FRAME_TYPED;
	return 0;
}

static void sums_clear(struct sums *sums)
{
	free(sums->threads);
	xp_u64_map_free(&sums->by_tid);
	*sums = (struct sums){ 0 };
}

/* Reads the frames of a spool in order. */
struct reader {
	struct window window;
	uint64_t pos;
	bool is_second; /* second pass: the frames up to the end of the window are known to be complete */
	struct xp_fdr_chunk_stats stats;
	struct xp_spool_frame frame;	    /* the last frame */
	const struct xp_spool_taker *taker; /* NULL: notes are skipped */
	struct xp_progress_line line;	    /* shown while the log is written */
};

/* Gets the chunk of the frame that ends at pos. Returns 1 if it is complete and matches the frame. */
static int read_chunk(struct reader *reader, uint64_t pos, uint8_t **data)
{
	const struct xp_spool_frame *frame = &reader->frame;
	const struct xp_fdr_chunk_stats before = reader->stats;
	size_t got;
	int err;

	err = window_get(&reader->window, pos, frame->chunk_bytes, data, &got);
	if (err || got < frame->chunk_bytes)
		return err;
	if (reader->is_second) /* the layout checks the chunks that it places */
		return 1;
	/* A typed event that the frame does not announce would be in a log of version 1. */
	if (!xp_fdr_chunk_scan(*data, got, &reader->stats) && xp_fdr_chunk_tsc(*data) == frame->first_tsc &&
	    (reader->stats.typed == before.typed || frame->flags & XP_SPOOL_FRAME_TYPED))
		return 1;
	reader->stats = before;
	return 0;
}

/* Returns 1, or 0 if the note is incomplete. */
static int read_note(struct reader *reader, uint64_t pos)
{
	const struct xp_spool_frame *frame = &reader->frame;
	uint8_t *data = NULL;
	size_t got;
	int err;

	err = window_get(&reader->window, pos, frame->chunk_bytes, &data, &got);
	if (err || got < frame->chunk_bytes || crc32(0, data, got) != frame->first_tsc)
		return err;
	if (reader->taker && frame->flags == XP_SPOOL_NOTE_OBJECT)
		err = reader->taker->take(reader->taker->arg, data, got);
	return err ? err : 1;
}

/* Returns 1, or 0 if the spool ends here, possibly within a frame. */
static int read_frame(struct reader *reader, uint8_t **data)
{
	struct xp_spool_frame *frame = &reader->frame;
	uint8_t *head;
	size_t got;
	int err = window_get(&reader->window, reader->pos, sizeof(*frame), &head, &got);

	if (err || got < sizeof(*frame))
		return err;
	memcpy(frame, head, sizeof(*frame));
	if (frame->check != xp_spool_frame_check(frame) || frame->chunk_bytes > XP_SPOOL_CHUNK_MAX)
		return 0;
	if (frame->magic == XP_SPOOL_NOTE_MAGIC && frame->flags)
		return read_note(reader, reader->pos + sizeof(*frame));
	if (frame->magic != XP_SPOOL_FRAME_MAGIC || frame->chunk_bytes < XP_FDR_METADATA_BYTES)
		return 0;
	return read_chunk(reader, reader->pos + sizeof(*frame), data);
}

/* Gets the next chunk in reader->frame and *data. Returns 1, 0 at the end, or -errno. */
static int next_chunk(struct reader *reader, uint8_t **data)
{
	const struct xp_spool_frame *frame = &reader->frame;
	int more;

	while ((more = read_frame(reader, data)) > 0) {
		reader->pos += sizeof(*frame) + frame->chunk_bytes;
		if (frame->magic == XP_SPOOL_FRAME_MAGIC)
			return 1;
	}
	return !more && reader->is_second && reader->pos < reader->window.end ? -EBADMSG : more;
}

/* Sums up the first window->end bytes. Sets window->end to the end of the last complete frame. */
static int add_up(struct reader *reader, struct sums *sums)
{
	uint8_t *data;
	int more;

	sums_clear(sums);
	reader->stats = (struct xp_fdr_chunk_stats){ 0 };
	reader->pos = XP_SPOOL_HEADER_BYTES;
	while ((more = next_chunk(reader, &data)) > 0) {
		more = add_chunk(sums, &reader->frame);
		if (more)
			break;
	}
	reader->window.end = reader->pos;
	return more;
}

/* Returns how much larger than the spool the log may be: two partial blocks for each buffer, and the first block. */
static uint64_t slack_bytes(const struct sums *sums, uint64_t block_bytes)
{
	uint64_t blocks = 4 + sums->thread_count / 16;

	for (size_t i = 0; i < sums->thread_count; i++)
		blocks += 2 * XP_MIN(sums->threads[i].chunks, (uint64_t)BUFFERS_PER_THREAD_MAX);
	return blocks * block_bytes;
}

/* Drops the spool's tail if the free disk space is below the slack. */
static int make_room(struct reader *reader, struct sums *sums)
{
	struct window *window = &reader->window;
	struct statvfs fs;
	uint64_t free_bytes, slack;
	int err;

	if (fstatvfs(window->fd, &fs))
		return 0; /* writing will report the error */
	free_bytes = (uint64_t)(geteuid() ? fs.f_bavail : fs.f_bfree) * fs.f_frsize;
	slack = slack_bytes(sums, XP_MAX(fs.f_frsize, 4096ul));
	if (free_bytes >= slack)
		return 0;
	if (window->end - XP_SPOOL_HEADER_BYTES <= slack - free_bytes)
		return 0;
	window->end -= slack - free_bytes;
	err = add_up(reader, sums);
	if (!err && ftruncate(window->fd, (off_t)window->end))
		err = -errno;
	return err;
}

/* Called if the layout found no space: frees the spool's blocks up to the end of the window. */
static int give_blocks(void *arg)
{
	struct reader *reader = arg;
	struct window *window = &reader->window;
	uint64_t end = window->start + window->bytes;
	/* Only whole blocks can be freed: includes the block in which the last range ended. */
	uint64_t from = XP_MAX(window->punched & ~(uint64_t)0xffff, (uint64_t)XP_SPOOL_HEADER_BYTES);

	if (window->end < end)
		end = window->end;
	if (end <= window->punched)
		return -ENOSPC;
	if (fallocate(window->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)from, (off_t)(end - from)))
		return -errno;
	window->punched = end;
	return 0;
}

static bool is_terminated(const char *text, size_t size)
{
	return memchr(text, 0, size);
}

/* *info borrows strings from the header. */
static int read_header(int fd, const char *name, struct xp_spool_header *header, struct xp_log_info *info)
{
	ssize_t n = pread(fd, header, sizeof(*header), 0);

	if (n < 0)
		return -errno;
	if (n != sizeof(*header) || memcmp(header->magic, XP_SPOOL_MAGIC, sizeof(header->magic)) ||
	    header->version != XP_SPOOL_VERSION || header->check != xp_spool_header_check(header))
		return -EBADMSG;
	*info = (struct xp_log_info){
		.pid = header->pid,
		.fdr_version = header->fdr_version,
		.constant_tsc = header->flags & XP_SPOOL_CONSTANT_TSC,
		.nonstop_tsc = header->flags & XP_SPOOL_NONSTOP_TSC,
		.names_only = header->flags & XP_SPOOL_NAMES_ONLY,
		.cycle_hz = header->cycle_hz,
		.start_tsc = header->start_tsc,
		.wall_ns = header->wall_ns,
		.comm = header->comm,
		.exe = header->exe,
		.final_name = header->final_name,
	};
	/* The checksum detects corruption, but not forgery. */
	return is_terminated(header->comm, sizeof(header->comm)) && is_terminated(header->exe, sizeof(header->exe)) &&
		       is_terminated(header->final_name, sizeof(header->final_name)) && xp_spool_info_valid(info, name)
		   ? 0
		   : -EBADMSG;
}

/* The conversion of a spool to a log. */
struct run {
	struct reader reader;
	struct sums sums;
	struct xp_log_info info;
	uint16_t fdr_version;
	uint64_t file_bytes;
};

static int begin_layout(struct run *run, int fd, struct xp_fdr_layout **layout)
{
	const struct xp_log_info *info = &run->info;
	const struct xp_fdr_layout_options options = {
		.header = { .version = run->fdr_version,
			    .constant_tsc = info->constant_tsc,
			    .nonstop_tsc = info->nonstop_tsc,
			    .cycle_hz = info->cycle_hz },
		.pid = info->pid,
		.start_tsc = info->start_tsc,
		.wall_ns = info->wall_ns,
		.retry = give_blocks,
		.retry_arg = &run->reader,
	};
	struct xp_fdr_thread *threads = calloc(run->sums.thread_count + 1, sizeof(*threads));
	int err;

	if (!threads)
		return -ENOMEM;
	for (size_t i = 0; i < run->sums.thread_count; i++) {
		const struct log_thread *from = &run->sums.threads[i];

		threads[i] = (struct xp_fdr_thread){
			.pid = info->pid,
			.tid = from->tid,
			.chunk_bytes = from->chunk_bytes,
			.chunk_bytes_max = from->chunk_bytes_max,
			.name = from->name,
			.first_tsc = from->first_tsc,
		};
	}
	err = xp_fdr_layout_new(layout, fd, &options, threads, run->sums.thread_count);
	free(threads);
	return err;
}

/* Places a chunk, which this may modify. */
static int place(struct run *run, struct xp_fdr_layout *layout)
{
	struct reader *reader = &run->reader;
	uint8_t *data;
	int more;

	while ((more = next_chunk(reader, &data)) > 0) {
		const uint32_t *index = xp_u64_map_find(&run->sums.by_tid, (uint32_t)reader->frame.tid);
		int err = index ? xp_fdr_layout_chunk(layout, *index, data, reader->frame.chunk_bytes) : -EBADMSG;

		if (err)
			return err;
		xp_progress_line_step(&reader->line, reader->pos);
	}
	return more ? more : xp_fdr_layout_finish(layout);
}

static int write_log(void *arg, int fd)
{
	struct run *run = arg;
	struct reader *reader = &run->reader;
	struct xp_fdr_layout *layout = NULL;
	struct stat st;
	/*
	 * Resets the window, which contains the end of the first pass. From here on, give_blocks() may free its bytes.
	 */
	int err = window_move(&reader->window, XP_SPOOL_HEADER_BYTES);

	if (err)
		return err;
	reader->pos = XP_SPOOL_HEADER_BYTES;
	reader->is_second = true;
	run->fdr_version = run->sums.has_typed ? 5 : run->info.fdr_version;
	xp_progress_line_begin(&reader->line, "laying out calls", XP_PROGRESS_BYTES, reader->window.end);
	err = begin_layout(run, fd, &layout) ?: place(run, layout);
	xp_progress_line_end(&reader->line);
	xp_fdr_layout_free(layout);
	if (!err && fstat(fd, &st))
		err = -errno;
	run->file_bytes = err ? 0 : st.st_size;
	return err;
}

static void describe(struct xp_spool_result *result, const struct run *run, uint64_t spool_bytes)
{
	strcpy(result->final_name, run->info.final_name);
	strcpy(result->exe, run->info.exe);
	strcpy(result->comm, run->info.comm);
	result->pid = run->info.pid;
	result->wall_ns = run->info.wall_ns;
	result->fdr_version = run->fdr_version;
	result->threads = run->sums.thread_count;
	result->stats = run->reader.stats;
	result->file_bytes = run->file_bytes;
	if (spool_bytes > run->reader.window.end)
		result->dropped_bytes = spool_bytes - run->reader.window.end;
}

static int lay_out(int dir_fd, const char *name, int fd, const struct xp_spool_taker *taker,
		   struct xp_spool_result *result)
{
	struct run run = { .reader = { .window = { .fd = fd }, .taker = taker } };
	struct xp_spool_header header;
	struct stat st;
	int err;

	memset(result, 0, sizeof(*result));
	err = read_header(fd, name, &header, &run.info);
	if (err)
		return err;
	if (fstat(fd, &st))
		return -errno;
	run.reader.window.end = st.st_size;
	run.reader.window.data = malloc(WINDOW_BYTES);
	err = run.reader.window.data ? add_up(&run.reader, &run.sums) : -ENOMEM;
	run.reader.taker = NULL; /* the first pass has passed on the notes */
	if (!err)
		err = make_room(&run.reader, &run.sums);
	if (!err && !run.info.names_only)
		err = xp_log_file_make(dir_fd, header.final_name, write_log, &run);
	if (!err && unlinkat(dir_fd, name, 0))
		err = -errno;
	describe(result, &run, st.st_size);
	sums_clear(&run.sums);
	free(run.reader.window.data);
	return err;
}

/* Opens a spool and locks it. Returns the descriptor or -errno. */
static int open_spool(int dir_fd, const char *name, uint64_t patience_ns)
{
	/* O_NONBLOCK: a FIFO of that name must not block xprof. */
	int fd = openat(dir_fd, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	int err = 0;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st))
		err = -errno;
	else if (!S_ISREG(st.st_mode))
		err = -EBADMSG;
	else
		err = xp_file_lock_within(fd, patience_ns, NULL);
	if (!err)
		return fd;
	close(fd);
	return err;
}

int xp_fdr_make(int dir_fd, const char *name, uint64_t patience_ns, const struct xp_spool_taker *taker,
		struct xp_spool_result *result)
{
	int fd = open_spool(dir_fd, name, patience_ns), err = 0;
	struct stat st;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st))
		err = -errno;
	else if (!st.st_size)
		err = unlinkat(dir_fd, name, 0) ? -errno : -ENODATA;
	if (!err)
		err = lay_out(dir_fd, name, fd, taker, result);
	close(fd);
	return err;
}
