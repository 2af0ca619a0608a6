/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Processes and threads in a perf.data file, over time: names, mappings, forks and execs. Records may be out of order,
 * and a sample may precede a record with the same time. So a first pass over the file fills the tracks, and a second
 * pass uses them.
 */
#ifndef XPROF_MODEL_PERF_TRACKS_H
#define XPROF_MODEL_PERF_TRACKS_H

#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/text_pool.h"
#include "base/u64_map.h"
#include "format/perfdata_record.h"
#include "model/spans.h"

/* Limits: code of further processes and mappings has no names. */
#define XP_PERF_TRACKS_MAX (1u << 20)
#define XP_PERF_MAPPINGS_MAX (4u << 20)

/* A mapped file, or other named code. All members are its identity (base/set.h). */
struct xp_perf_dso {
	const char *path; /* as in the file: may contain any characters */
	uint64_t inode;
	uint32_t build_id_bytes;
	uint8_t build_id[20];
};

struct xp_perf_mapping {
	uint32_t dso;
	uint64_t start;
	uint64_t file_offset;
};

struct xp_perf_track {
	int32_t pid;
	uint32_t parent; /* index plus one; 0: unknown */
	uint64_t fork_ns;
	struct xp_spans mappings; /* index: in `mappings` */
	struct xp_spans jit;	  /* index of the JIT function, defined by the caller */
};

/* The name of a thread from this time on. */
struct xp_perf_name {
	uint64_t thread; /* key */
	uint64_t from_ns;
	const char *name; /* may contain any characters */
};

/* Empty if zeroed. */
struct xp_perf_tracks {
	struct xp_perf_track *all;
	size_t count;
	struct xp_perf_dso *dsos;
	size_t dso_count;
	struct xp_perf_mapping *mappings;
	size_t mapping_count;

	/* private */
	size_t room, dso_room, mapping_room, name_count, name_room;
	struct xp_perf_name *names;
	struct xp_u64_map by_pid;
	struct xp_hash by_dso;
	struct xp_text_pool *texts;
};

/* Adds a record; ignores records that are not about processes. Returns 0 or -ENOMEM. */
int xp_perf_tracks_add(struct xp_perf_tracks *tracks, const struct xp_perfdata_record *record);
/* Returns the track of a process; adds it if it is missing. NULL: out of memory, or beyond the limit. */
struct xp_perf_track *xp_perf_tracks_get(struct xp_perf_tracks *tracks, int32_t pid);
/* Call this after the last record, before the functions below. Returns 0 or -ENOMEM. */
int xp_perf_tracks_sort(struct xp_perf_tracks *tracks);
void xp_perf_tracks_free(struct xp_perf_tracks *tracks);

/* NULL: unknown. */
const struct xp_perf_track *xp_perf_tracks_find(const struct xp_perf_tracks *tracks, int32_t pid);
/* Returns the mapping at an address, including mappings inherited from the parent. NULL: none. */
const struct xp_perf_mapping *xp_perf_tracks_mapping(const struct xp_perf_tracks *tracks,
						     const struct xp_perf_track *track, uint64_t address,
						     uint64_t at_ns);
/* Returns the closest mapping of code below an address: the data of a file follows its code. NULL: none. */
const struct xp_perf_mapping *xp_perf_tracks_code_below(const struct xp_perf_tracks *tracks,
							const struct xp_perf_track *track, uint64_t address,
							uint64_t at_ns);
/*
 * Returns the last name that a thread had before the next exec of its process. NULL: unknown. The result is the same
 * for all times of one generation (xp_spans_generation() of the mappings).
 */
const char *xp_perf_tracks_name(const struct xp_perf_tracks *tracks, const struct xp_perf_track *track, int32_t tid,
				uint64_t at_ns);

#endif
