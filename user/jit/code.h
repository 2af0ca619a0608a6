/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The JIT code of one process over time: which function was at an address at which time. Sources (jit/src_*.h) add
 * code, samples look code up, and an observer receives all code in order of arrival. The module makes no system calls.
 *
 * Code that is loaded over other code ends all of the other code, even if it covers only a part of the other code. If a
 * load has an earlier time than the code that it replaces, the load counts from the start of that code.
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

/* The source line of the code between `address` and the address of the next entry. */
struct xp_jit_line {
	uint64_t address; /* in the process */
	uint32_t line;
	uint32_t discriminator;
	const char *file;
};

/*
 * A piece of code, usually a function. The caller owns the data behind the pointers. A call reads the data and keeps no
 * pointer to it.
 */
struct xp_jit_load {
	uint64_t tsc; /* load time; 0: before the recording */
	/*
	 * true: tsc is only a lower bound. If there was no other code in the range before, the code counts as always
	 * present. Such code does not move
	 */
	bool is_bound;
	uint64_t start;
	uint64_t size;			 /* in bytes */
	const char *name;		 /* as in the target; xp_jit_code_load() cleans it */
	const uint8_t *code;		 /* size bytes; NULL: unknown */
	const struct xp_jit_line *lines; /* in address order */
	size_t line_count;
	const struct xp_cfi_fdes *unwinding; /* unwind entries; may include entries of other code; NULL: none */
};

/*
 * Receives each load and each move. name and tsc of a load are the values in the registry, but tsc is never before the
 * memory was mapped. Known code is not reported again. If is_bound is set and the bound address space lacks the memory
 * of the load, the report is deferred: until a bound address space has that memory, or until xp_jit_code_settle().
 */
struct xp_jit_observer {
	void (*load)(void *arg, uint32_t index, const struct xp_jit_load *load);
	void (*move)(void *arg, uint32_t index, uint64_t tsc, uint64_t old_start, uint64_t new_start, uint64_t size);
	void *arg;
};

struct xp_jit_code;

/*
 * Creates a registry. bytes_left: the memory budget that all registries of a recording share; it must outlive the
 * registry. A registry may not hold more memory than remains in the budget. So one registry gets at most half of the
 * budget, and n equally large registries get 1/(n + 1) each. xp_jit_code_free() returns the memory to the budget.
 * observer is copied; NULL: none. Returns 0 or -ENOMEM.
 */
int xp_jit_code_new(struct xp_jit_code **code, uint64_t *bytes_left, const struct xp_jit_observer *observer);
void xp_jit_code_free(struct xp_jit_code *code);
/*
 * Sets the address space of the process. Call this after each change of the address space. space must outlive the
 * registry. After this call, code inside the mapping of a file is rejected (-EINVAL), because it is code of the file,
 * even if a perf map contains it.
 */
void xp_jit_code_bind(struct xp_jit_code *code, const struct xp_address_space *space);
/* Reports all deferred code to the observer. Call this when no more code will arrive. */
void xp_jit_code_settle(struct xp_jit_code *code);

/*
 * Returns whether code can be at this range. If this returns false, xp_jit_code_load() would fail, so the caller need
 * not read the code bytes.
 */
bool xp_jit_code_can_be(const struct xp_jit_code *code, uint64_t start, uint64_t size);
/*
 * Adds code. Sets *index (may be NULL) to the index of the code: 0, 1, and so on. Known code with the same range, name
 * and bytes keeps its index. Returns 0 or -errno: -EINVAL if the range is impossible, -ENOSPC if a limit is reached
 * (xp_jit_code_refused() counts this), or -ENOMEM. A failed call changes nothing.
 */
int xp_jit_code_load(struct xp_jit_code *code, const struct xp_jit_load *load, uint32_t *index);
/*
 * Moves the code to new_start at time tsc. Returns 0 or -errno: -ENOENT if the code is not loaded, or an error of
 * xp_jit_code_load().
 */
int xp_jit_code_move(struct xp_jit_code *code, uint32_t index, uint64_t tsc, uint64_t new_start);
/* Removes the code at time tsc. Returns 0 or -errno: -ENOENT, -ENOMEM. */
int xp_jit_code_unload(struct xp_jit_code *code, uint32_t index, uint64_t tsc);

struct xp_jit_range {
	uint32_t index;
	uint64_t start; /* start address of the code at that time */
	uint64_t size;
	const char *name; /* valid as long as the registry */
};

/*
 * Finds the code that was at the address at that time. Returns false if no such code is known. The search takes O(log
 * n) steps plus one step for each later replacement of the code, and gives up after 256 steps.
 */
bool xp_jit_code_find(const struct xp_jit_code *code, uint64_t address, uint64_t tsc, struct xp_jit_range *range);

/*
 * Finds the unwind rule for this address at that time. Returns false if no code is known there. If the code has no
 * unwinding data, or no rule for the address, the rule is XP_CFI_NONE.
 */
bool xp_jit_code_find_rule(const struct xp_jit_code *code, uint64_t address, uint64_t tsc, struct xp_cfi_found *found);
/* Returns whether any code has unwinding data. */
bool xp_jit_code_has_rules(const struct xp_jit_code *code);

/* Returns the number of known codes. The next new code gets this number as its index. */
uint32_t xp_jit_code_count(const struct xp_jit_code *code);
/* Returns the number of loads that were rejected because a limit was reached. */
uint64_t xp_jit_code_refused(const struct xp_jit_code *code);

#endif
