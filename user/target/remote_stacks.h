/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Collects the addresses at which the threads of a stopped process may continue: their instruction pointers, and all
 * words of their stacks that point to code, such as return addresses and code that a signal interrupted. Reads each
 * stack from the stack pointer to the end of its mapping. If a handler runs on an alternate stack, reads the stack that
 * it interrupted, too.
 *
 * The handler of a timer's signal may switch to another stack: coroutines are then preempted at any instruction, and
 * continue there. If the process handles such a signal, reads all its private writable memory. A process that died of
 * SIGSEGV within eight recordings without this search (tests/live/programs/preempted.c) works with it.
 */
#ifndef XPROF_TARGET_REMOTE_STACKS_H
#define XPROF_TARGET_REMOTE_STACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "target/remote.h"

struct xp_code_pointers {
	uint64_t start; /* only pointers in [start, end) count */
	uint64_t end;
	bool is_restoring;  /* an interruption does not end the search */
	uint64_t bytes_max; /* maximum to read; 0: 128 MiB, which take 50 ms, or 2 GiB when restoring */
	uint64_t *list;	    /* ascending; the caller frees it */
	size_t count;
	size_t room;
};

/*
 * Finds the code pointers. Returns 0 or -errno, after which some may be missing: -E2BIG if more than bytes_max would
 * have to be read, -EFAULT if a thread has no stack, -ECANCELED (interrupt.h), or an error of reading.
 */
int xp_code_pointers_find(struct xp_code_pointers *pointers, struct xp_remote *remote);
/* Returns whether a pointer is greater than start and less than end. */
bool xp_code_pointers_are_in(const struct xp_code_pointers *pointers, uint64_t start, uint64_t end);

#endif
