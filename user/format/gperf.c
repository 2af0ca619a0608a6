// SPDX-License-Identifier: BSD-2-Clause
#include "format/gperf.h"

#include <ctype.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/util.h"

#define UNKNOWN_MASK (XP_GPERF_UNKNOWN_BASE - 1)
#define UNKNOWN_NAME "[unknown]"
/* go tool pprof, remapMappingIDs(): expectedStart */
#define GO_PROGRAM_START 0x400000ull
/* go tool pprof, cpuProfile(): similarSamples */
#define GO_SIMILAR 32
#define HEADER_WORDS 3 /* header slots after the first two */
#define FORMAT_VERSION 0
#define BUFFER_BYTES (64u << 10) /* the C library would use 4 KiB */

/* The mapping line of a binary, and the addresses that the line covers. */
struct place {
	uint64_t start;
	uint64_t end;
	uint64_t line_start; /* below start if an earlier part of the segment is mapped separately */
	uint64_t line_offset;
};

struct profile {
	FILE *out;
	const struct xp_gperf_records *records;
	const struct xp_gperf_object *objects;
	struct place *places;
	size_t object_count;
	bool has_unknown;
	uint64_t pcs[XP_GPERF_CHAIN_MAX]; /* PCs of the current record */
};

/* ---- bytes ---- */

static int put_slots(FILE *out, const uint64_t *slots, size_t count)
{
	errno = 0;
	for (size_t i = 0; i < count; i++) {
		uint64_t slot = htole64(slots[i]);

		if (fwrite(&slot, sizeof(slot), 1, out) != 1)
			return errno ? -errno : -EIO;
	}
	return 0;
}

static int put_line(FILE *out, uint64_t start, uint64_t end, uint64_t offset, const char *path)
{
	errno = 0;
	/* Private, because go tool pprof does not know the `s` of a shared mapping. */
	if (fprintf(out, "%08" PRIx64 "-%08" PRIx64 " r-xp %08" PRIx64 " 00:00 0           %s\n", start, end, offset,
		    path) < 0)
		return errno ? -errno : -EIO;
	return 0;
}

/* ---- addresses ---- */

static void find_place(struct place *place, const struct xp_gperf_object *object)
{
	uint64_t exec_start = object->bias + object->exec_vaddr;

	*place = (struct place){ object->start, object->end, object->start, object->offset };
	if (!object->is_elf || !exec_start || exec_start >= object->end)
		return;
	place->line_start = exec_start;
	place->line_offset = object->exec_offset;
	place->start = XP_MAX(object->start, exec_start);
}

static int find_places(struct profile *profile)
{
	profile->places = calloc(profile->object_count + 1, sizeof(*profile->places));
	if (!profile->places)
		return -ENOMEM;
	for (size_t i = 0; i < profile->object_count; i++) {
		const struct xp_gperf_object *object = &profile->objects[i];

		if (object->start >= object->end || (i && object->start < object[-1].end))
			return -EINVAL;
		find_place(&profile->places[i], object);
	}
	return 0;
}

/* Returns the line that covers an address, or NULL. */
static const struct place *place_of(const struct profile *profile, uint64_t address)
{
	size_t low = XP_FIND_FIRST(profile->object_count, i, address >= profile->places[i].end);

	if (low == profile->object_count || address < profile->places[low].start)
		return NULL;
	return &profile->places[low];
}

/* Returns the PC to write. Readers look up the byte before the PC of a caller. */
static uint64_t settle(struct profile *profile, uint64_t pc, bool is_caller)
{
	uint64_t address = pc - is_caller;

	if (place_of(profile, address))
		return pc;
	profile->has_unknown = true;
	return ((address & UNKNOWN_MASK) | XP_GPERF_UNKNOWN_BASE) + is_caller;
}

/*
 * Returns another PC in the same call. PC - 1 is still in the instruction, because no call is shorter than two bytes.
 */
