// SPDX-License-Identifier: BSD-2-Clause
#include "format/gperf.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"

#define HEADER_WORDS 3 /* header slots after the first two */
#define FORMAT_VERSION 0
#define BUFFER_BYTES (64u << 10)

struct xp_gperf {
	FILE *out;
	int err; /* the first error; permanent */
	bool in_maps;
	char buffer[BUFFER_BYTES]; /* buffer of `out`: without it, the C library would use 4 KiB */
};

static int fail(struct xp_gperf *gperf, int err)
{
	if (!gperf->err)
		gperf->err = err;
	return gperf->err;
}

static int put_slots(struct xp_gperf *gperf, const uint64_t *slots, size_t count)
{
	errno = 0;
	for (size_t i = 0; i < count; i++) {
		uint64_t slot = htole64(slots[i]);

		if (fwrite(&slot, sizeof(slot), 1, gperf->out) != 1)
			return fail(gperf, errno ? -errno : -EIO);
	}
	return 0;
}

int xp_gperf_new(struct xp_gperf **gperf, int fd, uint64_t period_us)
{
	const uint64_t header[] = { 0, HEADER_WORDS, FORMAT_VERSION, period_us, 0 };
	int own;

	*gperf = NULL;
	if (!period_us || period_us > XP_GPERF_PERIOD_US_MAX)
		return -EINVAL;
	*gperf = calloc(1, sizeof(**gperf));
	if (!*gperf)
		return -ENOMEM;
	own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	(*gperf)->out = own < 0 ? NULL : fdopen(own, "w");
	if (!(*gperf)->out) {
		fail(*gperf, -errno);
		if (own >= 0)
			close(own);
		return (*gperf)->err;
	}
	setvbuf((*gperf)->out, (*gperf)->buffer, _IOFBF, BUFFER_BYTES);
	return put_slots(*gperf, header, XP_ARRAY_SIZE(header));
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
	if (gperf->err)
		return gperf->err;
	if (map->start >= map->end || !xp_gperf_path_fits(map->path))
		return fail(gperf, -EINVAL);
	if (!gperf->in_maps && put_trailer(gperf))
		return gperf->err;
	errno = 0;
	if (fprintf(gperf->out, "%08" PRIx64 "-%08" PRIx64 " r-xp %08" PRIx64 " 00:00 0           %s\n", map->start,
		    map->end, map->offset, map->path) < 0)
		return fail(gperf, errno ? -errno : -EIO);
	return 0;
}

int xp_gperf_finish(struct xp_gperf *gperf)
{
	if (!gperf->err && !gperf->in_maps)
		put_trailer(gperf);
	if (!gperf->err && fflush(gperf->out))
		fail(gperf, -errno);
	return gperf->err;
}

void xp_gperf_free(struct xp_gperf *gperf)
{
	if (gperf && gperf->out)
		fclose(gperf->out);
	free(gperf);
}
