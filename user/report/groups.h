/* SPDX-License-Identifier: BSD-2-Clause */
/* Assigns processes, threads and CPUs to the tables of a report. */
#ifndef XPROF_REPORT_GROUPS_H
#define XPROF_REPORT_GROUPS_H

#include "model/facts.h"
#include "model/model.h"
#include "report/report.h"
#include "report/rows.h"

struct xp_report_groups {
	struct xp_report_tables *tables;
	const struct xp_recorded *recorded;
	struct xp_report_row_index *indexes; /* the index of each table */
	struct xp_report_row_index all;	     /* the index of tables->all */
	bool has_all;			     /* tables->all is filled in, too */
	/* private */
	size_t room, index_room;
	struct xp_u64_map by_key;
	size_t *table_of; /* of each process of the recording, in a report by process */
	bool joins;
};

/* joins: the directories are parts, and a process of several ones has one table. Returns 0 or -ENOMEM. The caller calls
 * xp_report_groups_free(), also after an error. */
int xp_report_groups_init(struct xp_report_groups *groups, struct xp_report_tables *tables,
			  const struct xp_recorded *recorded, bool joins);
void xp_report_groups_free(struct xp_report_groups *groups);

/*
 * Gets the names of a process of the recording. They are clean and interned (equal names have one address). *cgroup is
 * NULL if it is unknown. Returns 0 or -ENOMEM.
 */
int xp_report_groups_names(const struct xp_report_groups *groups, size_t process, const char **comm,
			   const char **cgroup);
/* Returns the TSC of the start of the process's recording, or 0 if it is unknown. */
uint64_t xp_report_groups_start_tsc(const struct xp_report_groups *groups, size_t process);
/* Returns when that was, since the start of the first part; 0 if the directories are not parts. */
uint64_t xp_report_groups_offset_ns(const struct xp_report_groups *groups, size_t process);

/* The next functions set *table to the index of a table, which they add if it is missing. They return 0 or -ENOMEM. */

/* Finds the table of a process of the recording. Not for reports by thread or CPU. */
int xp_report_groups_process(struct xp_report_groups *groups, size_t process, size_t *table);
/* Finds the table of a thread in a log. Not for reports by CPU. */
int xp_report_groups_logged(struct xp_report_groups *groups, size_t process, uint64_t tid, size_t *table);
/* Finds the table of a thread. thread: the name of the thread; the function cleans it. */
int xp_report_groups_thread(struct xp_report_groups *groups, const struct xp_model_process *process, uint64_t tid,
			    const char *thread, size_t *table);
/* Finds the table of a CPU. XP_MODEL_CPU_UNKNOWN has a table, too. */
int xp_report_groups_cpu(struct xp_report_groups *groups, uint32_t cpu, size_t *table);

/*
 * Finds the table of a thread in a model of this recording. Not for reports by CPU. The strings must come from the
 * symbolizer of the tables.
 */
int xp_report_groups_model(struct xp_report_groups *groups, const struct xp_model_process *process, uint64_t tid,
			   const char *thread, size_t *table);

/* Gets this table and, if has_all, tables->all. Returns their number. They are valid until the next table is added. */
size_t xp_report_groups_places(struct xp_report_groups *groups, size_t table, struct xp_report_place places[2]);

#endif
