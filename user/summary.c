/* SPDX-License-Identifier: BSD-2-Clause */
/* What is said of a recording at its end. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "record.h"
#include "util.h"

void xp_recording_totals(const struct xp_recording *rec, struct xp_totals *totals)
{
	memset(totals, 0, sizeof(*totals));
	for (const struct xp_process *process = rec->processes.first; process; process = process->next) {
		xp_counts_add(&totals->counts, &process->counts);
		totals->threads += process->thread_count;
		totals->processes++;
	}
	for (size_t i = 0; i < rec->processes.thread_room; i++)
		for (const struct xp_thread *thread = rec->processes.threads[i]; thread; thread = thread->next) {
			xp_counts_add(&totals->counts, &thread->counts);
			totals->threads++;
		}
	for (unsigned int cpu = 0; cpu < rec->programs.cpus; cpu++)
		for (int kind = 0; kind <= XP_REC_TYPED_EVENT; kind++)
			totals->lost_ring += rec->lost[cpu].lost[kind];
	totals->lost_ring += rec->missed;
	totals->lost = totals->lost_ring + totals->counts.unstored;
	totals->filtered = xp_counts_filtered(&totals->counts) + rec->other_process;
	totals->seen = totals->counts.seen + rec->other_process + totals->lost_ring;
}

/* The file that names the functions of a log: the side ELF where there is one, the program otherwise. */
static void print_next(const struct xp_recording *rec, const struct xp_process *process)
{
	const char *dir = rec->outdir.path;

	fprintf(stderr, "  %s/%s  %.1f MB\n", dir, process->log_name, process->log_bytes / 1e6);
	if (process->side_name[0])
		fprintf(stderr, "    llvm-xray account %s/%s -instr_map=%s/%s\n", dir, process->log_name, dir,
			process->side_name);
	else
		fprintf(stderr, "    llvm-xray account %s/%s -instr_map=%s\n", dir, process->log_name, process->exe);
}

void xp_summary_print(const struct xp_recording *rec, const struct xp_totals *totals)
{
	if (xp_log_level < XP_LOG_NORMAL)
		return;
	xp_info("%.1f s, %zu process%s, %zu thread%s: %" PRIu64 " events seen = %" PRIu64 " written + %" PRIu64
		" filtered + %" PRIu64 " lost",
		xp_clock_ns(rec->clock, rec->end_tsc - rec->start_tsc) / 1e9, totals->processes,
		totals->processes == 1 ? "" : "es", totals->threads, totals->threads == 1 ? "" : "s", totals->seen,
		totals->counts.written, totals->filtered, totals->lost);
	for (const struct xp_process *process = rec->processes.first; process; process = process->next)
		if (process->log_name[0])
			print_next(rec, process);
}

int xp_summary_manifest(struct xp_recording *rec, const struct xp_totals *totals)
{
	(void)rec;
	(void)totals;
	return 0;
}
