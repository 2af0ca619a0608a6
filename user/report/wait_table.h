/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where threads waited, for tables: their waits by thread, stack and state, added up while perf.data is read.
 *
 *	xp_wait_places_read()  -->  places  -->  the caller says which table each is in  -->  xp_wait_table_make()
 *
 * Counts and times are those of all waits that the recorded ones stand for (wait_record.h). Their sums are those of the
 * model of waits (read_waits.h).
 *
 * Memory: 96 bytes a place and waker, up to XP_WAIT_PLACES_MAX, and a model of the stacks (model.h).
 */
#ifndef XPROF_REPORT_WAIT_TABLE_H
#define XPROF_REPORT_WAIT_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/read_samples.h"

/* Waits beyond are counted as dropped. */
#define XP_WAIT_PLACES_MAX (2u << 20)

/* Who ended a wait. */
struct xp_wait_waker {
	uint32_t tid;	  /* 0: unknown, or no thread */
	uint32_t flags;	  /* XP_WAIT_LAST, XP_WAIT_HARDIRQ or XP_WAIT_SOFTIRQ */
	const char *name; /* clean; "" */
};

/* Waits of a thread with one stack, state and waker; of a CPU, if these are told apart. */
struct xp_wait_place {
	uint32_t thread, cpu, stack, state;
	struct xp_wait_waker waker;
	uint64_t recorded;
	double count;
	uint64_t total_ns, runnable_ns;
	uint64_t longest_ns, longest_at_ns; /* and when it began, since the start of the recording */
};

struct xp_wait_places {
	struct xp_model model; /* its names are those to show */
	uint64_t *shapes;      /* of its stacks (stack_shapes.h) */
	struct xp_wait_place *list;
	size_t count;
	/* private */
	size_t room;
	bool by_cpu;
	struct xp_hash by_key;
};

/* Waits with the same functions in their stack and the same state. */
struct xp_wait_row {
	uint32_t stack; /* one of them */
	uint32_t state; /* enum xp_wait_state */
	double count;
	uint64_t total_ns;
	uint64_t runnable_ns; /* of these, without a CPU */
	uint64_t longest_ns, longest_at_ns;
	struct xp_wait_waker waker; /* that ended most of the time */
	uint64_t waker_ns;	    /* which it ended */
	uint64_t wakers;	    /* their number */
};

struct xp_wait_table {
	struct xp_wait_row *rows; /* the longest time first */
	size_t row_count;
	uint64_t recorded; /* waits, which stand for: */
	double count;
	uint64_t total_ns, runnable_ns;
};

/*
 * Reads all waits. symbolizer: of another model, as for xp_model_init_beside(). Empty if there is no perf.data. The
 * caller frees it, also after an error. Returns as xp_model_read_samples().
 */
int xp_wait_places_read(struct xp_wait_places *places, const struct xp_model_source *source,
			struct xp_symbolizer *symbolizer, bool by_cpu, bool *broken);
void xp_wait_places_free(struct xp_wait_places *places);

/* Makes a table of some places, whose order changes. The caller frees it. Returns 0 or -ENOMEM. */
int xp_wait_table_make(struct xp_wait_table *table, const struct xp_wait_places *places, uint32_t *some, size_t count);
void xp_wait_table_free(struct xp_wait_table *table);

#endif
