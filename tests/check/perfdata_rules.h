/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checks for what perf (6.1 and 6.12) warns about, rejects or misreads in files that the format allows:
 * - no records: perf takes the recording for one that was cut off;
 * - records older than those that a FINISHED_ROUND has already let perf pass on ("out of order events");
 * - a TIME_CONV that perf cannot use: a mult of 0 or above 32 bits, a shift of 64 or more, no zero;
 * - for `perf inject --jit`: a jitdump marker without a TIME_CONV before it, if the times are not those of
 *   CLOCK_MONOTONIC.
 */
#ifndef XPROF_CHECK_PERFDATA_RULES_H
#define XPROF_CHECK_PERFDATA_RULES_H

#include "format/perfdata_reader.h"

/*
 * bytes: a file that the reader has accepted completely. Returns false if there is no violation; otherwise true and the
 * first violation found.
 */
bool xp_perfdata_rules_check(const uint8_t *bytes, uint64_t size, struct xp_violation *violation);

#endif
