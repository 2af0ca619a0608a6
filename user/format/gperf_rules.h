/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What google-pprof (of gperftools 2.10) and `go tool pprof` (google/pprof's profile package) reject or read wrongly in
 * profiles that the format allows:
 *  - google-pprof: a first PC of 0, more than 65536 PCs, a period above 2^32, addresses from 2^63 on;
 *  - go tool pprof: a header of more than 3 words or with something in its padding, a period of 0, counts whose sum has
 *    no 63 bits, PCs in no executable mapping, executable mappings that are shared, and those without a name next to
 * one that has a name;
 *  - both: blanks in the path of an executable mapping.
 * That they delete a second PC that all records share is no matter of the file: see gperf_cures.h.
 */
#ifndef XPROF_FMT_GPERF_RULES_H
#define XPROF_FMT_GPERF_RULES_H

#include "format/gperf_reader.h"

/*
 * bytes: a file that the reader has accepted from end to end. 0: everything is right; 1: *violation is the first that
 * was found; -ENOMEM. Memory: not more than the list of mapped objects takes.
 */
int xp_gperf_rules_check(const uint8_t *bytes, uint64_t size, struct xp_violation *violation);

#endif
