/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes gperftools CPU profiles: 64-bit, little-endian.
 *
 * Source of the format: gperftools' "CPU Profile Data File Structure" (docs/cpuprofile-fileformat.html); for the
 * mapping lines, ProcMapsIterator::FormatLine() (src/base/sysinfo.cc).
 *
 * This module writes its input unchanged and rejects input that the format or its readers forbid. gperf_quirks.h adapts
 * a profile so that google-pprof and `go tool pprof` interpret it correctly.
 *
 * Functions return 0 or -errno. After an error, the writer does nothing more and returns the same error again.
 */
#ifndef XPROF_FORMAT_GPERF_H
#define XPROF_FORMAT_GPERF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define XP_GPERF_CHAIN_MAX 1024		     /* maximum PCs of a record; google-pprof fails above 65536 */
#define XP_GPERF_PERIOD_US_MAX 0xffffffffull /* google-pprof's limit */

/* A line of the list of mapped files: an executable mapping. Readers ignore other mappings, devices and inodes. */
struct xp_gperf_map {
	uint64_t start;
	uint64_t end; /* exclusive */
	uint64_t offset;
	const char *path; /* or a name such as "[heap]"; without spaces and control characters, not empty */
};

struct xp_gperf;

/*
 * Writes the header. The caller keeps fd. Returns 0 or -errno: -EINVAL unless the period is 1..XP_GPERF_PERIOD_US_MAX
 * us.
 */
int xp_gperf_new(struct xp_gperf **gperf, int fd, uint64_t period_us);
/*
 * Writes `count` samples of a chain, innermost function first: the sampled PC, then return addresses, from which
 * readers subtract one. Returns 0 or -errno: -EINVAL for a count of 0, no PCs or more than XP_GPERF_CHAIN_MAX PCs, a
 * first PC of 0 (google-pprof takes it for the trailer), and after the first mapping.
 */
int xp_gperf_record(struct xp_gperf *gperf, uint64_t count, const uint64_t *pcs, size_t pc_count);
/*
 * Writes a mapped file, after all records. Writes it as private, because `go tool pprof` does not know the `s` of a
 * shared mapping. Returns 0 or -errno: -EINVAL for an empty or inverted range, and for a path that xp_gperf_path_fits()
 * rejects, because readers end the path at a space.
 */
int xp_gperf_map(struct xp_gperf *gperf, const struct xp_gperf_map *map);
/* Writes the rest of the file. The file is incomplete before this call. */
int xp_gperf_finish(struct xp_gperf *gperf);
void xp_gperf_free(struct xp_gperf *gperf);

/* Returns true if the path can be written in a mapping line. */
bool xp_gperf_path_fits(const char *path);

#endif
