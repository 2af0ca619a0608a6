// SPDX-License-Identifier: BSD-2-Clause
#include "model/perf_tracks.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/set.h"
#include "base/util.h"

#define TEXTS_BYTES_MAX (64u << 20)
#define ANCESTORS_MAX 16 /* maximum number of ancestors whose mappings a process may have inherited */

static const char *keep(struct xp_perf_tracks *tracks, const char *text)
{
	if (!tracks->texts) {
		tracks->texts = calloc(1, sizeof(*tracks->texts));
		if (!tracks->texts)
			return NULL;
		tracks->texts->bytes_max = TEXTS_BYTES_MAX;
	}
	return xp_text_pool_keep(tracks->texts, text);
}

struct xp_perf_track *xp_perf_tracks_get(struct xp_perf_tracks *tracks, int32_t pid)
{
	uint32_t *index = xp_u64_map_find(&tracks->by_pid, (uint32_t)pid);

	if (index)
		return &tracks->all[*index];
	if (tracks->count == XP_PERF_TRACKS_MAX || XP_ARRAY_RESERVE(tracks->all, tracks->room, tracks->count + 1) ||
	    !xp_u64_map_add(&tracks->by_pid, (uint32_t)pid, (uint32_t)tracks->count))
		return NULL;
	tracks->all[tracks->count] = (struct xp_perf_track){ .pid = pid };
	return &tracks->all[tracks->count++];
}

const struct xp_perf_track *xp_perf_tracks_find(const struct xp_perf_tracks *tracks, int32_t pid)
{
	const uint32_t *index = xp_u64_map_find(&tracks->by_pid, (uint32_t)pid);

	return index ? &tracks->all[*index] : NULL;
}

/* ---- mappings ---- */

static int add_mapping(struct xp_perf_tracks *tracks, const struct xp_perfdata_record *record)
{
	struct xp_perf_track *track = xp_perf_tracks_get(tracks, record->map.pid);
	struct xp_perf_dso dso = {
		.path = keep(tracks, record->map.path),
		.inode = record->map.inode,
		.build_id_bytes = (uint32_t)XP_MIN(record->map.build_id_bytes, sizeof(dso.build_id)),
	};
	const struct xp_set dsos = {
		.hash = &tracks->by_dso,
		.array = &tracks->dsos,
		.count = &tracks->dso_count,
		.room = &tracks->dso_room,
		.element_bytes = sizeof(dso),
		.identity_bytes = sizeof(dso),
		.max = XP_PERF_MAPPINGS_MAX,
	};
	struct xp_span span = { .start = record->map.start, .from_ns = record->time_ns };
	uint32_t number;

	if (!track || !dso.path || tracks->mapping_count == XP_PERF_MAPPINGS_MAX)
		return 0;
	if (dso.build_id_bytes)
		memcpy(dso.build_id, record->map.build_id, dso.build_id_bytes);
	if (__builtin_add_overflow(span.start, record->map.bytes, &span.end))
		span.end = UINT64_MAX;
	if (xp_set_add(&dsos, &dso, &number) ||
	    XP_ARRAY_RESERVE(tracks->mappings, tracks->mapping_room, tracks->mapping_count + 1))
		return -ENOMEM;
	span.index = (uint32_t)tracks->mapping_count;
	tracks->mappings[tracks->mapping_count++] =
	    (struct xp_perf_mapping){ number, record->map.start, record->map.file_offset };
	return xp_spans_add(&track->mappings, &span);
}

typedef const struct xp_span *find_span(const struct xp_spans *spans, uint64_t address, uint64_t at_ns);

/* Also finds a mapping that the process inherited from its parent. */
static const struct xp_perf_mapping *find_mapping(const struct xp_perf_tracks *tracks,
						  const struct xp_perf_track *track, uint64_t address, uint64_t at_ns,
						  find_span *find)
{
	for (unsigned int i = 0; track && i < ANCESTORS_MAX; i++) {
		const struct xp_span *span = find(&track->mappings, address, at_ns);
		size_t generation = xp_spans_generation(&track->mappings, at_ns);

		if (span)
			return &tracks->mappings[span->index];
		/* Inherits only mappings that no exec has removed since the fork. */
		if (!track->parent || (generation && track->mappings.clear[generation - 1] > track->fork_ns))
			return NULL;
		at_ns = XP_MIN(at_ns, track->fork_ns);
		track = &tracks->all[track->parent - 1];
	}
	return NULL;
}

const struct xp_perf_mapping *xp_perf_tracks_mapping(const struct xp_perf_tracks *tracks,
						     const struct xp_perf_track *track, uint64_t address,
						     uint64_t at_ns)
{
	return find_mapping(tracks, track, address, at_ns, xp_spans_find);
}

const struct xp_perf_mapping *xp_perf_tracks_code_below(const struct xp_perf_tracks *tracks,
							const struct xp_perf_track *track, uint64_t address,
							uint64_t at_ns)
{
	return find_mapping(tracks, track, address, at_ns, xp_spans_below);
}

