/* SPDX-License-Identifier: BSD-2-Clause */
#include "record/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"

#define ATTACHING_PAUSE_NS 500000000u
#define ERASE_REST "\033[K" /* ECMA-48, EL */

void xp_progress_begin(struct xp_progress *progress)
{
	const char *term = getenv("TERM");

	progress->shown = xp_log_level >= XP_LOG_NORMAL && term && strcmp(term, "dumb") && isatty(STDERR_FILENO);
	progress->begin_ns = xp_now_ns();
	progress->last_ns = progress->begin_ns;
	progress->last_seen = 0;
}

void xp_progress_text(char *text, size_t size, uint64_t elapsed_ns, uint64_t events, uint64_t span_ns, uint64_t lost)
{
	double rate = span_ns ? events * (double)XP_NS_PER_S / span_ns : 0;
	const char *unit = "";

	if (rate >= 999.5e3) {
		rate /= 1e6;
		unit = " M";
	} else if (rate >= 999.5) {
		rate /= 1e3;
		unit = " k";
	}
	snprintf(text, size, "%.1f s  %.*f%s events/s  %" PRIu64 " lost", elapsed_ns / (double)XP_NS_PER_S,
		 *unit ? 1 : 0, rate, unit, lost);
}

void xp_progress_show(struct xp_progress *progress, uint64_t seen, uint64_t lost)
{
	uint64_t now = xp_now_ns();
	char text[128];

	if (!progress->shown)
		return;
	xp_progress_text(text, sizeof(text), now - progress->begin_ns,
			 seen > progress->last_seen ? seen - progress->last_seen : 0, now - progress->last_ns, lost);
	/* The cursor stays at the start of the line, so that another message replaces the line. */
	fprintf(stderr, "%s" ERASE_REST "\r", text);
	progress->last_ns = now;
	progress->last_seen = seen;
}

void xp_progress_attaching(struct xp_progress *progress, size_t probes)
{
	uint64_t now = xp_now_ns();

	if (!progress->shown || now - progress->last_ns < ATTACHING_PAUSE_NS)
		return;
	fprintf(stderr, "%.1f s  attaching, %zu probe%s" ERASE_REST "\r",
		(now - progress->begin_ns) / (double)XP_NS_PER_S, probes, xp_plural_s(probes));
	progress->last_ns = now;
}

void xp_progress_end(struct xp_progress *progress)
{
	if (progress->shown)
		fprintf(stderr, ERASE_REST);
	progress->shown = false;
}
