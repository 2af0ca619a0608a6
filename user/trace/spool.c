// SPDX-License-Identifier: BSD-2-Clause
/* The spool's writer. */
#include "trace/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own_file.h"
#include "base/util.h"
#include "format/spool_format.h"

#define BUFFER_BYTES (256u << 10)
_Static_assert(BUFFER_BYTES >= XP_SPOOL_CHUNK_MAX + sizeof(struct xp_spool_frame), "a frame fits");

struct xp_spool {
	int dir_fd;
	int fd;
	char *name;
	int error;    /* error of the first write that failed: nothing is added after it */
	uint64_t pos; /* bytes in the file */
	size_t used;  /* bytes in the buffer */
	uint8_t buffer[BUFFER_BYTES];
};

static void copy_text(char *to, size_t to_size, const char *from)
{
	size_t len = from ? strnlen(from, to_size - 1) : 0;

	memcpy(to, from ? from : "", len);
	memset(to + len, 0, to_size - len);
}

static int header_write(int fd, const struct xp_log_info *info)
{
	struct xp_spool_header *header;
	int err;

	header = calloc(1, XP_SPOOL_HEADER_BYTES);
	if (!header)
		return -ENOMEM;
	memcpy(header->magic, XP_SPOOL_MAGIC, sizeof(header->magic));
	header->version = XP_SPOOL_VERSION;
	header->pid = info->pid;
	header->cycle_hz = info->cycle_hz;
	header->start_tsc = info->start_tsc;
	header->wall_ns = info->wall_ns;
	header->fdr_version = info->fdr_version;
	header->flags = (info->constant_tsc ? XP_SPOOL_CONSTANT_TSC : 0) |
			(info->nonstop_tsc ? XP_SPOOL_NONSTOP_TSC : 0) | (info->names_only ? XP_SPOOL_NAMES_ONLY : 0);
	copy_text(header->comm, sizeof(header->comm), info->comm);
	copy_text(header->final_name, sizeof(header->final_name), info->final_name);
	copy_text(header->exe, sizeof(header->exe), info->exe);
	header->check = xp_spool_header_check(header);
	err = xp_pwrite_all(fd, header, XP_SPOOL_HEADER_BYTES, 0);
	free(header);
	return err;
}

int xp_spool_create(struct xp_spool **out, int dir_fd, const char *name, const struct xp_log_info *info)
{
	struct xp_spool *spool;
	int err = 0;

	*out = NULL;
	if (!xp_spool_name_valid(name) || !xp_spool_info_valid(info, name))
		return -EINVAL;
	spool = calloc(1, sizeof(*spool));
	if (!spool)
		return -ENOMEM;
	spool->fd = -1;
	spool->dir_fd = -1;
	spool->fd = xp_own_file_create(dir_fd, name, O_RDWR);
	if (spool->fd < 0) {
		err = spool->fd;
		goto fail;
	}
	/* The lock shows xp_fdr_make() that the recording is running. */
	if (flock(spool->fd, LOCK_EX | LOCK_NB))
		err = -errno;
	if (!err)
		err = header_write(spool->fd, info);
	spool->pos = XP_SPOOL_HEADER_BYTES;
	spool->name = strdup(name);
	spool->dir_fd = fcntl(dir_fd, F_DUPFD_CLOEXEC, 0);
	if (!err && !spool->name)
		err = -ENOMEM;
	if (!err && spool->dir_fd < 0)
		err = -errno;
	if (err) {
		unlinkat(dir_fd, name, 0);
		goto fail;
	}
	*out = spool;
	return 0;
fail:
	xp_spool_free(spool);
	return err;
}

/* Returns the size of the complete frames in the first `bytes` of the buffer. */
static size_t whole_frames(const struct xp_spool *spool, size_t bytes)
{
	size_t pos = 0;

	for (;;) {
		struct xp_spool_frame frame;

		if (bytes - pos < sizeof(frame))
			return pos;
		memcpy(&frame, spool->buffer + pos, sizeof(frame));
		if (bytes - pos - sizeof(frame) < frame.chunk_bytes)
			return pos;
		pos += sizeof(frame) + frame.chunk_bytes;
	}
}

