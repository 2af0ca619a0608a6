// SPDX-License-Identifier: BSD-2-Clause
/*
 * Makes the log from the spool: the first pass over the frames computes the sums that the layout needs, the second one
 * places the chunks.
 *
 * On a full disk the log takes over the spool's blocks: the part of the spool that was read into the window is punched
 * out before the log grows. The log may need slightly more room than the spool, since its buffers begin and end within
 * blocks. If the disk has less than that left, the spool's tail is dropped.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file_lock.h"
#include "base/log_file.h"
#include "base/util.h"
#include "trace/spool_format.h"
#include "trace/spool_threads.h"

#define WINDOW_BYTES (1u << 20)
#define BUFFERS_PER_THREAD_MAX 16

/* The part of the spool that is in memory. */
struct window {
	int fd;
	uint64_t end; /* limit for reading */
	uint64_t start;
	size_t bytes;
	uint64_t punched; /* the spool has no blocks from its header to here */
	uint8_t *data;
};

/* Moves the window to pos and fills it. Keeps what it holds already: the spool may no longer have those bytes. */
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

/*
 * Gets the frame at pos and, if wanted, its chunk, which is then checked. Returns 1 if there is one, 0 if the spool
 * ends here, possibly within a frame.
 */
static int frame_get(struct window *window, uint64_t pos, struct xp_spool_frame *frame, uint8_t **chunk,
		     struct xp_fdr_chunk_stats *stats)
{
	uint64_t typed_before;
	uint8_t *data;
	size_t got;
	int err;

	err = window_get(window, pos, sizeof(*frame), &data, &got);
	if (err || got < sizeof(*frame))
		return err;
	memcpy(frame, data, sizeof(*frame));
	if (frame->magic != XP_SPOOL_FRAME_MAGIC || frame->check != xp_spool_frame_check(frame) ||
	    frame->chunk_bytes < XP_FDR_METADATA_BYTES || frame->chunk_bytes > XP_SPOOL_CHUNK_MAX)
		return 0;
	pos += sizeof(*frame);
	if (!chunk)
		return window->end - pos >= frame->chunk_bytes;
	err = window_get(window, pos, frame->chunk_bytes, chunk, &got);
	if (err || got < frame->chunk_bytes)
		return err;
	/* Typed events that the frame does not announce would end up in a log of version 1. */
	typed_before = stats->typed;
	return !xp_fdr_chunk_scan(*chunk, got, stats) && xp_fdr_chunk_tsc(*chunk) == frame->first_tsc &&
	       (stats->typed == typed_before || frame->flags & XP_SPOOL_FRAME_TYPED);
}

static uint64_t frame_bytes(const struct xp_spool_frame *frame)
{
	return sizeof(*frame) + frame->chunk_bytes;
}

struct layout_run {
	struct window window;
	struct xp_spool_threads threads;
	bool has_typed;
	struct xp_fdr_layout *layout;
};

/* Sums up the first window->end bytes. Sets window->end to the end of the last complete frame. */
static int add_up(struct layout_run *run, bool trusted)
{
	uint64_t pos = XP_SPOOL_HEADER_BYTES;
	struct xp_fdr_chunk_stats stats = { 0 };
	struct xp_spool_frame frame;
	uint8_t *chunk;
	int more;

	xp_spool_threads_clear(&run->threads);
	run->has_typed = false;
	for (;;) {
		more = frame_get(&run->window, pos, &frame, trusted ? NULL : &chunk, &stats);
		if (more <= 0)
			break;
		more = xp_spool_threads_add(&run->threads, &frame);
		if (more)
			break;
		run->has_typed |= frame.flags & XP_SPOOL_FRAME_TYPED;
		pos += frame_bytes(&frame);
	}
	run->window.end = pos;
	return more;
}

/* How much larger than the spool the log may get: two partial blocks for each buffer, and the first. */
static uint64_t slack_bytes(const struct xp_spool_threads *threads, uint64_t block_bytes)
{
	uint64_t blocks = 4 + threads->count / 16;

	for (size_t i = 0; i < threads->count; i++)
		blocks += 2 * XP_MIN(threads->all[i].chunks, (uint64_t)BUFFERS_PER_THREAD_MAX);
	return blocks * block_bytes;
}

/* Drops the spool's tail if the free disk space is below the slack. */
static int make_room(struct layout_run *run, bool trusted)
{
	struct statvfs fs;
	uint64_t free_bytes, slack;
	int err;

	if (fstatvfs(run->window.fd, &fs))
		return 0; /* the writes will report it */
	free_bytes = (uint64_t)(geteuid() ? fs.f_bavail : fs.f_bfree) * fs.f_frsize;
	slack = slack_bytes(&run->threads, XP_MAX(fs.f_frsize, 4096ul));
	if (free_bytes >= slack)
		return 0;
	if (run->window.end - XP_SPOOL_HEADER_BYTES <= slack - free_bytes)
		return 0;
	run->window.end -= slack - free_bytes;
	err = add_up(run, trusted);
	if (!err && ftruncate(run->window.fd, (off_t)run->window.end))
		err = -errno;
	return err;
}

