/* SPDX-License-Identifier: BSD-2-Clause */
/* What the printed summary and the manifest both say. */
#ifndef XPROF_RECORD_SUMMARY_H
#define XPROF_RECORD_SUMMARY_H

#include <stdbool.h>
#include <stdint.h>

#include "record/recording.h"

/* From the attached probes to the end, or to now. */
uint64_t xp_summary_duration_ns(const struct xp_recording *recording);
/* Whether the log has another version than requested: that version has no typed events. */
bool xp_summary_has_other_version(const struct xp_recording *recording, const struct xp_process *process);

#endif
