/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The code of one process that belongs to no file, by time: which function was at an address when. Pure: sources
 * (jit/src_*.h) feed it, samples query it, and an observer receives all code in the order in which it arrived.
 *
 * Code that is loaded over other code ends all of the other code, even where it covers only a part of it. A late load
 * (with a time before that of the code which it replaces) counts from the start time of that code.
 */
#ifndef XPROF_JIT_CODE_H
#define XPROF_JIT_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "target/address_space.h"
#include "unwind/cfi_table.h"

#define XP_JIT_CODES_MAX (1u << 20)    /* loads of a process */
#define XP_JIT_SIZE_MAX (256ull << 20) /* of one function */
#define XP_JIT_NAME_BYTES_MAX 4096     /* a longer name is cut */

/* The line of the code from this address to the next entry. */
struct xp_jit_line {
	uint64_t address; /* in the process */
	uint32_t line;
	uint32_t discriminator;
	const char *file;
};

/* A piece of code, usually a function. The caller owns what it points to, which is used during the call only. */
struct xp_jit_load {
	uint64_t tsc;  /* load time; 0: before the recording */
	bool is_bound; /* tsc is only a lower bound. Where there was no other code, the code counts as always present.
			  Such code does not move */
	uint64_t start;
	uint64_t size;			 /* in bytes */
	const char *name;		 /* as in the target; it is cleaned here */
	const uint8_t *code;		 /* size bytes; NULL: unknown */
	const struct xp_jit_line *lines; /* in address order */
	size_t line_count;
	const uint8_t *eh_frame; /* as if it lay at start + size rounded up to 8; NULL: none */
	size_t eh_frame_bytes;
	const uint8_t *eh_frame_hdr; /* as if it lay directly after .eh_frame; NULL: none */
	size_t eh_frame_hdr_bytes;
};

/*
 * Receives each load and each move. A load has its name as kept and its tsc as kept, but not earlier than the memory
 * was mapped. Code that is already known is not reported again. A load with is_bound whose memory is missing in the
 * bound address space is reported once a bound address space has that memory, at the latest by xp_jit_code_settle().
 */
struct xp_jit_observer {
	void (*load)(void *arg, uint32_t index, const struct xp_jit_load *load);
	void (*move)(void *arg, uint32_t index, uint64_t tsc, uint64_t old_start, uint64_t new_start, uint64_t size);
	void *arg;
};

struct xp_jit_code;

/*
 * bytes_left: the memory that all registries of a recording may still take; it outlives this registry. A registry never
 * takes more than it leaves there: a single one gets half of the total, and each of n equally greedy ones an (n + 1)th.
 * It gives the memory back when it is freed. observer is copied; NULL: none. Returns 0 or -ENOMEM.
 */
int xp_jit_code_new(struct xp_jit_code **code, uint64_t *bytes_left, const struct xp_jit_observer *observer);
void xp_jit_code_free(struct xp_jit_code *code);
/*
 * Sets the address space of the process; call it when that changes. space outlives the registry. From this call on,
 * code inside a file's mapping is refused (-EINVAL): it belongs to the file, even if a perf map contains it.
 */
void xp_jit_code_bind(struct xp_jit_code *code, const struct xp_address_space *space);
/* No more code will arrive: reports all deferred code to the observer. */
void xp_jit_code_settle(struct xp_jit_code *code);

/* Whether code can be there at all. If not, a load would be refused, so its bytes need not be read. */
bool xp_jit_code_can_be(const struct xp_jit_code *code, uint64_t start, uint64_t size);
/*
 * index: of the code, from 0, one more for each; may be NULL. Code that is already there with the same range, name and
 * bytes keeps its index. Returns 0 or -errno: -EINVAL if the range is impossible, -ENOSPC if there is no space for more
 * (counted as refused), -ENOMEM. On an error nothing has changed.
 */
int xp_jit_code_load(struct xp_jit_code *code, const struct xp_jit_load *load, uint32_t *index);
/*
 * The code is at new_start from tsc on. Returns 0 or -errno: -ENOENT if the code is not loaded (any more), or the
 * errors of a load.
 */
int xp_jit_code_move(struct xp_jit_code *code, uint32_t index, uint64_t tsc, uint64_t new_start);
/* The code is gone. Returns 0 or -errno: -ENOENT, -ENOMEM. */
int xp_jit_code_unload(struct xp_jit_code *code, uint32_t index, uint64_t tsc);

struct xp_jit_range {
	uint32_t index;
	uint64_t start; /* at that time */
	uint64_t size;
	const char *name; /* lives as long as the registry */
};

/*
 * Finds the code that was at the address at that time. Returns false if none is known. Takes O(log n) steps, and one
 * more for each later replacement of the code there; after many steps it gives up.
 */
bool xp_jit_code_find(const struct xp_jit_code *code, uint64_t address, uint64_t tsc, struct xp_jit_range *range);

/*
 * Finds how to unwind from this address at that time. Where the code's unwinding data has no rule, and without such
 * data, the row's rule is XP_CFI_NONE. Returns false if no code is known there.
 */
bool xp_jit_code_find_rule(const struct xp_jit_code *code, uint64_t address, uint64_t tsc, struct xp_cfi_found *found);
/* Whether some code has unwinding data. */
bool xp_jit_code_has_rules(const struct xp_jit_code *code);

/* Returns the number of codes, which is also the next index. */
uint32_t xp_jit_code_count(const struct xp_jit_code *code);
/* Loads refused for lack of space. */
uint64_t xp_jit_code_refused(const struct xp_jit_code *code);

#endif
