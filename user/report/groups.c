// SPDX-License-Identifier: BSD-2-Clause
#include "report/groups.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "model/model.h"

#define ID_MASK ((UINT64_C(1) << 22) - 1)
#define IMAGES_MAX 1000 /* that are tried for a process of another name */

/* ---- names from manifests ---- */

static const struct xp_facts *facts_of(const struct xp_report_groups *groups, size_t process)
{
	return xp_recorded_facts(groups->recorded, groups->recorded->processes[process].directory);
}

int xp_report_groups_names(const struct xp_report_groups *groups, size_t process, const char **comm,
			   const char **cgroup)
{
	const struct xp_recorded_process *from = &groups->recorded->processes[process];
	const struct xp_facts *facts = facts_of(groups, process);
	const char *its = xp_facts_comm(facts, from->pid, from->image);
	const char *group = xp_facts_cgroup(facts, from->pid, from->image);

	*comm = xp_symbolizer_text(groups->tables->model.symbolizer, its ? its : from->name);
	*cgroup = group ? xp_symbolizer_text(groups->tables->model.symbolizer, group) : NULL;
	return *comm && (*cgroup || !group) ? 0 : -ENOMEM;
}

uint64_t xp_report_groups_start_tsc(const struct xp_report_groups *groups, size_t process)
{
	return xp_facts_summary(facts_of(groups, process))->start_tsc;
}

uint64_t xp_report_groups_offset_ns(const struct xp_report_groups *groups, size_t process)
{
	const struct xp_recorded *recorded = groups->recorded;

	return groups->joins ? xp_recorded_offset_ns(recorded, recorded->processes[process].directory) : 0;
}

/* ---- tables ---- */

static int add_table(struct xp_report_groups *groups, const struct xp_report_table *table)
{
	struct xp_report_tables *tables = groups->tables;

	if (!table->name || XP_ARRAY_RESERVE(tables->tables, groups->room, tables->count + 1) ||
	    XP_ARRAY_RESERVE(groups->indexes, groups->index_room, tables->count + 1))
		return -ENOMEM;
	groups->indexes[tables->count] = (struct xp_report_row_index){ 0 };
	tables->tables[tables->count++] = *table;
	return 0;
}

static uint64_t process_key(uint64_t pid, uint64_t image)
{
	return image << 22 | (pid & ID_MASK);
}

/*
 * The table of a process of all parts. Images are numbered anew in each part, and PIDs are used again: as in
 * xp_model_add(), another program is another image. Changes the image to that of the table.
 */
static const uint32_t *find_joined(const struct xp_report_groups *groups, struct xp_report_table *table)
{
	const uint32_t *known = xp_u64_map_find(&groups->by_key, process_key(table->pid, table->image));

	for (int i = 0; known && i < IMAGES_MAX && strcmp(groups->tables->tables[*known].name, table->name); i++)
		known = xp_u64_map_find(&groups->by_key, process_key(table->pid, ++table->image));
	return known;
}

/* Finds the table with this key or adds it. */
static int find_table(struct xp_report_groups *groups, uint64_t key, const struct xp_report_table *table, size_t *found)
{
	const uint32_t *known = xp_u64_map_find(&groups->by_key, key);
	int err;

	if (known) {
		*found = *known;
		return 0;
	}
	*found = groups->tables->count;
	err = add_table(groups, table);
	return err || xp_u64_map_add(&groups->by_key, key, (uint32_t)*found) ? err : -ENOMEM;
}

/* Stores the table of a process. If the process has several entries, the entry with a profile has priority. */
static int know_process(struct xp_report_groups *groups, const struct xp_report_table *table, size_t index)
{
	uint32_t number = (uint32_t)groups->table_of[index];
	uint32_t *known = xp_u64_map_add(&groups->by_key, process_key(table->pid, table->image), number);

	if (known && groups->recorded->processes[index].profile)
		*known = number;
	return known ? 0 : -ENOMEM;
}

static int add_process(struct xp_report_groups *groups, size_t index)
{
	const struct xp_recorded_process *process = &groups->recorded->processes[index];
	struct xp_report_table table = {
		.name = process->name,
		.pid = process->pid,
		.image = process->image,
		.stacks = process->stacks,
	};
	const uint32_t *joined = groups->joins && process->pid ? find_joined(groups, &table) : NULL;

	groups->table_of[index] = joined ? *joined : groups->tables->count;
	return joined ? 0 : add_table(groups, &table) ?: know_process(groups, &table, index);
}

static int add_processes(struct xp_report_groups *groups)
{
	int err = 0;

	groups->table_of = calloc(groups->recorded->process_count + 1, sizeof(*groups->table_of));
	if (!groups->table_of)
		return -ENOMEM;
	for (size_t i = 0; !err && i < groups->recorded->process_count; i++)
		err = add_process(groups, i);
	return err;
}

