/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checks for what google-pprof (of gperftools 2.10) and `go tool pprof` (google/pprof's profile package) reject or
 * misread in profiles that the format allows:
 * - google-pprof: a first PC of 0, more than 65536 PCs, a period above 2^32, addresses from 2^63 on;
 * - go tool pprof: a header of more than 3 words or with non-zero padding, a period of 0, counts whose sum exceeds 63
 *   bits, PCs in no executable mapping, shared executable mappings, unnamed executable mappings next to a named one;
 * - both: spaces in the path of an executable mapping.
 *
 * Both delete a second PC that all records share. That is not a defect of the file: see gperf.h.
 */
#ifndef XPROF_CHECK_GPERF_RULES_H
#define XPROF_CHECK_GPERF_RULES_H

#include "format/gperf_reader.h"

/*
 * bytes: a file that the reader has accepted completely. Returns 0 if there is no violation, 1 and the first violation
 * found, or -ENOMEM. Uses at most as much memory as the list of mapped objects.
 */
int xp_gperf_rules_check(const uint8_t *bytes, uint64_t size, struct xp_violation *violation);

#endif
