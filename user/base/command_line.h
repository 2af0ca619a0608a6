/* SPDX-License-Identifier: BSD-2-Clause */
/* The command line of xprof from the kernel: getopt reorders argv, but not this copy. */
#ifndef XPROF_BASE_COMMAND_LINE_H
#define XPROF_BASE_COMMAND_LINE_H

/*
 * Returns a NULL-terminated array in one block, which the caller frees. Returns NULL if out of memory. Truncates the
 * command line after 128 KiB.
 */
char **xp_command_line_read(void);

#endif
