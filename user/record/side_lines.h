/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The source lines of functions, for the side ELFs of a recording (instr_map.h). They are read from debug information
 * once all targets are released and all logs are there, and in bounded time: the recording could lose events while it
 * waits for that.
 */
#ifndef XPROF_RECORD_SIDE_LINES_H
#define XPROF_RECORD_SIDE_LINES_H

struct xp_targets;

/* Adds them to every side ELF. Returns 0 or -errno: a side ELF could not be written any more. */
int xp_side_lines_add(struct xp_targets *targets);

#endif
