/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory that xprof shares with an untrusted process, such as a sealed memfd. Seals keep the process from making the
 * file shorter, but not from giving its pages back (MADV_REMOVE, fallocate()). The next access makes a new page; if
 * there is none, the kernel sends SIGBUS: with vm.overcommit_memory 2 at its limit, or on a full file system
 * (shmem_inode_acct_blocks() in mm/shmem.c), or for a page of broken memory. Here that page is replaced by one that
 * xprof has for this purpose, and the memory counts as torn: its owner stops using it.
 */
#ifndef XPROF_BASE_SHARED_PAGES_H
#define XPROF_BASE_SHARED_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A mapping, of whole pages. */
struct xp_shared_pages {
	uint8_t *start;
	size_t bytes;
	volatile bool torn; /* pages are missing; what is read from them is zero, or what was written to one of them */
	struct xp_shared_pages *next;
};

/*
 * From now on missing pages do not end xprof, in any of its threads that does not block SIGBUS. Not for several threads
 * at the same time. Returns 0 or -errno. The caller keeps the structure until xp_shared_pages_forget(), and then unmaps
 * the memory.
 */
int xp_shared_pages_guard(struct xp_shared_pages *pages);
void xp_shared_pages_forget(struct xp_shared_pages *pages);

#endif
