/* SPDX-License-Identifier: BSD-2-Clause */
/* The file behind a mapping of a process. It may be in another mount namespace, deleted, or gone with its process. */
#ifndef XPROF_TARGET_MAPPED_FILE_H
#define XPROF_TARGET_MAPPED_FILE_H

#include <sys/types.h>

#include "target/address_space.h"

/*
 * Opens the file for reading: through the mapping while the process has it, else by its path as the process sees it,
 * else by its path on this host, if the inode is the same, else through another mapping of it. For the vDSO, opens that
 * of xprof itself. Returns a descriptor of a regular file, or -errno. Never opens anything else.
 */
int xp_mapped_file_open(pid_t pid, const struct xp_vma *vma);

#endif