static uint64_t variant(const struct profile *profile, uint64_t pc)
{
	bool is_first = pc - 1 == XP_GPERF_UNKNOWN_BASE || place_of(profile, pc - 2) != place_of(profile, pc - 1);

	return is_first ? pc + 1 : pc - 1;
}

/* ---- records ---- */

static struct xp_gperf_record get(const struct profile *profile, size_t index)
{
	struct xp_gperf_record record;

	profile->records->get(profile->records->arg, index, &record);
	return record;
}

static int check_record(const struct xp_gperf_record *record)
{
	return record->count && record->pc_count && record->pc_count <= XP_GPERF_CHAIN_MAX && record->pcs[0] ? 0
													     : -EINVAL;
}

/*
 * Returns the second PC that readers would delete, or 0. A majority vote that cancels unequal PCs (Boyer and Moore)
 * finds the PC that occurs in more than half of the records. Then its occurrences are counted.
 */
static uint64_t suspicious_second(const struct profile *profile)
{
	size_t margin = profile->records->count / GO_SIMILAR, lead = 0, count = 0;
	uint64_t candidate = 0;

	for (size_t i = 0; i < profile->records->count; i++) {
		struct xp_gperf_record record = get(profile, i);
		uint64_t second = record.pc_count > 1 ? record.pcs[1] : 0;

		if (!lead)
			candidate = second;
		lead += candidate == second ? 1 : -1;
	}
	for (size_t i = 0; i < profile->records->count; i++) {
		struct xp_gperf_record record = get(profile, i);

		count += record.pc_count > 1 && record.pcs[1] == candidate;
	}
	return count && count >= profile->records->count - margin ? candidate : 0;
}

static int put_record(struct profile *profile, const struct xp_gperf_record *record, uint64_t count, bool vary)
{
	const uint64_t head[] = { count, record->pc_count };

	for (uint32_t i = 0; i < record->pc_count; i++)
		profile->pcs[i] = settle(profile, record->pcs[i], i);
	if (vary)
		profile->pcs[1] = variant(profile, profile->pcs[1]);
	return put_slots(profile->out, head, XP_ARRAY_SIZE(head))
		   ?: put_slots(profile->out, profile->pcs, record->pc_count);
}

static int put_all(struct profile *profile, uint64_t suspicious)
{
	size_t plain = 0,
	       varied = 0; /* records with the suspicious PC, unchanged and changed: keep both numbers about equal */
	int err = 0;

	for (size_t i = 0; i < profile->records->count && !err; i++) {
		struct xp_gperf_record record = get(profile, i);
		bool has_caller = record.pc_count > 1;
		bool is_suspicious = suspicious && has_caller && record.pcs[1] == suspicious;
		bool vary = has_caller && record.pcs[1] == record.pcs[0];

		if (is_suspicious) {
			vary = varied < plain + vary;
			varied += vary;
			plain += !vary;
		}
		err = put_record(profile, &record, record.count, vary);
	}
	return err;
}

static int put_records(struct profile *profile)
{
	struct xp_gperf_record record;
	uint64_t suspicious, half;
	int err = 0;

	for (size_t i = 0; i < profile->records->count && !err; i++) {
		record = get(profile, i);
		err = check_record(&record);
	}
	if (err)
		return err;
	suspicious = suspicious_second(profile);
	if (!suspicious || profile->records->count > 1 || record.count < 2)
		return put_all(profile, suspicious);
	half = record.count / 2;
	err = put_record(profile, &record, record.count - half, false);
	return err ? err : put_record(profile, &record, half, true);
}

/* ---- mappings ---- */

bool xp_gperf_path_fits(const char *path)
{
	if (!*path)
		return false;
	for (; *path; path++)
		if ((unsigned char)*path <= ' ' || *path == 0x7f)
			return false;
	return true;
}

