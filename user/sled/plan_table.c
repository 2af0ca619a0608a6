// SPDX-License-Identifier: BSD-2-Clause
#include "sled/plan_table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/interrupt.h"
#include "base/util.h"
#include "base/why.h"
#include "target/chosen_file.h"

/* See FUNCTIONS_PER_LOOK in object.c. */
#define FUNCTIONS_PER_LOOK 4096

/* Returns whether tools probe the function: runtimes call it when code changes, for xprof, gdb and others. */
static bool is_probed(const char *name)
{
	return !strcmp(name, "__jit_debug_register_code");
}

/* Returns whether a function can be recorded. Only those of Go programs may have a probe at their entry. */
static bool can_record(const struct xp_planned *planned, const struct xp_call_plan_function *function, const char *name)
{
	const struct xp_call_plan_site *sites = planned->plan.sites + function->first_site;

	if (function->way != (planned->is_go ? XP_CALL_PLAN_PROBES : XP_CALL_PLAN_PATCHED) || is_probed(name))
		return false;
	for (uint32_t i = 0; i < function->site_count; i++)
		if (sites[i].window == XP_NO_WINDOW && !sites[i].can_probe)
			return false;
	return true;
}

/* Selects functions. Returns the number of their sites, or -errno. */
static int64_t select_functions(struct xp_plan_table *plan, size_t *count, xp_wanted wanted, const void *arg)
{
	const struct xp_call_plan *all = &plan->planned.plan;
	int64_t sites = 0;

	plan->functions = calloc(all->function_count + 1, sizeof(*plan->functions));
	if (!plan->functions)
		return -ENOMEM;
	for (size_t i = 0; i < all->function_count; i++) {
		const uint32_t *first = &plan->planned.first_name[i];
		const char *name = xp_planned_name(&plan->planned, i);

		if (i % FUNCTIONS_PER_LOOK == FUNCTIONS_PER_LOOK - 1 && xp_interrupted())
			return -ECANCELED;
		if (!wanted(arg, plan->planned.names + first[0], first[1] - first[0]))
			continue;
		if (!can_record(&plan->planned, &all->functions[i], name)) {
			plan->left_out[all->functions[i].reason]++;
			continue;
		}
		plan->functions[(*count)++] = (uint32_t)i;
		sites += all->functions[i].site_count;
	}
	return sites > XP_SLEDS_MAX ? -E2BIG : sites;
}

static void fill(struct xp_sled_table *table, const struct xp_plan_table *plan, size_t count)
{
	const struct xp_planned *planned = &plan->planned;

	table->function_count = count;
	for (size_t i = 0; i < count; i++) {
		const struct xp_call_plan_function *function = &planned->plan.functions[plan->functions[i]];

		table->functions[i] =
		    (struct xp_function){ function->vaddr, xp_planned_name(planned, plan->functions[i]) };
		for (uint32_t k = 0; k < function->site_count; k++) {
			const struct xp_call_plan_site *site = &planned->plan.sites[function->first_site + k];

			table->sleds[table->sled_count++] = (struct xp_sled){
				.vaddr = site->vaddr,
				.file_offset = site->vaddr - planned->code.vaddr + planned->code.offset,
				.function_id = (uint32_t)i + 1,
				.kind = site->kind == XP_SITE_ENTRY ? XP_SLED_ENTRY : XP_SLED_TAIL_EXIT,
				.intact = true,
				.is_probed = site->window == XP_NO_WINDOW,
				.conditional = site->window == XP_NO_WINDOW && site->has_condition,
				.condition = site->condition,
			};
		}
	}
	table->build_id_bytes = (uint8_t)planned->build_id_bytes;
	memcpy(table->build_id, planned->build_id, sizeof(table->build_id));
}

static int make(struct xp_plan_table *plan, struct xp_sled_table **table, int fd, const char *path, xp_wanted wanted,
		const void *arg)
{
	size_t count = 0;
	int64_t sites;
	int err = xp_planned_ask(&plan->planned, fd, path, xp_chosen_user_may_read(fd));

	if (err)
		return err;
	if (plan->planned.has_rseq)
		return xp_why_set(-EOPNOTSUPP, "it has restartable sequences (rseq)");
	if (!plan->planned.code.bytes)
		return xp_why_set(-EOPNOTSUPP, "its code is in more than one segment");
	sites = select_functions(plan, &count, wanted, arg);
	if (sites < 0)
		return xp_why_set((int)sites, "%s",
				  sites == -E2BIG ? "too many functions are selected" : strerror((int)-sites));
	*table = xp_sled_table_new((size_t)sites, count);
	if (!*table)
		return -ENOMEM;
	fill(*table, plan, count);
	return 0;
}

int xp_plan_table_make(struct xp_plan_table **result, struct xp_sled_table **table, int fd, const char *path,
		       xp_wanted wanted, const void *arg)
{
	struct xp_plan_table *plan = calloc(1, sizeof(*plan));
	int err = plan ? make(plan, table, fd, path, wanted, arg) : -ENOMEM;

	if (err) {
		xp_plan_table_free(plan);
		return err;
	}
	*result = plan;
	return 0;
}

void xp_plan_table_text(const struct xp_plan_table *plan, size_t function_count, char *to, size_t size)
{
	const char *before = "; not recorded: ";
	size_t partly = 0, probes = 0, used;

	for (size_t i = 0; i < function_count; i++) {
		const struct xp_call_plan_function *function = &plan->planned.plan.functions[plan->functions[i]];

		partly += function->probe_count > 0;
		probes += function->probe_count;
	}
	if (plan->planned.is_go)
		used = (size_t)snprintf(to, size, "%zu probed", function_count);
	else
		used = (size_t)snprintf(to, size, "%zu patched, %zu partly", function_count - partly, partly);
	if (partly && !plan->planned.is_go)
		used +=
		    (size_t)snprintf(to + used, size - used, " (%zu exit%s with probes)", probes, xp_plural_s(probes));
	for (size_t i = 0; i < XP_CALL_PLAN_REASONS && used < size; i++) {
		if (!plan->left_out[i])
			continue;
		used += (size_t)snprintf(to + used, size - used, "%s%zu %s", before, plan->left_out[i],
					 i ? xp_call_plan_reason_word(i) : "probes");
		before = ", ";
	}
}

void xp_plan_table_free(struct xp_plan_table *plan)
{
	if (!plan)
		return;
	xp_planned_free(&plan->planned);
	free(plan->functions);
	free(plan);
}
