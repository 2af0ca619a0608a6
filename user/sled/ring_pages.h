/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frees the pages of the call rings after a recording. The process keeps the mapping, because a thread may still be in
 * the stub; at worst it writes to new pages.
 *
 * The process can block fallocate() on the file forever (see take_pages() in call_rings.c), so a child process calls
 * it. xprof waits up to 200 ms: a late child would erase records of the next recording. While a child hangs, xprof
 * starts no other child for the same user.
 */
#ifndef XPROF_SLED_RING_PAGES_H
#define XPROF_SLED_RING_PAGES_H

#include <stddef.h>

/* Maximum number of hanging children. */
#define XP_RING_PAGES_PENDING 16u

/* Frees the pages of the file. If no child can be started, the pages stay until the process exits. */
void xp_ring_pages_give_back(int fd);
/* Returns the number of hanging children. */
size_t xp_ring_pages_pending(void);

#endif
