/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pushes the profiles of finished recordings to Pyroscope or Parca (record --push).
 *
 * recording --> pprof of each service (push_pack.h) --> queue on disk (push_queue.h) --> sender (push_sender.h) -->
 * engine
 *
 * A separate process does all this with the rights of the user (push_loop.h), so neither the engine nor the network
 * can delay or end a recording. It also sends profiles that an earlier run left in the queue.
 */
#ifndef XPROF_PUSH_PUSHER_H
#define XPROF_PUSH_PUSHER_H

#include <stdbool.h>

#include "push/push_config.h"

struct xp_pusher;

/*
 * Starts the process. Erases the secret from config; the caller keeps config until the end. queue: path of the
 * directory. become_user: drops privileges that the process must not have; returns 0 or -errno. Prints errors. Returns
 * 0 or -errno.
 */
int xp_pusher_start(struct xp_pusher **pusher, struct xp_push_config *config, const char *queue,
		    int (*become_user)(void));
/*
 * Passes on a complete recording. Does not block: if the process is several hundred recordings behind, warns and does
 * not push the profiles of this recording.
 */
void xp_pusher_add(struct xp_pusher *pusher, const char *directory);
/*
 * Waits for the profiles of the last recording and, for a bounded time (times.end_ms), until the queue is empty; ends
 * earlier if the engine does not answer, or if is_interrupted() returns true. Prints the counts, and frees the pusher.
 */
void xp_pusher_finish(struct xp_pusher *pusher, bool (*is_interrupted)(void));

#endif
