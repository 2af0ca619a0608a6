// SPDX-License-Identifier: BSD-2-Clause
/* Makes a log from a flight recorder's memory, see chunk_log.h. */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/own_file.h"
#include "base/u64_map.h"
#include "base/util.h"
#include "trace/flight.h"

/* Size of the leading chunks, which hold the entries of calls that began earlier. */
#define LEAD_BYTES (16u << 10)
#define LEAD_ENTRIES ((LEAD_BYTES - XP_FDR_METADATA_BYTES) / XP_FDR_FUNCTION_BYTES)

/* A thread, by its serial: a tid may be reused. */
struct member {
	int32_t tid;
	uint16_t cpu; /* of its first chunk, as is first_tsc */
	uint64_t first_tsc;
	uint32_t *left; /* earlier calls that were left since, innermost first */
	size_t left_count;
	size_t left_room;
	uint64_t open;	       /* calls that began since and are open */
	const uint32_t *stack; /* at its end, outermost first */
	size_t stack_depth;
	size_t entries; /* calls that began earlier */
	size_t placed;	/* entries of them that the leading chunks hold so far */
};

struct assembly {
	struct xp_flight *flight;
	const struct xp_log_info *info;
	struct xp_chunk_log log;
	struct xp_u64_map by_serial; /* -> members, shares */
	struct member *members;
	struct xp_flight_share *shares;
	size_t count;
	size_t room;
	size_t share_room;
	struct xp_flight_result *result;

	/* The second pass. */
	uint64_t pos;
	const struct xp_flight_frame *frame; /* the next chunk; NULL: not yet read */
	uint8_t lead[LEAD_BYTES];
};

static struct xp_chunk chunk_of(const struct xp_flight_frame *frame)
{
	uint8_t *data = (uint8_t *)(frame + 1);

	return (struct xp_chunk){
		.tid = frame->tid,
		.bytes = frame->bytes,
		.first_tsc = xp_fdr_chunk_tsc(data),
		.name = frame->name,
		.has_typed = frame->typed,
		.data = data,
	};
}

static struct member *find_member(const struct assembly *assembly, const struct xp_flight_frame *frame)
{
	const uint32_t *place = xp_u64_map_find(&assembly->by_serial, frame->serial);

	return place ? &assembly->members[*place] : NULL;
}

static struct member *add_member(struct assembly *assembly, const struct xp_flight_frame *frame)
{
	size_t count = assembly->count;
	uint32_t *place = xp_u64_map_add(&assembly->by_serial, frame->serial, count);
	const uint8_t *data = (const uint8_t *)(frame + 1);

	if (!place)
		return NULL;
	if (*place < count)
		return &assembly->members[*place];
	if (XP_ARRAY_RESERVE(assembly->members, assembly->room, count + 1) ||
	    XP_ARRAY_RESERVE(assembly->shares, assembly->share_room, count + 1))
		return NULL;
	assembly->members[count] =
	    (struct member){ .tid = frame->tid, .cpu = xp_fdr_chunk_cpu(data), .first_tsc = xp_fdr_chunk_tsc(data) };
	assembly->shares[count] = (struct xp_flight_share){ .serial = frame->serial };
	return &assembly->members[assembly->count++];
}

static int add_left(struct member *member, uint32_t fn_id)
{
	if (XP_ARRAY_RESERVE(member->left, member->left_room, member->left_count + 1))
		return -ENOMEM;
	member->left[member->left_count++] = fn_id;
	return 0;
}

/* The log is well-formed: an exit ends the innermost call. */
static int note_call(void *arg, uint32_t fn_id, enum xp_fdr_function_kind kind)
{
	struct member *member = arg;

	if (kind == XP_FDR_ENTER || kind == XP_FDR_ENTER_ARGS)
		member->open++;
	else if (member->open)
		member->open--;
	else
		return add_left(member, fn_id);
	return 0;
}

static int note_chunk(struct assembly *assembly, const struct xp_flight_frame *frame)
{
	const struct xp_chunk chunk = chunk_of(frame);
	struct xp_fdr_chunk_stats stats = { 0 };
	struct member *member = add_member(assembly, frame);
	int err = member ? xp_chunk_log_add(&assembly->log, &chunk) : -ENOMEM;

	if (!err)
		err = xp_fdr_chunk_scan(chunk.data, chunk.bytes, &stats);
	if (!err)
		err = xp_fdr_chunk_calls(chunk.data, chunk.bytes, note_call, member);
	if (err)
		return err;
	assembly->shares[member - assembly->members].records += frame->records;
	assembly->result->records += frame->records;
	assembly->result->exits += stats.functions + stats.events - frame->records;
	return 0;
}

