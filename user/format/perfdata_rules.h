/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What perf (6.1 and 6.12) warns of, refuses or reads wrongly in files that the format allows:
 *  - no record: it takes the recording for one that was cut off;
 *  - records older than what a FINISHED_ROUND has let it hand on already ("out of order events");
 *  - a TIME_CONV that its arithmetic cannot use: a mult of 0 or more than 32 bits, a shift of 64 or more, no zero;
 *  - for `perf inject --jit`: the mark of a jitdump, without TIME_CONV before it where the times are not those of
 *    CLOCK_MONOTONIC.
 */
#ifndef XPROF_FMT_PERFDATA_RULES_H
#define XPROF_FMT_PERFDATA_RULES_H

#include "format/perfdata_reader.h"

/*
 * bytes: a file that the reader has accepted from end to end. false: everything is right; true: *violation is the first
 * that was found.
 */
bool xp_perfdata_rules_check(const uint8_t *bytes, uint64_t size, struct xp_violation *violation);

/* Does `perf inject --jit` take a mapping of this path for the mark of a jitdump? */
bool xp_perfdata_is_jit(const char *path);

#endif
