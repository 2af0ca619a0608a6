/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes a log from a spool. On a full disk the log takes over the spool's blocks: the part of the spool that was read
 * into memory is punched out before the log grows. The log may need slightly more room than the spool, since its
 * buffers begin and end within blocks. If the disk has less than that left, the spool's tail is dropped.
 */
#ifndef XPROF_TRACE_SPOOL_LAYOUT_H
#define XPROF_TRACE_SPOOL_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "trace/spool.h"
#include "trace/spool_format.h"

/* Called for each note of a spool. Returns 0 or -errno, which ends the reading. */
struct xp_spool_taker {
	int (*take)(void *arg, const uint8_t *note, size_t bytes);
	void *arg;
};

/*
 * Lays out the complete frames of spool fd, named `name`, in dir_fd, and removes the spool. trusted: its chunks are
 * known to be well formed. taker: for the notes of a spool that is not trusted; NULL: none. Returns 0 or -errno.
 */
int xp_spool_lay_out(int dir_fd, const char *name, int fd, bool trusted, const struct xp_spool_taker *taker,
		     struct xp_spool_result *result);

/*
 * The same for a spool that a crash has left, as xp_spool_finish() would have done it. Returns 0 or -errno: -EBUSY if
 * its recording is running, -EBADMSG if it is not a spool, -ENODATA if the crash came before anything was stored (the
 * empty file is then removed). patience_ns: how long to wait for its lock, see file_lock.h. taker: called for the
 * notes; NULL: none. The spool of a flight recorder has nothing but notes: no log is made, and file_bytes is 0.
 */
int xp_spool_recover(int dir_fd, const char *name, uint64_t patience_ns, const struct xp_spool_taker *taker,
		     struct xp_spool_result *result);

#endif
