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
	uint64_t from_ns;    /* from the start until recording began, after sleds were attached */
	uint64_t length_ns;
	uint64_t start_tsc;
	uint64_t goes_on_tsc; /* when the next part of the recording began; 0: none */
	uint64_t tsc_hz;
	uint64_t period_ns; /* period of samples */
	uint64_t samples;   /* written to profiles */
	uint64_t lost;	    /* samples and events */
	uint64_t cpus;	    /* CPUs that were sampled; 0: only processes were sampled */
	/* Kernel's release and version; NULL: unknown. May contain any characters; valid as long as the facts. */
	const char *release;
	const char *machine;
	/* Number of user stack walks by how they ended. */
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
	uint64_t running_ns, runnable_ns, blocked_ns; /* sums over all threads */
};

/* How a thread spent its time during the recording. */
struct xp_facts_account {
	uint64_t pid, tid, image;
	const char *name; /* may contain anything; NULL: unknown */
	uint64_t seen;	  /* waits */
	uint64_t running_ns, runnable_ns, blocked_ns;
};

/* Reads the "stacks" of a manifest. NULL: none. */
void xp_facts_stack_ends(uint64_t ends[XP_UNWIND_ENDS], const json_t *stacks);
/* Takes ownership of manifest. NULL: nothing is known. Returns 0 or -ENOMEM. */
int xp_facts_new(struct xp_facts **facts, json_t *manifest);
void xp_facts_free(struct xp_facts *facts);

const struct xp_facts_summary *xp_facts_summary(const struct xp_facts *facts);
/*
 * Returns the time from the start of a part of a recording to the start of the next: by the TSC if there is no gap;
 * otherwise, for example after a reboot, by the time of day. Parts do not overlap, whatever the time of day is.
 */
uint64_t xp_facts_ns_between(const struct xp_facts *part, const struct xp_facts *next);
/* Returns false if the recording has no waits. */
bool xp_facts_waits(const struct xp_facts *facts, struct xp_facts_waits *waits);
/* Returns the account at this index, from 0. Returns false after the last one. */
bool xp_facts_account(const struct xp_facts *facts, size_t index, struct xp_facts_account *account);

/* Formats the version of xprof and the recorded command line. The caller frees it. NULL: unknown or out of memory. */
char *xp_facts_comment(const struct xp_facts *facts);

/* Formats the kernel and the machine in one line. The caller frees it. NULL: unknown or out of memory. */
char *xp_facts_machine(const struct xp_facts *facts);

/* Returns the sampled program at this index, from 0. Returns false after the last one. */
bool xp_facts_sampled(const struct xp_facts *facts, size_t index, uint64_t *pid, uint64_t *image, uint64_t *samples);

/* Sets the time of the first sample or wait of an image; 0: it has none. Returns false if there is no such image. */
bool xp_facts_since(const struct xp_facts *facts, uint64_t pid, uint64_t image, uint64_t *tsc);
/*
 * Lists the functions with a call that exceeded a trigger of the recording, each once, at most max. Returns their
 * number. Names may contain any characters, and are valid as long as the facts.
 */
size_t xp_facts_triggered(const struct xp_facts *facts, const char **names, size_t max);
/* Return names of a process, its cgroup, or a thread in the logs. They may contain any characters. NULL: unknown. */
const char *xp_facts_comm(const struct xp_facts *facts, uint64_t pid, uint64_t image);
const char *xp_facts_cgroup(const struct xp_facts *facts, uint64_t pid, uint64_t image);
const char *xp_facts_thread(const struct xp_facts *facts, uint64_t pid, uint64_t image, uint64_t tid);

#endif
