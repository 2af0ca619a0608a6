// SPDX-License-Identifier: BSD-2-Clause
/* The objects of a throttle: their functions, and what a call of each costs. */
#include <errno.h>
#include <stdlib.h>

#include "base/util.h"
#include "budget/throttle_work.h"

static int allocate(struct xp_throttle_member *member)
{
	size_t functions = member->object->table->function_count;

	member->functions = calloc(functions + 1, sizeof(*member->functions));
	member->taken = calloc(functions + 1, sizeof(*member->taken));
	if (!member->taken || !member->functions)
		return -ENOMEM;
	for (size_t id = 0; id <= functions; id++)
		member->functions[id].out_tsc = UINT64_MAX;
	member->object->budget = member->functions;
	return 0;
}

void xp_throttle_set_cost(struct xp_throttle *throttle, const struct xp_throttle_member *member, size_t id,
			  const uint32_t calls[XP_CALL_WAYS])
{
	double sum = 0, record_ns = 0;

	for (int way = 0; way < XP_CALL_WAYS; way++) {
		sum += calls[way];
		record_ns += calls[way] * xp_probe_cost_call_ns(&throttle->options.probe_cost, (enum xp_call_way)way);
	}
	throttle->budget.functions[member->first + id - 1].record_ns = (float)(record_ns / sum);
}

/* Before anything is known of the calls. */
static void set_costs(struct xp_throttle *throttle, const struct xp_throttle_member *member)
{
	const struct xp_probe_cost *cost = &throttle->options.probe_cost;
	enum xp_call_way way = throttle->options.by_children ? XP_CALLS_CHILD
			       : cost->memory_ns	     ? XP_CALLS_MEMORY
							     : XP_CALLS_STUB;
	const double record_ns = xp_probe_cost_call_ns(cost, way);
	const double memory_ns = xp_probe_cost_call_ns(cost, XP_CALLS_MEMORY);

	for (size_t id = 1; id <= member->object->table->function_count; id++) {
		struct xp_budget_function *function = &throttle->budget.functions[member->first + id - 1];

		member->functions[id].memory_ns = (uint32_t)memory_ns;
		function->record_ns = (float)record_ns;
		function->count_ns = (float)cost->count_ns;
	}
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
	set_costs(throttle, member);
	for (size_t id = 1; id <= functions && calls && own_ns; id++)
		xp_budget_seed(&throttle->budget, member->first + id - 1, calls[id], own_ns);
	return 0;
}
