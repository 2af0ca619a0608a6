/* SPDX-License-Identifier: BSD-2-Clause */
/* xprof's own command line, as the kernel has it: whatever getopt has done to argv. */
#ifndef XPROF_COMMAND_LINE_H
#define XPROF_COMMAND_LINE_H

/* NULL-terminated; one block, which the caller frees. What is longer than 128 KiB is cut. NULL: out of memory. */
char **xp_command_line_read(void);

#endif
