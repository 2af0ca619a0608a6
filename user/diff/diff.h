/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Compares two recordings, A and B: each function and each stack has a value of A and a value of B.
 *
 *	model of A, model of B (model.h)  -->  comparison  -->  rows of functions, one tree
 *
 * Two functions are the same if their displayed names and the names of their binaries (without the directory) are
 *equal: addresses, directories and build IDs differ between builds. The numbers in the names of a compiler's copies
 * (".constprop.0", ".llvm.123") also differ, so the comparison ignores them. All code without a name in a binary counts
 * as one function.
 *
 * Samples are compared per second of CPU time, which is independent of the length of the recordings and of the load of
 * the machine. For programs that do the same work in each second, they can be compared per second of the recording.
 * Calls are compared by their time per second of the recording.
 *
 * The numbers of samples are random: count_test.h determines which functions changed by more than this noise. All calls
 * are recorded, so the numbers of calls have no such noise.
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
	XP_DIFF_PER_CPU_SECOND, /* ms per second of CPU time; not for calls and waits */
	XP_DIFF_PER_SECOND,	/* ms per second of the recording */
	XP_DIFF_SHARES,		/* % of all samples, or of all time in calls or waits */
};

/* The probability that the comparison reports a change although no function has changed. */
#define XP_DIFF_LEVEL 0.01

enum xp_diff_verdict {
	XP_DIFF_NOISE,	    /* the change is within the noise of sampling */
	XP_DIFF_WITH_TOTAL, /* total CPU time has also changed, and the function's share of it has not */
	XP_DIFF_GREW,
	XP_DIFF_SHRANK,
};

/* The calls of a function in A and B. */
struct xp_diff_calls {
	uint64_t calls[2];
	uint64_t ended[2];		  /* calls with a known duration */
	double ns[2];			  /* sum of their durations, including callees */
	struct xp_durations durations[2]; /* in cycles; empty: unknown */
};

struct xp_diff_row {
	const char *function; /* clean */
	const char *object;   /* clean; "": unknown */
	enum xp_code_kind kind;
	/* Samples, or ns in calls or waits, in A and B: in the function itself, and including its callees. */
	uint64_t self[2], total[2];
	/* Result of the test of the compared value (self or total). Rows of calls have 1 and XP_DIFF_NOISE. */
	double p;
	enum xp_diff_verdict verdict;
	const struct xp_diff_calls *calls; /* NULL: the row is of samples or waits */
};

struct xp_diff_side {
	const char *path;   /* from the command line; set by the caller */
	uint64_t length_ns; /* length of the recording; 0: unknown */
	double period_ns;   /* CPU time that a sample represents; 0: unknown */
	uint64_t total;	    /* samples, or ns in calls or waits */
	double scale;	    /* value of a sample, or of a ns, in the unit of the comparison */
	uint64_t calls;
	uint64_t cycle_hz;   /* cycles of durations per second */
	bool many_processes; /* the processes have different names */
};

struct xp_diff {
	enum xp_model_kind kind; /* kind of the compared data */
	enum xp_diff_basis basis;
	bool by_total; /* the compared value is total instead of self */
	struct xp_diff_side sides[2];
	struct xp_diff_row total; /* sum of all samples */
	struct xp_diff_row *rows; /* significant changes first, then by the size of the change */
	size_t row_count;
	size_t tested; /* number of functions with enough samples for the test */
	double limit;  /* a row with a larger p is noise */

	struct xp_model model; /* values[0]: A, values[1]: B */
	struct xp_model_tree tree;

	/* private */
	struct xp_u64_map comms;     /* names of processes and their numbers */
	uint64_t locations;	     /* number of locations of all models so far */
	struct xp_diff_calls *calls; /* calls of each function */
	size_t calls_count, calls_room;
	struct xp_durations_memory durations_memory;
};

/* Starts a comparison. The caller calls xp_diff_free(), also after an error. Returns 0 or -ENOMEM. */
int xp_diff_init(struct xp_diff *diff, enum xp_model_kind kind);
void xp_diff_free(struct xp_diff *diff);

/*
 * Adds a model to A (side 0) or B (side 1). A side can have several models, in order of time. The depth of the stacks
 * must be limited (model/depth.h). The caller may free the model afterwards.
 */
int xp_diff_add(struct xp_diff *diff, size_t side, const struct xp_model *model);

/*
 * Compares the models. Changes the basis XP_DIFF_PER_SECOND to XP_DIFF_SHARES if the length of a recording, or the CPU
 * time of a sample, is unknown. Returns 0 or -ENOMEM.
 */
int xp_diff_make(struct xp_diff *diff, enum xp_diff_basis basis, bool by_total);

/* Returns the compared value of a row for A or B, in the unit of the comparison. */
double xp_diff_value(const struct xp_diff *diff, const struct xp_diff_row *row, size_t side);
/* Returns half the width of the 95 % confidence interval of the change, in the same unit. 0 for calls and waits. */
double xp_diff_margin(const struct xp_diff *diff, const struct xp_diff_row *row);
/* Return the mean or a percentile (1000: the slowest) of the calls of A or B, in ns. Below 0: unknown. */
double xp_diff_mean(const struct xp_diff_calls *calls, size_t side);
double xp_diff_percentile(const struct xp_diff *diff, const struct xp_diff_calls *calls, size_t side,
			  unsigned int thousandths);
/* Returns the basis: "cpu-second", "second" or "share". */
const char *xp_diff_per(const struct xp_diff *diff);
/* Returns the unit: "ms/s" or "%". */
const char *xp_diff_unit(const struct xp_diff *diff);

#endif