/* Returns whether go tool pprof treats the path as a library: its libRx is `[.]so$|[.]so[._][0-9]+`. */
static bool go_takes_for_library(const char *path)
{
	for (const char *at = strstr(path, ".so"); at; at = strstr(at + 1, ".so"))
		if (!at[3] || ((at[3] == '.' || at[3] == '_') && isdigit((unsigned char)at[4])))
			return true;
	return false;
}

/* Returns the path for the line. If the path cannot be written, writes a replacement to `made_up`. */
static const char *line_path(const struct xp_gperf_object *object, char *made_up, size_t size)
{
	const char *slash = strrchr(object->path, '/');

	if (xp_gperf_path_fits(object->path))
		return object->path;
	snprintf(made_up, size, "[%s]", slash ? slash + 1 : object->path);
	for (char *at = made_up; *at; at++)
		if ((unsigned char)*at <= ' ' || *at == 0x7f)
			*at = '_';
	return made_up;
}

/*
 * Returns the index of the binary whose mapping go tool pprof puts first: the first that is not a library, otherwise
 * the first.
 */
static size_t find_program(const struct profile *profile)
{
	char made_up[256];

	for (size_t i = 0; i < profile->object_count; i++) {
		const char *path = line_path(&profile->objects[i], made_up, sizeof(made_up));

		if (path[0] != '[' && !go_takes_for_library(path))
			return i;
	}
	return 0;
}

/* Writes a line with the same path, at addresses that are not looked up. */
static int put_decoy_if_needed(struct profile *profile)
{
	size_t index = find_program(profile);
	const struct place *place = &profile->places[index];
	char made_up[256];

	if (!profile->object_count || !place->line_offset || place->line_start - place->line_offset != GO_PROGRAM_START)
		return 0;
	return put_line(profile->out, 0x1000, 0x2000, 0, line_path(&profile->objects[index], made_up, sizeof(made_up)));
}

static int put_maps(struct profile *profile)
{
	int err = put_decoy_if_needed(profile);

	for (size_t i = 0; i < profile->object_count && !err; i++) {
		const struct place *place = &profile->places[i];
		char made_up[256];

		err = put_line(profile->out, place->line_start, place->end, place->line_offset,
			       line_path(&profile->objects[i], made_up, sizeof(made_up)));
	}
	if (!err && profile->has_unknown)
		err = put_line(profile->out, XP_GPERF_UNKNOWN_BASE, XP_GPERF_UNKNOWN_BASE + UNKNOWN_MASK + 1, 0,
			       UNKNOWN_NAME);
	return err;
}

static FILE *open_out(int fd)
{
	int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	FILE *out = own < 0 ? NULL : fdopen(own, "w");

	if (out)
		setvbuf(out, NULL, _IOFBF, BUFFER_BYTES);
	else if (own >= 0)
		close(own);
	return out;
}

static int put_all_parts(struct profile *profile, uint64_t period_us)
{
	static const uint64_t trailer[] = { 0, 1, 0 };
	const uint64_t header[] = { 0, HEADER_WORDS, FORMAT_VERSION, period_us, 0 };

	return put_slots(profile->out, header, XP_ARRAY_SIZE(header)) ?: put_records(profile) ?:
	       put_slots(profile->out, trailer, XP_ARRAY_SIZE(trailer)) ?: put_maps(profile);
}

int xp_gperf_write(int fd, uint64_t period_us, const struct xp_gperf_records *records,
		   const struct xp_gperf_object *objects, size_t object_count)
{
	struct profile *profile;
	int err;

	if (!period_us || period_us > XP_GPERF_PERIOD_US_MAX)
		return -EINVAL;
	profile = calloc(1, sizeof(*profile));
	if (!profile)
		return -ENOMEM;
	profile->records = records;
	profile->objects = objects;
	profile->object_count = object_count;
	err = find_places(profile);
	if (!err && !(profile->out = open_out(fd)))
		err = -errno;
	if (!err)
		err = put_all_parts(profile, period_us);
	if (profile->out && fclose(profile->out) && !err)
		err = -errno;
	free(profile->places);
	free(profile);
	return err;
}
