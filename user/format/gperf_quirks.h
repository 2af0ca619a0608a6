/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * gperftools CPU profiles that google-pprof and `go tool pprof` understand rightly: what stands between samples and the
 * byte writer (fmt_gperf.h). Source of each rule: google-pprof of gperftools 2.10, and google/pprof's
 * profile/legacy_profile.go and profile/profile.go with Go's cmd/pprof.
 *
 *  - Readers subtract one from every PC but the first, to get from a return address into the call. The PC of a function
 *    that did not call, but was interrupted, is written plus one.
 *  - google-pprof drops addresses from 2^63 on: the kernel's are moved to 0x0001000000000000 and up.
 *  - A first PC of 0 ends google-pprof's reading. It becomes an address of no object, as below.
 *  - `go tool pprof` moves a mapping's start when an address below it has none: so each address is in a named mapping.
 *    What lies in no object is moved to 0x0000800000000000 and up, where it is "[unknown]", and where google-pprof,
 * which takes such addresses for the program's, finds no symbol.
 *  - Both take a second PC that (nearly) all records share for a signal handler's and delete it. Every other such
 * record has it minus one, still in the call; a single record is split in two. One sample alone cannot be split: of it
 * the readers show the first PC only.
 *  - `go tool pprof` deletes a second PC that equals the first (a recursive function that has just been returned to).
 * It is written minus one.
 *  - Go's cmd/pprof knows one address of an ELF file, that of the first executable segment, and takes the mapping for
 *    that segment's: so the line begins there, though it may be mapped elsewhere or, with lld, begin within a page.
 *  - `go tool pprof` takes the first mapping at 0x400000 + offset for a mistake and mends it. A line before it cures
 * that.
 *  - google-pprof reads mappings only of paths that end in .so or equal its argument: other files have a line more, of
 * a link so named. Paths with blanks, at which both end, are replaced by the link.
 */
#ifndef XPROF_GPERF_CURES_H
#define XPROF_GPERF_CURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/gperf.h"

#define XP_GPERF_KERNEL_BASE 0x0001000000000000ull
#define XP_GPERF_UNKNOWN_BASE 0x0000800000000000ull

/* Where a kernel address stands in a profile; others are left alone. Also for the bounds of the kernel's objects. */
static inline uint64_t xp_gperf_kernel_pc(uint64_t pc)
{
	return pc >> 63 ? (pc & 0xffffffffffffull) | XP_GPERF_KERNEL_BASE : pc;
}

/* A chain while it is put together, from the sampled function outwards. */
struct xp_gperf_chain {
	uint32_t count;
	bool cut; /* it is longer than XP_GPERF_CHAIN_MAX: the outermost functions are missing */
	uint64_t pcs[XP_GPERF_CHAIN_MAX];
};

void xp_gperf_chain_start(struct xp_gperf_chain *chain);
/*
 * The next frame outwards. interrupted: pc is no return address but where the function stood when a fault, an interrupt
 * or a signal took it (the user's PC under kernel functions, the frame under a signal handler); no matter for the
 * first. A pc of 0 is passed over unless it is the first.
 */
void xp_gperf_chain_add(struct xp_gperf_chain *chain, uint64_t pc, bool interrupted);

/* Samples of one chain, as xp_gperf_chain_add() makes it. */
struct xp_gperf_record {
	uint64_t count;
	const uint64_t *pcs;
	uint32_t pc_count;
};

/* Where the records come from. Each is asked for more than once; its pcs stand until the next one is. */
struct xp_gperf_records {
	void (*get)(void *arg, size_t index, struct xp_gperf_record *record);
	void *arg;
	size_t count;
};

/* Executable memory, all strings the caller's. */
struct xp_gperf_object {
	uint64_t start; /* as in the chains, so the kernel's moved */
	uint64_t end;	/* exclusive */
	uint64_t offset;
	uint64_t inode;
	uint32_t dev_major;
	uint32_t dev_minor;
	bool writable;
	bool is_elf;	      /* the next three are known */
	uint64_t bias;	      /* address at run time minus address in the file */
	uint64_t exec_vaddr;  /* of the first executable PT_LOAD: p_vaddr */
	uint64_t exec_offset; /* and p_offset */
	const char *path;     /* of the file, or a name such as "[anon]" */
	const char *link;     /* a path to the same file that ends in ".so" and has no blanks; NULL: none */
};

/* Does google-pprof read mappings of this path, whatever program it is given? If not, the object needs a link. */
bool xp_gperf_path_is_library(const char *path);

/*
 * Writes the whole profile. Identical chains are already summed; the order of the records stays. The objects are sorted
 * and do not overlap: address space that was used for one after the other has been moved apart. -EINVAL otherwise, and
 * for records that xp_gperf_record() refuses; -ENOMEM; those of write(2).
 */
int xp_gperf_write(int fd, uint64_t period_us, const struct xp_gperf_records *records,
		   const struct xp_gperf_object *objects, size_t object_count);

#endif
