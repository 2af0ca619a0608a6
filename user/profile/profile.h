/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The samples of one process (one image of it), summed by identical call chain, and the gperftools profile made of
 * them. Chains are kept as a tree of frames from the outermost inwards, so that memory grows with the number of
 * different call paths and not with the number of samples.
 *
 * Addresses of the profile: those of the process, except
 *  - where two mappings held the same addresses at different times (dlclose and dlopen): one of them gets a range of
 * its own, from XP_PROFILE_MOVED_BASE on;
 *  - the kernel's, which are moved (gperf_cures.h);
 *  - those of JIT functions, each of which has a range of its own from XP_PROFILE_JIT_BASE on, since what is
 *    JIT-compiled comes and goes at one place (jit.h);
 *  - those of other code without a file, which are numbered from XP_PROFILE_ANON_BASE on;
 *  - those in no mapping, which are all one, at XP_GPERF_UNKNOWN_BASE.
 */
#ifndef XPROF_PROFILE_H
#define XPROF_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "target/address_space.h"

struct xp_profile;

struct xp_profile_frame {
	uint64_t address;
	const struct xp_vma *vma; /* copied; NULL: kernel when address is in the upper half, unknown otherwise */
	bool interrupted; /* not a return address though it is no leaf: the user ip under the kernel's frames, say */
};

/* -ENOMEM. Files of the frames' mappings must outlive the profile. */
int xp_profile_new(struct xp_profile **profile);
void xp_profile_free(struct xp_profile *profile);

/*
 * Where the outermost frames of a chain are in a profile, for the next chain that begins with the same ones. Its owner
 * sets nodes and count, and lowers known when frames have become others; all else is xp_profile_add()'s.
 */
struct xp_profile_path {
	const struct xp_profile *profile; /* NULL: none yet */
	uint32_t *nodes;		  /* from the outermost frame on */
	size_t count;			  /* for so many frames there is room */
	size_t known;			  /* so many are filled in */
};

/*
 * One sample: frames leaf first, count >= 1; what is deeper than 1024 is cut at the outer end. path: of its outermost
 * frames, or NULL. -ENOMEM, -EINVAL; after these nothing has been counted. Like the two below that read the profile,
 * gets it back from its store (profile_store.h): -EIO, those of pread(2).
 */
int xp_profile_add(struct xp_profile *profile, const struct xp_profile_frame *frames, size_t count,
		   struct xp_profile_path *path);
/* How many of the outermost frames are in the profile already, for they were in a chain that was added. */
size_t xp_profile_known(const struct xp_profile *profile, const struct xp_profile_path *path);

uint64_t xp_profile_samples(const struct xp_profile *profile);
size_t xp_profile_memory_bytes(const struct xp_profile *profile);

/* All kernel code lies in the last 2 GiB. It is divided into windows, each of which has an ELF file for its names. */
#define XP_PROFILE_KERNEL_START 0xffffffff80000000ull
#define XP_PROFILE_WINDOW_BYTES (128ull << 20)
/* Ranges of the code without names. */
#define XP_PROFILE_ANON_BASE 0x0002000100000000ull
#define XP_PROFILE_ANON_BYTES (1ull << 20)
#define XP_PROFILE_JIT_BASE 0x0002000200000000ull
#define XP_PROFILE_JIT_BYTES (2ull << 30)
extern const struct xp_vma xp_profile_jit_vma; /* of frames that are there */
#define XP_PROFILE_UNKNOWN_BYTES 0x1000ull
#define XP_PROFILE_MOVED_BASE 0x0003000000000000ull

/* What the readers of a profile open for some code. Strings live until the profile is written. */
struct xp_profile_code {
	const char *path; /* NULL: the code has no names and goes to that of XP_FILE_ANON */
	const char *link; /* as in struct xp_gperf_object */
	bool is_made;	  /* path is of sym_elf.h, whose range begins where the code does */
	bool is_elf;	  /* it is not made, and these are known */
	uint64_t exec_vaddr;
	uint64_t exec_offset;
};

/*
 * Tells it (sym_files.h). [start, end): what there is of the file's code in the process; of the kernel, a window. A
 * negative errno ends the writing.
 */
struct xp_profile_files {
	int (*find)(void *arg, const struct xp_file *file, uint64_t start, uint64_t end, struct xp_profile_code *code);
	void *arg;
};

/*
 * Writes the whole profile to fd. An empty profile (no sample) is valid and is written too. -EINVAL for a period that
 * fmt_gperf.h refuses, -ENOMEM, those of find() and write(2).
 */
int xp_profile_write(struct xp_profile *profile, int fd, uint64_t period_us, const struct xp_profile_files *files);

/*
 * Calls each() for every distinct address of a kind of file, until it returns non-zero, and returns that. An address is
 * that of a sampled instruction or of the one after a call: the byte before it is what belongs to the caller.
 */
int xp_profile_each_address(struct xp_profile *profile, enum xp_file_kind kind,
			    int (*each)(void *arg, uint64_t address), void *arg);

#endif
