/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tables of functions from a recording's profiles and logs: samples, flat and cumulative, and calls. Nothing is
 * printed here but warnings.
 */
#ifndef XPROF_REPORT_H
#define XPROF_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report/recorded.h"
#include "report/symbolize.h"

struct xp_report_options {
	bool by_line;	 /* a row for each source line; without calls, unless there are only calls */
	bool no_inlines; /* what is inlined counts for the function that it is inlined in */
};

struct xp_report_row {
	const char *function; /* clean, or object+0xaddress */
	const char *file;     /* of the source, by line only; NULL: not known */
	uint32_t line;
	const char *object; /* clean: name of the ELF file; NULL: not known */
	uint64_t flat;	    /* samples in the function itself */
	uint64_t cum;	    /* and in what it calls */
	uint64_t calls;
	uint64_t ended;				       /* those of them that have a time */
	double total_s;				       /* of these, callees included */
	const struct xp_recorded_taken_out *taken_out; /* NULL: it was recorded all the time */
	uint64_t seen;				       /* private: the last chain that was counted in cum */
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
	struct xp_symbolizer *symbolizer; /* owns the texts */
	struct xp_report_table *tables;	  /* one for each process of the recording, most samples first */
	size_t count;
};

/*
 * What is malformed is reported as it is found, what stands before it counts, and *broken is set. The recording must
 * outlive the tables. The caller frees with xp_report_free(), in case of an error too. -ENOMEM.
 */
int xp_report_make(struct xp_report_tables *tables, const struct xp_recorded *recorded,
		   const struct xp_report_options *options, bool *broken);
void xp_report_free(struct xp_report_tables *tables);

/* The rows of most samples (XP_REPORT_TIME: of most time in calls) first. */
void xp_report_sort(struct xp_report_table *table, enum xp_report_sort sort);

#endif
