// SPDX-License-Identifier: BSD-2-Clause
/*
 * The layout of an FDR log: places the chunks of all threads in the final file, in their order of arrival.
 *
 * Version 1. The file is a sequence of buffers of one size S. A buffer is opened when a thread needs one. llvm-xray
 * does not skip the bytes after EndOfBuffer but reads them as records. So one custom event covers the rest of each
 * buffer; its payload is a hole in the file. A thread's chunks are packed whole and in order. If the next chunk, of at
 * most C bytes, does not fit into the P bytes of a buffer, the buffer contains more than P - C bytes and is closed.
 * With P >= B / 16 + C, 16 buffers contain more than the thread's B bytes, so no thread opens a 17th buffer.
 *
 * Version 5. The file is a sequence of blocks, one per thread. Their offsets follow from the announced sums.
 */
#include "format/fdr.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "format/fdr_put.h"

#define BUFFERS_PER_THREAD_MAX 16
/* The shortest custom event: its header and one byte. */
#define PADDING_BYTES_MIN (XP_FDR_METADATA_BYTES + 1)
/* The size of an event is an int32; larger padding requires several events. */
#define PADDING_BYTES_MAX (1u << 30)
/* The longest start of a buffer: 7 metadata records and the name. */
#define HEAD_BYTES_MAX (7 * XP_FDR_METADATA_BYTES + XP_FDR_NAME_BYTES_MAX)

struct thread {
	int32_t pid;
	int32_t tid;
	uint64_t first_tsc;
	char *name;
	size_t name_bytes;
	uint64_t bytes_left; /* announced bytes that are not placed yet */
	uint32_t chunk_bytes_max;
	bool open;
	bool begun;
	uint64_t block;	  /* version 5: start of the thread's block */
	uint64_t pos;	  /* place of the next chunk in the file */
	uint64_t limit;	  /* end of the chunks in the open buffer */
	uint64_t wall_ns; /* wall time of the last buffer, so that no later buffer appears older */
};

struct xp_fdr_layout {
	int fd;
	struct xp_fdr_layout_options options;
	uint64_t file_bytes; /* end of the buffers opened so far (version 1) or of all blocks (version 5) */
	size_t count;
	struct thread threads[];
};

static bool is_v1(const struct xp_fdr_layout *layout)
{
	return layout->options.header.version == 1;
}

static int place(struct xp_fdr_layout *layout, const void *data, size_t size, uint64_t offset)
{
	for (;;) {
		int err = xp_pwrite_all(layout->fd, data, size, offset);

		if ((err != -ENOSPC && err != -EDQUOT) || !layout->options.retry)
			return err;
		if (layout->options.retry(layout->options.retry_arg))
			return err;
	}
}

static uint64_t wall_at(const struct xp_fdr_layout *layout, uint64_t tsc)
{
	const struct xp_fdr_layout_options *options = &layout->options;
	unsigned __int128 ns;

	if (tsc <= options->start_tsc)
		return options->wall_ns;
	ns = (unsigned __int128)(tsc - options->start_tsc) * 1000000000 / options->header.cycle_hz + options->wall_ns;
	return ns > UINT64_MAX ? UINT64_MAX : (uint64_t)ns;
}

/* Bytes in a thread's first buffer (or block) before its first chunk, without BufferExtents. */
static size_t first_head_bytes(const struct xp_fdr_layout *layout, const struct thread *thread)
{
	size_t records = is_v1(layout) ? 5 : 6; /* NewBuffer WallClock [Pid] NewCPUId CustomEvent TSCWrap */

	return records * XP_FDR_METADATA_BYTES + thread->name_bytes;
}

static uint8_t *put_buffer_start(const struct xp_fdr_layout *layout, struct thread *thread, uint8_t *p, uint64_t tsc)
{
	thread->wall_ns = XP_MAX(thread->wall_ns, wall_at(layout, tsc));
	xp_fdr_put_new_buffer(p, thread->tid);
	p += XP_FDR_METADATA_BYTES;
	xp_fdr_put_wall_clock(p, thread->wall_ns);
	p += XP_FDR_METADATA_BYTES;
	if (!is_v1(layout)) {
		xp_fdr_put_pid(p, thread->pid);
		p += XP_FDR_METADATA_BYTES;
	}
	return p;
}

/* NewCPUId(start) CustomEvent(name) TSCWrap(first): fdr.h gives the reason. */
static uint8_t *put_first_records(const struct xp_fdr_layout *layout, const struct thread *thread, uint8_t *p)
{
	xp_fdr_put_new_cpu(p, 0, layout->options.start_tsc);
	p += XP_FDR_METADATA_BYTES;
	if (is_v1(layout))
		xp_fdr_put_custom_v1(p, thread->name_bytes, layout->options.start_tsc);
	else
		xp_fdr_put_custom_v5(p, thread->name_bytes, 0);
	p += XP_FDR_METADATA_BYTES;
	memcpy(p, thread->name, thread->name_bytes);
	p += thread->name_bytes;
	xp_fdr_put_tsc_wrap(p, thread->first_tsc);
	return p + XP_FDR_METADATA_BYTES;
}

