/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes manifest.json for `xprof recover`, from the spools, which contain enough to name functions. Adds the recovered
 * logs to an existing manifest.
 */
#ifndef XPROF_RECORD_RECOVERED_H
#define XPROF_RECORD_RECOVERED_H

#include "trace/spool.h"

/* One recovered log. */
struct xp_recovered_log {
	struct xp_spool_result result;
	struct xp_recovered *all;	  /* the list that this log belongs to */
	struct xp_spool_object **objects; /* binaries, each as in the spool's note, with a terminated path */
	size_t object_count;
	size_t object_room;
};

/* Zeroed: none. */
struct xp_recovered {
	struct xp_recovered_log **logs;
	size_t count;
	size_t room;
	uint64_t object_bytes; /* size of the objects of all logs together */
};

/* Adds a log whose members are empty. Returns NULL if out of memory. */
struct xp_recovered_log *xp_recovered_add(struct xp_recovered *recovered);
/* Removes the log that was added last. */
void xp_recovered_drop(struct xp_recovered *recovered);
void xp_recovered_free(struct xp_recovered *recovered);

/* Limit on object_bytes: further binaries have no names. */
#define XP_RECOVERED_OBJECT_BYTES_MAX (64u << 20)
/*
 * For struct xp_spool_taker; arg is a struct xp_recovered_log. Ignores notes that are longer than xprof's own, and
 * notes beyond the memory limit: the spool is untrusted, and a sparse spool can be large without using disk space.
 */
int xp_recovered_take_note(void *arg, const uint8_t *bytes, size_t size);

/*
 * Writes or completes the manifest, unless there is no log. Adds the logs that flight recorders wrote before the
 * recording was interrupted. *flights: their number. Returns 0 or -errno.
 */
int xp_recovered_write(const struct xp_recovered *recovered, int dir_fd, size_t *flights);

#endif
