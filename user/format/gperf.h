/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * gperftools CPU profiles: the writer, of 64-bit little-endian files.
 *
 * Source of the format: gperftools' "CPU Profile Data File Structure" (docs/cpuprofile-fileformat.html); of the mapping
 * lines, ProcMapsIterator::FormatLine() (src/base/sysinfo.cc).
 *
 * This unit writes what it is told, and refuses what the format or its readers forbid. What makes google-pprof and
 * `go tool pprof` understand a profile rightly is gperf_cures.h's.
 *
 * Errors: 0 or a negative errno. After one, the writer does nothing more and says the same again.
 */
#ifndef XPROF_FMT_GPERF_H
#define XPROF_FMT_GPERF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define XP_GPERF_CHAIN_MAX 1024		     /* PCs of a record; google-pprof gives up above 65536 */
#define XP_GPERF_PERIOD_US_MAX 0xffffffffull /* what google-pprof takes */

/* A line of the list of mapped objects. Only executable ones matter to the readers. */
struct xp_gperf_map {
	uint64_t start;
	uint64_t end; /* exclusive */
	uint64_t offset;
	uint64_t inode;
	uint32_t dev_major;
	uint32_t dev_minor;
	bool readable;
	bool writable;
	bool executable;
	const char *path; /* or a name such as "[heap]"; without blanks and control characters, not empty */
};

struct xp_gperf;

/* fd stays the caller's. Writes the header. -EINVAL unless the period is 1..XP_GPERF_PERIOD_US_MAX microseconds. */
int xp_gperf_new(struct xp_gperf **gperf, int fd, uint64_t period_us);
/*
 * `count` samples of a chain, the most recently called function first: the sampled PC, then return addresses, of which
 * the readers subtract one. -EINVAL for a count of 0, for none or more than XP_GPERF_CHAIN_MAX PCs, for a first PC of 0
 * (google-pprof takes it for the trailer), and behind the first mapping.
 */
int xp_gperf_record(struct xp_gperf *gperf, uint64_t count, const uint64_t *pcs, size_t pc_count);
/*
 * A mapped object, behind all records. It is written as private, since `go tool pprof` does not know the `s` of a
 * shared one. -EINVAL for an empty or inverted range, and for a path as described above: readers end it at a blank.
 */
int xp_gperf_map(struct xp_gperf *gperf, const struct xp_gperf_map *map);
/* Writes what is left: until then the file is not whole. */
int xp_gperf_finish(struct xp_gperf *gperf);
void xp_gperf_free(struct xp_gperf *gperf);

/* May this stand as the path of a mapping line? */
bool xp_gperf_path_fits(const char *path);

#endif
