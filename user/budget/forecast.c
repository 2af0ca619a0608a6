// SPDX-License-Identifier: BSD-2-Clause
#include "budget/forecast.h"

#include "base/util.h"

/*
 * The minimum share of the CPU time that counts as the target's own: the cost of counting is known to some percent
 * only.
 */
#define OWN_SHARE_MIN 0.02

void xp_forecast_make(struct xp_forecast *forecast, const struct xp_forecast_input *input)
{
	double wall_ns = (double)XP_MAX(input->wall_ns, 1u);
	double counting_ns = (double)input->calls * (double)input->probe_cost.entry_ns;
	double own_ns = XP_MAX((double)input->cpu_ns - counting_ns, (double)input->cpu_ns * OWN_SHARE_MIN);
	uint64_t probed = input->calls - input->patched;
	double cost_ns = (double)(probed + input->emulated) * (double)input->probe_cost.entry_ns +
			 (double)(probed - input->emulated) * (double)input->probe_cost.exit_ns +
			 (double)(2 * input->patched) * (double)input->probe_cost.stub_ns;
	double cores = (own_ns + cost_ns) / wall_ns; /* demand at this rate of calls */

	*forecast = (struct xp_forecast){
		.calls_per_s = (double)input->calls * 1e9 / wall_ns,
		.cost_cores = cost_ns / wall_ns,
		.cost_share = cost_ns > 0 ? cost_ns / (own_ns + cost_ns) : 0,
		.slowdown = 1,
	};
	if (cores <= input->cpus_max)
		return;
	/* More than it can get: it does less work. */
	forecast->cost_cores = forecast->cost_share * input->cpus_max;
	forecast->slowdown = cores / input->cpus_max;
}
