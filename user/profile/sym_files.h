/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What names the code of a recording, in its directory sym/: a recording is complete when it ends, whatever becomes of
 * the recorded binaries.
 *  - The names of each binary with samples or calls (elf/copy.h), keyed by its build ID or, without one, by its size,
 *    the time of its last change, and a hash: LABEL.<number>.<key>.so.
 *  - ELF files with only names (symbol_file.h) for the kernel, the vDSO, JIT functions, and code without names:
 *    LABEL.<number>.<token>.so.
 *
 * xprof chooses the names in sym/: clean, accepted by all readers (google-pprof needs .so), and different from those of
 * other contents in every other recording, since profiles refer to them by absolute path, and directories of recordings
 * are renamed.
 */
#ifndef XPROF_PROFILE_SYM_FILES_H
#define XPROF_PROFILE_SYM_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf/symbol_file.h"
#include "profile/ksym.h"
#include "profile/profile.h"
#include "profile/sym_binaries.h"
#include "target/address_space.h"

/*
 * At most this many descriptors hold binaries open. Beyond that, binaries that the host cannot see are copied at once.
 */
#define XP_SYM_FDS_MAX 256
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

/*
 * Stores the names of the binary that fd refers to, unless they are stored. *binary: NULL if it is not an ELF file;
 * else it lives as long as sym. The only error is -ENOMEM: a warning tells others.
 */
int xp_sym_files_store(struct xp_sym_files *sym, int fd, const char *path, const struct xp_sym_binary **binary);
/* The same for one that has been stored. NULL: it has not. */
const struct xp_sym_binary *xp_sym_files_stored(const struct xp_sym_files *sym, int fd);
/* The binaries so far, also those that could not be stored. */
size_t xp_sym_files_count(const struct xp_sym_files *sym);
const struct xp_sym_binary *xp_sym_files_get(const struct xp_sym_files *sym, size_t index);

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
