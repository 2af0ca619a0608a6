/* SPDX-License-Identifier: BSD-2-Clause */
/* Facts about a whole recording, and the names of its processes and threads, from manifest.json. */
#ifndef XPROF_MODEL_FACTS_H
#define XPROF_MODEL_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "unwind/unwind.h"

struct xp_facts;

/* All 0 if unknown. */
struct xp_facts_summary {
	uint64_t started_ns; /* CLOCK_REALTIME */
	uint64_t from_ns;    /* from the start to the first moment that was recorded: sleds were attached by then */
	uint64_t length_ns;
	uint64_t start_tsc;
	uint64_t goes_on_tsc; /* when the next part of the recording began; 0: there is none */
	uint64_t tsc_hz;
	uint64_t period_ns; /* of samples */
	uint64_t samples;   /* written to profiles */
	uint64_t lost;	    /* samples and events */
	uint64_t cpus;	    /* CPUs that were sampled as a whole; 0: only some processes were sampled */
	/* Of the kernel; NULL: unknown. They may contain anything, and are valid as long as the facts. */
	const char *release;
	const char *machine;
	/* How many walks of user stacks ended in each way. */
	uint64_t stack_ends[XP_UNWIND_ENDS];
};

/* Statistics of all waits (--off-cpu), recorded or not. */
struct xp_facts_waits {
	uint64_t seen;	  /* 0: unknown */
	uint64_t written; /* written to perf.data; each represents a number of waits, its weight */
	uint64_t shorter; /* shorter than the requested minimum: only counted */
	uint64_t lost;
	uint64_t missed; /* switches that the kernel did not report */
	uint64_t threads;
	uint64_t running_ns, runnable_ns, blocked_ns; /* of these together */
};

/* How a thread spent its time in the recording. */
struct xp_facts_account {
	uint64_t pid, tid, image;
	const char *name; /* may contain anything; NULL: unknown */
	uint64_t seen;	  /* waits */
	uint64_t running_ns, runnable_ns, blocked_ns;
};

/* Reads the "stacks" of a manifest. NULL: none. */
void xp_facts_stack_ends(uint64_t ends[XP_UNWIND_ENDS], const json_t *stacks);
/* manifest: kept as long as the facts; NULL: nothing is known. Returns 0 or -ENOMEM. */
int xp_facts_new(struct xp_facts **facts, json_t *manifest);
void xp_facts_free(struct xp_facts *facts);

const struct xp_facts_summary *xp_facts_summary(const struct xp_facts *facts);
/* Returns false if the recording is without waits. */
bool xp_facts_waits(const struct xp_facts *facts, struct xp_facts_waits *waits);
/* By index from 0 on. Returns false beyond the last one. */
bool xp_facts_account(const struct xp_facts *facts, size_t index, struct xp_facts_account *account);

/* The version of xprof and the recorded command line, one line. The caller frees it. NULL: unknown or out of memory. */
char *xp_facts_comment(const struct xp_facts *facts);

/* The kernel and the machine, one line. The caller frees it. NULL: unknown or out of memory. */
char *xp_facts_machine(const struct xp_facts *facts);

/* The programs that were to be sampled, by index from 0 on. Returns false beyond the last one. */
bool xp_facts_sampled(const struct xp_facts *facts, size_t index, uint64_t *pid, uint64_t *image, uint64_t *samples);

/* The time of the first sample or wait of an image of a process; 0: it has none. Returns false if there is no image. */
bool xp_facts_since(const struct xp_facts *facts, uint64_t pid, uint64_t image, uint64_t *tsc);
/*
 * The names of functions with a call that took longer than a trigger of the recording allows, each one once, at most
 * max of them. Returns their number. They may contain anything, and are valid as long as the facts.
 */
size_t xp_facts_triggered(const struct xp_facts *facts, const char **names, size_t max);
/* Names of a process, its cgroup, or a thread in the logs; they may contain anything. NULL: unknown. */
const char *xp_facts_comm(const struct xp_facts *facts, uint64_t pid, uint64_t image);
const char *xp_facts_cgroup(const struct xp_facts *facts, uint64_t pid, uint64_t image);
const char *xp_facts_thread(const struct xp_facts *facts, uint64_t pid, uint64_t image, uint64_t tid);

#endif
