/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The files that readers of profiles need in addition to the profiles, in the directory sym/ of a recording:
 *  - ELF files with only names (symbol_file.h) for the kernel, the vDSO, JIT functions, and code without names;
 *  - copies of binaries that this host cannot open by their path: those in containers, and deleted or replaced ones;
 *    large ones are copied without their code (elf/copy.h);
 *  - copies of binaries that versions of `go tool pprof` take to start at different addresses (elf/copy.h);
 *  - links to binaries with names that readers reject: those with blanks and, for google-pprof, those without .so.
 *
 * xprof chooses the names in sym/: clean, and different from those of every other recording, since profiles refer to
 * them by absolute path, and directories of recordings are renamed.
 */
#ifndef XPROF_PROFILE_SYM_FILES_H
#define XPROF_PROFILE_SYM_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf/symbol_file.h"
#include "profile/ksym.h"
#include "profile/profile.h"
#include "target/address_space.h"

/*
 * At most this many descriptors hold binaries open. Beyond that, binaries that the host cannot see are copied at once.
 */
#define XP_SYM_FDS_MAX 256
/* Limit for all copies of a recording. Functions of binaries beyond it have no names. */
#define XP_SYM_COPIES_BYTES_MAX (1ull << 30)

struct xp_sym_files;

/*
 * dir_fd: the directory of the recording, which no one else may write to; it stays the caller's. Returns 0 or -ENOMEM.
 */
int xp_sym_files_new(struct xp_sym_files **sym, int dir_fd);
void xp_sym_files_free(struct xp_sym_files *sym);

/*
 * Called while the process lives: returns whether a descriptor of this file is wanted. It also is for a file that can
 * be opened by its path, since that file may change before the end of the recording.
 */
bool xp_sym_files_wants(const struct xp_sym_files *sym, const struct xp_file *file);
/*
 * Keeps the mapped file that fd refers to. fd stays the caller's; negative: it could not be opened, so a few more
 * attempts are made. Returns 0 or -ENOMEM.
 */
int xp_sym_files_keep(struct xp_sym_files *sym, int fd, const struct xp_file *file);

/* Requests the names of a profile's kernel addresses. Returns 0, -ENOMEM, or an error of xp_profile_each_address(). */
int xp_sym_files_add(struct xp_sym_files *sym, struct xp_profile *profile);
/*
 * Writes the kernel's files; call this after all xp_sym_files_add(), while all kernel code is still loaded. Code that
 * describe(arg) does not name becomes [kernel]. Returns 0, -ENOMEM, or an error of describe() or of creating files.
 */
int xp_sym_files_write(struct xp_sym_files *sym, xp_ksym_describe *describe, void *arg);

/*
 * Sets the JIT functions of the profile that is written next, sorted by address, from 0 on. They stay the caller's and
 * are used until the next call.
 */
void xp_sym_files_set_jit(struct xp_sym_files *sym, const struct xp_sym *functions, size_t count);

/*
 * For struct xp_profile_files, after xp_sym_files_write(); arg is the struct xp_sym_files. Makes the files that are
 * needed. If that fails, the code has no names, and a warning says so. The only error is -ENOMEM.
 */
int xp_sym_files_find(void *arg, const struct xp_file *file, uint64_t start, uint64_t end,
		      struct xp_profile_code *code);

#endif
