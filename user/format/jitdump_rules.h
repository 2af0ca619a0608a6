/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What `perf inject --jit` (6.1 to 6.12: tools/perf/util/jitdump.c, genelf.c, genelf_debug.c) rejects or reads wrongly
 * in jitdumps that the format allows:
 *  - a version above 1, a header of more than 40 bytes;
 *  - unwinding data whose header comes first or is missing;
 *  - a code index that the same process uses twice, since its first image is overwritten by the second;
 *  - a move of code that was never loaded;
 *  - debug information that the load of another function follows, or none: perf gives it to whatever load comes next;
 *  - lines of big-endian files, and those with zero bytes in the file's name.
 */
#ifndef XPROF_FMT_JITDUMP_RULES_H
#define XPROF_FMT_JITDUMP_RULES_H

#include "format/jitdump_reader.h"

/*
 * bytes: a file that the reader has accepted from end to end. 0: everything is right; 1: *violation is the first that
 * was found; -ENOMEM. Memory: some 50 bytes for each load.
 */
int xp_jitdump_rules_check(const uint8_t *bytes, uint64_t size, struct xp_violation *violation);

#endif
