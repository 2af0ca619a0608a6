/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a process has mapped executable, as it changes: address spaces, and the files behind their mappings. Pure: it is
 * told by the side-band (sideband.h) and by /proc, in the order of time, and asks nobody.
 */
#ifndef XPROF_SPACE_H
#define XPROF_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A file, or what stands for one, once for all processes that map it. */
enum xp_file_kind {
	XP_FILE_DISK,	 /* a file with device and inode; it may be deleted, or in another mount namespace */
	XP_FILE_ANON,	 /* executable memory without a file: JIT code, "//anon", "[heap]", "[stack]" */
	XP_FILE_JIT,	 /* that part of it which is functions whose names are known; not in address spaces */
	XP_FILE_VDSO,	 /* [vdso] */
	XP_FILE_KERNEL,	 /* all of the kernel's text and modules */
	XP_FILE_UNKNOWN, /* addresses in no mapping that we know */
};

struct xp_file {
	size_t index; /* in struct xp_files */
	enum xp_file_kind kind;
	uint64_t dev;
	uint64_t inode;
	uint64_t generation; /* of the inode, where the side-band tells it; 0 otherwise */
	uint8_t build_id[20];
	uint8_t build_id_bytes; /* 0: not known */
	char *path;		/* as the process sees it; "[vdso]", "//anon" and so on for the others */
};

/* The kind of a mapping by its path, as /proc and the side-band print it. */
enum xp_file_kind xp_file_kind_of(const char *path);
/* The page that the kernel maps for probes on nops. */
bool xp_file_is_trampoline(const struct xp_file *file);
/* Whether code in it may be a JIT compiler's: memory without a file, or a memfd, which some map twice to write there.
 */
bool xp_file_may_be_jit(const struct xp_file *file);

/*
 * All files of a recording. Zeroed: empty. They live as long as it. Any process can make more of them, with paths as
 * long as it likes: beyond these bounds all new ones are one, of XP_FILE_UNKNOWN.
 */
#define XP_FILES_MAX (1u << 17)
#define XP_FILES_PATHS_BYTES_MAX (64u << 20)
struct xp_files {
	struct xp_file **all;
	size_t count;
	size_t room;
	uint32_t *slots; /* hash */
	size_t slot_count;
	size_t paths_bytes;
	struct xp_file *unknown; /* NULL: not needed yet */
};
/* The file with this identity, made when it is new (from is copied). NULL: out of memory. */
struct xp_file *xp_files_intern(struct xp_files *files, const struct xp_file *from);
void xp_files_free(struct xp_files *files);

struct xp_vma {
	uint64_t start;
	uint64_t end;
	uint64_t file_offset;
	struct xp_file *file; /* of struct xp_files */
};

/* The executable mappings of a process, in address order, without overlap. Zeroed: empty, and nobody else's. */
/* A part of memory in which there may be JIT code (xp_file_may_be_jit()), since it became such memory. */
struct xp_space_jit {
	uint64_t start;
	uint64_t end;
	uint64_t tsc;
};
/* So many of them are kept, the youngest. */
#define XP_SPACE_JIT_MAX 1024

struct xp_space {
	struct xp_vma *vmas;
	size_t count;
	size_t room;
	uint64_t changed;	  /* when it was last (TSC): what is mapped at another time has another */
	unsigned int sharers;	  /* of xp_space_new()'s: who holds it, less one */
	size_t waiters;		  /* of waiting.h: samples that hold it */
	struct xp_space_jit *jit; /* in order of time */
	size_t jit_count;
};

/* At most so many mappings of a process are kept; more are ignored (-E2BIG). */
#define XP_SPACE_VMAS_MAX 131072

/* Maps vma: what it overlaps is cut, split or replaced, as mmap(MAP_FIXED) does. -ENOMEM, -E2BIG, -EINVAL start >= end.
 */
int xp_space_map(struct xp_space *space, const struct xp_vma *vma);
/*
 * To be called before xp_space_map() of memory that may be JIT code's, at the time of which it is known: what of it was
 * none before is such memory since then. -ENOMEM.
 */
int xp_space_map_jit(struct xp_space *space, uint64_t start, uint64_t end, uint64_t tsc);
/* Since when this address may be JIT code's; 0: since nobody knows when. */
uint64_t xp_space_jit_since(const struct xp_space *space, uint64_t address);
/* The mapping that holds address, NULL when none does. O(log n). */
const struct xp_vma *xp_space_find(const struct xp_space *space, uint64_t address);
/* Nothing is mapped any more. */
void xp_space_clear(struct xp_space *space);
void xp_space_free(struct xp_space *space);

/*
 * Spaces that several hold: a child's is its parent's until one of both changes it, and a sample keeps the one of its
 * time. NULL: out of memory.
 */
struct xp_space *xp_space_new(void);
struct xp_space *xp_space_share(struct xp_space *space);
/* Whoever holds it lets it go. NULL is none. */
void xp_space_put(struct xp_space *space);
/* To be called before a change: *space becomes a copy when others hold it too. -ENOMEM. */
int xp_space_own(struct xp_space **space);

#endif
