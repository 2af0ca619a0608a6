/* SPDX-License-Identifier: BSD-2-Clause */
#include "record/plan.h"

#include <errno.h>
#include <linux/capability.h>
#include <string.h>

#include "arch/x86_64/instructions.h"
#include "base/util.h"
#include "base/why.h"
#include "kernel/privilege.h"

#define RING_BYTES (4u << 20)
/* The smallest ring if only samples are recorded. */
#define RING_BYTES_MIN (256u << 10)
/* The samples of a quarter of a second must fit, even with the largest stacks. */
#define RING_SHARE_OF_SECOND 4

/* Omits sleds if a capability for them is missing. Fails if there would be nothing else to record. */
static int check_sleds(struct xp_plan *plan, const struct xp_options *options, const struct xp_preflight *preflight)
{
	bool single = options->uprobes == XP_UPROBES_SINGLE || !preflight->has_uprobe_multi;
	int err = 0;

	if (!plan->sleds)
		return 0;
	if (single && !xp_privilege_has(CAP_SYS_ADMIN))
		err = xp_why_set(-EACCES, "recording calls requires CAP_SYS_ADMIN%s",
				 preflight->has_uprobe_multi ? " with --uprobes single" : " before Linux 6.6");
	else if (plan->all_processes)
		err = xp_privilege_probe_all();
	if (!err)
		return 0;
	if (!plan->samples)
		return xp_why_set(err, "%s; run xprof with sudo", xp_why(err));
	plan->sleds = false;
	xp_info("calls are not recorded: %s", xp_why(err));
	return 0;
}

/*
 * With --exec, programs are probed, because then the next process is recorded from its first instruction. They are
 * patched only if --call-mode requests it or there is a budget.
 */
static bool may_patch(const struct xp_options *options)
{
	return options->call_mode == XP_CALL_MODE_OPTION_AUTO ? !options->exec_path || options->max_overhead > 0
							      : options->call_mode != XP_CALL_MODE_OPTION_PROBE;
}

/* Returns why no process can record calls in memory; NULL if they can, and then sets plan->rdpid. */
static const char *why_no_memory(struct xp_plan *plan)
{
	const struct xp_instructions instructions = xp_instructions_try();

	plan->rdpid = instructions.rdpid;
	return instructions.rdfsbase ? NULL : XP_NO_RDFSBASE;
}

int xp_plan_make(struct xp_plan *plan, const struct xp_options *options, const struct xp_preflight *preflight)
{
	struct xp_short_text path;
	int err;

	*plan = (struct xp_plan){
		.sleds = !options->no_sleds && !options->all && !options->tid,
		.samples = !options->no_samples && !options->exec_path,
		.multi = options->uprobes == XP_UPROBES_AUTO ? preflight->has_uprobe_multi
							     : options->uprobes == XP_UPROBES_MULTI,
		.all_processes = options->follow || options->exec_path,
	};
	err = check_sleds(plan, options, preflight);
	if (err)
		return err;
	plan->may_patch = plan->sleds && may_patch(options);
	plan->memory = plan->may_patch && options->call_mode != XP_CALL_MODE_OPTION_PATCH;
	plan->no_memory = plan->memory ? why_no_memory(plan) : NULL;
	if (plan->no_memory)
		plan->memory = false;
	if (options->exec_path && stat(options->exec_path, &plan->exec_file))
		return xp_why_set(-errno, "--exec %s: %s", xp_short_text(&path, options->exec_path), strerror(errno));
	return 0;
}

enum xp_sample_stacks xp_plan_stacks(const struct xp_options *options)
{
	switch (options->call_graph) {
	case XP_CALL_GRAPH_FP:
		return XP_STACKS_FRAMES;
	case XP_CALL_GRAPH_NONE:
		return XP_STACKS_NONE;
	default:
		return XP_STACKS_DUMP;
	}
}

bool xp_plan_chooses_events(const struct xp_plan *plan, const struct xp_options *options)
{
	return plan->samples && !options->all && !options->tid;
}

bool xp_plan_switches(const struct xp_plan *plan, const struct xp_options *options)
{
	return options->switch_events && plan->samples;
}

/* A ring for samples alone is only as large as they may need: creating a larger ring takes longer. */
uint64_t xp_plan_ring_bytes(const struct xp_plan *plan, const struct xp_options *options)
{
	uint64_t sample_bytes = sizeof(struct xp_event_sample) + 2 * XP_SAMPLE_FRAMES_MAX * sizeof(uint64_t);
	uint64_t bytes = RING_BYTES_MIN;

	if (options->buffer_bytes)
		return options->buffer_bytes;
	if (plan->sleds || options->usdt.count || options->period || options->off_cpu.given ||
	    xp_plan_switches(plan, options))
		return RING_BYTES;
	if (xp_plan_stacks(options) == XP_STACKS_DUMP)
		sample_bytes += XP_STACK_BYTES_MAX;
	/* The last quarter of the ring is for samples without stacks. */
	while (bytes < RING_BYTES && bytes * 3 / 4 / sample_bytes < options->hz / RING_SHARE_OF_SECOND)
		bytes *= 2;
	return bytes;
}
