// SPDX-License-Identifier: BSD-2-Clause
#include "throttle.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "throttle_work.h"
#include "util.h"

#define TICK_NS 100000000ull
/* A change costs double records of its group for as long as attaching and detaching take, and links at the end. */
#define GROUP_FUNCTIONS 4096

int xp_throttle_new(struct xp_throttle **result, const struct xp_throttle_options *options)
{
	struct xp_throttle *throttle = calloc(1, sizeof(*throttle));

	if (!throttle)
		return -ENOMEM;
	throttle->all = calloc(XP_THROTTLE_MAX, sizeof(*throttle->all));
	if (!throttle->all) {
		free(throttle);
		return -ENOMEM;
	}
	throttle->options = *options;
	throttle->next_group = 1;
	xp_budget_init(&throttle->budget, options->share);
	*result = throttle;
	return 0;
}

void xp_throttle_free(struct xp_throttle *throttle)
{
	if (!throttle)
		return;
	for (size_t i = 0; i < throttle->member_count; i++) {
		free(throttle->members[i].group_of);
		free(throttle->members[i].groups);
		free(throttle->members[i].pids);
	}
	free(throttle->members);
	free(throttle->all);
	xp_budget_free(&throttle->budget);
	free(throttle);
}

static void wait_for_work(struct xp_throttle *throttle)
{
	if (throttle->working)
		pthread_join(throttle->thread, NULL);
	throttle->working = false;
}

/* ---- objects ---- */

static int allocate(struct xp_throttle_member *member)
{
	size_t functions = member->object->table->function_count;

	member->group_count = (uint32_t)((functions + GROUP_FUNCTIONS - 1) / GROUP_FUNCTIONS);
	member->group_of = calloc(functions + 1, sizeof(*member->group_of));
	member->groups = calloc(member->group_count + 1, sizeof(*member->groups));
	if (!member->object->calls)
		member->object->calls = calloc(functions + 1, sizeof(*member->object->calls));
	if (!member->object->alias)
		member->object->alias = calloc(functions + 1, sizeof(*member->object->alias));
	return member->group_of && member->groups && member->object->calls && member->object->alias ? 0 : -ENOMEM;
}

static void set_costs(struct xp_throttle *throttle, const struct xp_throttle_member *member)
{
	const struct xp_hit_cost *hit = &throttle->options.hit_cost;
	const struct xp_sled_table *table = member->object->table;
	struct xp_budget_function *functions = &throttle->budget.functions[member->first];

	for (size_t i = 0; i < table->function_count; i++) {
		functions[i].count_ns = (float)hit->entry_ns;
		functions[i].record_ns = (float)(2 * hit->entry_ns); /* a tail exit is emulated as an entry is */
	}
	for (size_t i = 0; i < table->sled_count; i++)
		if (table->sleds[i].kind == XP_SLED_EXIT)
			functions[table->sleds[i].function_id - 1].record_ns = (float)(hit->entry_ns + hit->exit_ns);
}

int xp_throttle_add_object(struct xp_throttle *throttle, struct xp_object *object, const uint64_t *calls,
			   uint64_t own_ns)
{
	size_t functions = object->table->function_count;
	struct xp_throttle_member *members, *member;
	int err;

	if (xp_throttle_member(throttle, object))
		return 0;
	wait_for_work(throttle);
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
	for (uint32_t i = 0; i < member->group_count; i++)
		member->groups[i].number = throttle->next_group++;
	for (size_t id = 1; id <= functions; id++)
		member->group_of[id] = (uint32_t)((id - 1) / GROUP_FUNCTIONS);
	set_costs(throttle, member);
	for (size_t id = 1; id <= functions && calls && own_ns; id++)
		xp_budget_seed(&throttle->budget, member->first + id - 1, calls[id], own_ns);
	return 0;
}

static struct xp_throttled *add_one(struct xp_throttle *throttle, const struct xp_throttle_member *member,
				    size_t budget_index)
{
	struct xp_throttled *one;

	if (throttle->count == XP_THROTTLE_MAX)
		return NULL;
	one = &throttle->all[throttle->count++];
	*one = (struct xp_throttled){
		.object = member->object,
		.function_id = xp_throttle_id(member, budget_index),
		.budget_index = budget_index,
	};
	return one;
}

