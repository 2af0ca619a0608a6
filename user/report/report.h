/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes tables of functions from a recording: samples, flat and cumulative, and calls. Prints only warnings.
 *
 *	model of samples and waits (read_samples.h)  --\
 *						   >--  a table per process, thread, name, ..., and one for all
 *	calls of each log (log_rows.h)  ------------------/
 *
 * Calls are not read into a model: the tables need no stacks of calls, so memory use is bounded for any log.
 */
#ifndef XPROF_REPORT_REPORT_H
#define XPROF_REPORT_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/durations.h"
#include "model/facts.h"
#include "model/recorded.h"
#include "model/model.h"
#include "model/tree.h"
#include "report/machine.h"
#include "report/wait_table.h"

struct xp_report_options {
	enum xp_model_group by;
	const char *directory; /* directory of the only recording; NULL: several recordings, or only files */
	/* The selected times of each directory of the recording, all of which have perf.data; NULL: everything. */
	const struct xp_select *times;
	bool by_line;	       /* a row per source line; without calls, unless there are only calls */
	bool no_inlines;       /* count inlined code for the function that contains it */
	const char *instr_map; /* file with the functions of all logs, see objects.h; NULL: none */
	bool full_names;       /* full names in the stacks of waits */
	bool only_waits;       /* omit samples and calls */
};

struct xp_report_row {
	const char *function; /* clean, or object+0xaddress */
	const char *file;     /* source file, only with by_line; NULL: unknown */
	uint32_t line;
	bool is_others;	    /* represents all functions beyond the limit of rows (rows.h) */
	const char *object; /* clean: name of the ELF file; NULL: unknown */
	uint64_t flat;	    /* samples in the function itself */
	uint64_t cum;	    /* in the function and its callees */
	uint64_t calls;
	uint64_t ended;				       /* calls with a known duration */
	double total_s;				       /* sum of their durations, including callees */
	struct xp_durations durations;		       /* in ns; max_at is ns since the start, max_where a TID */
	const struct xp_recorded_taken_out *taken_out; /* when it was throttled; NULL: never */
	double recorded_s;			       /* with taken_out: length of the recording */
	uint64_t seen;				       /* private: number of the last stack that was added to cum */
};

/* How threads spent their time, according to all context switches (--off-cpu). */
struct xp_report_account {
	uint64_t threads; /* 0: unknown */
	uint64_t seen;	  /* number of waits, recorded or not; 0: unknown */
	uint64_t running_ns, runnable_ns, blocked_ns;
};

struct xp_report_table {
	const char *name; /* clean: "COMM (PID)", "cpu 0" and so on */
	uint64_t pid;	  /* PID of a process or thread; 0: unknown, or the table is for another group */
	uint64_t image;
	uint64_t tid;	    /* TID of a thread */
	const char *stacks; /* for a process, as in struct xp_recorded_process */
	bool has_samples;
	bool is_of_waits; /* the table is of a .wait.prof file: its samples are us of waits */
	bool has_calls;
	uint64_t samples;
	uint64_t kernel_samples; /* samples in the kernel, included in samples */
	uint64_t sampled_ns;	 /* CPU time that the samples represent */
	uint64_t period_us;
	uint64_t calls;
	uint64_t open; /* calls that had not returned at the end */
	struct xp_report_row *rows;
	size_t row_count;
	struct xp_report_account account;
	struct xp_wait_table waits; /* waits of its threads; the stacks are in tables->model */
};

/* Hits of a USDT probe in a group. */
struct xp_report_hits {
	const char *group; /* clean: name of its table */
	const char *probe; /* clean: PROVIDER:NAME */
	uint64_t hits;
};

enum xp_report_sort { XP_REPORT_FLAT, XP_REPORT_CUM, XP_REPORT_TIME };

struct xp_report_tables {
	enum xp_model_group by;
	struct xp_model model;		/* samples and waits; owns the strings */
	struct xp_report_table *tables; /* one per group, most samples first */
	size_t count;
	struct xp_report_table all; /* all groups together; without rows if there is only one group */
	size_t row_count;	    /* number of rows of all tables except `all` */
	uint64_t in_others;	    /* samples and calls in rows with is_others */
	struct xp_report_hits *hits; /* most hits first */
	size_t hit_count;
	struct xp_report_machine machine;
	struct xp_durations_memory memory; /* memory for the durations of all rows */
	struct xp_facts_waits wait_facts;
	bool has_waits; /* the recording has waits, or was made with --off-cpu */
};

#define XP_REPORT_NEEDS_PERF                                                                                           \
	"only perf.data has the threads and CPUs of samples, and there is none; give the directory of one recording"

/*
 * Makes the tables. For a malformed file, prints an error, uses the records before the malformed one, and sets *broken.
 * The recording must outlive the tables. The caller calls xp_report_free(), also after an error. Returns 0 or -errno:
 * -ENOMEM, or -ENODATA after a message, if a report by thread or CPU lacks perf.data.
 */
int xp_report_make(struct xp_report_tables *tables, const struct xp_recorded *recorded,
		   const struct xp_report_options *options, bool *broken);
void xp_report_free(struct xp_report_tables *tables);

/* Returns whether the table has waits, or times of threads. */
static inline bool xp_report_has_waits(const struct xp_report_table *table)
{
	return table->account.threads || table->waits.recorded;
}

/* Sorts the rows: most samples first. With XP_REPORT_TIME, or without samples: most time in calls first. */
void xp_report_sort(struct xp_report_table *table, enum xp_report_sort sort);
void xp_report_sort_all(struct xp_report_tables *tables, enum xp_report_sort sort);

#endif
