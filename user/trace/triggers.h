/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * --trigger: if a call of a watched function takes longer than a given time, the flight recorder of its process writes
 * a log when the call returns, at most --trigger-limit times per minute. Further slow calls are only counted.
 *
 * thread.c checks the calls, because all calls arrive there with their callers and times. Recording the watched
 * functions through the kernel would not work: to order such an event, xprof would have to read the call ring
 * (sled/call_rings.h) up to it.
 */
#ifndef XPROF_TRACE_TRIGGERS_H
#define XPROF_TRACE_TRIGGERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct xp_trigger {
	const char *text; /* as given; borrowed */
	uint64_t above_ticks;
	uint64_t calls; /* number of slow calls */
	uint64_t logs;	/* number of logs for these calls */
	/* Calls without their own log: they are in the log of an earlier slow call of the same pass... */
	uint64_t shared;
	uint64_t beyond;       /* ... or the limit of logs in this minute was reached, */
	uint64_t beyond_share; /* or the process had used its share of the logs */
};

/* The newest times in which a thread was runnable without a CPU (--off-cpu). xprof itself can cause such times. */
#define XP_DELAYS_MAX 64
struct xp_delays {
	struct xp_delay {
		uint64_t end_tsc;
		uint64_t ticks;
	} newest[XP_DELAYS_MAX];
	uint32_t count; /* number of all such times so far */
};
/* *delays is NULL at first; the caller frees it. Returns 0 or -ENOMEM. */
int xp_delays_add(struct xp_delays **delays, uint64_t end_tsc, uint64_t ticks);
/* Returns the time without a CPU from begin to end; too low if there were more than XP_DELAYS_MAX since then. */
uint64_t xp_delays_within(const struct xp_delays *delays, uint64_t begin_tsc, uint64_t end_tsc);

/* A log for a slow call. */
struct xp_trigger_log {
	uint64_t asked_tsc;  /* 0: never */
	uint64_t took_ticks; /* duration of the call */
	int pid;
};

/* Zeroed: none. */
struct xp_triggers {
	struct xp_trigger *list;
	const char **globs; /* globs of the functions, by trigger: xp_objects.watched. Borrowed */
	size_t count;
	uint64_t minute_ticks;
	struct xp_trigger_log *logs; /* a circular buffer of the newest logs, with the size of the limit per minute */
	size_t limit;
	size_t next;
	size_t waiting; /* number of processes whose log must be written */
};

/* Allocates `count` triggers, which the caller fills in. Returns 0 or -ENOMEM; the caller frees them in any case. */
int xp_triggers_new(struct xp_triggers *triggers, size_t count, size_t limit, uint64_t minute_ticks);
void xp_triggers_free(struct xp_triggers *triggers);

enum xp_trigger_answer { XP_TRIGGER_WRITES, XP_TRIGGER_BEYOND_LIMIT, XP_TRIGGER_BEYOND_SHARE };

/*
 * Returns whether a process may write one more log now, for a call of this duration, and counts the log. Half of the
 * logs of a minute (none if the limit is below XP_TRIGGER_LIMIT_HALVED) are for calls that took longer than those of
 * all earlier logs in the minute, so that short delays do not use up the logs. If several processes are recorded, a
 * process may write a log only if it had fewer in the last minute than are left: so a process that is always slow gets
 * half of them.
 */
#define XP_TRIGGER_LIMIT_HALVED 4
enum xp_trigger_answer xp_triggers_ask(struct xp_triggers *triggers, int pid, bool is_only_process, uint64_t took_ticks,
				       uint64_t now_tsc);

#endif
