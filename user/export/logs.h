/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes the FDR log of a process from its spool: the last step of `record`, and the work of `recover` for an
 * interrupted recording. The directory of a recording may belong to another user, so both check the spool.
 *
 * On a full disk, the log uses the blocks of the spool: each part of the spool that was read into memory is punched out
 * before the log grows. The log may need slightly more space than the spool, because its buffers begin and end within
 * blocks. If the disk has less space, the tail of the spool is dropped. If another process uses the freed blocks, their
 * data is lost.
 */
#ifndef XPROF_EXPORT_LOGS_H
#define XPROF_EXPORT_LOGS_H

#include <stdint.h>

#include "format/spool_format.h"

/* Called for each note of a spool. Returns 0 or -errno, which ends the reading. */
struct xp_spool_taker {
	int (*take)(void *arg, const uint8_t *note, size_t bytes);
	void *arg;
};

/*
 * Lays out the complete frames of the spool `name` in dir_fd under a temporary name, then gives the log its final name
 * and, if run by root, the directory's owner, and removes the spool. On failure the spool remains. For a spool of names
 * (format/spool_format.h), makes no log, and file_bytes is 0. Returns 0 or -errno: -EBUSY if its recording is running,
 * -EBADMSG if it is not a spool, -ENODATA if a crash came before anything was stored (the empty file is then removed).
 * patience_ns: how long to wait for the spool's lock, see file_lock.h. taker: receives the notes; NULL: ignores them.
 */
int xp_fdr_make(int dir_fd, const char *name, uint64_t patience_ns, const struct xp_spool_taker *taker,
		struct xp_spool_result *result);

#endif
