/* SPDX-License-Identifier: BSD-2-Clause */
/* The binaries of a recording and their copies in sym/, see sym_files.h. Each is stored once. */
#ifndef XPROF_STORE_SYM_BINARIES_H
#define XPROF_STORE_SYM_BINARIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "base/u64_map.h"
#include "elf/copy.h"
#include "store/sym_dir.h"
#include "target/address_space.h"

/*
 * Limits for all copies of a recording. Copying a binary takes some milliseconds of CPU time. While a copy waits for a
 * disk or for a CPU, an eighth of the time counts: with 20 threads for 2 CPUs, a whole machine took longer than 20 s.
 */
#define XP_SYM_COPIES_BYTES_MAX (1ull << 30)
#define XP_SYM_COPIES_NS_MAX 20000000000ull
#define XP_SYM_COPIES_WAIT_SHARE 8

/* Identifies the contents of a file. A changed or replaced file has another identity. */
struct xp_sym_identity {
	dev_t dev;
	ino_t inode;
	off_t size;
	struct timespec modified;
	struct timespec changed; /* for the names of shared files: a user cannot choose this time */
};

/* Gets the identity of an open file. Returns false after an error. */
bool xp_sym_identity_get(struct xp_sym_identity *identity, int fd);
bool xp_sym_identity_same(const struct xp_sym_identity *a, const struct xp_sym_identity *b);

/* A binary with samples or calls. */
struct xp_sym_binary {
	char *path;	/* path in the first process that used it, without " (deleted)" */
	char *sym_path; /* path of the copy; NULL: it could not be stored */
	struct xp_sym_identity identity;
	struct xp_elf_copied copied;
};

struct xp_sym_binaries {
	struct xp_sym_dir *dir;
	struct xp_sym_binary **all;
	size_t count;
	size_t room;
	struct xp_u64_map by_inode; /* index in `all` by inode of the original */
	uint64_t bytes_left;
	uint64_t ns_left;
};

/* dir must outlive *binaries. */
void xp_sym_binaries_init(struct xp_sym_binaries *binaries, struct xp_sym_dir *dir);
void xp_sym_binaries_free(struct xp_sym_binaries *binaries);

/* Returns the binary with this identity, or NULL if xp_sym_binaries_store() was not called for it. */
const struct xp_sym_binary *xp_sym_binaries_find(const struct xp_sym_binaries *binaries,
						 const struct xp_sym_identity *identity);
/*
 * Stores the names of the binary fd, unless they are already stored. Sets *result to the binary, or to NULL if it is
 * not an ELF file. file: the mapped file; NULL if the binary has no samples. Prints other errors. Returns 0 or -ENOMEM.
 */
int xp_sym_binaries_store(struct xp_sym_binaries *binaries, int fd, const char *path, const struct xp_file *file,
			  const struct xp_sym_binary **result);

/* Returns the file name in sym/, or NULL if there is none. */
const char *xp_sym_binary_name(const struct xp_sym_binary *binary);

#endif