/* Opens a buffer. tsc: TSC of the next chunk. A thread's first buffer has the start of the recording instead. */
static int buffer_open(struct xp_fdr_layout *layout, struct thread *thread, uint64_t tsc)
{
	uint64_t buffer_bytes = layout->options.header.buffer_bytes;
	uint8_t head[HEAD_BYTES_MAX];
	uint8_t *p = head;
	uint64_t start;
	int err;

	if (is_v1(layout)) {
		start = layout->file_bytes;
		thread->limit = start + buffer_bytes - XP_FDR_METADATA_BYTES - PADDING_BYTES_MIN;
	} else {
		start = thread->block;
		thread->limit = start + XP_FDR_METADATA_BYTES + first_head_bytes(layout, thread) + thread->bytes_left;
		xp_fdr_put_extents(p, thread->limit - start - XP_FDR_METADATA_BYTES);
		p += XP_FDR_METADATA_BYTES;
	}
	p = put_buffer_start(layout, thread, p, thread->begun ? tsc : layout->options.start_tsc);
	if (!thread->begun)
		p = put_first_records(layout, thread, p);
	err = place(layout, head, p - head, start);
	if (err)
		return err;
	if (is_v1(layout))
		layout->file_bytes += buffer_bytes;
	thread->pos = start + (p - head);
	thread->open = true;
	thread->begun = true;
	return 0;
}

/* Fills the range from `from` to `to` with custom events. Their payload is not written, so it is a hole. */
static int place_padding(struct xp_fdr_layout *layout, uint64_t from, uint64_t to)
{
	uint8_t record[XP_FDR_METADATA_BYTES];

	while (from < to) {
		uint64_t bytes = to - from;
		int err;

		if (bytes >
		    PADDING_BYTES_MAX) /* the next event gets the rest, which has more than PADDING_BYTES_MIN bytes */
			bytes = PADDING_BYTES_MAX - PADDING_BYTES_MIN;
		xp_fdr_put_custom_v1(record, bytes - XP_FDR_METADATA_BYTES, layout->options.start_tsc);
		err = place(layout, record, sizeof(record), from);
		if (err)
			return err;
		from += bytes;
	}
	return 0;
}

static int buffer_close(struct xp_fdr_layout *layout, struct thread *thread)
{
	uint8_t record[XP_FDR_METADATA_BYTES];
	int err;

	if (!thread->open)
		return 0;
	thread->open = false;
	if (!is_v1(layout))
		return 0;
	xp_fdr_put_end_of_buffer(record);
	err = place(layout, record, sizeof(record), thread->pos);
	if (err)
		return err;
	return place_padding(layout, thread->pos + XP_FDR_METADATA_BYTES,
			     thread->limit + XP_FDR_METADATA_BYTES + PADDING_BYTES_MIN);
}

/* Version 1: computes the buffer size with which each thread's bytes fit into BUFFERS_PER_THREAD_MAX buffers. */
static int plan_buffers(struct xp_fdr_layout *layout)
{
	uint64_t buffer_bytes = 0;

	for (size_t i = 0; i < layout->count; i++) {
		const struct thread *thread = &layout->threads[i];
		/*
		 * Only the first buffer has the longer head, but all buffers have the same size, so it counts for all.
		 */
		uint64_t bytes = first_head_bytes(layout, thread) + XP_FDR_METADATA_BYTES + PADDING_BYTES_MIN +
				 thread->bytes_left / BUFFERS_PER_THREAD_MAX + 1 +
				 XP_MIN(thread->bytes_left, thread->chunk_bytes_max);

		buffer_bytes = XP_MAX(buffer_bytes, bytes);
	}
	buffer_bytes = (buffer_bytes + 7) & ~(uint64_t)7;
	if (buffer_bytes > (uint64_t)INT64_MAX / BUFFERS_PER_THREAD_MAX / (layout->count + 1))
		return -EFBIG;
	layout->options.header.buffer_bytes = buffer_bytes;
	layout->file_bytes = XP_FDR_HEADER_BYTES;
	return 0;
}

/* Version 5: computes the places of the blocks. */
static int plan_blocks(struct xp_fdr_layout *layout)
{
	uint64_t pos = XP_FDR_HEADER_BYTES;
	uint64_t longest = 0;

	for (size_t i = 0; i < layout->count; i++) {
		struct thread *thread = &layout->threads[i];
		uint64_t bytes = XP_FDR_METADATA_BYTES + first_head_bytes(layout, thread) + thread->bytes_left;

		if (bytes > INT64_MAX - pos)
			return -EFBIG;
		thread->block = pos;
		pos += bytes;
		longest = XP_MAX(longest, bytes);
	}
	layout->options.header.buffer_bytes = longest;
	layout->file_bytes = pos;
	return 0;
}