/* Keeps the complete frames of a write that failed midway. */
static void cut_off(struct xp_spool *spool)
{
	struct stat st;

	if (!fstat(spool->fd, &st) && (uint64_t)st.st_size > spool->pos)
		spool->pos += whole_frames(spool, XP_MIN((uint64_t)st.st_size - spool->pos, spool->used));
	/* If this fails too, a reader detects the incomplete frame. */
	if (ftruncate(spool->fd, (off_t)spool->pos))
		return;
}

int xp_spool_flush(struct xp_spool *spool)
{
	int err = spool->error;

	if (err || !spool->used)
		return err;
	err = xp_pwrite_all(spool->fd, spool->buffer, spool->used, spool->pos);
	if (err) {
		spool->error = err;
		cut_off(spool);
	} else {
		spool->pos += spool->used;
	}
	spool->used = 0;
	return err;
}

uint64_t xp_spool_bytes(const struct xp_spool *spool)
{
	return spool->pos + spool->used;
}

/* Adds a frame and its chunk_bytes bytes. */
static int add_frame(struct xp_spool *spool, struct xp_spool_frame *frame, const void *bytes)
{
	int err = spool->error;

	if (!err && frame->chunk_bytes > XP_SPOOL_CHUNK_MAX)
		err = -EINVAL;
	if (!err && sizeof(*frame) + frame->chunk_bytes > BUFFER_BYTES - spool->used)
		err = xp_spool_flush(spool);
	if (err)
		return err;
	frame->check = xp_spool_frame_check(frame);
	memcpy(spool->buffer + spool->used, frame, sizeof(*frame));
	memcpy(spool->buffer + spool->used + sizeof(*frame), bytes, frame->chunk_bytes);
	spool->used += sizeof(*frame) + frame->chunk_bytes;
	return 0;
}

int xp_spool_append(struct xp_spool *spool, int32_t tid, const char *name, const struct xp_fdr_enc *enc)
{
	struct xp_spool_frame frame = {
		.magic = XP_SPOOL_FRAME_MAGIC,
		.tid = tid,
		.chunk_bytes = (uint32_t)XP_MIN(enc->len, UINT32_MAX),
		.flags = enc->has_typed ? XP_SPOOL_FRAME_TYPED : 0,
	};

	if (enc->len < XP_FDR_METADATA_BYTES)
		return -EINVAL;
	frame.first_tsc = xp_fdr_chunk_tsc(enc->buf);
	copy_text(frame.name, sizeof(frame.name), name);
	return add_frame(spool, &frame, enc->buf);
}

int xp_spool_note(struct xp_spool *spool, const struct xp_spool_object *note, size_t bytes)
{
	struct xp_spool_frame frame = {
		.magic = XP_SPOOL_NOTE_MAGIC,
		.chunk_bytes = (uint32_t)XP_MIN(bytes, UINT32_MAX),
		.flags = XP_SPOOL_NOTE_OBJECT,
		.first_tsc = crc32(0, (const Bytef *)note, bytes),
	};

	return add_frame(spool, &frame, note);
}

void xp_spool_drop(struct xp_spool *spool)
{
	if (spool)
		unlinkat(spool->dir_fd, spool->name, 0);
	xp_spool_free(spool);
}

void xp_spool_free(struct xp_spool *spool)
{
	/* A child that was just started may hold the descriptor a moment longer. */
	if (spool && spool->fd >= 0)
		flock(spool->fd, LOCK_UN);
	xp_spool_leave(spool);
}

void xp_spool_leave(struct xp_spool *spool)
{
	if (!spool)
		return;
	if (spool->fd >= 0)
		close(spool->fd);
	if (spool->dir_fd >= 0)
		close(spool->dir_fd);
	free(spool->name);
	free(spool);
}
