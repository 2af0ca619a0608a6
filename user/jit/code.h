/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is known of the code of one process that belongs to no file, by time: which function was at an address when.
 * Pure: sources (jit_src_*.h) feed it, samples ask it, and an observer hears of all code in the order in which it came.
 *
 * Code that is loaded over other code ends that one as a whole, even where it covers a part of it only. What comes late
 * (with a time before that of the code which it replaces) counts from the beginning of that code on.
 */
#ifndef XPROF_JIT_CODE_H
#define XPROF_JIT_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "target/address_space.h"

#define XP_JIT_CODES_MAX (1u << 20)    /* loads of a process */
#define XP_JIT_SIZE_MAX (256ull << 20) /* of one function */
#define XP_JIT_NAME_BYTES_MAX 4096     /* what is longer is cut */

/* From this address on, up to the next line's. */
struct xp_jit_line {
	uint64_t address; /* in the process */
	uint32_t line;
	uint32_t discriminator;
	const char *file;
};

/* A piece of code, mostly a function. What it points to is the caller's and used during the call only. */
struct xp_jit_load {
	uint64_t tsc;  /* since when; 0: since before the recording */
	bool is_bound; /* tsc is only the earliest time possible; where no other code was, it holds since ever.
			  Such code does not move */
	uint64_t start;
	uint64_t size;			 /* bytes */
	const char *name;		 /* as the target has it: it is cleaned here */
	const uint8_t *code;		 /* size bytes, NULL: not known */
	const struct xp_jit_line *lines; /* in order of address */
	size_t line_count;
	const uint8_t *eh_frame; /* as if it lay at start + size rounded up to 8; NULL: none */
	size_t eh_frame_bytes;
	const uint8_t *eh_frame_hdr; /* as if it lay directly behind; NULL: none */
	size_t eh_frame_hdr_bytes;
};

/*
 * Hears of each load (name as it is kept, tsc as well, but not before the memory was there) and of each move. Code that
 * was known already is no news. A load of which it is not known since when (is_bound), and whose memory the space that
 * is bound does not have yet, is heard of when one has it, or at last by xp_jit_code_settle().
 */
struct xp_jit_observer {
	void (*load)(void *arg, uint32_t index, const struct xp_jit_load *load);
	void (*move)(void *arg, uint32_t index, uint64_t tsc, uint64_t old_start, uint64_t new_start, uint64_t size);
	void *arg;
};

struct xp_jit_code;

/*
 * bytes_left: what all registries of a recording may still take in memory; outlives this one, which takes no more than
 * it leaves there and gives back what it took: alone it has half of all, one of n as greedy an (n + 1)th. observer is
 * copied; NULL: nobody listens. -ENOMEM.
 */
int xp_jit_code_new(struct xp_jit_code **code, uint64_t *bytes_left, const struct xp_jit_observer *observer);
void xp_jit_code_free(struct xp_jit_code *code);
/*
 * What the process has mapped, as it changes; it outlives the registry. From now on code that would lie in a file's
 * mapping is refused (-EINVAL): that is the file's, whatever a perf map says of it.
 */
void xp_jit_code_bind(struct xp_jit_code *code, const struct xp_space *space);
/* There is no more to come: the observer hears of all code now. */
void xp_jit_code_settle(struct xp_jit_code *code);

/* Whether code can be there at all: if not, a load is refused, and its bytes need not be read. */
bool xp_jit_code_can_be(const struct xp_jit_code *code, uint64_t start, uint64_t size);
/*
 * index: of the code, from 0 on, one more for each; NULL: not wanted. Code that is there already, with the same range,
 * name and bytes, keeps its index. -EINVAL a range that cannot be, -ENOSPC there is no room for more (it is counted as
 * refused), -ENOMEM; after these nothing has changed.
 */
int xp_jit_code_load(struct xp_jit_code *code, const struct xp_jit_load *load, uint32_t *index);
/* The code is at new_start from now on. -ENOENT it is not loaded (any more), and those of the load. */
int xp_jit_code_move(struct xp_jit_code *code, uint32_t index, uint64_t tsc, uint64_t new_start);
/* The code is gone. -ENOENT, -ENOMEM. */
int xp_jit_code_unload(struct xp_jit_code *code, uint32_t index, uint64_t tsc);

struct xp_jit_range {
	uint32_t index;
	uint64_t start; /* at that time */
	uint64_t size;
	const char *name; /* lives as long as the registry */
};

/*
 * Which code was at the address at that time. False: none is known. O(log n), and one step more for each time that code
 * was replaced there since; after many steps it is not known any more.
 */
bool xp_jit_code_find(const struct xp_jit_code *code, uint64_t address, uint64_t tsc, struct xp_jit_range *range);

/* How many codes there are: the next index. */
uint32_t xp_jit_code_count(const struct xp_jit_code *code);
/* "" of an index that is none. */
const char *xp_jit_code_name(const struct xp_jit_code *code, uint32_t index);
/* Loads that found no room. */
uint64_t xp_jit_code_refused(const struct xp_jit_code *code);

#endif