static int place_header(struct xp_fdr_layout *layout)
{
	const struct xp_fdr_header *header = &layout->options.header;
	uint8_t bytes[XP_FDR_HEADER_BYTES] = { 0 };

	xp_fdr_put16(bytes, header->version);
	xp_fdr_put16(bytes + 2, 1); /* flight data recorder mode */
	xp_fdr_put32(bytes + 4, header->constant_tsc | header->nonstop_tsc << 1);
	xp_fdr_put64(bytes + 8, header->cycle_hz);
	xp_fdr_put64(bytes + 16, header->buffer_bytes);
	return place(layout, bytes, sizeof(bytes), 0);
}

static int thread_init(struct thread *thread, const struct xp_fdr_thread *from)
{
	const char *name = from->name ? from->name : "";

	/* An event's payload must have at least one byte. For an empty name, write the terminating zero. */
	thread->name_bytes = XP_MAX(strnlen(name, XP_FDR_NAME_BYTES_MAX), (size_t)1);
	thread->name = malloc(thread->name_bytes);
	if (!thread->name)
		return -ENOMEM;
	memcpy(thread->name, name, thread->name_bytes);
	if (from->chunk_bytes > INT64_MAX)
		return -EFBIG;
	thread->pid = from->pid;
	thread->tid = from->tid;
	thread->first_tsc = from->first_tsc;
	thread->bytes_left = from->chunk_bytes;
	thread->chunk_bytes_max = from->chunk_bytes_max;
	return 0;
}

int xp_fdr_layout_new(struct xp_fdr_layout **out, int fd, const struct xp_fdr_layout_options *options,
		      const struct xp_fdr_thread *threads, size_t count)
{
	const struct xp_fdr_thread nobody = {
		.pid = options->pid, .tid = options->pid, .name = "no events", .first_tsc = options->start_tsc
	};
	struct xp_fdr_layout *layout;
	int err = 0;

	*out = NULL;
	if ((options->header.version != 1 && options->header.version != 5) || !options->header.cycle_hz)
		return -EINVAL;
	if (!count) {
		threads = &nobody;
		count = 1;
	}
	if (count > (SIZE_MAX - sizeof(*layout)) / sizeof(layout->threads[0]))
		return -ENOMEM;
	layout = calloc(1, sizeof(*layout) + count * sizeof(layout->threads[0]));
	if (!layout)
		return -ENOMEM;
	layout->fd = fd;
	layout->options = *options;
	layout->count = count;
	for (size_t i = 0; i < count && !err; i++)
		err = thread_init(&layout->threads[i], &threads[i]);
	if (!err)
		err = is_v1(layout) ? plan_buffers(layout) : plan_blocks(layout);
	if (!err)
		err = place_header(layout);
	if (err) {
		xp_fdr_layout_free(layout);
		return err;
	}
	*out = layout;
	return 0;
}

int xp_fdr_layout_chunk(struct xp_fdr_layout *layout, size_t index, uint8_t *chunk, size_t len)
{
	struct thread *thread;
	int err;

	if (index >= layout->count)
		return -EINVAL;
	thread = &layout->threads[index];
	if (len > thread->bytes_left || len > thread->chunk_bytes_max)
		return -EINVAL;
	err = xp_fdr_chunk_scan(chunk, len, NULL);
	if (err)
		return err;
	if (!is_v1(layout))
		xp_fdr_chunk_to_v5(chunk, len);
	if (thread->open && len > thread->limit - thread->pos) {
		err = buffer_close(layout, thread);
		if (err)
			return err;
	}
	if (!thread->open) {
		err = buffer_open(layout, thread, xp_fdr_chunk_tsc(chunk));
		if (err)
			return err;
	}
	err = place(layout, chunk, len, thread->pos);
	if (err)
		return err;
	thread->pos += len;
	thread->bytes_left -= len;
	return 0;
}

int xp_fdr_layout_finish(struct xp_fdr_layout *layout)
{
	for (size_t i = 0; i < layout->count; i++) {
		struct thread *thread = &layout->threads[i];
		int err = 0;

		if (thread->bytes_left)
			return -EINVAL;
		if (!thread->begun)
			err = buffer_open(layout, thread, layout->options.start_tsc);
		if (!err)
			err = buffer_close(layout, thread);
		if (err)
			return err;
	}
	/* The last buffer may end in a hole. */
	return ftruncate(layout->fd, (off_t)layout->file_bytes) ? -errno : 0;
}

void xp_fdr_layout_free(struct xp_fdr_layout *layout)
{
	if (!layout)
		return;
	for (size_t i = 0; i < layout->count; i++)
		free(layout->threads[i].name);
	free(layout);
}
