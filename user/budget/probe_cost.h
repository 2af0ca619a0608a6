/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a hit of a sled costs the program on this machine, now: measured on a child of xprof that runs sleds of its own.
 * From machine to machine that differs by a factor of twenty (virtual machines single-step slowly).
 */
#ifndef XPROF_HIT_COST_H
#define XPROF_HIT_COST_H

#include <stdbool.h>
#include <stdint.h>

#include "kernel/programs.h"

struct xp_hit_cost {
	uint64_t entry_ns; /* of entries and tail exits, which the kernel emulates */
	uint64_t exit_ns;  /* of exits, which it must single-step */
	uint64_t stub_ns;  /* of any sled that is patched; 0: not known */
	uint64_t count_ns; /* of a call that the stub counts; 0: not known */
};

/*
 * form: of the stub; NULL: no sled is to be patched. programs: loaded, with rings of at least XP_HIT_COST_RING_BYTES
 * that nobody reads. Takes some 20 ms. Errors: those of attaching, of fork and so on; -EIO when the child fails.
 */
#define XP_HIT_COST_RING_BYTES (256u << 10)
int xp_hit_cost_measure(struct xp_hit_cost *cost, const struct xp_programs *programs, bool multi,
			const enum xp_stub_form *form);

#endif
