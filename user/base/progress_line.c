// SPDX-License-Identifier: BSD-2-Clause
#include "base/progress_line.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"

#define FIRST_NS XP_NS_PER_S
#define PAUSE_NS (XP_NS_PER_S / 5)
#define STEPS 256
#define ERASE_REST "\033[K" /* ECMA-48, EL */

void xp_progress_line_begin(struct xp_progress_line *line, const char *what, enum xp_progress_unit unit, uint64_t total)
{
	const char *term = getenv("TERM");

	*line = (struct xp_progress_line){
		.what = what,
		.unit = unit,
		.total = total,
		.next_ns = xp_now_ns() + FIRST_NS,
		.enabled = total && xp_log_level >= XP_LOG_NORMAL && term && strcmp(term, "dumb") != 0 &&
			   isatty(STDERR_FILENO),
	};
}

void xp_progress_line_begin_writing(struct xp_progress_line *line, FILE *out, uint64_t total)
{
	xp_progress_line_begin(line, "writing", XP_PROGRESS_WRITING, total);
	line->out = out;
	line->enabled &= !isatty(fileno(out));
}

/* ftello() fails for a pipe: then only the percentage is printed. */
static void put_written(const struct xp_progress_line *line, double percent)
{
	off_t bytes = ftello(line->out);

	if (bytes < 0)
		xp_put(stderr, "%s: %.0f %%", line->what, percent);
	else
		xp_put(stderr, "%s: %.1f MB, %.0f %%", line->what, (double)bytes / 1e6, percent);
}

void xp_progress_line_step(struct xp_progress_line *line, uint64_t done)
{
	double percent;
	uint64_t now;

	if (!line->enabled || (line->unit != XP_PROGRESS_FILES && line->steps++ % STEPS))
		return;
	now = xp_now_ns();
	if (now < line->next_ns)
		return;
	line->next_ns = now + PAUSE_NS;
	line->shown = true;
	percent = 100 * (double)XP_MIN(done, line->total) / (double)XP_MAX(line->total, (uint64_t)1);
	if (line->unit == XP_PROGRESS_WRITING)
		put_written(line, percent);
	else if (line->unit == XP_PROGRESS_BYTES)
		xp_put(stderr, "%s: %.1f of %.1f MB, %.0f %%", line->what, (double)done / 1e6,
		       (double)line->total / 1e6, percent);
	else
		xp_put(stderr, "%s: %" PRIu64 " of %" PRIu64 " files, %.0f %%", line->what, done, line->total, percent);
	fputs(ERASE_REST "\r", stderr);
}

void xp_progress_line_end(struct xp_progress_line *line)
{
	if (line->shown)
		fputs(ERASE_REST, stderr);
	line->shown = line->enabled = false;
}
