/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What llvm-xray (14 to 19, tools/llvm-xray and lib/XRay) rejects in logs that the format allows:
 *  - account: an exit that does not match the thread's innermost open call; a TSC below the first one it visits, and it
 *    visits the threads in no particular order; more than 16 buffers of a thread (its comparison of wall clocks is no
 *    order, which std::sort forgives up to 16 elements) or buffers whose wall clocks go back;
 *  - graph, stack, convert sort by TSC: a thread whose calls go back in time;
 *  - all: a log without a buffer, a cycle frequency of 0, events without payload, version 1's rest of a buffer when it
 *    does not read as records, big-endian bit fields.
 *
 * Memory: a few dozen bytes for each thread and 4 for each open call, up to fixed limits; calls beyond them are not
 * matched.
 */
#ifndef XPROF_FMT_FDR_RULES_H
#define XPROF_FMT_FDR_RULES_H

#include "format/fdr_reader.h"

struct xp_fdr_rules;

/* reader: fresh from xp_fdr_reader_init(). -ENOMEM. */
int xp_fdr_rules_new(struct xp_fdr_rules **rules, const struct xp_fdr_reader *reader);
/* The next record, in the order of the file. -ENOMEM. */
int xp_fdr_rules_record(struct xp_fdr_rules *rules, const struct xp_fdr_record *record);
/* After the last one: true when everything is right, otherwise *violation is the first that was found. */
bool xp_fdr_rules_finish(struct xp_fdr_rules *rules, struct xp_violation *violation);
/* How many threads there are, as far as they were counted. */
size_t xp_fdr_rules_threads(const struct xp_fdr_rules *rules);
void xp_fdr_rules_free(struct xp_fdr_rules *rules);

#endif
