/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pushes the profiles of finished recordings to Pyroscope or Parca (record --push).
 *
 *	recording --> pprof of each service (push_pack.h) --> queue on disk (push_queue.h) --> sender (push_sender.h)
 *--> engine
 *
 * A process of its own does all this with the rights of the user (push_loop.h), so neither the engine nor the network
 * can delay or end a recording. It sends the profiles that an earlier run has left in the queue, too.
 */
#ifndef XPROF_PUSH_PUSHER_H
#define XPROF_PUSH_PUSHER_H

#include <stdbool.h>

#include "push/push_config.h"

struct xp_pusher;

/*
 * Starts the process. The secret is erased from config, which the caller keeps until the end. queue: the path of the
 * directory. become_user: gives up the privileges that the process must not have; returns 0 or -errno. Prints errors.
 * Returns 0 or -errno.
 */
int xp_pusher_start(struct xp_pusher **pusher, struct xp_push_config *config, const char *queue,
		    int (*become_user)(void));
/*
 * Hands over a recording that had its last step. Does not block: if the process is more than some hundred recordings
 * behind, the profiles of this one are not pushed, with a warning.
 */
void xp_pusher_add(struct xp_pusher *pusher, const char *directory);
/*
 * Waits for the profiles of the last recording and, for a bounded time (times.end_ms), for the queue; less if the
 * engine does not answer, or if is_interrupted() returns true. Prints the counts, and frees the pusher.
 */
void xp_pusher_finish(struct xp_pusher *pusher, bool (*is_interrupted)(void));

#endif
