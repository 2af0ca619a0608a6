// SPDX-License-Identifier: BSD-2-Clause
/*
 * Makes a log from a flight recorder's memory: the first pass computes the sums that the layout needs, the second one
 * places the chunks.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/log_file.h"
#include "base/u64_map.h"
#include "base/util.h"
#include "trace/flight.h"

/* Size of the leading chunks, which hold the entries of calls that began earlier. */
#define LEAD_BYTES (16u << 10)
#define LEAD_ENTRIES ((LEAD_BYTES - XP_FDR_METADATA_BYTES) / XP_FDR_FUNCTION_BYTES)

/* A thread, by its serial: a tid may be reused. */
struct member {
	uint64_t records;
	uint64_t first_tsc;
	uint32_t slot; /* slot of its tid in the log */
	uint16_t cpu;
	bool begun;	/* its first chunk has been placed */
	uint32_t *left; /* earlier calls that were left since, innermost first */
	size_t left_count;
	size_t left_room;
	uint64_t open;	       /* calls that began since and are open */
	const uint32_t *stack; /* at its end, outermost first */
	size_t stack_depth;
};

struct assembly {
	struct xp_flight *flight;
	struct xp_u64_map by_serial; /* -> members, shares */
	struct member *members;
	struct xp_flight_share *shares;
	size_t count;
	size_t room;
	size_t share_room;
	struct xp_u64_map by_tid; /* -> threads */
	struct xp_fdr_thread *threads;
	size_t thread_count;
	size_t thread_room;
	bool has_typed;
	const struct xp_spool_info *info;
	struct xp_flight_result *result;
	struct xp_fdr_layout *layout;
	uint8_t lead[LEAD_BYTES];
};

static int grow_members(struct assembly *assembly)
{
	int err = XP_ARRAY_RESERVE(assembly->members, assembly->room, assembly->count + 1);

	return err ? err : XP_ARRAY_RESERVE(assembly->shares, assembly->share_room, assembly->count + 1);
}

static int thread_of(struct assembly *assembly, const struct xp_flight_frame *frame, uint32_t *slot)
{
	uint32_t *place = xp_u64_map_add(&assembly->by_tid, (uint32_t)frame->tid, assembly->thread_count);

	if (!place)
		return -ENOMEM;
	*slot = *place;
	if (*slot < assembly->thread_count)
		return 0;
	if (XP_ARRAY_RESERVE(assembly->threads, assembly->thread_room, assembly->thread_count + 1))
		return -ENOMEM;
	assembly->threads[assembly->thread_count++] = (struct xp_fdr_thread){
		.pid = assembly->info->pid,
		.tid = frame->tid,
		.first_tsc = xp_fdr_chunk_tsc((const uint8_t *)(frame + 1)),
	};
	return 0;
}

