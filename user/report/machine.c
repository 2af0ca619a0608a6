// SPDX-License-Identifier: BSD-2-Clause
#include "report/machine.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/util.h"

static void add(struct xp_report_share *to, const struct xp_report_share *process)
{
	to->processes++;
	to->samples += process->samples;
	to->kernel_samples += process->kernel_samples;
	to->sampled_ns += process->sampled_ns;
}

static int add_to(struct xp_report_shares *shares, const char *name, const struct xp_report_share *process)
{
	uint32_t *index = xp_u64_map_find(&shares->by_name, (uintptr_t)name);

	if (!index) {
		if (XP_ARRAY_RESERVE(shares->all, shares->room, shares->count + 1))
			return -ENOMEM;
		index = xp_u64_map_add(&shares->by_name, (uintptr_t)name, (uint32_t)shares->count);
		if (!index)
			return -ENOMEM;
		shares->all[shares->count++] = (struct xp_report_share){ .name = name };
	}
	add(&shares->all[*index], process);
	return 0;
}

int xp_report_machine_add(struct xp_report_machine *machine, const struct xp_report_share *process, const char *cgroup)
{
	int err = add_to(&machine->programs, process->name, process);

	if (!err)
		err = add_to(&machine->cgroups, cgroup, process);
	add(&machine->total, process);
	if (process->samples < XP_MACHINE_SHORT_SAMPLES)
		add(&machine->few, process);
	return err;
}

static int compare(const void *a, const void *b)
{
	const struct xp_report_share *x = a, *y = b;

	return xp_compare(y->samples, x->samples) ?: xp_compare(y->processes, x->processes) ?:
	       strcmp(x->name ? x->name : "", y->name ? y->name : "");
}

static void sort(struct xp_report_shares *shares)
{
	if (shares->count)
		qsort(shares->all, shares->count, sizeof(*shares->all), compare);
}

void xp_report_machine_finish(struct xp_report_machine *machine, uint64_t length_ns, uint64_t cpus)
{
	uint64_t capacity_ns = 0;

	sort(&machine->programs);
	sort(&machine->cgroups);
	if (machine->cgroups.count == 1 && !machine->cgroups.all[0].name)
		machine->cgroups.count = 0;
	machine->length_ns = length_ns;
	machine->cpus = cpus;
	if (__builtin_mul_overflow(length_ns, cpus, &capacity_ns))
		machine->cpus = 0;
	else
		machine->idle_ns = capacity_ns - XP_MIN(capacity_ns, machine->total.sampled_ns);
}

static void shares_free(struct xp_report_shares *shares)
{
	free(shares->all);
	xp_u64_map_free(&shares->by_name);
}

void xp_report_machine_free(struct xp_report_machine *machine)
{
	shares_free(&machine->programs);
	shares_free(&machine->cgroups);
	memset(machine, 0, sizeof(*machine));
}
