/* SPDX-License-Identifier: BSD-2-Clause */
#include "record/bpf_side.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

int xp_bpf_side_open(struct xp_bpf_side *side, const struct xp_programs_options *options, uint64_t ring_bytes,
		     const struct xp_clock *clock)
{
	int err = xp_programs_open(&side->programs, options);

	if (!err)
		err = xp_rings_open(&side->rings, side->programs.fds.rings, ring_bytes);
	if (!err)
		err = xp_merge_new(&side->merge, side->rings, clock);
	if (err)
		return err;
	side->counters = calloc(side->programs.cpus, sizeof(*side->counters));
	side->counters_before = calloc(side->programs.cpus, sizeof(*side->counters_before));
	return side->counters && side->counters_before ? 0 : -ENOMEM;
}

void xp_bpf_side_close(struct xp_bpf_side *side)
{
	xp_merge_free(side->merge);
	xp_programs_close(&side->programs);
	xp_rings_free(side->rings);
	free(side->counters);
	free(side->counters_before);
}

static size_t counter_bytes(const struct xp_bpf_side *side)
{
	return side->programs.cpus * sizeof(*side->counters);
}

void xp_bpf_side_read_losses(struct xp_bpf_side *side)
{
	side->missed = xp_programs_missed(&side->programs) - side->missed_before;
	if (xp_programs_counters(&side->programs, side->counters))
		xp_debug("cannot read the BPF side's counters");
	else
		xp_counters_add(side->counters, side->counters_before, counter_bytes(side), -1);
}

void xp_bpf_side_begin(struct xp_bpf_side *side)
{
	xp_bpf_side_read_losses(side);
	for (unsigned int cpu = 0; cpu < side->programs.cpus; cpu++)
		for (int kind = 0; kind <= XP_EVENT_GO_EXIT; kind++) {
			side->counters_before[cpu].lost[kind] = side->counters[cpu].lost[kind];
			side->counters[cpu].lost[kind] = 0;
		}
	side->missed_before = side->missed;
	side->missed = 0;
}

void xp_bpf_side_begin_part(struct xp_bpf_side *side)
{
	xp_counters_add(side->counters_before, side->counters, counter_bytes(side), 1);
	memset(side->counters, 0, counter_bytes(side));
	side->missed_before += side->missed;
	side->missed = 0;
}

uint64_t xp_bpf_side_lost(const struct xp_bpf_side *side, enum xp_event_kind first, enum xp_event_kind last)
{
	uint64_t lost = 0;

	for (unsigned int cpu = 0; cpu < side->programs.cpus; cpu++)
		for (int kind = first; kind <= (int)last; kind++)
			lost += side->counters[cpu].lost[kind];
	return lost;
}
