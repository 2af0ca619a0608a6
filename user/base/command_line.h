/* SPDX-License-Identifier: BSD-2-Clause */
/* xprof's own command line as the kernel has it, unaffected by getopt's reordering of argv. */
#ifndef XPROF_BASE_COMMAND_LINE_H
#define XPROF_BASE_COMMAND_LINE_H

/*
 * Returns a NULL-terminated array in one block, which the caller frees, or NULL if out of memory. Cuts off after 128
 * KiB.
 */
char **xp_command_line_read(void);

#endif
