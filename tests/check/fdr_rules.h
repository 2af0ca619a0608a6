/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checks for what llvm-xray (14 to 19, tools/llvm-xray and lib/XRay) rejects in logs that the format allows:
 * - account: an exit that does not match the thread's innermost open call; a TSC below the first one that it visits (it
 *   visits the threads in no particular order); more than 16 buffers per thread (its comparison of wall clocks is not a
 *   strict order, which std::sort tolerates up to 16 elements), or buffers whose wall clocks go backwards;
 * - graph, stack and convert sort by TSC: a thread whose calls go back in time;
 * - all: a log without a buffer, a cycle frequency of 0, events without payload, bytes behind a version 1 EndOfBuffer
 *   that do not read as records, big-endian bit fields.
 *
 * Memory: a few dozen bytes per thread and 4 per open call, up to fixed limits. Calls beyond the limits are not
 * matched.
 */
#ifndef XPROF_CHECK_FDR_RULES_H
#define XPROF_CHECK_FDR_RULES_H

#include "format/fdr_reader.h"

struct xp_fdr_rules;

/* reader comes directly from xp_fdr_reader_init(). Returns 0 or -ENOMEM. */
int xp_fdr_rules_new(struct xp_fdr_rules **rules, const struct xp_fdr_reader *reader);
/* Checks the next record, in file order. Returns 0 or -ENOMEM. */
int xp_fdr_rules_record(struct xp_fdr_rules *rules, const struct xp_fdr_record *record);
/* Call after the last record. Returns true if there is no violation; otherwise *violation is the first one found. */
bool xp_fdr_rules_finish(struct xp_fdr_rules *rules, struct xp_violation *violation);
/* The number of threads, as far as they were counted. */
size_t xp_fdr_rules_threads(const struct xp_fdr_rules *rules);
void xp_fdr_rules_free(struct xp_fdr_rules *rules);

#endif
