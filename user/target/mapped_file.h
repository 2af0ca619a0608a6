/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opens the file behind a mapping. The file may be in another mount namespace, deleted, or its process may have ended.
 */
#ifndef XPROF_TARGET_MAPPED_FILE_H
#define XPROF_TARGET_MAPPED_FILE_H

#include <sys/types.h>

#include "target/address_space.h"

/*
 * Opens the file for reading. Tries these in order: the mapping; the path in the process's mount namespace; the path on
 * this host, if the inode is the same; another mapping of the file. For the vDSO, opens xprof's own vDSO. Returns a
 * descriptor of a regular file, or -errno. Opens no other kind of file.
 */
int xp_mapped_file_open(pid_t pid, const struct xp_vma *vma);

#endif
