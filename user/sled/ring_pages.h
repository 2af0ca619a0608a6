/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The pages of call rings go back to the system, while the process keeps its mapping: a thread may still be in the
 * stub. It writes to new pages then, at worst.
 *
 * A process can keep xprof from its file for ever, see take_pages() in call_rings.c. So a child gives the pages back.
 * xprof waits for it, so that the next recording does not lose its records, but for a fifth of a second at most; and a
 * user gets no other child as long as one hangs.
 */
#ifndef XPROF_SLED_RING_PAGES_H
#define XPROF_SLED_RING_PAGES_H

#include <stddef.h>

/* Limit on the children that hang. */
#define XP_RING_PAGES_PENDING 16u

/* fd: the file, of which all but the table goes. Without a child, the pages stay until the process ends. */
void xp_ring_pages_give_back(int fd);
/* How many children hang. */
size_t xp_ring_pages_pending(void);

#endif
