/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The files that the readers of profiles need beside them, in the directory sym/ of a recording:
 *  - ELF files of names alone (sym_elf.h) for the kernel, the vDSO, JIT functions, and code that has no names;
 *  - copies of binaries that this host cannot open by their path: those of containers, deleted and replaced ones;
 *    large ones without their code (elf_copy.h);
 *  - links to binaries whose names the readers do not take: with blanks, or, for google-pprof, without .so.
 * Their names are ours: cleaned, and different from those of every other recording, since profiles name them by their
 * absolute path, and directories of recordings are renamed.
 */
#ifndef XPROF_SYM_FILES_H
#define XPROF_SYM_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/ksym.h"
#include "profile/profile.h"
#include "target/address_space.h"
#include "elf/symbol_file.h"

/* Binaries are held open by so many descriptors at most; of more, those that the host cannot see are copied at once. */
#define XP_SYM_FDS_MAX 256
/* Copies of a recording take no more than this; what does not fit has no names. */
#define XP_SYM_COPIES_BYTES_MAX (1ull << 30)

struct xp_sym_files;

/* dir_fd: the recording's directory, which nobody else may write to; it stays the caller's. -ENOMEM. */
int xp_sym_files_new(struct xp_sym_files **sym, int dir_fd);
void xp_sym_files_free(struct xp_sym_files *sym);

/*
 * While the process lives: is a descriptor of this file wanted? Also of files that can be opened by their path, which
 * may change before the end.
 */
bool xp_sym_files_wants(const struct xp_sym_files *sym, const struct xp_file *file);
/*
 * Keeps what fd is open for: the file behind the mapping itself. fd stays the caller's; negative: it could not be
 * opened, which is tried a few times. -ENOMEM.
 */
int xp_sym_files_keep(struct xp_sym_files *sym, int fd, const struct xp_file *file);

/* Asks for the names of a profile's kernel addresses. -ENOMEM; those of xp_profile_each_address(). */
int xp_sym_files_add(struct xp_sym_files *sym, struct xp_profile *profile);
/*
 * When all are added, and while all kernel code is still loaded: makes the kernel's files. What describe(arg) does not
 * name is [kernel]. -ENOMEM; those of describe() and of making files.
 */
int xp_sym_files_write(struct xp_sym_files *sym, xp_kallsyms_describe *describe, void *arg);

/*
 * The JIT functions of the profile that is written next, in order of address, from 0 on; they stay the caller's and are
 * used until the next call.
 */
void xp_sym_files_set_jit(struct xp_sym_files *sym, const struct xp_sym *functions, size_t count);

/*
 * For struct xp_profile_files, behind xp_sym_files_write(); arg is the struct xp_sym_files. Makes what is needed. What
 * cannot be made has no names, of which a warning tells; -ENOMEM is the only error.
 */
int xp_sym_files_find(void *arg, const struct xp_file *file, uint64_t start, uint64_t end,
		      struct xp_profile_code *code);

#endif
