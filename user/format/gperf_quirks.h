/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes gperftools CPU profiles that google-pprof and `go tool pprof` interpret correctly: the layer between samples
 * and the byte writer (gperf.h). Source of each rule: google-pprof of gperftools 2.10, and google/pprof's
 * profile/legacy_profile.go and profile/profile.go with Go's cmd/pprof.
 *
 * - Readers subtract one from every PC but the first, to get from a return address into the call. So the PC of a
 *   function that was interrupted rather than calling is written plus one.
 * - google-pprof drops addresses from 2^63 on. Kernel addresses are moved to 0x0001000000000000 and up.
 * - google-pprof stops reading at a first PC of 0. It is replaced by an address in no object, as below.
 * - `go tool pprof` moves the start of a mapping if an address below it is in no mapping. So every address gets a named
 *   mapping. Addresses in no object are moved to 0x0000800000000000 and up, where they are "[unknown]". google-pprof
 *   assigns such addresses to the program and finds no symbol.
 * - Both treat a second PC that (nearly) all records share as a signal handler's, and delete it. So every other such
 *   record has it minus one, still inside the call. A single record is split in two. A single sample cannot be split:
 *   readers show only its first PC.
 * - `go tool pprof` deletes a second PC that equals the first (a recursive function that was just returned to). It is
 *   written minus one.
 * - Go's cmd/pprof knows one address of an ELF file, that of the first executable segment, and takes the mapping to
 *   start there. So the mapping line starts there, even if that address is mapped elsewhere or, with lld, the segment
 *   starts inside a page. Which address that is differs between versions if it is not aligned (elf/copy.h).
 * - `go tool pprof` treats a first mapping at 0x400000 + offset as a mistake and corrects it. A line before it prevents
 *   that.
 * - google-pprof reads mappings only of paths that end in .so or equal its argument, so the files in sym/ do. Both end
 * a path at a space; a path that cannot be written is replaced by its name in brackets.
 */
#ifndef XPROF_FORMAT_GPERF_QUIRKS_H
#define XPROF_FORMAT_GPERF_QUIRKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/gperf.h"

#define XP_GPERF_KERNEL_BASE 0x0001000000000000ull
#define XP_GPERF_UNKNOWN_BASE 0x0000800000000000ull

/*
 * Maps a kernel address to its address in a profile; returns other addresses unchanged. Also for the bounds of the
 * kernel's objects.
 */
static inline uint64_t xp_gperf_kernel_pc(uint64_t pc)
{
	return pc >> 63 ? (pc & 0xffffffffffffull) | XP_GPERF_KERNEL_BASE : pc;
}

/*
 * Samples of one chain, from the sampled function outwards. Kernel addresses are moved; that of a function that was
 * interrupted rather than calling is the address plus one, unless it is the first; none is 0.
 */
struct xp_gperf_record {
	uint64_t count;
	const uint64_t *pcs;
	uint32_t pc_count;
};

/* The source of records. Each record is requested more than once; its pcs stay valid until the next request. */
struct xp_gperf_records {
	void (*get)(void *arg, size_t index, struct xp_gperf_record *record);
	void *arg;
	size_t count;
};

/* Executable memory. The caller keeps all strings. */
struct xp_gperf_object {
	uint64_t start; /* as in the chains: kernel addresses are moved */
	uint64_t end;	/* exclusive */
	uint64_t offset;
	bool is_elf;	      /* the next three are known */
	uint64_t bias;	      /* address at run time minus address in the file */
	uint64_t exec_vaddr;  /* p_vaddr of the first executable PT_LOAD, or what readers take for it */
	uint64_t exec_offset; /* and its p_offset */
	const char *path;     /* of the file, or a name such as "[anon]" */
};

/*
 * Writes the whole profile. Identical chains must already be merged; the order of the records is kept. The objects are
 * sorted and do not overlap: address space that was used by several in succession has been moved apart. Returns 0 or
 * -errno: -EINVAL if they are not, or for records that xp_gperf_record() rejects; -ENOMEM; or an error of write(2).
 */
int xp_gperf_write(int fd, uint64_t period_us, const struct xp_gperf_records *records,
		   const struct xp_gperf_object *objects, size_t object_count);

#endif
