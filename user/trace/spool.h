/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The spool: the FDR chunks of one process wait on disk until the recording ends, so that memory use does not grow with
 * the length of the recording. A spool is self-describing: xp_fdr_make() makes the log of it (export/logs.h), at the
 * end or after a crash.
 *
 * The format is private to xprof and in native byte order: a header of XP_SPOOL_HEADER_BYTES, then frames, each a small
 * checksummed header and one chunk (spool_format.h). Everything from the first incomplete frame on is ignored: each
 * thread then has a prefix of its records. The readers of the log accept a prefix, but not a gap.
 *
 * Functions return 0 or -errno. Nothing here prints.
 */
#ifndef XPROF_TRACE_SPOOL_H
#define XPROF_TRACE_SPOOL_H

#include <stdbool.h>
#include <stdint.h>

#include "format/fdr.h"
#include "format/spool_format.h"

struct xp_spool;

/*
 * Creates a file of mode 0600 in the directory dir_fd, and keeps a duplicate of dir_fd. Returns 0 or -errno: -EEXIST if
 * the file exists, -EINVAL if info does not fit an FDR log or final_name is not a plain file name.
 */
int xp_spool_create(struct xp_spool **spool, int dir_fd, const char *name, const struct xp_log_info *info);

/*
 * Copies and stores the encoder's chunk, at most XP_SPOOL_CHUNK_MAX bytes, for thread tid; the caller may reuse the
 * buffer afterwards. name: name of the thread, of which at most 15 bytes are kept; the last name goes into the log. If
 * a tid is reused for another thread, that thread continues the first one's buffers: a log holds at most 16 per tid.
 *
 * After an error (for example, a full disk) the spool accepts no more chunks. It keeps the complete chunks already
 * written; some accepted chunks may be lost. xp_fdr_make() reports what was kept.
 */
int xp_spool_append(struct xp_spool *spool, int32_t tid, const char *name, const struct xp_fdr_enc *enc);
/* Adds a note about an object: struct xp_spool_object, of at most XP_SPOOL_CHUNK_MAX bytes. Errors as above. */
int xp_spool_note(struct xp_spool *spool, const struct xp_spool_object *note, size_t bytes);
/* Writes the buffer (up to 256 KiB), so that a crash does not lose it. */
int xp_spool_flush(struct xp_spool *spool);
/* Returns the size of the stored data in bytes; the log has about the same size. */
uint64_t xp_spool_bytes(const struct xp_spool *spool);

/* Closes the spool without flushing it. NULL is allowed. */
void xp_spool_free(struct xp_spool *spool);
/* Like xp_spool_free(), if a child process of fork(2) continues the spool: the child keeps the lock. */
void xp_spool_leave(struct xp_spool *spool);
/* Like xp_spool_free(), and removes the file. */
void xp_spool_drop(struct xp_spool *spool);

#endif
