/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes gperftools CPU profiles that google-pprof and `go tool pprof` interpret correctly: 64-bit, little-endian.
 *
 * Source of the format: gperftools' "CPU Profile Data File Structure" (docs/cpuprofile-fileformat.html); for the
 * mapping lines, ProcMapsIterator::FormatLine() (src/base/sysinfo.cc). Source of each rule below: google-pprof of
 * gperftools 2.10, and google/pprof's profile/legacy_profile.go and profile/profile.go with Go's cmd/pprof.
 *
 * - Readers subtract one from every PC except the first, to get from a return address into the call. So one is added to
 *   the PC of a function that was interrupted rather than calling.
 * - google-pprof drops addresses from 2^63 on. So kernel addresses are moved to 0x0001000000000000 and up.
 * - google-pprof stops reading at a first PC of 0. So it is replaced by an address outside of all binaries.
 * - `go tool pprof` moves the start of a mapping if an address below it is in no mapping. So every address gets a named
 *   mapping. Addresses in no binary are moved to 0x0000800000000000 and up, where they are "[unknown]". google-pprof
 *   assigns such addresses to the program and finds no symbol.
 * - If (nearly) all records have the same second PC, both readers assume a signal handler and delete the PC. So one is
 *   subtracted from the PC in every other such record; the PC is then still inside the call. A single record is split
 *   in two. A single sample cannot be split: readers show only its first PC.
 * - `go tool pprof` deletes a second PC that equals the first (a recursive function that was just returned to). So one
 *   is subtracted from the second PC.
 * - Go's cmd/pprof uses only one address of an ELF file, the first executable segment, and assumes that the mapping
 *   starts there. So the mapping line starts there, even if that address is mapped elsewhere or, with lld, the segment
 *   starts inside a page. If the address is not aligned, it differs between versions of Go (elf/copy.h).
 * - `go tool pprof` treats a first mapping at 0x400000 + offset as a mistake and corrects it. A line before it prevents
 *   that.
 * - google-pprof reads only mappings whose path ends in .so or equals its argument, so the files in sym/ end in .so.
 *   Both readers end a path at a space. A path that cannot be written is replaced by its name in brackets.
 */
#ifndef XPROF_FORMAT_GPERF_H
#define XPROF_FORMAT_GPERF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define XP_GPERF_CHAIN_MAX 1024		     /* maximum PCs of a record; google-pprof fails above 65536 */
#define XP_GPERF_PERIOD_US_MAX 0xffffffffull /* google-pprof's limit */

#define XP_GPERF_KERNEL_BASE 0x0001000000000000ull
#define XP_GPERF_UNKNOWN_BASE 0x0000800000000000ull

/*
 * Returns the address in a profile for a kernel address; returns other addresses unchanged. Also works for the bounds
 * of the kernel's binaries.
 */
static inline uint64_t xp_gperf_kernel_pc(uint64_t pc)
{
	return pc >> 63 ? (pc & 0xffffffffffffull) | XP_GPERF_KERNEL_BASE : pc;
}

/*
 * Samples of one call chain, innermost function first. Kernel addresses are moved. If a function was interrupted rather
 * than calling, its address is plus one, unless it is the first. No address is 0.
 */
struct xp_gperf_record {
	uint64_t count;
	const uint64_t *pcs;
	uint32_t pc_count;
};

/* The source of records. Each record is requested several times. Its pcs stay valid until the next request. */
struct xp_gperf_records {
	void (*get)(void *arg, size_t index, struct xp_gperf_record *record);
	void *arg;
	size_t count;
};

/* A binary or other executable memory. The caller keeps all strings. */
struct xp_gperf_object {
	uint64_t start; /* kernel addresses are moved, as in the chains */
	uint64_t end;	/* exclusive */
	uint64_t offset;
	bool is_elf;	      /* the next three are known */
	uint64_t bias;	      /* address at run time minus address in the file */
	uint64_t exec_vaddr;  /* p_vaddr of the first executable PT_LOAD, or the address that readers use instead */
	uint64_t exec_offset; /* p_offset of the same segment */
	const char *path;     /* path of the file, or a name such as "[anon]" */
};

/*
 * Writes the whole profile. Merge identical chains before; the order of the records is kept. The objects must be sorted
 * and must not overlap: if several used the same addresses at different times, move them apart before. The caller keeps
 * fd. Returns 0 or -errno: -EINVAL if the period is not 1..XP_GPERF_PERIOD_US_MAX, if the objects are not sorted, or
 * for a record without samples or PCs, with more than XP_GPERF_CHAIN_MAX PCs, or with a first PC of 0; -ENOMEM; or an
 * error of write(2).
 */
int xp_gperf_write(int fd, uint64_t period_us, const struct xp_gperf_records *records,
		   const struct xp_gperf_object *objects, size_t object_count);

/* Returns true if the path can be written in a mapping line: readers end the path at a space. */
bool xp_gperf_path_fits(const char *path);

#endif