int xp_report_groups_init(struct xp_report_groups *groups, struct xp_report_tables *tables,
			  const struct xp_recorded *recorded, bool joins)
{
	*groups = (struct xp_report_groups){ .tables = tables, .recorded = recorded, .joins = joins };
	groups->has_all =
	    tables->by != XP_MODEL_BY_NONE && (tables->by != XP_MODEL_BY_PROCESS || recorded->process_count != 1);
	tables->all.name = "all";
	return tables->by == XP_MODEL_BY_PROCESS ? add_processes(groups) : 0;
}

void xp_report_groups_free(struct xp_report_groups *groups)
{
	for (size_t i = 0; groups->indexes && i < groups->tables->count; i++)
		xp_report_row_index_free(&groups->indexes[i]);
	xp_report_row_index_free(&groups->all);
	free(groups->indexes);
	free(groups->table_of);
	xp_u64_map_free(&groups->by_key);
}

int xp_report_groups_process(struct xp_report_groups *groups, size_t process, size_t *table)
{
	struct xp_symbolizer *symbolizer = groups->tables->model.symbolizer;
	struct xp_report_table new = { 0 };
	const char *comm, *cgroup;
	int err;

	if (groups->tables->by == XP_MODEL_BY_PROCESS) {
		*table = groups->table_of[process];
		return 0;
	}
	err = xp_report_groups_names(groups, process, &comm, &cgroup);
	if (err)
		return err;
	if (groups->tables->by == XP_MODEL_BY_COMM)
		new.name = comm;
	else if (groups->tables->by == XP_MODEL_BY_CGROUP)
		new.name = cgroup ? cgroup : xp_symbolizer_text(symbolizer, XP_MODEL_NO_CGROUP);
	else
		new.name = xp_symbolizer_text(symbolizer, "all");
	return find_table(groups, (uintptr_t) new.name, &new, table);
}

int xp_report_groups_model(struct xp_report_groups *groups, const struct xp_model_process *process, uint64_t tid,
			   const char *thread, size_t *table)
{
	struct xp_symbolizer *symbolizer = groups->tables->model.symbolizer;
	struct xp_report_table new = { 0 };
	char label[XP_MODEL_LABEL_BYTES];
	uint64_t key;

	switch (groups->tables->by) {
	case XP_MODEL_BY_THREAD:
		return xp_report_groups_thread(groups, process, tid, thread, table);
	case XP_MODEL_BY_PROCESS:
		new.pid = process->pid;
		new.image = process->image;
		new.name =
		    xp_symbolizer_text(symbolizer, xp_model_label(label, sizeof(label), process->name, process->pid));
		if (groups->joins && new.name)
			find_joined(groups, &new);
		break;
	case XP_MODEL_BY_COMM:
		new.name = process->name;
		break;
	case XP_MODEL_BY_CGROUP:
		new.name = process->cgroup ? process->cgroup : xp_symbolizer_text(symbolizer, XP_MODEL_NO_CGROUP);
		break;
	default:
		new.name = xp_symbolizer_text(symbolizer, "all");
	}
	key = new.image ? process_key(new.pid, new.image) : (uintptr_t) new.name;
	return find_table(groups, key, &new, table);
}

/* A thread that executes another program is a new thread in the report. The kernel's IDs have at most 22 bits. */
int xp_report_groups_thread(struct xp_report_groups *groups, const struct xp_model_process *process, uint64_t tid,
			    const char *thread, size_t *table)
{
	struct xp_report_table new = { .pid = process->pid, .image = process->image, .tid = tid };
	uint64_t key = (uint64_t)process->image << 44 | (process->pid & ID_MASK) << 22 | (tid & ID_MASK);
	char label[XP_MODEL_LABEL_BYTES];

	new.name =
	    xp_symbolizer_text(groups->tables->model.symbolizer, xp_model_label(label, sizeof(label), thread, tid));
	return find_table(groups, key, &new, table);
}

int xp_report_groups_logged(struct xp_report_groups *groups, size_t process, uint64_t tid, size_t *table)
{
	const struct xp_recorded_process *from = &groups->recorded->processes[process];
	const struct xp_facts *facts = facts_of(groups, process);
	const char *name = xp_facts_thread(facts, from->pid, from->image, tid);

	const struct xp_model_process its = { .pid = from->pid, .image = (uint32_t)from->image };

	if (groups->tables->by != XP_MODEL_BY_THREAD)
		return xp_report_groups_process(groups, process, table);
	if (!name)
		name = xp_facts_comm(facts, from->pid, from->image);
	return xp_report_groups_thread(groups, &its, tid, name ? name : from->name, table);
}

int xp_report_groups_cpu(struct xp_report_groups *groups, uint32_t cpu, size_t *table)
{
	struct xp_report_table new = { 0 };
	char label[XP_MODEL_LABEL_BYTES];

	new.name = xp_symbolizer_text(groups->tables->model.symbolizer, xp_model_cpu_label(label, sizeof(label), cpu));
	return find_table(groups, cpu, &new, table);
}

size_t xp_report_groups_places(struct xp_report_groups *groups, size_t table, struct xp_report_place places[2])
{
	places[0] = (struct xp_report_place){ &groups->tables->tables[table], &groups->indexes[table] };
	places[1] = (struct xp_report_place){ &groups->tables->all, &groups->all };
	return groups->has_all ? 2 : 1;
}
