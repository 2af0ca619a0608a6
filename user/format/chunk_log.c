// SPDX-License-Identifier: BSD-2-Clause
#include "format/chunk_log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/util.h"
#include "format/fdr.h"

static struct xp_chunk_thread *add_thread(struct xp_chunk_log *log, const struct xp_chunk *chunk)
{
	uint32_t *place = xp_u64_map_add(&log->by_tid, (uint32_t)chunk->tid, log->thread_count);

	if (!place)
		return NULL;
	if (*place < log->thread_count)
		return &log->threads[*place];
	if (XP_ARRAY_RESERVE(log->threads, log->thread_room, log->thread_count + 1))
		return NULL;
	log->threads[log->thread_count] = (struct xp_chunk_thread){ .tid = chunk->tid, .first_tsc = chunk->first_tsc };
	return &log->threads[log->thread_count++];
}

int xp_chunk_log_add(struct xp_chunk_log *log, const struct xp_chunk *chunk)
{
	struct xp_chunk_thread *thread = add_thread(log, chunk);

	if (!thread)
		return -ENOMEM;
	if (chunk->name)
		memcpy(thread->name, chunk->name, strnlen(chunk->name, sizeof(thread->name) - 1) + 1);
	thread->name[sizeof(thread->name) - 1] = 0;
	thread->chunks++;
	thread->chunk_bytes += chunk->bytes;
	thread->chunk_bytes_max = XP_MAX(thread->chunk_bytes_max, chunk->bytes);
	log->has_typed |= chunk->has_typed;
	return 0;
}

void xp_chunk_log_clear(struct xp_chunk_log *log)
{
	free(log->threads);
	xp_u64_map_free(&log->by_tid);
	memset(log, 0, sizeof(*log));
}

static int begin(const struct xp_chunk_log *log, int fd, const struct xp_log_info *info,
		 const struct xp_chunk_source *source, struct xp_fdr_layout **layout)
{
	const struct xp_fdr_layout_options options = {
		.header = { .version = log->fdr_version,
			    .constant_tsc = info->constant_tsc,
			    .nonstop_tsc = info->nonstop_tsc,
			    .cycle_hz = info->cycle_hz },
		.pid = info->pid,
		.start_tsc = info->start_tsc,
		.wall_ns = info->wall_ns,
		.retry = source->free_space,
		.retry_arg = source->arg,
	};
	struct xp_fdr_thread *threads = calloc(log->thread_count + 1, sizeof(*threads));
	int err;

	if (!threads)
		return -ENOMEM;
	for (size_t i = 0; i < log->thread_count; i++) {
		const struct xp_chunk_thread *from = &log->threads[i];

		threads[i] = (struct xp_fdr_thread){
			.pid = info->pid,
			.tid = from->tid,
			.chunk_bytes = from->chunk_bytes,
			.chunk_bytes_max = from->chunk_bytes_max,
			.name = from->name,
			.first_tsc = from->first_tsc,
		};
	}
	err = xp_fdr_layout_new(layout, fd, &options, threads, log->thread_count);
	free(threads);
	return err;
}

static int place(const struct xp_chunk_log *log, struct xp_fdr_layout *layout, const struct xp_chunk_source *source)
{
	struct xp_chunk chunk;
	int more;

	while ((more = source->next(source->arg, &chunk)) > 0) {
		const uint32_t *index = xp_u64_map_find(&log->by_tid, (uint32_t)chunk.tid);
		int err = index ? xp_fdr_layout_chunk(layout, *index, chunk.data, chunk.bytes) : -EBADMSG;

		if (err)
			return err;
	}
	return more ? more : xp_fdr_layout_finish(layout);
}

int xp_chunk_log_write(struct xp_chunk_log *log, int fd, const struct xp_log_info *info,
		       const struct xp_chunk_source *source)
{
	struct xp_fdr_layout *layout = NULL;
	struct stat st;
	int err;

	log->fdr_version = log->has_typed ? 5 : info->fdr_version;
	err = begin(log, fd, info, source, &layout);
	if (!err)
		err = place(log, layout, source);
	xp_fdr_layout_free(layout);
	if (!err && fstat(fd, &st))
		err = -errno;
	if (!err)
		log->file_bytes = st.st_size;
	return err;
}