static int member_of(struct assembly *assembly, const struct xp_flight_frame *frame, struct member **member)
{
	uint32_t *place = xp_u64_map_add(&assembly->by_serial, frame->serial, assembly->count);
	const uint8_t *chunk = (const uint8_t *)(frame + 1);
	uint32_t slot;
	int err = place ? 0 : -ENOMEM;

	if (!err && *place < assembly->count) {
		*member = &assembly->members[*place];
		return 0;
	}
	if (!err)
		err = grow_members(assembly);
	if (!err)
		err = thread_of(assembly, frame, &slot);
	if (err)
		return err;
	*member = &assembly->members[assembly->count];
	**member =
	    (struct member){ .slot = slot, .first_tsc = xp_fdr_chunk_tsc(chunk), .cpu = xp_fdr_chunk_cpu(chunk) };
	assembly->shares[assembly->count++] = (struct xp_flight_share){ .serial = frame->serial };
	return 0;
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

static int note_chunk(struct assembly *assembly, struct xp_flight_frame *frame)
{
	const uint8_t *chunk = (const uint8_t *)(frame + 1);
	struct xp_fdr_chunk_stats stats = { 0 };
	struct xp_fdr_thread *thread;
	struct member *member;
	int err = member_of(assembly, frame, &member);

	if (!err)
		err = xp_fdr_chunk_scan(chunk, frame->bytes, &stats);
	if (!err)
		err = xp_fdr_chunk_calls(chunk, frame->bytes, note_call, member);
	if (err)
		return err;
	thread = &assembly->threads[member->slot];
	thread->chunk_bytes += frame->bytes;
	thread->chunk_bytes_max = XP_MAX(thread->chunk_bytes_max, frame->bytes);
	thread->name = frame->name;
	assembly->has_typed |= frame->typed;
	assembly->shares[member - assembly->members].records += frame->records;
	assembly->result->records += frame->records;
	assembly->result->exits += stats.functions + stats.events - frame->records;
	return 0;
}

static void note_stack(struct assembly *assembly, const struct xp_flight_frame *frame)
{
	const uint32_t *place = xp_u64_map_find(&assembly->by_serial, frame->serial);

	if (!place) /* none of its chunks is left */
		return;
	assembly->members[*place].stack = (const uint32_t *)(frame + 1);
	assembly->members[*place].stack_depth = frame->bytes / sizeof(uint32_t);
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

static int add_up(struct assembly *assembly)
{
	struct xp_flight_frame *frame;
	uint64_t pos = 0;
	int err = 0;

	while (!err && (frame = xp_flight_next(assembly->flight, &pos))) {
		if (frame->kind == XP_FLIGHT_STACK)
			note_stack(assembly, frame);
		else
			err = note_chunk(assembly, frame);
	}
	assembly->result->first_tsc = UINT64_MAX;
	for (size_t i = 0; i < assembly->count; i++) {
		const struct member *member = &assembly->members[i];
		struct xp_fdr_thread *thread = &assembly->threads[member->slot];
		size_t entries = still_open(member) + member->left_count;
		size_t chunks = (entries + LEAD_ENTRIES - 1) / LEAD_ENTRIES;

		thread->chunk_bytes += chunks * XP_FDR_METADATA_BYTES + entries * XP_FDR_FUNCTION_BYTES;
		if (entries)
			thread->chunk_bytes_max = XP_MAX(thread->chunk_bytes_max, LEAD_BYTES);
		assembly->result->entries += entries;
		assembly->result->first_tsc = XP_MIN(assembly->result->first_tsc, member->first_tsc);
	}
	return err;
}

static int place_lead(struct assembly *assembly, const struct member *member)
{
	size_t entries = still_open(member) + member->left_count;
	struct xp_fdr_enc enc;

	for (size_t i = 0; i < entries;) {
		size_t end = XP_MIN(i + LEAD_ENTRIES, entries);
		int err = 0;

		xp_fdr_enc_begin(&enc, assembly->lead, LEAD_BYTES, member->cpu, member->first_tsc);
		for (; i < end && !err; i++)
			err = xp_fdr_enc_function(&enc, member->cpu, member->first_tsc, begun_before(member, i),
						  XP_FDR_ENTER);
		if (!err)
			err = xp_fdr_layout_chunk(assembly->layout, member->slot, assembly->lead, enc.len);
		if (err)
			return err;
	}
	return 0;
}

static int place_chunks(struct assembly *assembly)
{
	struct xp_flight_frame *frame;
	uint64_t pos = 0;
	int err = 0;

	while (!err && (frame = xp_flight_next(assembly->flight, &pos))) {
		struct member *member;

		if (frame->kind != XP_FLIGHT_CHUNK)
			continue;
		member = &assembly->members[*xp_u64_map_find(&assembly->by_serial, frame->serial)];
		if (!member->begun)
			err = place_lead(assembly, member);
		member->begun = true;
		if (!err)
			err = xp_fdr_layout_chunk(assembly->layout, member->slot, (uint8_t *)(frame + 1), frame->bytes);
	}
	return err ? err : xp_fdr_layout_finish(assembly->layout);
}

static int write_log(void *arg, int fd)
{
	struct assembly *assembly = arg;
	const struct xp_spool_info *info = assembly->info;
	struct xp_fdr_layout_options options = {
		.header = { .version = assembly->has_typed ? 5 : info->fdr_version,
			    .constant_tsc = info->constant_tsc,
			    .nonstop_tsc = info->nonstop_tsc,
			    .cycle_hz = info->cycle_hz },
		.pid = info->pid,
		.start_tsc = info->start_tsc,
		.wall_ns = info->wall_ns,
	};
	struct stat st;
	int err =
	    xp_fdr_layout_new(&assembly->layout, fd, &options, assembly->threads, assembly->thread_count, NULL, NULL);

	if (!err)
		err = place_chunks(assembly);
	xp_fdr_layout_free(assembly->layout);
	if (!err && fstat(fd, &st))
		err = -errno;
	if (err)
		return err;
	assembly->result->fdr_version = options.header.version;
	assembly->result->threads = assembly->thread_count;
	assembly->result->file_bytes = st.st_size;
	return 0;
}

int xp_flight_write_log(struct xp_flight *flight, int dir_fd, const struct xp_spool_info *info,
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
	result->shares = assembly->shares;
	result->share_count = assembly->count;
	for (size_t i = 0; i < assembly->count; i++)
		free(assembly->members[i].left);
	free(assembly->members);
	free(assembly->threads);
	xp_u64_map_free(&assembly->by_serial);
	xp_u64_map_free(&assembly->by_tid);
	free(assembly);
	return err;
}
