/* SPDX-License-Identifier: BSD-2-Clause */
/* A progress line on a terminal. Shows nothing if stderr is not a terminal, or with -q. */
#ifndef XPROF_RECORD_PROGRESS_H
#define XPROF_RECORD_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct xp_progress {
	bool shown;
	uint64_t begin_ns; /* CLOCK_MONOTONIC */
	uint64_t last_ns;
	uint64_t last_seen;
};

void xp_progress_begin(struct xp_progress *progress);
/* seen and lost: events since the start of the recording. Call this about once per second. */
void xp_progress_show(struct xp_progress *progress, uint64_t seen, uint64_t lost);
/* Call this before each group of probes of a binary is attached. Shows the line from time to time. */
void xp_progress_attaching(struct xp_progress *progress, size_t probes);
/* Erases the line. */
void xp_progress_end(struct xp_progress *progress);

/* Formats the line, for tests: elapsed time, rate since the last call, losses. */
void xp_progress_text(char *text, size_t size, uint64_t elapsed_ns, uint64_t events, uint64_t span_ns, uint64_t lost);

#endif
