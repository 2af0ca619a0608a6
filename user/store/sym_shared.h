/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names that the parts of a recording share (record --rotate): the directory sym/ beside the parts. A copy of a binary
 * (elf/copy.h) is made once; the sym/ of each part has a hard link to it. So each part is complete by itself, also when
 * it is copied or moved, and a file that no part has a link to is deleted.
 *
 * The name of a shared file says of which binary it is, and what was learned of it:
 *
 *	DEVICE-INODE-SIZE-MODIFIED-CHANGED,KEY,HAS_CODE,LACKS_DEBUG,EXEC_VADDR,EXEC_OFFSET.so
 *
 * MODIFIED and CHANGED are seconds-nanoseconds; a user can choose the former, not the latter. KEY is that of sym_dir.h.
 *The directory is root's, whoever gets the parts: what it says is trusted.
 */
#ifndef XPROF_STORE_SYM_SHARED_H
#define XPROF_STORE_SYM_SHARED_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "elf/copy.h"
#include "store/sym_dir.h"

struct xp_sym_identity;

/* Opens the directory in the directory of the parts, or creates it. Returns a descriptor or -errno. */
int xp_sym_shared_open(int parts_fd);
/* Returns the disk space of what is shared. */
uint64_t xp_sym_shared_bytes(int shared_fd);
/* Deletes what no part has. */
void xp_sym_shared_clean(int shared_fd);

/* A shared file. */
struct xp_sym_shared {
	char name[NAME_MAX + 1];
	char key[XP_SYM_KEY_BYTES];
	struct xp_elf_copied copied;
};

/* Finds the copy of this binary. Returns whether there is one. */
bool xp_sym_shared_find(int shared_fd, const struct xp_sym_identity *identity, struct xp_sym_shared *found);
/* Shares a copy that is in the directory dir_fd. It is no error if that is not possible. */
void xp_sym_shared_add(int shared_fd, const struct xp_sym_identity *identity, const struct xp_sym_shared *copy,
		       int dir_fd, const char *name);

#endif
