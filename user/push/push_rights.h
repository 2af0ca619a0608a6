/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef XPROF_PUSH_PUSH_RIGHTS_H
#define XPROF_PUSH_PUSH_RIGHTS_H

/*
 * Removes all rights that libcurl does not need from the sender (push_sender.h): files (Landlock) and system calls
 * (seccomp). Without Landlock in the kernel, the sender can read the files that everyone can read. Returns 0 or -errno.
 */
int xp_push_rights_drop(void);

#endif
