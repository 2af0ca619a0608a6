/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The spool: where the FDR chunks of one process wait on disk until the recording ends, so that memory does not grow
 * with its length. A spool describes itself: after a crash xp_spool_recover() makes of it what xp_spool_finish() would
 * have made.
 *
 * The format is private to xprof and of the machine's byte order: a header of XP_SPOOL_HEADER_BYTES, then frames, each
 * a small checked header and one chunk (spool_format.h). What follows the first frame that is not whole is not used:
 * every thread then has a prefix of its records, which the readers of the log accept, while a gap they would not.
 *
 * Errors: 0 or a negative errno. Nothing here prints.
 */
#ifndef XPROF_SPOOL_H
#define XPROF_SPOOL_H

#include <stdbool.h>
#include <stdint.h>

#include "format/fdr.h"
#include "base/log_file.h"

#define XP_SPOOL_SUFFIX ".spool" /* of every spool's name, for `xprof recover` */
#define XP_SPOOL_CHUNK_MAX (128u << 10)
#define XP_SPOOL_NAME_MAX XP_LOG_NAME_MAX

struct xp_spool_info {
	int32_t pid;
	uint16_t fdr_version; /* wanted: 1 or 5. Typed events make it 5 */
	bool constant_tsc;
	bool nonstop_tsc;
	uint64_t cycle_hz;
	uint64_t start_tsc; /* of the recording */
	uint64_t wall_ns;   /* CLOCK_REALTIME at start_tsc */
	const char *comm;
	const char *exe;	/* path of the executable */
	const char *final_name; /* of the log, in the spool's directory */
};

struct xp_spool_result {
	char final_name[XP_SPOOL_NAME_MAX + 1];
	char exe[4096];
	char comm[16];
	int32_t pid;
	uint16_t fdr_version; /* of the log */
	uint32_t threads;
	struct xp_fdr_chunk_stats stats; /* what is in the log */
	uint64_t file_bytes;		 /* of the log, holes included */
	uint64_t dropped_bytes;		 /* of the spool: a frame cut off, or its tail, to make room on a full disk */
};

struct xp_spool;

/*
 * A new file of mode 0600 in the directory dir_fd, of which the spool keeps a duplicate. -EEXIST when there is one.
 * -EINVAL when info cannot be written to an FDR log or final_name is no plain file name.
 */
int xp_spool_create(struct xp_spool **spool, int dir_fd, const char *name, const struct xp_spool_info *info);

/*
 * Stores the encoder's chunk, at most XP_SPOOL_CHUNK_MAX bytes, for the thread tid, and takes a copy: the buffer is the
 * caller's at once. name: the thread's, at most 15 bytes are kept; the last one given goes to the log. A tid that was
 * given to another thread later continues the first one's buffers: a log holds at most 16 for each tid.
 * After an error (a full disk, say) the spool takes no more chunks and keeps those that were written whole; some of
 * those that were accepted before may be lost with it. xp_spool_finish() tells what came through.
 */
int xp_spool_append(struct xp_spool *spool, int32_t tid, const char *name, const struct xp_fdr_enc *enc);
/* Writes what is buffered (up to 256 KiB), so that a crash does not lose it. */
int xp_spool_flush(struct xp_spool *spool);
/* What has been stored, in bytes; its log is about as long. */
uint64_t xp_spool_bytes(const struct xp_spool *spool);

/*
 * Lays out the log under a temporary name, gives it its final name and, when root does it, the directory's owner, and
 * removes the spool. When that fails the spool
 * stays, for xp_spool_recover(). On a full disk the spool gives its blocks to the log as it goes; if others then take
 * what it has freed, what was given is lost.
 * An error that xp_spool_append() has reported does not make this fail.
 */
int xp_spool_finish(struct xp_spool *spool, struct xp_spool_result *result);
void xp_spool_free(struct xp_spool *spool);

/*
 * The same for a spool that a crash has left. -EBUSY while its recording is running, -EBADMSG when it is no spool,
 * -ENODATA when the crash came before anything was stored: then the empty file is removed. patience_ns: for its lock,
 * see file_lock.h.
 */
int xp_spool_recover(int dir_fd, const char *name, uint64_t patience_ns, struct xp_spool_result *result);

#endif
