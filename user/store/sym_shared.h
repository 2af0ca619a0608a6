/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names that the parts of a recording share (record --rotate): the directory sym/ next to the parts. xprof copies the
 * names of a binary (elf/copy.h) once, and creates a hard link to the copy in the sym/ of each part. So each part is
 * complete, even if it is copied or moved. xprof deletes a shared file when no part has a link to it.
 *
 * The name of a shared file identifies the binary, and contains its properties:
 *
 *	DEVICE-INODE-SIZE-MODIFIED-CHANGED,KEY,HAS_CODE,LACKS_DEBUG,EXEC_VADDR,EXEC_OFFSET.so
 *
 * MODIFIED and CHANGED are seconds-nanoseconds. A user can choose MODIFIED, but not CHANGED. sym_dir.h describes KEY.
 *The directory belongs to root, even if another user owns the parts, so xprof trusts its contents.
 */
#ifndef XPROF_STORE_SYM_SHARED_H
#define XPROF_STORE_SYM_SHARED_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "elf/copy.h"
#include "store/sym_dir.h"

struct xp_sym_identity;

/* Opens or creates the shared directory in the directory of the parts. Returns a descriptor or -errno. */
int xp_sym_shared_open(int parts_fd);
/* Returns the disk space of the shared files. */
uint64_t xp_sym_shared_bytes(int shared_fd);
/* Deletes the files that no part has a link to. */
void xp_sym_shared_clean(int shared_fd);

/* A shared file. */
struct xp_sym_shared {
	char name[NAME_MAX + 1];
	char key[XP_SYM_KEY_BYTES];
	struct xp_elf_copied copied;
};

/* Finds the shared copy of a binary. Returns false if there is none. */
bool xp_sym_shared_find(int shared_fd, const struct xp_sym_identity *identity, struct xp_sym_shared *found);
/* Shares the copy `name` in the directory dir_fd. Ignores errors: the copy is then not shared. */
void xp_sym_shared_add(int shared_fd, const struct xp_sym_identity *identity, const struct xp_sym_shared *copy,
		       int dir_fd, const char *name);

#endif