/* The layout found no space: frees the spool's blocks up to the end of the window. */
static int give_blocks(void *arg)
{
	struct layout_run *run = arg;
	struct window *window = &run->window;
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

static int place_chunks(struct layout_run *run, struct xp_spool_result *result)
{
	uint64_t pos = XP_SPOOL_HEADER_BYTES;
	struct xp_spool_frame frame;
	uint8_t *chunk;
	int err;

	while (pos < run->window.end) {
		ssize_t index;

		err = frame_get(&run->window, pos, &frame, &chunk, &result->stats);
		if (err <= 0)
			return err ? err : -EBADMSG;
		index = xp_spool_threads_find(&run->threads, frame.tid);
		if (index < 0)
			return -EBADMSG;
		err = xp_fdr_layout_chunk(run->layout, index, chunk, frame.chunk_bytes);
		if (err)
			return err;
		pos += frame_bytes(&frame);
	}
	return xp_fdr_layout_finish(run->layout);
}

static int layout_begin(struct layout_run *run, int fd, const struct xp_spool_header *header, uint16_t version)
{
	struct xp_fdr_layout_options options = {
		.header = { .version = version,
			    .constant_tsc = header->tsc_flags & XP_SPOOL_CONSTANT_TSC,
			    .nonstop_tsc = header->tsc_flags & XP_SPOOL_NONSTOP_TSC,
			    .cycle_hz = header->cycle_hz },
		.pid = header->pid,
		.start_tsc = header->start_tsc,
		.wall_ns = header->wall_ns,
	};
	struct xp_fdr_thread *threads;
	int err;

	threads = calloc(run->threads.count + 1, sizeof(*threads));
	if (!threads)
		return -ENOMEM;
	for (size_t i = 0; i < run->threads.count; i++) {
		const struct xp_spool_thread *from = &run->threads.all[i];

		threads[i] = (struct xp_fdr_thread){
			.pid = header->pid,
			.tid = from->tid,
			.chunk_bytes = from->chunk_bytes,
			.chunk_bytes_max = from->chunk_bytes_max,
			.name = from->name,
			.first_tsc = from->first_tsc,
		};
	}
	err = xp_fdr_layout_new(&run->layout, fd, &options, threads, run->threads.count, give_blocks, run);
	free(threads);
	return err;
}

static bool is_terminated(const char *text, size_t size)
{
	return memchr(text, 0, size);
}

static int header_read(int fd, const char *name, struct xp_spool_header *header)
{
	ssize_t n = pread(fd, header, sizeof(*header), 0);

	if (n < 0)
		return -errno;
	if (n != sizeof(*header) || memcmp(header->magic, XP_SPOOL_MAGIC, sizeof(header->magic)) ||
	    header->version != XP_SPOOL_VERSION || header->check != xp_spool_header_check(header))
		return -EBADMSG;
	/* The checksum detects corruption, but not forgery. */
	if (!is_terminated(header->comm, sizeof(header->comm)) || !is_terminated(header->exe, sizeof(header->exe)) ||
	    !is_terminated(header->final_name, sizeof(header->final_name)) ||
	    !xp_spool_final_name_valid(header->final_name, name) || !header->cycle_hz ||
	    (header->fdr_version != 1 && header->fdr_version != 5))
		return -EBADMSG;
	return 0;
}

struct log_request {
	struct layout_run *run;
	const struct xp_spool_header *header;
	struct xp_spool_result *result;
};

/* Writes the log to fd. */
static int layout_write(void *arg, int fd)
{
	const struct log_request *request = arg;
	struct layout_run *run = request->run;
	const struct xp_spool_header *header = request->header;
	struct xp_spool_result *result = request->result;
	struct stat st;
	int err;

	/*
	 * Resets the window, which still holds the data summed up last. From here on, give_blocks() may free what it
	 * holds.
	 */
	err = window_move(&run->window, XP_SPOOL_HEADER_BYTES);
	if (err)
		return err;
	result->fdr_version = run->has_typed ? 5 : header->fdr_version;
	result->threads = run->threads.count;
	err = layout_begin(run, fd, header, result->fdr_version);
	if (!err)
		err = place_chunks(run, result);
	if (!err && fstat(fd, &st))
		err = -errno;
	if (!err)
		result->file_bytes = st.st_size;
	xp_fdr_layout_free(run->layout);
	return err;
}

int xp_spool_lay_out(int dir_fd, const char *name, int fd, bool trusted, struct xp_spool_result *result)
{
	struct layout_run run = { .window = { .fd = fd } };
	struct xp_spool_header header;
	struct log_request request = { &run, &header, result };
	struct stat st;
	int err;

	memset(result, 0, sizeof(*result));
	err = header_read(fd, name, &header);
	if (err)
		return err;
	if (fstat(fd, &st))
		return -errno;
	strcpy(result->final_name, header.final_name);
	strcpy(result->exe, header.exe);
	strcpy(result->comm, header.comm);
	result->pid = header.pid;
	run.window.end = st.st_size;
	run.window.data = malloc(WINDOW_BYTES);
	err = run.window.data ? add_up(&run, trusted) : -ENOMEM;
	if (!err)
		err = make_room(&run, trusted);
	if (!err && (uint64_t)st.st_size > run.window.end)
		result->dropped_bytes = st.st_size - run.window.end;
	if (!err)
		err = xp_log_file_make(dir_fd, header.final_name, layout_write, &request);
	if (!err && unlinkat(dir_fd, name, 0))
		err = -errno;
	xp_spool_threads_clear(&run.threads);
	free(run.window.data);
	return err;
}

int xp_spool_recover(int dir_fd, const char *name, uint64_t patience_ns, struct xp_spool_result *result)
{
	struct stat st;
	int err = 0;
	int fd;

	/* O_NONBLOCK: a FIFO of that name must not block xprof. */
	fd = openat(dir_fd, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st))
		err = -errno;
	else if (!S_ISREG(st.st_mode))
		err = -EBADMSG;
	else
		err = xp_file_lock_within(fd, patience_ns, NULL);
	if (!err && !st.st_size)
		err = unlinkat(dir_fd, name, 0) ? -errno : -ENODATA;
	if (!err)
		err = xp_spool_lay_out(dir_fd, name, fd, false, result);
	close(fd);
	return err;
}
