// SPDX-License-Identifier: BSD-2-Clause
#include "budget/cost_watch.h"

#include "base/util.h"
#include "target/target.h"

/* The kernel reports the CPU time of other processes to about one tick. */
#define CPU_MIN_NS 20000000u
/* Interval between two readings of that CPU time. */
#define READ_NS 20000000u

uint64_t xp_cpu_since(struct xp_processes *processes, uint64_t elapsed_ns)
{
	uint64_t sum = 0;

	xp_call_accounts_pass(&processes->accounts, elapsed_ns);
	for (struct xp_process *process = processes->first_live; process; process = process->next_live) {
		uint64_t now = xp_target_cpu_ns(process->pid);
		uint64_t ran = now > process->cpu.used_ns && process->cpu.used_ns ? now - process->cpu.used_ns : 0;

		sum += ran;
		xp_call_account_earn(&processes->accounts, &process->account, ran);
		if (elapsed_ns)
			process->cpu.running = (double)ran / (double)elapsed_ns;
		process->cpu.used_ns = now ? now : process->cpu.used_ns;
	}
	return sum;
}

uint64_t xp_cpu_of_ended(struct xp_processes *processes)
{
	uint64_t ran = processes->ended_cpu_ns;

	processes->ended_cpu_ns = 0;
	return ran;
}

/* Sets the cost in ns of the hits since the last check, and returns the number of calls. */
static double add_costs(const struct xp_cost_watch *watch, const struct xp_hits *hits, const struct xp_probe_cost *cost,
			double memory, double *cost_ns)
{
	const struct xp_hits *before = &watch->hits;
	double emulated = (double)(hits->emulated - before->emulated);
	double stepped = (double)(hits->stepped - before->stepped);
	double stub = (double)(hits->stub - before->stub + hits->child - before->child);
	double args = (double)(hits->args - before->args);

	*cost_ns = emulated * (double)cost->entry_ns + stepped * (double)cost->exit_ns + stub * (double)cost->stub_ns +
		   args * (double)(cost->args_ns ?: cost->stub_ns) + memory * (double)cost->memory_ns;
	return (emulated + stepped + stub + args + memory) / 2;
}

bool xp_cost_watch_look(struct xp_cost_watch *watch, struct xp_cost_seen *seen, struct xp_processes *processes,
			const struct xp_probe_cost *cost, uint64_t in_memory)
{
	const struct xp_hits hits = processes->hits;
	const double memory = (double)(in_memory - watch->in_memory);
	uint64_t now_ns = xp_now_ns(), elapsed_ns = now_ns - watch->look_ns;
	bool is_first = !watch->look_ns;
	double calls, cost_ns;

	*seen = (struct xp_cost_seen){ 0 };
	if (now_ns - watch->read_ns < READ_NS)
		return false;
	watch->cpu_ns += xp_cpu_since(processes, is_first ? 0 : now_ns - watch->read_ns) + xp_cpu_of_ended(processes);
	watch->read_ns = now_ns;
	if (!is_first &&
	    (elapsed_ns < XP_COST_LOOK_NS || (watch->cpu_ns < CPU_MIN_NS && elapsed_ns < XP_COST_LOOK_MAX_NS)))
		return false;
	calls = add_costs(watch, &hits, cost, memory, &cost_ns);
	if (!is_first && calls > 0)
		*seen = (struct xp_cost_seen){
			.calls_per_s = calls * XP_NS_PER_S / (double)elapsed_ns,
			.call_ns = cost_ns / calls,
			.cores = cost_ns / (double)elapsed_ns,
			.share = watch->cpu_ns < CPU_MIN_NS ? 0 : XP_MIN(cost_ns / (double)watch->cpu_ns, 1.0),
		};
	*watch = (struct xp_cost_watch){ hits, in_memory, now_ns, 0, now_ns };
	return !is_first;
}
