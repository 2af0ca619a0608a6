// SPDX-License-Identifier: BSD-2-Clause
#include "format/gperf.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

#define HEADER_WORDS 3 /* header slots after this one */
#define FORMAT_VERSION 0

struct xp_gperf {
	int fd;
	int err; /* the first one; permanent */
	bool in_maps;
	size_t used;
	uint8_t buf[64 << 10];
};

static int fail(struct xp_gperf *gperf, int err)
{
	if (!gperf->err)
		gperf->err = err;
	return gperf->err;
}

static int flush(struct xp_gperf *gperf)
{
	int err = xp_write_all(gperf->fd, gperf->buf, gperf->used);

	gperf->used = 0;
	return err ? fail(gperf, err) : 0;
}

static int put(struct xp_gperf *gperf, const void *data, size_t size)
{
	const uint8_t *from = data;

	while (size) {
		size_t part = XP_MIN(size, sizeof(gperf->buf) - gperf->used);
		int err;

		memcpy(gperf->buf + gperf->used, from, part);
		gperf->used += part;
		from += part;
		size -= part;
		err = gperf->used == sizeof(gperf->buf) ? flush(gperf) : 0;
		if (err)
			return err;
	}
	return 0;
}

static int put_slots(struct xp_gperf *gperf, const uint64_t *slots, size_t count)
{
	int err = 0;

	for (size_t i = 0; i < count && !err; i++) {
		uint64_t slot = htole64(slots[i]);

		err = put(gperf, &slot, sizeof(slot));
	}
	return err;
}

int xp_gperf_new(struct xp_gperf **gperf, int fd, uint64_t period_us)
{
	const uint64_t header[] = { 0, HEADER_WORDS, FORMAT_VERSION, period_us, 0 };

	*gperf = NULL;
	if (!period_us || period_us > XP_GPERF_PERIOD_US_MAX)
		return -EINVAL;
	*gperf = malloc(sizeof(**gperf));
	if (!*gperf)
		return -ENOMEM;
	(*gperf)->fd = fd;
	(*gperf)->err = 0;
	(*gperf)->in_maps = false;
	(*gperf)->used = 0;
	return put_slots(*gperf, header, XP_ARRAY_SIZE(header)); /* only fills the buffer, so it cannot fail yet */
}

int xp_gperf_record(struct xp_gperf *gperf, uint64_t count, const uint64_t *pcs, size_t pc_count)
{
	const uint64_t head[] = { count, pc_count };
	int err;

	if (gperf->err)
		return gperf->err;
	if (gperf->in_maps || !count || !pc_count || pc_count > XP_GPERF_CHAIN_MAX || !pcs[0])
		return fail(gperf, -EINVAL);
	err = put_slots(gperf, head, XP_ARRAY_SIZE(head));
	return err ? err : put_slots(gperf, pcs, pc_count);
}

static int put_trailer(struct xp_gperf *gperf)
{
	static const uint64_t trailer[] = { 0, 1, 0 };

	gperf->in_maps = true;
	return put_slots(gperf, trailer, XP_ARRAY_SIZE(trailer));
}

bool xp_gperf_path_fits(const char *path)
{
	if (!*path)
		return false;
	for (; *path; path++)
		if ((unsigned char)*path <= ' ' || *path == 0x7f)
			return false;
	return true;
}

int xp_gperf_map(struct xp_gperf *gperf, const struct xp_gperf_map *map)
{
	char line[128];
	int length, err;

	if (gperf->err)
		return gperf->err;
	if (map->start >= map->end || !xp_gperf_path_fits(map->path))
		return fail(gperf, -EINVAL);
	err = gperf->in_maps ? 0 : put_trailer(gperf);
	if (err)
		return err;
	length =
	    snprintf(line, sizeof(line), "%08" PRIx64 "-%08" PRIx64 " %c%c%cp %08" PRIx64 " %02x:%02x %-11" PRIu64 " ",
		     map->start, map->end, map->readable ? 'r' : '-', map->writable ? 'w' : '-',
		     map->executable ? 'x' : '-', map->offset, map->dev_major, map->dev_minor, map->inode);
	err = put(gperf, line, length);
	if (!err)
		err = put(gperf, map->path, strlen(map->path));
	return err ? err : put(gperf, "\n", 1);
}

int xp_gperf_finish(struct xp_gperf *gperf)
{
	int err = gperf->err;

	if (!err && !gperf->in_maps)
		err = put_trailer(gperf);
	return err ? err : flush(gperf);
}

void xp_gperf_free(struct xp_gperf *gperf)
{
	free(gperf);
}
