/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The JIT code of one process over time: which function was at an address at which time. Pure: sources (jit/src_*.h)
 * add code, samples look it up, and an observer receives all code in order of arrival.
 *
 * Code that is loaded over other code ends all of the other code, even if it covers only a part. If a load is reported
 * late, with a time before the start of the code that it replaces, it counts from that start.
 */
#ifndef XPROF_JIT_CODE_H
#define XPROF_JIT_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "target/address_space.h"
#include "unwind/cfi_fdes.h"

#define XP_JIT_CODES_MAX (1u << 20)    /* maximum number of loads of a process */
#define XP_JIT_SIZE_MAX (256ull << 20) /* maximum size of a function */
#define XP_JIT_NAME_BYTES_MAX 4096     /* longer names are truncated */

/* The source line of the code from this address to the address of the next entry. */
struct xp_jit_line {
	uint64_t address; /* in the process */
	uint32_t line;
	uint32_t discriminator;
	const char *file;
};

/*
 * A piece of code, usually a function. The caller owns the data that the pointers refer to; it is used only during the
 * call.
 */
struct xp_jit_load {
	uint64_t tsc;  /* load time; 0: before the recording */
	bool is_bound; /* true: tsc is only a lower bound. Where there was no other code, the code counts as always
			  present. Such code does not move */
	uint64_t start;
	uint64_t size;			 /* in bytes */
	const char *name;		 /* as in the target; this module cleans it */
	const uint8_t *code;		 /* size bytes; NULL: unknown */
	const struct xp_jit_line *lines; /* in address order */
	size_t line_count;
	const struct xp_cfi_fdes *unwinding; /* unwind entries, perhaps also of other code; NULL: none */
};

/*
 * Receives each load and each move. name and tsc of a load are those in the registry, but tsc is not before the memory
 * was mapped. Known code is not reported again. If is_bound is set and the bound address space lacks the memory of the
 * load, the report is deferred until a bound address space has that memory, at the latest until xp_jit_code_settle().
 */
struct xp_jit_observer {
	void (*load)(void *arg, uint32_t index, const struct xp_jit_load *load);
	void (*move)(void *arg, uint32_t index, uint64_t tsc, uint64_t old_start, uint64_t new_start, uint64_t size);
	void *arg;
};

struct xp_jit_code;

/*
 * bytes_left: the memory that all registries of a recording may still take; it outlives this registry. A registry never
 * takes more than it leaves there: one registry gets at most half, and n equally large ones get an (n + 1)th each. It
 * returns the memory when it is freed. observer is copied; NULL: none. Returns 0 or -ENOMEM.
 */
int xp_jit_code_new(struct xp_jit_code **code, uint64_t *bytes_left, const struct xp_jit_observer *observer);
void xp_jit_code_free(struct xp_jit_code *code);
/*
 * Sets the address space of the process. Call this after each change. space outlives the registry. From this call on,
 * code inside a file's mapping is rejected (-EINVAL): it belongs to the file, even if a perf map contains it.
 */
void xp_jit_code_bind(struct xp_jit_code *code, const struct xp_address_space *space);
/* Reports all deferred code to the observer. Call this when no more code will arrive. */
void xp_jit_code_settle(struct xp_jit_code *code);

/* Returns whether code can be at this range. If not, a load would fail, so do not read its bytes. */
bool xp_jit_code_can_be(const struct xp_jit_code *code, uint64_t start, uint64_t size);
/*
 * Adds code. Sets *index (may be NULL) to the index of the code: 0, 1, and so on. Known code with the same range, name
 * and bytes keeps its index. Returns 0 or -errno: -EINVAL if the range is impossible, -ENOSPC if there is no space
 * (counted as refused), -ENOMEM. An error changes nothing.
 */
int xp_jit_code_load(struct xp_jit_code *code, const struct xp_jit_load *load, uint32_t *index);
/*
 * Moves the code to new_start at time tsc. Returns 0 or -errno: -ENOENT if the code is not loaded, or the errors of a
 * load.
 */
int xp_jit_code_move(struct xp_jit_code *code, uint32_t index, uint64_t tsc, uint64_t new_start);
/* Removes the code at time tsc. Returns 0 or -errno: -ENOENT, -ENOMEM. */
int xp_jit_code_unload(struct xp_jit_code *code, uint32_t index, uint64_t tsc);

struct xp_jit_range {
	uint32_t index;
	uint64_t start; /* at that time */
	uint64_t size;
	const char *name; /* valid as long as the registry */
};

/*
 * Finds the code that was at the address at that time. Returns false if none is known. Takes O(log n) steps, plus one
 * per later replacement of the code; gives up after many steps.
 */
bool xp_jit_code_find(const struct xp_jit_code *code, uint64_t address, uint64_t tsc, struct xp_jit_range *range);

/*
 * Finds the rule to unwind from this address at that time. If the code has no unwinding data, or no rule for the
 * address, the row's rule is XP_CFI_NONE. Returns false if no code is known there.
 */
bool xp_jit_code_find_rule(const struct xp_jit_code *code, uint64_t address, uint64_t tsc, struct xp_cfi_found *found);
/* Returns whether some code has unwinding data. */
bool xp_jit_code_has_rules(const struct xp_jit_code *code);

/* Returns the number of codes, which is also the next index. */
uint32_t xp_jit_code_count(const struct xp_jit_code *code);
/* Returns the number of loads that were rejected for lack of space. */
uint64_t xp_jit_code_refused(const struct xp_jit_code *code);

#endif