static void note_stack(struct assembly *assembly, const struct xp_flight_frame *frame)
{
	struct member *member = find_member(assembly, frame);

	if (!member) /* none of its chunks is left */
		return;
	member->stack = (const uint32_t *)(frame + 1);
	member->stack_depth = frame->bytes / sizeof(uint32_t);
}

/* Calls that began before the first chunk. The ones still open come first, since they enclose the others. */
static size_t still_open(const struct member *member)
{
	return member->stack_depth - XP_MIN(member->stack_depth, member->open);
}

static uint32_t begun_before(const struct member *member, size_t index)
{
	size_t open = still_open(member);

	return index < open ? member->stack[index] : member->left[member->left_count - 1 - (index - open)];
}

/* The leading chunk with the next entries, without data. */
static struct xp_chunk lead_of(const struct member *member, size_t placed)
{
	size_t entries = XP_MIN(LEAD_ENTRIES, member->entries - placed);

	return (struct xp_chunk){
		.tid = member->tid,
		.bytes = XP_FDR_METADATA_BYTES + entries * XP_FDR_FUNCTION_BYTES,
		.first_tsc = member->first_tsc,
	};
}

static int add_leads(struct assembly *assembly, struct member *member)
{
	int err = 0;

	member->entries = still_open(member) + member->left_count;
	for (size_t placed = 0; placed < member->entries && !err; placed += LEAD_ENTRIES) {
		const struct xp_chunk lead = lead_of(member, placed);

		err = xp_chunk_log_add(&assembly->log, &lead);
	}
	return err;
}

static int add_up(struct assembly *assembly)
{
	struct xp_flight_result *result = assembly->result;
	const struct xp_flight_frame *frame;
	uint64_t pos = 0;
	int err = 0;

	while (!err && (frame = xp_flight_next(assembly->flight, &pos))) {
		if (frame->kind == XP_FLIGHT_STACK)
			note_stack(assembly, frame);
		else
			err = note_chunk(assembly, frame);
	}
	result->first_tsc = UINT64_MAX;
	for (size_t i = 0; i < assembly->count && !err; i++) {
		err = add_leads(assembly, &assembly->members[i]);
		result->entries += assembly->members[i].entries;
		result->first_tsc = XP_MIN(result->first_tsc, assembly->members[i].first_tsc);
	}
	return err;
}

static int encode_lead(struct assembly *assembly, struct member *member, struct xp_chunk *chunk)
{
	struct xp_fdr_enc enc;
	int err = 0;

	*chunk = lead_of(member, member->placed);
	chunk->data = assembly->lead;
	xp_fdr_enc_begin(&enc, assembly->lead, LEAD_BYTES, member->cpu, member->first_tsc);
	while (enc.len < chunk->bytes && !err)
		err = xp_fdr_enc_function(&enc, member->cpu, member->first_tsc, begun_before(member, member->placed++),
					  XP_FDR_ENTER);
	return err ? err : 1;
}

/* The chunks of the memory. Those of each thread follow the leading ones. */
static int next_chunk(void *arg, struct xp_chunk *chunk)
{
	struct assembly *assembly = arg;
	struct member *member;

	while (!assembly->frame || assembly->frame->kind != XP_FLIGHT_CHUNK) {
		assembly->frame = xp_flight_next(assembly->flight, &assembly->pos);
		if (!assembly->frame)
			return 0;
	}
	member = find_member(assembly, assembly->frame);
	if (member->placed < member->entries)
		return encode_lead(assembly, member, chunk);
	*chunk = chunk_of(assembly->frame);
	assembly->frame = NULL;
	return 1;
}

static int write_log(void *arg, int fd)
{
	struct assembly *assembly = arg;
	const struct xp_chunk_source source = { .next = next_chunk, .arg = assembly };

	return xp_chunk_log_write(&assembly->log, fd, assembly->info, &source);
}

int xp_flight_write_log(struct xp_flight *flight, int dir_fd, const struct xp_log_info *info,
			struct xp_flight_result *result)
{
	struct assembly *assembly = calloc(1, sizeof(*assembly));
	int err;

	memset(result, 0, sizeof(*result));
	if (!assembly)
		return -ENOMEM;
	assembly->flight = flight;
	assembly->info = info;
	assembly->result = result;
	err = add_up(assembly);
	if (!err && assembly->count)
		err = xp_log_file_make(dir_fd, info->final_name, write_log, assembly);
	result->fdr_version = assembly->log.fdr_version;
	result->threads = assembly->log.thread_count;
	result->file_bytes = assembly->log.file_bytes;
	result->shares = assembly->shares;
	result->share_count = assembly->count;
	for (size_t i = 0; i < assembly->count; i++)
		free(assembly->members[i].left);
	free(assembly->members);
	xp_u64_map_free(&assembly->by_serial);
	xp_chunk_log_clear(&assembly->log);
	free(assembly);
	return err;
}
