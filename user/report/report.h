/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes tables of functions from a recording: samples, flat and cumulative, and calls. Prints nothing but warnings.
 *
 *	model of samples and waits (read_samples.h)  --\
 *						   >--  one table a process, thread, name, ... and one of them all
 *	calls of each log (log_rows.h)  ------------------/
 *
 * Calls are not read as a model: a table needs no stacks of them, and so bounded memory for any log.
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
	const char *directory; /* of the only recording; NULL: there are others, or only files are read */
	bool by_line;	       /* one row per source line; without calls, unless there are only calls */
	bool no_inlines;       /* count inlined code for the function that contains it */
	const char *instr_map; /* file with the functions of every log, see objects.h; NULL: none */
	bool full_names;       /* of functions in stacks of waits */
	bool only_waits;       /* nothing of samples and calls */
};

struct xp_report_row {
	const char *function; /* clean, or object+0xaddress */
	const char *file;     /* source file, only with by_line; NULL: unknown */
	uint32_t line;
	bool is_others;	    /* all functions beyond the limit of rows (rows.h) */
	const char *object; /* clean: name of the ELF file; NULL: unknown */
	uint64_t flat;	    /* samples in the function itself */
	uint64_t cum;	    /* in the function and its callees */
	uint64_t calls;
	uint64_t ended;		       /* calls that have a time */
	double total_s;		       /* time of these, callees included */
	struct xp_durations durations; /* the same in ns; max_at is ns since the start, max_where a TID */
	const struct xp_recorded_taken_out *taken_out; /* NULL: recorded all the time */
	double recorded_s;			       /* only with taken_out: how long it could be recorded */
	uint64_t seen;				       /* private: the last stack that was added to cum */
};

/* How threads spent their time, as the kernel reported all switches (--off-cpu). */
struct xp_report_account {
	uint64_t threads; /* 0: unknown */
	uint64_t seen;	  /* waits, written or not; 0: unknown */
	uint64_t running_ns, runnable_ns, blocked_ns;
};

struct xp_report_table {
	const char *name; /* clean: "COMM (PID)", "cpu 0" and so on */
	uint64_t pid;	  /* of a process or a thread; 0: unknown, or another group */
	uint64_t image;
	uint64_t tid;	    /* of a thread */
	const char *stacks; /* of a process: as in struct xp_recorded_process */
	bool has_samples;
	bool is_of_waits; /* its samples are us of waits, of a .wait.prof */
	bool has_calls;
	uint64_t samples;
	uint64_t kernel_samples; /* of these, in the kernel */
	uint64_t sampled_ns;	 /* CPU time that they represent */
	uint64_t period_us;
	uint64_t calls;
	uint64_t open; /* calls that had not returned at the end */
	struct xp_report_row *rows;
	size_t row_count;
	struct xp_report_account account;
	struct xp_wait_table waits; /* of its threads; their stacks are in tables->model */
};

enum xp_report_sort { XP_REPORT_FLAT, XP_REPORT_CUM, XP_REPORT_TIME };

struct xp_report_tables {
	enum xp_model_group by;
	struct xp_model model;		/* of the samples and waits; owns the strings */
	struct xp_report_table *tables; /* one per group, most samples first */
	size_t count;
	struct xp_report_table all; /* of all groups together; without rows if there is only one */
	size_t row_count;	    /* of all tables but the last one */
	uint64_t in_others;	    /* samples and calls that are counted in a row of other functions */
	struct xp_report_machine machine;
	struct xp_durations_memory memory; /* of all rows' durations */
	struct xp_facts_waits wait_facts;
	bool has_waits; /* the recording has waits, or was made with --off-cpu */
};

#define XP_REPORT_NEEDS_PERF                                                                                           \
	"only perf.data has the threads and CPUs of samples, and there is none; give the directory of one recording"

/*
 * Makes the tables. A malformed part is reported when it is found, what precedes it counts, and *broken is set. The
 * recording must outlive the tables. The caller frees them with xp_report_free(), also after an error. Returns 0 or
 * -errno: -ENOMEM, or -ENODATA, after a message, if there is no perf.data that tells threads or CPUs apart.
 */
int xp_report_make(struct xp_report_tables *tables, const struct xp_recorded *recorded,
		   const struct xp_report_options *options, bool *broken);
void xp_report_free(struct xp_report_tables *tables);

/* Whether anything is known of waits in it. */
static inline bool xp_report_has_waits(const struct xp_report_table *table)
{
	return table->account.threads || table->waits.recorded;
}

/* Sorts the rows: most samples first; by time of calls with XP_REPORT_TIME, or if there are no samples. */
void xp_report_sort(struct xp_report_table *table, enum xp_report_sort sort);
void xp_report_sort_all(struct xp_report_tables *tables, enum xp_report_sort sort);

#endif
