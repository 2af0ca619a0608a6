// SPDX-License-Identifier: BSD-2-Clause
/* The objects of a throttle: their functions, and what a call of each costs. */
#include <errno.h>
#include <stdlib.h>

#include "arch/x86_64/patch_bytes.h"
#include "base/util.h"
#include "budget/throttle_work.h"

/* A change costs duplicate records of its group while probes are attached and detached, and more links at the end. */
#define GROUP_FUNCTIONS 4096

static int allocate(struct xp_throttle_member *member)
{
	size_t functions = member->object->table->function_count;

	member->group_count = (uint32_t)((functions + GROUP_FUNCTIONS - 1) / GROUP_FUNCTIONS);
	member->stepped = calloc(functions + 1, sizeof(*member->stepped));
	member->group_of = calloc(functions + 1, sizeof(*member->group_of));
	member->groups = calloc(member->group_count + 1, sizeof(*member->groups));
	member->functions = calloc(functions + 1, sizeof(*member->functions));
	member->taken = calloc(functions + 1, sizeof(*member->taken));
	member->beside = calloc(functions + 1, sizeof(*member->beside));
	if (!member->stepped || !member->group_of || !member->taken || !member->beside || !member->groups ||
	    !member->functions)
		return -ENOMEM;
	for (size_t id = 0; id <= functions; id++)
		member->functions[id].out_tsc = UINT64_MAX;
	member->object->budget = member->functions;
	return 0;
}

/* The cost of a call of a function, recorded or counted. */
static double call_ns(const struct xp_throttle *throttle, const struct xp_throttle_member *member, size_t id,
		      enum xp_call_way way, enum xp_budget_state state)
{
	const struct xp_probe_cost *hit = &throttle->options.probe_cost;

	if (way != XP_CALLS_PROBED && state == XP_BUDGET_COUNTED)
		return (double)hit->count_ns;
	/* The probe on a conditional tail exit, which cannot be patched, is hit in each call. */
	if (way != XP_CALLS_PROBED)
		return xp_probe_cost_call_ns(hit, way) + (double)(member->beside[id] ? hit->entry_ns : 0);
	if (state == XP_BUDGET_COUNTED)
		return (double)hit->counting_ns;
	/* The kernel emulates a tail exit, like an entry. */
	return (double)(hit->entry_ns + (member->stepped[id] ? hit->exit_ns : hit->entry_ns));
}

/* Sets the costs from the number of its calls in each way. */
void xp_throttle_set_cost(struct xp_throttle *throttle, const struct xp_throttle_member *member, size_t id,
			  const uint64_t calls[XP_CALL_WAYS])
{
	struct xp_budget_function *function = &throttle->budget.functions[member->first + id - 1];
	double sum = 0, record_ns = 0, count_ns = 0;

	for (int i = 0; i < XP_CALL_WAYS; i++) {
		enum xp_call_way way = (enum xp_call_way)i;

		sum += (double)calls[i];
		record_ns += (double)calls[i] * call_ns(throttle, member, id, way, XP_BUDGET_RECORDED);
		count_ns += (double)calls[i] * call_ns(throttle, member, id, way, XP_BUDGET_COUNTED);
	}
	if (!(sum > 0))
		return;
	function->record_ns = (float)(record_ns / sum);
	function->count_ns = (float)(count_ns / sum);
}

void xp_throttle_set_costs(struct xp_throttle *throttle, const struct xp_throttle_member *member,
			   enum xp_sled_mode mode)
{
	const bool patched = mode == XP_SLEDS_PATCHED, child = throttle->options.by_children;
	const bool memory = throttle->options.probe_cost.memory_ns;
	const uint64_t calls[XP_CALL_WAYS] = {
		[XP_CALLS_PROBED] = !patched,
		[XP_CALLS_CHILD] = patched && child,
		[XP_CALLS_STUB] = patched && !child && !memory,
		[XP_CALLS_MEMORY] = patched && !child && memory,
	};

	for (size_t id = 1; id <= member->object->table->function_count; id++)
		xp_throttle_set_cost(throttle, member, id, calls);
}

int xp_throttle_add_object(struct xp_throttle *throttle, struct xp_object *object, const uint64_t *calls,
			   uint64_t own_ns)
{
	size_t functions = object->table->function_count;
	struct xp_throttle_member *members, *member;
	struct xp_budget_change *changes;
	int err;

	if (xp_throttle_member(throttle, object))
		return 0;
	xp_throttle_wait(throttle);
	members = reallocarray(throttle->members, throttle->member_count + 1, sizeof(*members));
	if (!members)
		return -ENOMEM;
	throttle->members = members;
	member = &members[throttle->member_count++];
	*member = (struct xp_throttle_member){ .object = object };
	err = allocate(member);
	if (!err)
		err = xp_budget_add(&throttle->budget, functions, &member->first);
	if (err)
		return err;
	/* No work is in progress, but changes may wait for their records. */
	changes = reallocarray(throttle->changes, throttle->budget.count, sizeof(*changes));
	if (!changes)
		return -ENOMEM;
	throttle->changes = changes;
	for (uint32_t i = 0; i < member->group_count; i++)
		member->groups[i].number = throttle->next_group++;
	for (size_t id = 1; id <= functions; id++)
		member->group_of[id] = (uint32_t)((id - 1) / GROUP_FUNCTIONS);
	for (size_t i = 0; i < object->table->sled_count; i++) {
		const struct xp_sled *sled = &object->table->sleds[i];

		member->stepped[sled->function_id] |= sled->kind == XP_SLED_EXIT;
		member->beside[sled->function_id] |= !xp_patch_possible(sled);
		member->any_beside |= !xp_patch_possible(sled);
	}
	for (size_t id = 1; id <= functions; id++)
		member->functions[id].memory_ns =
		    (uint32_t)call_ns(throttle, member, id, XP_CALLS_MEMORY, XP_BUDGET_RECORDED);
	xp_throttle_set_costs(throttle, member, throttle->options.patch ? XP_SLEDS_PATCHED : XP_SLEDS_PROBED);
	for (size_t id = 1; id <= functions && calls && own_ns; id++)
		xp_budget_seed(&throttle->budget, member->first + id - 1, calls[id], own_ns);
	return 0;
}
