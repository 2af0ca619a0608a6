/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A line on a terminal with the progress of a long step, such as "reading perf.data: 120.5 of 241.0 MB, 50 %", or
 * "writing: 12.0 MB, 50 %" for a file of unknown size. It appears after one second, and is updated at most five times a
 * second. It does not appear with -q or if stderr is not a terminal. The cursor stays at the start of the line, so that
 * a message, or the shell's prompt after ^C, replaces it.
 */
#ifndef XPROF_BASE_PROGRESS_LINE_H
#define XPROF_BASE_PROGRESS_LINE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/*
 * XP_PROGRESS_WRITING: shows the bytes written and the percentage of the source that was read; the final size is
 * unknown.
 */
enum xp_progress_unit { XP_PROGRESS_BYTES, XP_PROGRESS_FILES, XP_PROGRESS_WRITING };

struct xp_progress_line {
	const char *what; /* for example "reading perf.data"; the caller keeps it until xp_progress_line_end() */
	enum xp_progress_unit unit;
	uint64_t total;
	FILE *out;	  /* XP_PROGRESS_WRITING: the file */
	uint64_t next_ns; /* CLOCK_MONOTONIC of the next update */
	uint64_t steps;
	bool enabled;
	bool shown;
};

void xp_progress_line_begin(struct xp_progress_line *line, const char *what, enum xp_progress_unit unit,
			    uint64_t total);
/* total: the number of items that are written, such as samples. out: a file, not a terminal. */
void xp_progress_line_begin_writing(struct xp_progress_line *line, FILE *out, uint64_t total);
/* Call this for each record or file. It reads the clock in every 256th call, or for files in each call. */
void xp_progress_line_step(struct xp_progress_line *line, uint64_t done);
/* Erases the line. */
void xp_progress_line_end(struct xp_progress_line *line);

#endif
