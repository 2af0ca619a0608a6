// SPDX-License-Identifier: BSD-2-Clause
#include "check/jitdump_rules.h"

#include <errno.h>
#include <inttypes.h>

#include "base/u64_map.h"

struct rules {
	struct xp_u64_map pids; /* by code index: the last process that loaded it */
	bool has_debug;		/* a debug record waits for its load */
	uint64_t debug_addr;
	uint64_t debug_offset;
};

/* Rules return 1 for a file that breaks them. */
#define violate(...) (xp_violate(__VA_ARGS__), 1)

static int check_header(const struct xp_jitdump_header *header, struct xp_violation *violation)
{
	if (header->version > XP_JITDUMP_PERF_VERSION)
		return violate(violation, 4, "The version is %u; perf rejects versions above 1", header->version);
	if (header->bytes != XP_JITDUMP_HEADER_BYTES)
		return violate(violation, 8, "The header has %u bytes; perf continues after 40", header->bytes);
	return 0;
}

static int see_load(struct rules *rules, const struct xp_jitdump_record *record, struct xp_violation *violation)
{
	size_t known = rules->pids.count;
	uint32_t *pid;

	if (rules->has_debug && rules->debug_addr != record->load.code_addr)
		return violate(violation, rules->debug_offset,
			       "The debug record of 0x%" PRIx64 " is followed by the load of 0x%" PRIx64
			       ", to which perf gives its lines",
			       rules->debug_addr, record->load.code_addr);
	rules->has_debug = false;
	pid = xp_u64_map_add(&rules->pids, record->load.code_index, record->load.pid);
	if (!pid)
		return -ENOMEM;
	if (rules->pids.count == known && *pid == record->load.pid)
		return violate(violation, record->offset,
			       "Process %u has loaded code %" PRIu64 " before; perf overwrites its image",
			       record->load.pid, record->load.code_index);
	*pid = record->load.pid;
	return 0;
}

static int see_debug(struct rules *rules, const struct xp_jitdump_record *record, struct xp_violation *violation)
{
	if (rules->has_debug)
		return violate(violation, rules->debug_offset,
			       "A debug record is followed by another one instead of a load; perf drops it");
	if (record->debug.surplus_bytes > XP_JITDUMP_PADDING_BYTES_MAX)
		return violate(
		    violation, record->offset,
		    "The debug record has %" PRIu64
		    " bytes after its lines, as if a file name contained a zero byte; perf reads wrong lines",
		    record->debug.surplus_bytes);
	rules->has_debug = true;
	rules->debug_addr = record->debug.code_addr;
	rules->debug_offset = record->offset;
	return 0;
}

static int see_unwinding(const struct xp_jitdump_record *record, struct xp_violation *violation)
{
	if (!record->unwinding.eh_frame_hdr_bytes)
		return violate(violation, record->offset,
			       "The unwinding data has no header; perf applies it to all functions that follow");
	if (record->unwinding.order == XP_JITDUMP_HEADER_FIRST)
		return violate(violation, record->offset,
			       "The unwinding data begins with its header; perf expects it after .eh_frame");
	return 0;
}

static int see_record(struct rules *rules, const struct xp_jitdump_record *record, struct xp_violation *violation)
{
	switch (record->kind) {
	case XP_JITDUMP_LOAD:
		return see_load(rules, record, violation);
	case XP_JITDUMP_MOVE:
		if (xp_u64_map_find(&rules->pids, record->move.code_index))
			return 0;
		return violate(violation, record->offset, "Code %" PRIu64 " is moved but was never loaded",
			       record->move.code_index);
	case XP_JITDUMP_DEBUG_INFO:
		return see_debug(rules, record, violation);
	case XP_JITDUMP_UNWINDING_INFO:
		return see_unwinding(record, violation);
	default:
		return 0;
	}
}

int xp_jitdump_rules_check(const uint8_t *bytes, uint64_t size, struct xp_violation *violation)
{
	struct xp_jitdump_reader reader;
	struct xp_jitdump_record record;
	struct rules rules = { 0 };
	int found = xp_jitdump_reader_init(&reader, bytes, size, violation);

	if (found)
		return 1; /* cannot happen with a file that the reader accepted */
	found = check_header(&reader.header, violation);
	while (!found && xp_jitdump_reader_next(&reader, &record, violation) == 1)
		found = see_record(&rules, &record, violation);
	if (!found && rules.has_debug)
		found = violate(violation, rules.debug_offset, "A debug record is not followed by a load");
	xp_u64_map_free(&rules.pids);
	return found;
}
