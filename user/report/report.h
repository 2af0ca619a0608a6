/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes tables of functions from the profiles and logs of a recording: samples, flat and cumulative, and calls. Prints
 * nothing but warnings.
 */
#ifndef XPROF_REPORT_REPORT_H
#define XPROF_REPORT_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report/recorded.h"
#include "report/symbolize.h"

struct xp_report_options {
	bool by_line;	       /* one row per source line; without calls, unless there are only calls */
	bool no_inlines;       /* count inlined code for the function that contains it */
	const char *instr_map; /* file with the functions of every log, see objects.h; NULL: none */
};

struct xp_report_row {
	const char *function; /* clean, or object+0xaddress */
	const char *file;     /* source file, only with by_line; NULL: unknown */
	uint32_t line;
	const char *object; /* clean: name of the ELF file; NULL: unknown */
	uint64_t flat;	    /* samples in the function itself */
	uint64_t cum;	    /* in the function and its callees */
	uint64_t calls;
	uint64_t ended;				       /* calls that have a time */
	double total_s;				       /* time of these, callees included */
	const struct xp_recorded_taken_out *taken_out; /* NULL: recorded all the time */
	uint64_t seen;				       /* private: the last chain that was added to cum */
};

struct xp_report_table {
	const struct xp_recorded_process *process;
	bool has_samples;
	bool has_calls;
	uint64_t samples;
	uint64_t period_us;
	uint64_t calls;
	uint64_t open; /* calls that had not returned at the end */
	struct xp_report_row *rows;
	size_t row_count;
};

enum xp_report_sort { XP_REPORT_FLAT, XP_REPORT_CUM, XP_REPORT_TIME };

struct xp_report_tables {
	struct xp_symbolizer *symbolizer; /* owns the strings */
	struct xp_report_table *tables;	  /* one per process of the recording, most samples first */
	size_t count;
};

/*
 * Makes the tables. A malformed part is reported when it is found, what precedes it counts, and *broken is set. The
 * recording must outlive the tables. The caller frees them with xp_report_free(), also after an error. Returns 0 or
 * -ENOMEM.
 */
int xp_report_make(struct xp_report_tables *tables, const struct xp_recorded *recorded,
		   const struct xp_report_options *options, bool *broken);
void xp_report_free(struct xp_report_tables *tables);

/* Sorts the rows: most samples first (XP_REPORT_TIME: most time in calls first). */
void xp_report_sort(struct xp_report_table *table, enum xp_report_sort sort);

#endif
