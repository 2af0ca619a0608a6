/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef XPROF_PUSH_PUSH_RIGHTS_H
#define XPROF_PUSH_PUSH_RIGHTS_H

/*
 * Takes all rights from the sender (push_sender.h) that libcurl does not need: files (Landlock), system calls
 * (seccomp). A kernel without Landlock leaves it the files that everyone can read. Returns 0 or -errno.
 */
int xp_push_rights_drop(void);

#endif
