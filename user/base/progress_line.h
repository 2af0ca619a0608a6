/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A line on a terminal with the progress of a long step, such as "reading perf.data: 120.5 of 241.0 MB, 50 %", or
 * "writing: 12.0 MB, 50 %" for a file of unknown size. It is not written if stderr is not a terminal, with -q, or in
 * the first second, and updated at most five times a second. The cursor stays at the start of the line, so that a
 * message, or the shell's prompt after ^C, replaces it.
 */
#ifndef XPROF_BASE_PROGRESS_LINE_H
#define XPROF_BASE_PROGRESS_LINE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* XP_PROGRESS_WRITING: the bytes of a file of unknown size, and the share of its source that has been written. */
enum xp_progress_unit { XP_PROGRESS_BYTES, XP_PROGRESS_FILES, XP_PROGRESS_WRITING };

struct xp_progress_line {
	const char *what; /* valid until the end: "reading perf.data" */
	enum xp_progress_unit unit;
	uint64_t total;
	FILE *out;	  /* XP_PROGRESS_WRITING: the file */
	uint64_t next_ns; /* CLOCK_MONOTONIC: not before */
	uint64_t steps;
	bool enabled;
	bool shown;
};

void xp_progress_line_begin(struct xp_progress_line *line, const char *what, enum xp_progress_unit unit,
			    uint64_t total);
/* total: the number of items that are written, such as samples. out: a file, not a terminal. */
void xp_progress_line_begin_writing(struct xp_progress_line *line, FILE *out, uint64_t total);
/* Call this for each record: it reads the clock only in every 256th call; for files, in each. */
void xp_progress_line_step(struct xp_progress_line *line, uint64_t done);
/* Erases the line. */
void xp_progress_line_end(struct xp_progress_line *line);

#endif