void xp_throttle_begin(struct xp_throttle *throttle)
{
	size_t count = xp_budget_tick(&throttle->budget, 0, 0, throttle->changes, XP_THROTTLE_MAX);

	for (size_t i = 0; i < count; i++) {
		const struct xp_budget_change *change = &throttle->changes[i];
		const struct xp_throttle_member *member = xp_throttle_member_of(throttle, change->function);
		struct xp_throttled *one = add_one(throttle, member, change->function);

		if (!one)
			return;
		member->group_of[one->function_id] = XP_THROTTLE_ALONE;
		one->group = throttle->next_group++;
		one->state = change->state;
		one->since_tsc = xp_clock_now_tsc();
		one->times = 1;
		xp_budget_set(&throttle->budget, change->function, change->state, 0);
	}
}

int xp_throttle_attach(struct xp_throttle *throttle, const struct xp_object *object, pid_t pid,
		       struct xp_sled_result *result)
{
	struct xp_throttle_member *member;
	pid_t *pids;
	int err;

	wait_for_work(throttle);
	member = xp_throttle_member(throttle, object);
	pids = reallocarray(member->pids, member->pid_count + 1, sizeof(*pids));
	if (!pids)
		return -ENOMEM;
	member->pids = pids;
	pids[member->pid_count++] = pid;
	*result = (struct xp_sled_result){ 0 };
	err = 0;
	for (uint32_t i = 0; i < member->group_count && !err; i++) {
		struct xp_sled_result some;

		err = xp_throttle_attach_group(throttle, member, i, pid, &some);
		result->attached += some.attached;
		result->unreadable += some.unreadable;
		/* Those of the file are in each of them. */
		result->patched += some.patched - (i ? object->patched_in_file : 0);
		result->begin_tsc = some.begin_tsc;
	}
	for (size_t i = 0; i < throttle->count && !err; i++)
		if (throttle->all[i].object == object)
			err = xp_throttle_attach_function(throttle, &throttle->all[i], throttle->all[i].state, pid);
	/* Those that are out for now belong to the recording all the same. */
	for (size_t i = 0; i < object->selected_count; i++)
		result->attached +=
		    member->group_of[object->table->sleds[object->selected[i]].function_id] == XP_THROTTLE_ALONE;
	return err;
}

void xp_throttle_drop_process(struct xp_throttle *throttle, pid_t pid)
{
	wait_for_work(throttle);
	for (size_t i = 0; i < throttle->member_count; i++) {
		struct xp_throttle_member *member = &throttle->members[i];
		size_t kept = 0;

		for (size_t p = 0; p < member->pid_count; p++)
			if (member->pids[p] != pid)
				member->pids[kept++] = member->pids[p];
		member->pid_count = kept;
	}
}

/* ---- work ---- */

static void start_work(struct xp_throttle *throttle)
{
	sigset_t all, before;
	int err;

	for (size_t i = 0; i < throttle->change_count; i++) {
		size_t index = throttle->changes[i].function;

		if (!xp_throttle_find(throttle, index) &&
		    !add_one(throttle, xp_throttle_member_of(throttle, index), index))
			throttle->change_count = i; /* no more can be taken out */
	}
	if (!throttle->change_count)
		return;
	throttle->done = false;
	throttle->working = true;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&throttle->thread, NULL, xp_throttle_work, throttle);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err) {
		throttle->working = false;
		xp_throttle_work(throttle);
	}
}

/* The work is done, and the records from before have come. */
static void finish_work(struct xp_throttle *throttle)
{
	uint64_t now_ns = xp_clock_ns(throttle->options.clock, throttle->done_tsc);

	wait_for_work(throttle);
	for (size_t i = 0; i < throttle->change_count; i++) {
		struct xp_throttled *one = xp_throttle_find(throttle, throttle->changes[i].function);

		/* As it has become: also when that was refused. */
		xp_budget_set(&throttle->budget, throttle->changes[i].function, one->state, now_ns);
		if (one->forget)
			xp_processes_forget(throttle->options.processes, one->object, one->function_id);
		one->forget = false;
		xp_debug("budget: %s of %s is %s",
			 one->object->table->functions[one->function_id - 1].name ?: "a function", one->object->path,
			 (const char *[]){ "recorded", "counted", "out" }[one->state]);
	}
	throttle->change_count = 0;
}

