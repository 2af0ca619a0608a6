/* SPDX-License-Identifier: BSD-2-Clause */
/* Functions that make parts of manifest.json. Each returns NULL if out of memory. */
#ifndef XPROF_RECORD_MANIFEST_PARTS_H
#define XPROF_RECORD_MANIFEST_PARTS_H

#include "record/manifest_json.h"
#include "record/recording.h"

/* manifest.c: the counts of a process or a thread. */
void xp_manifest_put_counts(struct section *section, const struct xp_counts *counts);
/* manifest_process.c: the traced processes. */
json_t *xp_manifest_processes_value(const struct xp_recording *recording);
/* manifest_flights.c: the logs of a flight recorder, and the triggers. */
json_t *xp_manifest_flights_value(const struct xp_recording *recording, const struct xp_process *process);
json_t *xp_manifest_triggers_value(const struct xp_triggers *triggers);
/* manifest_samples.c: the samples and their profiles; only if there is a sampler. */
json_t *xp_manifest_samples_value(const struct xp_recording *recording, const struct xp_totals *totals);
/* Returns the binaries with samples or calls, and their files in sym/. */
json_t *xp_manifest_binaries_value(const struct xp_recording *recording);
json_t *xp_manifest_symbols_value(const struct xp_recording *recording);
/* manifest_waits.c: the waits (--off-cpu). */
json_t *xp_manifest_waits_value(const struct xp_off_cpu *off_cpu);

/* Since the start of the recording. */
static inline uint64_t since_start_ns(const struct xp_recording *recording, uint64_t tsc)
{
	uint64_t start_tsc = recording->targets.processes.start_tsc;

	return tsc > start_tsc ? xp_clock_ns(recording->clock, tsc - start_tsc) : 0;
}

#endif
