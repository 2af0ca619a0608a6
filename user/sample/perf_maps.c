// SPDX-License-Identifier: BSD-2-Clause
#include "sample/perf_maps.h"

#include <errno.h>
#include <string.h>

#include "base/array.h"
#include "base/util.h"

/* Excludes what the kernel itself maps, because every process has that. */
static bool is_jit_memory(const struct xp_file *file)
{
	return xp_file_may_be_jit(file) && strcmp(file->path, "[vsyscall]");
}

const char *xp_perf_maps_path(const struct xp_file *file, bool has_build_id, char *path, size_t size)
{
	static const char deleted[] = " (deleted)";
	size_t length;

	if (!file->path[0])
		return "//anon";
	xp_clean_text(path, size, file->path);
	length = strlen(path);
	/* The build id shows whether the file at the path now is the same one; the file may be back. */
	if (has_build_id && length > strlen(deleted) && !strcmp(path + length - strlen(deleted), deleted))
		path[length - strlen(deleted)] = 0;
	return path;
}

int xp_perf_maps_write(struct xp_perf_maps *maps, uint64_t tsc, pid_t pid, pid_t tid, const struct xp_vma *vma)
{
	const struct xp_perf_build_id *id = xp_perf_build_ids_get(&maps->build_ids, pid, vma, tsc);
	char path[XP_PERFDATA_PATH_MAX];
	const struct xp_perfdata_map map = {
		.pid = pid,
		.tid = tid,
		.start = vma->start,
		.bytes = vma->end - vma->start,
		.file_offset = vma->file_offset,
		.dev = vma->file->dev,
		.inode = vma->file->inode,
		.generation = vma->file->generation,
		.build_id = id ? id->build_id : NULL,
		.build_id_bytes = id ? id->bytes : 0,
		.path = xp_perf_maps_path(vma->file, id && id->bytes, path, sizeof(path)),
	};
	int err = xp_perfdata_map(maps->perfdata, tsc, &map);

	return err == -EINVAL || err == -ENAMETOOLONG ? 0 : err;
}

int xp_perf_maps_write_all(struct xp_perf_maps *maps, uint64_t tsc, pid_t pid, const struct xp_address_space *space,
			   bool jit)
{
	size_t left = XP_PERF_MAPS_MAX;
	int err = 0;

	for (size_t i = 0; i < space->count && left && !err; i++) {
		if (is_jit_memory(space->vmas[i].file) != jit)
			continue;
		err = xp_perf_maps_write(maps, tsc, pid, pid, &space->vmas[i]);
		left--;
	}
	if (!left)
		xp_debug("perf.data does not have all mappings of process %d", pid);
	return err;
}

/* Returns the first mapping of JIT memory that ends above address, or NULL. */
static const struct xp_vma *next_jit(const struct xp_address_space *space, uint64_t address)
{
	size_t low = XP_FIND_FIRST(space ? space->count : 0, i, space->vmas[i].end <= address);

	for (; space && low < space->count; low++)
		if (is_jit_memory(space->vmas[low].file))
			return &space->vmas[low];
	return NULL;
}

int xp_perf_maps_write_new(struct xp_perf_maps *maps, const struct xp_sideband_event *event,
			   const struct xp_address_space *before)
{
	struct xp_file file = { .kind = XP_FILE_ANON, .dev = event->dev, .inode = event->inode, .path = event->text };
	uint64_t at = event->start, end = event->start + event->length;
	int err = 0;

	while (at < end && !err) {
		const struct xp_vma *known = next_jit(before, at);
		struct xp_vma piece = { at, end, event->file_offset + (at - event->start), &file };

		if (known && known->start < end)
			piece.end = XP_MAX(known->start, at);
		if (piece.end > piece.start)
			err = xp_perf_maps_write(maps, event->tsc, event->pid, event->tid, &piece);
		at = known && known->start < end ? known->end : end;
	}
	return err;
}

bool xp_perf_maps_has_jit(const struct xp_address_space *space)
{
	return next_jit(space, 0);
}

bool xp_perf_maps_is_jit(const struct xp_sideband_event *event)
{
	const struct xp_file file = { .kind = xp_file_kind_of(event->text), .path = event->text };

	return is_jit_memory(&file);
}
