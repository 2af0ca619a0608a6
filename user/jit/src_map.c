// SPDX-License-Identifier: BSD-2-Clause
#include "jit/src_map.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "jit/perf_map.h"
#include "target/untrusted_file.h"
#include "target/status.h"

#define READ_BYTES 65536
#define REFRESH_BYTES_MAX (512u << 10)
#define MARK_BYTES 64

struct xp_jit_src_map {
	pid_t pid;
	uint64_t start_time;
	char path[64];
	int fd;
	bool is_over;
	uint64_t offset;   /* number of bytes read */
	uint64_t seen_tsc; /* when the whole file was last read; 0: never */
	/* The last bytes before offset. If they change, the file was rewritten. */
	char mark[MARK_BYTES];
	size_t mark_bytes;
	struct xp_perf_map text;
};

static int open_file(const struct xp_jit_src_map *map)
{
	return xp_target_file_open(map->pid, map->start_time, map->path, XP_JIT_SRC_MAP_BYTES_MAX);
}

int xp_jit_src_map_open(struct xp_jit_src_map **map, pid_t pid, uint64_t start_time)
{
	struct xp_jit_src_map *made = calloc(1, sizeof(*made));
	struct xp_target_status status;
	int err;

	if (!made)
		return -ENOMEM;
	made->pid = pid;
	made->start_time = start_time;
	err = xp_target_status(&status, pid, start_time);
	if (!err) {
		snprintf(made->path, sizeof(made->path), "/tmp/perf-%d.map", status.inner_pid);
		made->fd = open_file(made);
		err = XP_MIN(made->fd, 0);
	}
	if (err) {
		free(made);
		return err;
	}
	*map = made;
	return 0;
}

void xp_jit_src_map_free(struct xp_jit_src_map *map)
{
	if (!map)
		return;
	close(map->fd);
	free(map);
}

void xp_jit_src_map_end(struct xp_jit_src_map *map)
{
	map->is_over = true;
}

static void begin_anew(struct xp_jit_src_map *map)
{
	map->offset = 0;
	map->mark_bytes = 0;
	map->text.used = 0;
}

static bool mark_stands(const struct xp_jit_src_map *map)
{
	char now[MARK_BYTES];

	return pread(map->fd, now, map->mark_bytes, (off_t)(map->offset - map->mark_bytes)) ==
		   (ssize_t)map->mark_bytes &&
	       !memcmp(now, map->mark, map->mark_bytes);
}

/* Checks whether the file was replaced or rewritten. Sets *bytes to its size. */
static int look_again(struct xp_jit_src_map *map, uint64_t *bytes)
{
	struct stat st;

	if (fstat(map->fd, &st))
		return -errno;
	if (!st.st_nlink && !map->is_over) {
		int fd = open_file(map);

		if (fd >= 0) {
			close(map->fd);
			map->fd = fd;
			begin_anew(map);
			if (fstat(fd, &st))
				return -errno;
		}
	}
	*bytes = XP_MIN((uint64_t)st.st_size, XP_JIT_SRC_MAP_BYTES_MAX);
	if (*bytes < map->offset || (*bytes > map->offset && !mark_stands(map)))
		begin_anew(map);
	return 0;
}

struct taker {
	struct xp_jit_src_map *map;
	struct xp_jit_code *code;
	struct xp_jit_bytes *bytes;
};

static int take(void *arg, const struct xp_perf_map_entry *entry)
{
	const struct taker *taker = arg;
	struct xp_jit_load load = {
		.tsc = taker->map->seen_tsc,
		.is_bound = true,
		.start = entry->start,
		.size = entry->size,
		.name = entry->name,
	};
	int err;

	if (!xp_jit_code_can_be(taker->code, entry->start, entry->size))
		return 0;
	load.code = xp_jit_bytes_read(taker->bytes, entry->start, entry->size);
	err = xp_jit_code_load(taker->code, &load, NULL);
	return err == -ENOMEM ? err : 0; /* skip code that exceeds a limit; the registry counts it */
}

static void remember(struct xp_jit_src_map *map, const char *bytes, size_t count)
{
	size_t kept = XP_MIN(count, (size_t)MARK_BYTES);

	memcpy(map->mark, bytes + count - kept, kept);
	map->mark_bytes = kept;
	map->offset += count;
}

int xp_jit_src_map_refresh(struct xp_jit_src_map *map, struct xp_jit_code *code, struct xp_jit_bytes *bytes,
			   uint64_t now_tsc)
{
	struct taker taker = { map, code, bytes };
	uint64_t there = 0, end;
	int err = look_again(map, &there);

	if (err)
		return err;
	end = XP_MIN(there, map->offset + REFRESH_BYTES_MAX);
	while (!err && map->offset < end) {
		char text[READ_BYTES];
		ssize_t n = pread(map->fd, text, XP_MIN(end - map->offset, sizeof(text)), (off_t)map->offset);

		if (n < 0)
			return -errno;
		if (!n) /* the file was truncated meanwhile */
			break;
		remember(map, text, (size_t)n);
		err = xp_perf_map_feed(&map->text, text, (size_t)n, take, &taker);
	}
	if (err || end < there)
		return err ? err : 1;
	map->seen_tsc = now_tsc;
	return 0;
}
