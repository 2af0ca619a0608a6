/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checks for what `perf inject --jit` (6.1 to 6.12: tools/perf/util/jitdump.c, genelf.c, genelf_debug.c) rejects or
 * misreads in jitdumps that the format allows:
 * - a version above 1, a header of more than 40 bytes;
 * - unwinding data whose header comes first or is missing;
 * - a code index that one process uses twice: its first image is overwritten by the second;
 * - a move of code that was never loaded;
 * - debug information that is followed by the load of another function, or by none: perf assigns it to the next load;
 * - lines in big-endian files, and lines with zero bytes in the file name.
 */
#ifndef XPROF_CHECK_JITDUMP_RULES_H
#define XPROF_CHECK_JITDUMP_RULES_H

#include "format/jitdump_reader.h"

/*
 * bytes: a file that the reader has accepted completely. Returns 0 if there is no violation, 1 and the first violation
 * found, or -ENOMEM. Uses about 50 bytes of memory per load.
 */
int xp_jitdump_rules_check(const uint8_t *bytes, uint64_t size, struct xp_violation *violation);

#endif
