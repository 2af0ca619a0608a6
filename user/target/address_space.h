/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The executable mappings of processes over time: address spaces, and the files behind their mappings. Pure: the caller
 * passes changes from the side-band (sideband.h) and from /proc, in time order.
 */
#ifndef XPROF_TARGET_ADDRESS_SPACE_H
#define XPROF_TARGET_ADDRESS_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/hash.h"

/* A mapped file, or memory that is treated like a file. All processes that map it share one struct xp_file. */
enum xp_file_kind {
	XP_FILE_DISK,	 /* a file with device and inode; it may be deleted, or in another mount namespace */
	XP_FILE_ANON,	 /* executable memory without a file: JIT code, "//anon", "[heap]", "[stack]" */
	XP_FILE_JIT,	 /* a part of XP_FILE_ANON with functions of known names; not in address spaces */
	XP_FILE_VDSO,	 /* [vdso] */
	XP_FILE_KERNEL,	 /* all of the kernel's text and modules */
	XP_FILE_UNKNOWN, /* addresses in no known mapping */
};

struct xp_file {
	size_t index;	    /* in struct xp_files */
	uint64_t place_key; /* private: hash of kind, dev, inode and path */
	enum xp_file_kind kind;
	uint64_t dev;
	uint64_t inode;
	uint64_t generation; /* generation of the inode, if the side-band reports it; otherwise 0 */
	uint8_t build_id[20];
	uint8_t build_id_bytes; /* 0: unknown */
	char *path; /* as the process sees it; for files that are not on disk, a name such as "[vdso]" or "//anon" */
};

/* Derives the kind of a mapping from its path, as /proc and the side-band print it. */
enum xp_file_kind xp_file_kind_of(const char *path);
/* Returns true for the page that the kernel maps for probes on nops. */
bool xp_file_is_trampoline(const struct xp_file *file);
/*
 * Returns true if the file may contain code of a JIT compiler: memory without a file, or a memfd. Some compilers map a
 * memfd a second time to write to it.
 */
bool xp_file_may_be_jit(const struct xp_file *file);

/*
 * All files of a recording. Empty if zeroed; the files are freed with it. Any process can add files with long paths.
 * Beyond these limits, all new files become a single file of kind XP_FILE_UNKNOWN.
 */
#define XP_FILES_MAX (1u << 17)
#define XP_FILES_PATHS_BYTES_MAX (64u << 20)
struct xp_files {
	struct xp_file **all;
	size_t count;
	size_t room;
	struct xp_hash by_place; /* the last file at each place */
	size_t paths_bytes;
	struct xp_file *unknown; /* NULL: not needed yet */
};
/* Returns the file with this identity. Creates it as a copy of `from` if it is new. Returns NULL if out of memory. */
struct xp_file *xp_files_intern(struct xp_files *files, const struct xp_file *from);
void xp_files_free(struct xp_files *files);

struct xp_vma {
	uint64_t start;
	uint64_t end;
	uint64_t file_offset;
	struct xp_file *file; /* in struct xp_files */
};

/* A range of memory that may contain JIT code (xp_file_may_be_jit()), and the time from which it may. */
struct xp_address_space_jit {
	uint64_t start;
	uint64_t end;
	uint64_t tsc;
};
/* The maximum number of such ranges per process; older ones are dropped. */
#define XP_SPACE_JIT_MAX 1024

/* The executable mappings of a process, in address order, without overlap. Zeroed: empty and not shared. */
struct xp_address_space {
	struct xp_vma *vmas;
	size_t count;
	size_t room;
	uint64_t changed;		  /* TSC of the last change: identifies the state of the mappings */
	unsigned int sharers;		  /* for xp_address_space_new(): number of references minus one */
	size_t waiters;			  /* for pending_samples.h: number of samples with a reference */
	struct xp_address_space_jit *jit; /* in time order */
	size_t jit_count;
};

/* Maximum number of mappings per process. Further ones are ignored (-E2BIG). */
#define XP_SPACE_VMAS_MAX 131072

/*
 * Maps vma. Overlapped mappings are clipped, split or replaced, as by mmap(MAP_FIXED). Returns 0 or -errno: -ENOMEM,
 * -E2BIG, -EINVAL if start >= end.
 */
int xp_address_space_map(struct xp_address_space *space, const struct xp_vma *vma);
/*
 * Call this before xp_address_space_map() maps memory that may contain JIT code from a known time on. Records this time
 * for the parts of the range that could not contain JIT code before. Returns 0 or -ENOMEM.
 */
int xp_address_space_map_jit(struct xp_address_space *space, uint64_t start, uint64_t end, uint64_t tsc);
/* Returns the time from which this address may contain JIT code; 0: unknown. */
uint64_t xp_address_space_jit_since(const struct xp_address_space *space, uint64_t address);
/* Returns the mapping that contains address, or NULL. O(log n). */
const struct xp_vma *xp_address_space_find(const struct xp_address_space *space, uint64_t address);
/* Returns whether this is a 32-bit process: its vDSO is below 4 GiB. */
bool xp_address_space_is_32_bit(const struct xp_address_space *space);
/* Removes all mappings. */
void xp_address_space_clear(struct xp_address_space *space);
void xp_address_space_free(struct xp_address_space *space);

/*
 * Reference-counted spaces. A child shares its parent's space until either of them changes it, and a sample keeps the
 * space of its time. xp_address_space_new() returns NULL if out of memory.
 */
struct xp_address_space *xp_address_space_new(void);
struct xp_address_space *xp_address_space_share(struct xp_address_space *space);
/* Drops a reference. NULL is allowed. */
void xp_address_space_release(struct xp_address_space *space);
/* Call this before a change: replaces *space with a copy if it is shared. Returns 0 or -ENOMEM. */
int xp_address_space_own(struct xp_address_space **space);

#endif
