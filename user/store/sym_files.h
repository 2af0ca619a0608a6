/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes the names of the recorded code to the directory sym/ of a recording, so that the recording stays readable if
 * the binaries change.
 *  - The names of each binary with samples or calls (elf/copy.h), keyed by its build ID or, without one, by its size,
 *    the time of its last change, and a hash: LABEL.<number>.<key>.so.
 *  - ELF files with only names (symbol_file.h) for the kernel and the vDSO: LABEL.<number>.<token>.so.
 *
 * xprof chooses the names in sym/: clean, accepted by all readers (google-pprof needs .so), and different from those of
 * other contents in every other recording, since profiles refer to them by absolute path, and directories of recordings
 * are renamed.
 */
#ifndef XPROF_STORE_SYM_FILES_H
#define XPROF_STORE_SYM_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/code_places.h"
#include "store/ksym.h"
#include "store/sym_binaries.h"
#include "target/address_space.h"

/*
 * At most this many descriptors hold binaries open. Beyond that, binaries that the host cannot see are copied
 * immediately.
 */
#define XP_SYM_FDS_MAX 256

struct xp_sym_files;

/*
 * dir_fd: the directory of the recording, which no one else may write to; it stays the caller's, as does shared_fd: of
 * xp_sym_shared_open(), or -1. Returns 0 or -ENOMEM.
 */
int xp_sym_files_new(struct xp_sym_files **sym, int dir_fd, int shared_fd);
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
/* Returns a binary that has been stored, or NULL if it has not. */
const struct xp_sym_binary *xp_sym_files_stored(const struct xp_sym_files *sym, int fd);
/* The number of binaries so far, including those that could not be stored. */
size_t xp_sym_files_count(const struct xp_sym_files *sym);
const struct xp_sym_binary *xp_sym_files_get(const struct xp_sym_files *sym, size_t index);

/* Requests the name of the kernel's code at this address. Returns 0 or -ENOMEM. */
int xp_sym_files_want_kernel(struct xp_sym_files *sym, uint64_t address);
/* Requests the names of the vDSO. */
void xp_sym_files_want_vdso(struct xp_sym_files *sym);
/*
 * At the end, while all kernel code is still loaded: stores all names that were kept and requested, and prints a
 * warning about names that could not be stored. Returns 0, -ENOMEM, or the error of describe().
 */
int xp_sym_files_write(struct xp_sym_files *sym, xp_ksym_describe *describe, void *arg);

/* The file name in sym/ of the names of a part of the kernel's code, from 0 on. NULL: none of it was requested. */
const char *xp_sym_files_kernel(const struct xp_sym_files *sym, unsigned int window);
/* Like xp_sym_files_kernel(), for the vDSO. */
const char *xp_sym_files_vdso(const struct xp_sym_files *sym);

#endif
