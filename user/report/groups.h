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
	struct xp_report_row_index *indexes; /* of each table */
	struct xp_report_row_index all;	     /* of the table of all */
	bool has_all;			     /* this table is made, too */
	/* private */
	size_t room, index_room;
	struct xp_u64_map by_key;
};

/* The caller calls xp_report_groups_free(), also after an error. Return 0 or -ENOMEM. */
int xp_report_groups_init(struct xp_report_groups *groups, struct xp_report_tables *tables,
			  const struct xp_recorded *recorded);
void xp_report_groups_free(struct xp_report_groups *groups);

/* The names of a process of the recording: from one pool, clean. *cgroup: NULL: unknown. Returns 0 or -ENOMEM. */
int xp_report_groups_names(const struct xp_report_groups *groups, size_t process, const char **comm,
			   const char **cgroup);
/* When its recording started; 0: unknown. */
uint64_t xp_report_groups_start_tsc(const struct xp_report_groups *groups, size_t process);

/* These find the number of a table or add it, and return 0 or -ENOMEM. */

/* Sets *table to the table of a process of the recording, unless the report is by thread or CPU. */
int xp_report_groups_process(struct xp_report_groups *groups, size_t process, size_t *table);
/* Sets *table to the table of a thread in a log, unless the report is by CPU. */
int xp_report_groups_logged(struct xp_report_groups *groups, size_t process, uint64_t tid, size_t *table);
/* thread: its name, which is cleaned. */
int xp_report_groups_thread(struct xp_report_groups *groups, const struct xp_model_process *process, uint64_t tid,
			    const char *thread, size_t *table);
/* XP_MODEL_CPU_UNKNOWN is one, too. */
int xp_report_groups_cpu(struct xp_report_groups *groups, uint32_t cpu, size_t *table);

/*
 * Sets *table to the table of a thread of a model of this recording, unless the report is by CPU. Texts: from the
 * symbolizer of the tables.
 */
int xp_report_groups_model(struct xp_report_groups *groups, const struct xp_model_process *process, uint64_t tid,
			   const char *thread, size_t *table);

/* That table, and the table of all, if it is made. Valid until the next table is added. Returns their number. */
size_t xp_report_groups_places(struct xp_report_groups *groups, size_t table, struct xp_report_place places[2]);

#endif
