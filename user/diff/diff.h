/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Compares two recordings, A and B: each function and each stack has a value of A and a value of B.
 *
 *	model of A, model of B (model.h)  -->  comparison  -->  rows of functions, one tree
 *
 * Functions are the same if their shown names and the names of their objects are, without the directory: addresses,
 * directories and build IDs differ from build to build. Numbers in the names of a compiler's copies of a function
 * (".constprop.0", ".llvm.123") differ, too, so they are ignored. Code without a name is one function for each object.
 *
 * Samples are compared per second of CPU time, which depends neither on the length of the recordings nor on the load of
 * the machine. For programs that do the same work in each second, they can be compared per second of the recording.
 * Calls are compared by their time in each second.
 *
 * Numbers of samples have noise: count_test.h decides which functions changed by more than the noise. All calls are
 * recorded, so their numbers have no noise of sampling.
 */
#ifndef XPROF_DIFF_DIFF_H
#define XPROF_DIFF_DIFF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/count_test.h"
#include "model/model.h"
#include "model/tree.h"

enum xp_diff_basis {
	XP_DIFF_PER_CPU_SECOND, /* ms; of calls and waits: as per second */
	XP_DIFF_PER_SECOND,	/* ms in each second of the recording */
	XP_DIFF_SHARES,		/* % of all samples, or of all time in calls or waits */
};

/* The probability that any function is reported as changed although none has changed. */
#define XP_DIFF_LEVEL 0.01

enum xp_diff_verdict {
	XP_DIFF_NOISE,	    /* within the noise of sampling */
	XP_DIFF_WITH_TOTAL, /* beyond it, but all CPU time has changed, too, and the function's share of it has not */
	XP_DIFF_GREW,
	XP_DIFF_SHRANK,
};

/* The calls of a function, of A and B. */
struct xp_diff_calls {
	uint64_t calls[2];
	uint64_t ended[2];		  /* those with a time */
	double ns[2];			  /* of these, callees included */
	struct xp_durations durations[2]; /* in cycles; none: unknown */
};

struct xp_diff_row {
	const char *function; /* clean */
	const char *object;   /* clean; "": unknown */
	enum xp_code_kind kind;
	/* Samples, or ns in calls or waits, of A and B: in the function itself, and with its callees. */
	uint64_t self[2], total[2];
	/* That of self or total, by which rows are compared. Calls have 1 and XP_DIFF_NOISE. */
	double p;
	enum xp_diff_verdict verdict;
	const struct xp_diff_calls *calls; /* NULL: of samples or waits */
};

struct xp_diff_side {
	const char *path;   /* as the user named it; set by the caller */
	uint64_t length_ns; /* of the recording; 0: unknown */
	double period_ns;   /* CPU time that a sample represents; 0: unknown */
	uint64_t total;	    /* samples, or ns in calls or waits */
	double scale;	    /* the unit's value of a sample, or of a ns */
	uint64_t calls;
	uint64_t cycle_hz;   /* of durations */
	bool many_processes; /* with different names */
};

struct xp_diff {
	enum xp_model_kind kind; /* of what is compared */
	enum xp_diff_basis basis;
	bool by_total; /* rows are compared with their callees */
	struct xp_diff_side sides[2];
	struct xp_diff_row total; /* of all samples */
	struct xp_diff_row *rows; /* the greatest change first */
	size_t row_count;
	size_t tested; /* functions with samples enough to be significant */
	double limit;  /* the p below which they are */

	struct xp_model model; /* values[0] of A and values[1] of B */
	struct xp_model_tree tree;

	/* private */
	struct xp_u64_map comms;     /* names of processes and their numbers */
	uint64_t locations;	     /* of all models so far */
	struct xp_diff_calls *calls; /* of each function */
	size_t calls_count, calls_room;
	struct xp_durations_memory durations_memory;
};

/* Starts a comparison. The caller calls xp_diff_free(), also after an error. Returns 0 or -ENOMEM. */
int xp_diff_init(struct xp_diff *diff, enum xp_model_kind kind);
void xp_diff_free(struct xp_diff *diff);

/* Adds a model of A (0) or B (1), which may have several, one after the other in time, and whose stacks are bounded
 * (model/depth.h). It is not needed any more then. */
int xp_diff_add(struct xp_diff *diff, size_t side, const struct xp_model *model);

/*
 * Compares the recordings that were added. diff->basis is XP_DIFF_SHARES instead of per second if the length of a
 * recording, or the CPU time of a sample, is unknown. Returns 0 or -ENOMEM.
 */
int xp_diff_make(struct xp_diff *diff, enum xp_diff_basis basis, bool by_total);

/* Returns the compared value of a row, of A or B, in the unit. */
double xp_diff_value(const struct xp_diff *diff, const struct xp_diff_row *row, size_t side);
/* Half of the width of the interval that has the true change in 95 of 100 cases, in the unit. 0: of calls and waits. */
double xp_diff_margin(const struct xp_diff *diff, const struct xp_diff_row *row);
/* Mean or percentile (thousandths; 1000: the slowest) of the calls of A or B, in ns. Below 0: unknown. */
double xp_diff_mean(const struct xp_diff_calls *calls, size_t side);
double xp_diff_percentile(const struct xp_diff *diff, const struct xp_diff_calls *calls, size_t side,
			  unsigned int thousandths);
/* "cpu-second", "second" or "share". */
const char *xp_diff_per(const struct xp_diff *diff);
/* "ms/s" or "%". */
const char *xp_diff_unit(const struct xp_diff *diff);

#endif
