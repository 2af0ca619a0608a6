/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory that xprof shares with an untrusted process, such as a sealed memfd. Seals prevent the process from shrinking
 * the file, but not from freeing its pages (MADV_REMOVE, fallocate()). The next access allocates a page. If that fails,
 * the kernel sends SIGBUS: with vm.overcommit_memory 2 at its limit, on a full file system (shmem_inode_acct_blocks()
 * in mm/shmem.c), or if the memory is faulty. The handler then maps a spare page there and marks the memory as torn,
 * and its owner stops using it.
 */
#ifndef XPROF_BASE_SHARED_PAGES_H
#define XPROF_BASE_SHARED_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A mapping of whole pages. */
struct xp_shared_pages {
	uint8_t *start;
	size_t bytes;
	volatile bool torn; /* pages are missing: reads return zero, or what was written to the spare page */
	struct xp_shared_pages *next;
};

/*
 * Guards the memory: a missing page no longer ends xprof, except in a thread that blocks SIGBUS. Not thread-safe.
 * Returns 0 or -errno. The caller keeps the structure until xp_shared_pages_forget(), and then unmaps the memory.
 */
int xp_shared_pages_guard(struct xp_shared_pages *pages);
void xp_shared_pages_forget(struct xp_shared_pages *pages);

#endif
