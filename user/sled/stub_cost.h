/* SPDX-License-Identifier: BSD-2-Clause */
/* The cost of a probe in the stub on this kernel, in each of the stub's forms (stub.h). */
#ifndef XPROF_SLED_STUB_COST_H
#define XPROF_SLED_STUB_COST_H

#include <stdbool.h>

#include "arch/x86_64/stub.h"

struct xp_stub_cost {
	double hit_ns;	 /* 0: the kernel refuses a probe there */
	bool kills_fork; /* it kills children created by fork() */
};

/*
 * Measures, in this process and a child, which harmless form costs least, on a kernel with uprobe_multi links (older
 * kernels replace no nop by a call, so XP_STUB_NOP1 is best). Takes some hundredths of a second. Returns 0 or -errno of
 * the failing step; *form is then XP_STUB_NOP1.
 */
int xp_stub_measure(enum xp_stub_form *form, struct xp_stub_cost costs[XP_STUB_FORMS]);

#endif
