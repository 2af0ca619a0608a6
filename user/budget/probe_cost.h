/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The cost of a sled hit on this machine, at this moment: measured on a child of xprof that runs test sleds. It varies
 * by a factor of twenty between machines (virtual machines are slow at single-stepping).
 */
#ifndef XPROF_BUDGET_PROBE_COST_H
#define XPROF_BUDGET_PROBE_COST_H

#include <stdbool.h>
#include <stdint.h>

#include "kernel/programs.h"

struct xp_probe_cost {
	uint64_t entry_ns; /* entries and tail exits, which the kernel emulates */
	uint64_t exit_ns;  /* exits, which the kernel must single-step */
	uint64_t stub_ns;  /* any patched sled; 0: not known */
	uint64_t count_ns; /* a call that the stub counts; 0: not known */
};

/*
 * form: form of the stub; NULL: no sled will be patched. programs: loaded, with rings of at least
 * XP_PROBE_COST_RING_BYTES that nobody reads. Takes some 20 ms. Returns 0 or -errno: the errors of attaching, fork and
 * other steps, or -EIO if the child fails.
 */
#define XP_PROBE_COST_RING_BYTES (256u << 10)
int xp_probe_cost_measure(struct xp_probe_cost *cost, const struct xp_programs *programs, bool multi,
			  const enum xp_stub_form *form);

#endif
