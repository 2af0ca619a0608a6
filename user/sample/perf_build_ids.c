// SPDX-License-Identifier: BSD-2-Clause
#include "sample/perf_build_ids.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "elf/elf_file.h"
#include "target/mapped_file.h"

static struct xp_perf_build_id *slot_of(struct xp_perf_build_ids *ids, const struct xp_file *file)
{
	size_t room = ids->room;

	if (XP_ARRAY_RESERVE(ids->ids, ids->room, (size_t)file->index + 1))
		return NULL;
	memset(ids->ids + room, 0, (ids->room - room) * sizeof(*ids->ids));
	return &ids->ids[file->index];
}

static bool is_allowed(struct xp_perf_build_ids *ids, uint64_t tsc)
{
	uint64_t burst = XP_PERF_BUILD_IDS_BURST * ids->ticks;

	if (tsc > burst && ids->next_tsc < tsc - burst)
		ids->next_tsc = tsc - burst;
	if (ids->next_tsc > tsc)
		return false;
	ids->next_tsc += ids->ticks;
	return true;
}

static uint8_t read_build_id(uint8_t *to, size_t size, pid_t pid, const struct xp_vma *vma)
{
	int fd = xp_mapped_file_open(pid, vma);
	struct xp_elf_file image;
	uint8_t bytes = 0;

	if (fd < 0)
		return 0;
	if (!xp_elf_file_fd(&image, fd))
		bytes = xp_elf_file_build_id(&image, to, size);
	xp_elf_file_close(&image);
	close(fd);
	return bytes;
}

const struct xp_perf_build_id *xp_perf_build_ids_get(struct xp_perf_build_ids *ids, pid_t pid, const struct xp_vma *vma,
						     uint64_t tsc)
{
	struct xp_perf_build_id *id;

	if (vma->file->kind != XP_FILE_DISK && vma->file->kind != XP_FILE_VDSO)
		return NULL;
	id = slot_of(ids, vma->file);
	if (!id || (!id->file && !is_allowed(ids, tsc)))
		return NULL;
	if (!id->file) {
		id->file = vma->file;
		id->bytes = read_build_id(id->build_id, sizeof(id->build_id), pid, vma);
	}
	return id;
}

void xp_perf_build_ids_free(struct xp_perf_build_ids *ids)
{
	free(ids->ids);
}