/* ---- the loop ---- */

static uint64_t cpu_since(struct xp_throttle *throttle)
{
	uint64_t sum = 0;

	for (struct xp_process *process = throttle->options.processes->first; process; process = process->next) {
		uint64_t now = process->live ? xp_target_cpu_ns(process->pid) : 0;

		if (now > process->cpu_ns && process->cpu_ns)
			sum += now - process->cpu_ns;
		process->cpu_ns = now ? now : process->cpu_ns;
	}
	return sum;
}

static void gather_calls(struct xp_throttle *throttle)
{
	for (size_t m = 0; m < throttle->member_count; m++) {
		struct xp_throttle_member *member = &throttle->members[m];
		struct xp_budget_function *functions = &throttle->budget.functions[member->first];

		for (size_t id = 1; id <= member->object->table->function_count; id++) {
			functions[id - 1].calls += member->object->calls[id];
			throttle->tracing_sum_ns +=
			    (double)member->object->calls[id] * (double)functions[id - 1].record_ns;
			member->object->calls[id] = 0;
		}
	}
	for (size_t i = 0; i < throttle->count; i++) {
		struct xp_throttled *one = &throttle->all[i];
		uint64_t calls = one->state == XP_BUDGET_COUNTED ? xp_throttle_read_counter(throttle, one) : 0;

		one->counted += calls;
		throttle->budget.functions[one->budget_index].calls += calls;
		throttle->tracing_sum_ns +=
		    (double)calls * (double)throttle->budget.functions[one->budget_index].count_ns;
	}
}

static void tick(struct xp_throttle *throttle, uint64_t now_tsc)
{
	uint64_t cpu_ns = cpu_since(throttle);

	throttle->cpu_sum_ns += (double)cpu_ns;
	throttle->cpu_ns += cpu_ns;
	gather_calls(throttle);
	cpu_ns = throttle->cpu_ns >= XP_BUDGET_CPU_MIN_NS ? throttle->cpu_ns : 0;
	throttle->cpu_ns -= cpu_ns;
	throttle->change_count = xp_budget_tick(&throttle->budget, xp_clock_ns(throttle->options.clock, now_tsc),
						cpu_ns, throttle->changes, XP_THROTTLE_MAX);
	if (throttle->change_count)
		start_work(throttle);
}

int xp_throttle_run(struct xp_throttle *throttle, uint64_t mark_tsc)
{
	if (throttle->change_count) {
		if (!__atomic_load_n(&throttle->done, __ATOMIC_ACQUIRE) || throttle->done_tsc >= mark_tsc)
			return 0;
		finish_work(throttle);
	}
	if (mark_tsc - throttle->last_tick_tsc < xp_clock_ticks(throttle->options.clock, TICK_NS))
		return 0;
	if (throttle->last_tick_tsc)
		tick(throttle, mark_tsc);
	else
		cpu_since(throttle); /* from here on */
	throttle->last_tick_tsc = mark_tsc;
	return 0;
}

void xp_throttle_end(struct xp_throttle *throttle)
{
	uint64_t now;

	wait_for_work(throttle);
	gather_calls(throttle);
	throttle->cpu_sum_ns += (double)cpu_since(throttle);
	now = xp_clock_now_tsc();
	for (size_t i = 0; i < throttle->count; i++) {
		struct xp_throttled *one = &throttle->all[i];

		if (one->state != XP_BUDGET_RECORDED)
			one->out_ticks += now - one->since_tsc;
		if (one->state == XP_BUDGET_COUNTED)
			one->counted_ticks += now - one->since_tsc;
		one->since_tsc = now;
	}
}

const struct xp_throttled *xp_throttle_list(const struct xp_throttle *throttle, size_t *count)
{
	*count = throttle->count;
	return throttle->all;
}

double xp_throttle_spent(const struct xp_throttle *throttle)
{
	return throttle->cpu_sum_ns > 0 ? XP_MIN(throttle->tracing_sum_ns / throttle->cpu_sum_ns, 1.0) : 0;
}
