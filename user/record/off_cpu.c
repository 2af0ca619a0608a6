// SPDX-License-Identifier: BSD-2-Clause
#include "record/off_cpu.h"

#include <string.h>

#include "base/util.h"

int xp_off_cpu_setup(struct xp_off_cpu *off_cpu, struct xp_sampling *sampling)
{
	const struct xp_options *options = sampling->options;
	const struct xp_wait_options waits = {
		.programs = sampling->programs,
		.stacks = xp_plan_stacks(options),
		.all = options->all,
		.tid = (uint32_t)options->tid,
		.children = options->follow,
		.min_ns = options->off_cpu.ns,
	};
	int err = xp_wait_programs_open(&off_cpu->programs, &waits);

	if (!err)
		err = xp_wait_programs_attach(&off_cpu->programs);
	if (err)
		return err;
	err = xp_first_stacks_new(&off_cpu->waits.first, waits.stacks);
	if (err)
		return err;
	off_cpu->waits.samples = &sampling->samples;
	off_cpu->tended_ns = xp_now_ns();
	off_cpu->on = true;
	return 0;
}

void xp_off_cpu_free(struct xp_off_cpu *off_cpu)
{
	if (off_cpu->programs.skeleton)
		xp_wait_programs_close(&off_cpu->programs);
	xp_waits_free(&off_cpu->waits);
}

static int add_first(void *arg, const struct xp_event_sample *begin)
{
	return xp_first_stacks_add(arg, begin);
}

int xp_off_cpu_scan(struct xp_off_cpu *off_cpu)
{
	int err = off_cpu->on ? xp_wait_programs_scan(&off_cpu->programs, add_first, off_cpu->waits.first) : 0;

	if (off_cpu->on)
		xp_first_stacks_read(off_cpu->waits.first);
	return err;
}

unsigned int xp_off_cpu_pace(unsigned int slow, uint64_t rate)
{
	for (; rate > XP_OFF_CPU_WAITS_PER_S_MAX && slow < XP_WAIT_SLOW_MAX; rate /= 2)
		slow++;
	for (; rate < XP_OFF_CPU_WAITS_PER_S_MAX / 4 && slow; rate *= 2)
		slow--;
	return slow;
}

static void pace(struct xp_off_cpu *off_cpu, uint64_t sent)
{
	uint64_t now = xp_now_ns(), since_ns = XP_MAX(now - off_cpu->tended_ns, (uint64_t)1);
	uint64_t rate = sent * XP_NS_PER_S / since_ns;
	unsigned int slow = xp_off_cpu_pace(off_cpu->slow, rate);

	off_cpu->tended_ns = now;
	if (slow == off_cpu->slow)
		return;
	off_cpu->slow = slow;
	xp_debug("%llu waits/s recorded: the share of each thread is 1/%u", (unsigned long long)rate,
		 1u << off_cpu->slow);
	xp_wait_programs_slow(&off_cpu->programs, off_cpu->slow);
}

static int read_counters(struct xp_off_cpu *off_cpu)
{
	int err = xp_wait_programs_counters(&off_cpu->programs, &off_cpu->counters);

	if (!err)
		xp_counters_add(&off_cpu->counters, &off_cpu->counters_before, sizeof(off_cpu->counters), -1);
	return err;
}

void xp_off_cpu_begin_part(struct xp_off_cpu *off_cpu)
{
	xp_counters_add(&off_cpu->counters_before, &off_cpu->counters, sizeof(off_cpu->counters), 1);
	off_cpu->counters = (struct xp_wait_counters){ 0 };
	xp_waits_begin_part(&off_cpu->waits);
}

int xp_off_cpu_tend(struct xp_off_cpu *off_cpu)
{
	uint64_t sent = off_cpu->counters.sent;
	int err;

	if (!off_cpu->on)
		return 0;
	err = read_counters(off_cpu);
	if (err)
		return err;
	pace(off_cpu, off_cpu->counters.sent - sent);
	return 0;
}

int xp_off_cpu_end_part(struct xp_off_cpu *off_cpu)
{
	struct xp_wait_counters *counters = &off_cpu->counters;
	int err = xp_off_cpu_tend(off_cpu);

	if (!err)
		counters->seen = counters->sent + counters->too_short + counters->skipped + counters->lost;
	return err;
}

void xp_off_cpu_stop(struct xp_off_cpu *off_cpu, void (*make_room)(void *arg), void *arg)
{
	int err;

	if (!off_cpu->on)
		return;
	err = xp_wait_programs_stop(&off_cpu->programs, make_room, arg);
	if (!err)
		err = read_counters(off_cpu);
	if (err)
		xp_warn(
		    "the waits that were open at the end, and the sums of threads that had not ended, are missing: %s",
		    strerror(-err));
}

void xp_off_cpu_totals(const struct xp_off_cpu *off_cpu, struct xp_off_cpu_totals *totals)
{
	const struct xp_wait_counters *counters = &off_cpu->counters;
	const struct xp_waits *waits = &off_cpu->waits;
	/* Not counters->sent: some sent waits may still be in the rings, and belong to the next part. */
	uint64_t arrived = waits->samples ? waits->samples->waits : 0;
	uint64_t written = waits->samples ? xp_perf_out_counts(waits->samples->perf).waits : 0;

	*totals = (struct xp_off_cpu_totals){
		.seen = counters->seen - counters->sent + arrived,
		.written = written,
		.too_short = counters->too_short,
		.skipped = counters->skipped,
		.lost = counters->lost + arrived - written,
	};
	for (size_t i = 0; i < waits->sum_count; i++) {
		totals->span_ns += (double)waits->sums[i].span_ns;
		totals->blocked_ns += (double)waits->sums[i].blocked_ns;
		totals->runnable_ns += (double)waits->sums[i].runnable_ns;
		totals->threads += !waits->sums[i].goes_on;
		totals->missed += waits->sums[i].missed;
	}
}
