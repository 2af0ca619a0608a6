// SPDX-License-Identifier: BSD-2-Clause
#include "report/report_waits.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/util.h"
#include "model/stack_shapes.h"

/* ---- accounts ---- */

static void count_account(struct xp_report_account *to, const struct xp_facts_account *account)
{
	to->threads++;
	xp_add_capped(&to->seen, account->seen);
	xp_add_capped(&to->running_ns, account->running_ns);
	xp_add_capped(&to->runnable_ns, account->runnable_ns);
	xp_add_capped(&to->blocked_ns, account->blocked_ns);
}

static int add_account(struct xp_report_groups *groups, const struct xp_facts *facts,
		       const struct xp_facts_account *account)
{
	struct xp_symbolizer *symbolizer = groups->tables->model.symbolizer;
	struct xp_model_process process = {
		.pid = account->pid,
		.image = (uint32_t)XP_MIN(account->image, (uint64_t)UINT32_MAX),
	};
	const char *comm = xp_facts_comm(facts, process.pid, process.image);
	const char *cgroup = xp_facts_cgroup(facts, process.pid, process.image);
	const char *name = account->name ? account->name : "";
	size_t table;
	int err;

	if (!comm && groups->tables->by != XP_MODEL_BY_NONE)
		return 0;
	process.name = xp_symbolizer_text(symbolizer, comm ? comm : name);
	process.cgroup = cgroup ? xp_symbolizer_text(symbolizer, cgroup) : NULL;
	if (!process.name || (cgroup && !process.cgroup))
		return -ENOMEM;
	err = xp_report_groups_model(groups, &process, account->tid, name, &table);
	if (!err)
		count_account(&groups->tables->tables[table].account, account);
	return err;
}

static int add_accounts(struct xp_report_groups *groups, const struct xp_facts *facts)
{
	const struct xp_facts_waits *waits = &groups->tables->wait_facts;
	struct xp_facts_account account;
	int err = 0;

	groups->tables->all.account = (struct xp_report_account){
		.threads = waits->threads,
		.seen = waits->seen,
		.running_ns = waits->running_ns,
		.runnable_ns = waits->runnable_ns,
		.blocked_ns = waits->blocked_ns,
	};
	if (groups->tables->by == XP_MODEL_BY_CPU)
		return 0;
	for (size_t i = 0; !err && xp_facts_account(facts, i, &account); i++)
		err = add_account(groups, facts, &account);
	return err;
}

/* ---- waits ---- */

static int find_table(struct xp_report_groups *groups, const struct xp_model_wait *wait, uint32_t *found)
{
	const struct xp_model *model = &groups->tables->model;
	const struct xp_model_thread *thread = &model->threads[wait->thread];
	size_t table;
	int err =
	    groups->tables->by == XP_MODEL_BY_CPU
		? xp_report_groups_cpu(groups, wait->cpu, &table)
		: xp_report_groups_model(groups, &model->processes[thread->process], thread->tid, thread->name, &table);

	if (!err)
		*found = (uint32_t)table;
	return err;
}

static int compare_tables(const void *a, const void *b, void *arg)
{
	const uint32_t *tables = arg;

	return xp_compare(tables[*(const uint32_t *)a], tables[*(const uint32_t *)b]);
}

/* order: of all waits; by table it is first made, then used up piece by piece. */
static int make_tables(struct xp_report_groups *groups, const uint64_t *shapes, uint32_t *order, uint32_t *table_of)
{
	struct xp_report_tables *tables = groups->tables;
	const struct xp_model *model = &tables->model;
	int err = 0;

	for (size_t i = 0; !err && i < model->wait_count; i++) {
		order[i] = (uint32_t)i;
		err = find_table(groups, &model->waits[i], &table_of[i]);
	}
	if (!err)
		qsort_r(order, model->wait_count, sizeof(*order), compare_tables, table_of);
	for (size_t i = 0, end; !err && i < model->wait_count; i = end) {
		uint32_t table = table_of[order[i]];

		for (end = i + 1; end < model->wait_count && table_of[order[end]] == table;)
			end++;
		err = xp_wait_table_make(&tables->tables[table].waits, model, shapes, order + i, end - i, false);
	}
	if (!err && groups->has_all)
		err = xp_wait_table_make(&tables->all.waits, model, shapes, order, model->wait_count, false);
	return err;
}

static int add_waits(struct xp_report_groups *groups)
{
	const struct xp_model *model = &groups->tables->model;
	uint32_t *order = NULL, *table_of = NULL;
	uint64_t *shapes = NULL;
	int err;

	if (!model->wait_count)
		return 0;
	if (model->dropped_waits)
		xp_warn("%" PRIu64 " wait%s missing: the recording has too many different ones", model->dropped_waits,
			xp_plural_s_are(model->dropped_waits));
	groups->tables->has_waits = true;
	order = calloc(model->wait_count, sizeof(*order));
	table_of = calloc(model->wait_count, sizeof(*table_of));
	err = order && table_of ? xp_stack_shapes(model, &shapes) : -ENOMEM;
	err = err ?: make_tables(groups, shapes, order, table_of);
	free(order);
	free(table_of);
	free(shapes);
	return err;
}

void xp_report_waits_look(struct xp_report_tables *tables, const struct xp_facts *facts, bool has_perf)
{
	tables->has_waits = xp_facts_waits(facts, &tables->wait_facts);
	/* A manifest without waits is of a recording without them. */
	tables->model.keep_waits = has_perf && (tables->has_waits || !xp_facts_summary(facts)->started_ns);
	if (tables->has_waits && !has_perf)
		xp_warn("only perf.data has the places where threads waited, and there is none");
}

int xp_report_waits_count(struct xp_report_groups *groups, const struct xp_facts *facts)
{
	return add_accounts(groups, facts) ?: add_waits(groups);
}
