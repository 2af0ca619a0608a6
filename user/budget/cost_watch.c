// SPDX-License-Identifier: BSD-2-Clause
#include "budget/cost_watch.h"

#include "base/util.h"
#include "target/target.h"

/* The kernel tells the CPU time of other processes to about one tick, and a moment's calls are no load. */
#define CPU_MIN_NS 100000000u

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

void xp_cost_watch_look(struct xp_cost_watch *watch, struct xp_cost_seen *seen, struct xp_processes *processes,
			const struct xp_probe_cost *cost, uint64_t in_memory)
{
	const struct xp_hits hits = processes->hits, before = watch->hits;
	const double memory = (double)(in_memory - watch->in_memory);
	uint64_t now_ns = xp_now_ns(), elapsed_ns = watch->look_ns ? now_ns - watch->look_ns : 0;
	double cpu_ns = (double)(xp_cpu_since(processes, elapsed_ns) + xp_cpu_of_ended(processes));
	double probed = (double)(hits.emulated - before.emulated + hits.stepped - before.stepped);
	double stub = (double)(hits.stub - before.stub), args = (double)(hits.args - before.args);
	double child = (double)(hits.child - before.child);
	double calls = (probed + stub + child + args + memory) / 2;
	double cost_ns = (double)(hits.emulated - before.emulated) * (double)cost->entry_ns +
			 (double)(hits.stepped - before.stepped) * (double)cost->exit_ns +
			 (stub + child) * (double)cost->stub_ns + args * (double)(cost->args_ns ?: cost->stub_ns) +
			 memory * (double)cost->memory_ns;

	*watch = (struct xp_cost_watch){ hits, in_memory, now_ns };
	*seen = (struct xp_cost_seen){ 0 };
	if (!elapsed_ns || cpu_ns < CPU_MIN_NS || !(calls > 0))
		return;
	*seen = (struct xp_cost_seen){
		.share = XP_MIN(cost_ns / cpu_ns, 1.0),
		.calls_per_s = calls * XP_NS_PER_S / (double)elapsed_ns,
		.call_ns = cost_ns / calls,
	};
}
