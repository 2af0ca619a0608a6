/* SPDX-License-Identifier: BSD-2-Clause */
/* The file behind a mapping of a process, which may be in another mount namespace, deleted, or gone with its process.
 */
#ifndef XPROF_MAPPED_FILE_H
#define XPROF_MAPPED_FILE_H

#include <sys/types.h>

#include "target/address_space.h"

/*
 * Opens it for reading: of the mapping while the process has that, else by its path as the process sees it, else as
 * this host does, when the inode is the same; the vDSO is that of xprof itself. A descriptor of a regular file, or
 * -errno. Nothing but regular files is ever opened.
 */
int xp_mapped_file_open(pid_t pid, const struct xp_vma *vma);

#endif
