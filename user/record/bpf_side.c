/* SPDX-License-Identifier: BSD-2-Clause */
#include "record/bpf_side.h"

#include <errno.h>
#include <stdlib.h>

#include "base/util.h"

int xp_bpf_side_open(struct xp_bpf_side *side, const struct xp_programs_options *options, uint64_t ring_bytes,
		     const struct xp_clock *clock)
{
	int err = xp_programs_open(&side->programs, options);

	if (!err)
		err = xp_rings_open(&side->rings, xp_programs_rings_fd(&side->programs), ring_bytes);
	if (!err)
		err = xp_merge_new(&side->merge, side->rings, clock);
	if (err)
		return err;
	side->counters = calloc(side->programs.cpus, sizeof(*side->counters));
	return side->counters ? 0 : -ENOMEM;
}

void xp_bpf_side_close(struct xp_bpf_side *side)
{
	xp_merge_free(side->merge);
	xp_programs_close(&side->programs);
	xp_rings_free(side->rings);
	free(side->counters);
}

void xp_bpf_side_read_losses(struct xp_bpf_side *side)
{
	side->missed = xp_programs_missed(&side->programs);
	if (xp_programs_counters(&side->programs, side->counters))
		xp_debug("cannot read the BPF side's counters");
}

uint64_t xp_bpf_side_lost(const struct xp_bpf_side *side, enum xp_event_kind first, enum xp_event_kind last)
{
	uint64_t lost = 0;

	for (unsigned int cpu = 0; cpu < side->programs.cpus; cpu++)
		for (int kind = first; kind <= (int)last; kind++)
			lost += side->counters[cpu].lost[kind];
	return lost;
}
