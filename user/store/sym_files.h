/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes the names of the recorded code to the directory sym/ of a recording, so that the recording stays readable if
 * the binaries change.
 *  - The names of each binary with samples or calls (elf/copy.h), keyed by its build ID or, without one, by its size,
 *    the time of its last change, and a hash: LABEL.<number>.<key>.so.
 *  - ELF files with only names (symbol_file.h) for the kernel and the vDSO: LABEL.<number>.<token>.so.
 *
 * The names in sym/ are clean, and all readers accept them (google-pprof requires .so). Files with different contents
 * have different names, even in different recordings: profiles refer to them by absolute path, and a directory of a
 * recording can be renamed.
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
 * Maximum number of descriptors for binaries. Beyond that, xprof copies a binary immediately if its path does not lead
 * to it, as in a container.
 */
#define XP_SYM_FDS_MAX 256

struct xp_sym_files;

/*
 * dir_fd: the directory of the recording; other users must not be able to write to it. shared_fd: from
 * xp_sym_shared_open(), or -1. The caller keeps both descriptors. Returns 0 or -ENOMEM.
 */
int xp_sym_files_new(struct xp_sym_files **sym, int dir_fd, int shared_fd);
void xp_sym_files_free(struct xp_sym_files *sym);

/*
 * Returns whether xp_sym_files_keep() needs a descriptor of this file. Call this while the process runs. A descriptor
 * is also needed if the path leads to the file, because that file may change before the end of the recording.
 */
bool xp_sym_files_wants(const struct xp_sym_files *sym, const struct xp_file *file);
/*
 * Keeps the mapped file fd for xp_sym_files_write(). The caller keeps fd. Negative: the file could not be opened;
 * xp_sym_files_wants() then returns true for two more attempts. Returns 0 or -ENOMEM.
 */
int xp_sym_files_keep(struct xp_sym_files *sym, int fd, const struct xp_file *file);

/*
 * Stores the names of the binary fd, unless they are already stored. Sets *binary to the binary, which is valid as long
 * as sym, or to NULL if fd is not an ELF file. Returns 0 or -ENOMEM; prints a warning for other errors.
 */
int xp_sym_files_store(struct xp_sym_files *sym, int fd, const char *path, const struct xp_sym_binary **binary);
/* Returns the binary of fd, or NULL if xp_sym_files_store() was not called for it. */
const struct xp_sym_binary *xp_sym_files_stored(const struct xp_sym_files *sym, int fd);
/* Returns the number of binaries so far, including binaries that could not be stored. */
size_t xp_sym_files_count(const struct xp_sym_files *sym);
const struct xp_sym_binary *xp_sym_files_get(const struct xp_sym_files *sym, size_t index);

/* Requests the name of the kernel's code at this address. Returns 0 or -ENOMEM. */
int xp_sym_files_want_kernel(struct xp_sym_files *sym, uint64_t address);
/* Requests the names of the vDSO. */
void xp_sym_files_want_vdso(struct xp_sym_files *sym);
/*
 * Stores the names of all kept files and all requested names. Call this at the end, while all kernel code is still
 * loaded. Prints a warning if names cannot be stored. Returns 0 or -ENOMEM.
 */
int xp_sym_files_write(struct xp_sym_files *sym, xp_ksym_describe *describe, void *arg);

/* Returns the file name in sym/ for a window of the kernel's code. NULL: no name in it was requested. */
const char *xp_sym_files_kernel(const struct xp_sym_files *sym, unsigned int window);
/* Returns the file name in sym/ for the vDSO. NULL: its names were not requested. */
const char *xp_sym_files_vdso(const struct xp_sym_files *sym);

#endif