/* ---- names ---- */

static uint64_t thread_key(int32_t pid, int32_t tid)
{
	return (uint64_t)(uint32_t)pid << 32 | (uint32_t)tid;
}

static int add_name(struct xp_perf_tracks *tracks, const struct xp_perfdata_record *record)
{
	struct xp_perf_track *track = xp_perf_tracks_get(tracks, record->comm.pid);
	const char *name = keep(tracks, record->comm.name);

	if (!track || !name)
		return 0;
	if (record->misc & PERF_RECORD_MISC_COMM_EXEC && xp_spans_clear(&track->mappings, record->time_ns))
		return -ENOMEM;
	return XP_ARRAY_ADD(
	    tracks->names, tracks->name_count, tracks->name_room,
	    (struct xp_perf_name){ thread_key(record->comm.pid, record->comm.tid), record->time_ns, name });
}

static int compare_names(const void *a, const void *b)
{
	const struct xp_perf_name *x = a, *y = b;

	return xp_compare(x->thread, y->thread) ?: xp_compare(x->from_ns, y->from_ns);
}

/* Returns the number of names that sort before this thread and time. */
static size_t names_before(const struct xp_perf_tracks *tracks, uint64_t thread, uint64_t at_ns)
{
	const struct xp_perf_name *names = tracks->names;

	return XP_FIND_FIRST(tracks->name_count, i,
			     names[i].thread < thread || (names[i].thread == thread && names[i].from_ns < at_ns));
}

static const char *own_name(const struct xp_perf_tracks *tracks, const struct xp_perf_track *track, int32_t tid,
			    size_t generation)
{
	uint64_t thread = thread_key(track->pid, tid);
	uint64_t end_ns = generation < track->mappings.clear_count ? track->mappings.clear[generation] : UINT64_MAX;
	size_t before = names_before(tracks, thread, end_ns);

	return before && tracks->names[before - 1].thread == thread ? tracks->names[before - 1].name : NULL;
}

const char *xp_perf_tracks_name(const struct xp_perf_tracks *tracks, const struct xp_perf_track *track, int32_t tid,
				uint64_t at_ns)
{
	for (unsigned int i = 0; i < ANCESTORS_MAX; i++) {
		size_t generation = xp_spans_generation(&track->mappings, at_ns);
		const char *name = own_name(tracks, track, tid, generation);

		/* A new process has the name of its parent. */
		if (name || tid != track->pid || !track->parent || generation)
			return name;
		at_ns = XP_MIN(at_ns, track->fork_ns);
		track = &tracks->all[track->parent - 1];
		tid = track->pid;
	}
	return NULL;
}

/* ---- processes ---- */

/* Adds the fork of a process, not of a thread. Another process may have had the same PID before. */
static int add_fork(struct xp_perf_tracks *tracks, const struct xp_perfdata_record *record)
{
	struct xp_perf_track *parent, *track;

	if (record->task.pid == record->task.ppid || record->task.pid != record->task.tid)
		return 0;
	parent = xp_perf_tracks_get(tracks, record->task.ppid);
	track = parent ? xp_perf_tracks_get(tracks, record->task.pid) : NULL;
	if (!track)
		return 0;
	if (track->parent && xp_spans_clear(&track->mappings, record->task.time_ns))
		return -ENOMEM;
	/* adding the first track may have moved the array */
	track->parent = *xp_u64_map_find(&tracks->by_pid, (uint32_t)record->task.ppid) + 1;
	track->fork_ns = record->task.time_ns;
	return 0;
}

int xp_perf_tracks_add(struct xp_perf_tracks *tracks, const struct xp_perfdata_record *record)
{
	switch (record->type) {
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		return add_mapping(tracks, record);
	case PERF_RECORD_COMM:
		return add_name(tracks, record);
	case PERF_RECORD_FORK:
		return add_fork(tracks, record);
	default:
		return 0;
	}
}

int xp_perf_tracks_sort(struct xp_perf_tracks *tracks)
{
	if (tracks->name_count)
		qsort(tracks->names, tracks->name_count, sizeof(*tracks->names), compare_names);
	for (size_t i = 0; i < tracks->count; i++)
		if (xp_spans_sort(&tracks->all[i].mappings) || xp_spans_sort(&tracks->all[i].jit))
			return -ENOMEM;
	return 0;
}

void xp_perf_tracks_free(struct xp_perf_tracks *tracks)
{
	for (size_t i = 0; i < tracks->count; i++) {
		xp_spans_free(&tracks->all[i].mappings);
		xp_spans_free(&tracks->all[i].jit);
	}
	if (tracks->texts)
		xp_text_pool_free(tracks->texts);
	free(tracks->texts);
	free(tracks->all);
	free(tracks->dsos);
	free(tracks->mappings);
	free(tracks->names);
	xp_u64_map_free(&tracks->by_pid);
	xp_hash_free(&tracks->by_dso);
	memset(tracks, 0, sizeof(*tracks));
}
