/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The samples of one image of a process, summed by identical call chain, and the gperftools profile written from them.
 * The chains form a tree of frames from the outermost inwards, so memory grows with the number of different call paths,
 * not with the number of samples.
 *
 * Addresses in the profile are those of the process, with these exceptions:
 *  - if two mappings had the same addresses at different times (dlclose and dlopen), one of them gets a separate range
 *    from XP_PROFILE_MOVED_BASE on;
 *  - kernel addresses are moved (gperf_quirks.h);
 *  - each JIT function has a separate range from XP_PROFILE_JIT_BASE on, since JIT compilers reuse addresses (jit.h);
 *  - other code without a file is numbered from XP_PROFILE_ANON_BASE on;
 *  - all addresses outside of any mapping become one, at XP_GPERF_UNKNOWN_BASE.
 */
#ifndef XPROF_PROFILE_PROFILE_H
#define XPROF_PROFILE_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "unwind/frame.h"

struct xp_profile;

/* Returns 0 or -ENOMEM. The files of the frames' mappings must outlive the profile. */
int xp_profile_new(struct xp_profile **profile);
void xp_profile_free(struct xp_profile *profile);

/*
 * Adds a sample: frames leaf first, count >= 1. Frames beyond 1024 are cut at the outer end. path: of its outermost
 * frames, or NULL. Returns 0 or -errno: -ENOMEM or -EINVAL, after which nothing has been counted. Like the two
 * functions below that read the profile, this one reads it back from its store (store.h): -EIO, or an error of
 * pread(2).
 */
int xp_profile_add(struct xp_profile *profile, const struct xp_frame *frames, size_t count, struct xp_frame_path *path);
/* Adds a chain with a weight above 0, such as the us of a wait. Otherwise as xp_profile_add() without a path. */
int xp_profile_add_weighted(struct xp_profile *profile, const struct xp_frame *frames, size_t count, uint64_t weight);
/* How many of the outermost frames the profile already has, from a chain that was added before. */
size_t xp_profile_known(const struct xp_profile *profile, const struct xp_frame_path *path);

uint64_t xp_profile_samples(const struct xp_profile *profile);
size_t xp_profile_memory_bytes(const struct xp_profile *profile);

/* All kernel code lies in the last 2 GiB. It is divided into windows; each window has an ELF file with its names. */
#define XP_PROFILE_KERNEL_START 0xffffffff80000000ull
#define XP_PROFILE_WINDOW_BYTES (128ull << 20)
/* Address ranges for code without a file. */
#define XP_PROFILE_ANON_BASE 0x0002000100000000ull
#define XP_PROFILE_ANON_BYTES (1ull << 20)
#define XP_PROFILE_JIT_BASE 0x0002000200000000ull
#define XP_PROFILE_JIT_BYTES (2ull << 30)
extern const struct xp_vma xp_profile_jit_vma; /* for frames in that range */
#define XP_PROFILE_UNKNOWN_BYTES 0x1000ull
#define XP_PROFILE_MOVED_BASE 0x0003000000000000ull

/* What readers of a profile open for some code. The strings live until the profile is written. */
struct xp_profile_code {
	const char *path; /* NULL: the code has no names and becomes part of the XP_FILE_ANON code */
	bool is_made;	  /* path is a symbol file (symbol_file.h) whose range begins where the code does */
	bool is_elf;	  /* the file was not made by xprof, and these are known */
	uint64_t exec_vaddr;
	uint64_t exec_offset;
};

/*
 * Finds that file (sym_files.h). [start, end): the range of the file's code in the process; for the kernel, a window. A
 * negative errno ends the writing.
 */
struct xp_profile_files {
	int (*find)(void *arg, const struct xp_file *file, uint64_t start, uint64_t end, struct xp_profile_code *code);
	void *arg;
};

/*
 * Writes the whole profile to fd; one without samples is valid and is written, too. Returns 0 or -errno: -EINVAL if
 * format/gperf.h refuses the period, -ENOMEM, or an error of find() or write(2).
 */
int xp_profile_write(struct xp_profile *profile, int fd, uint64_t period_us, const struct xp_profile_files *files);

/*
 * Calls each() for every distinct address of a kind of file until it returns non-zero, and returns that. An address is
 * that of a sampled instruction or of the one after a call; in the latter case, the byte before it belongs to the
 * caller.
 */
int xp_profile_each_address(struct xp_profile *profile, enum xp_file_kind kind,
			    int (*each)(void *arg, uint64_t address), void *arg);

#endif
