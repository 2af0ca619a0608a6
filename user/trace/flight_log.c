// SPDX-License-Identifier: BSD-2-Clause
/*
 * Makes a log from a flight recorder's memory. Like all logs, it is made from a spool (export/logs.h): the chunks in
 * memory, and for each thread leading chunks before them, with the entries of calls that began earlier.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/file_name.h"
#include "base/u64_map.h"
#include "base/util.h"
#include "trace/flight.h"

/* Size of the leading chunks, which hold the entries of calls that began earlier. */
#define LEAD_BYTES (16u << 10)

/* A thread, identified by its serial: a TID may be reused. */
struct member {
	int32_t tid;
	uint16_t cpu; /* CPU of its first chunk; first_tsc likewise */
	uint64_t first_tsc;
	uint32_t *left; /* earlier calls that have returned since, innermost first */
	size_t left_count;
	size_t left_room;
	uint64_t open;	       /* number of open calls that began since */
	const uint32_t *stack; /* its open calls at the end, outermost first */
	size_t stack_depth;
	size_t entries; /* number of calls that began earlier */
	size_t placed;	/* number of their entries in leading chunks so far */
};

struct assembly {
	struct xp_flight *flight;
	struct xp_u64_map by_serial; /* -> members, shares */
	struct member *members;
	struct xp_flight_share *shares;
	size_t count;
	size_t room;
	size_t share_room;
	struct xp_flight_result *result;
	struct xp_spool *spool;
};

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
	return XP_ARRAY_ADD(member->left, member->left_count, member->left_room, fn_id);
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
	const uint8_t *data = (const uint8_t *)(frame + 1);
	struct xp_fdr_chunk_stats stats = { 0 };
	struct member *member = add_member(assembly, frame);
	int err = member ? xp_fdr_chunk_scan(data, frame->bytes, &stats) : -ENOMEM;

	if (!err)
		err = xp_fdr_chunk_calls(data, frame->bytes, note_call, member);
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

	if (!member) /* all of its chunks were evicted */
		return;
	member->stack = (const uint32_t *)(frame + 1);
	member->stack_depth = frame->bytes / sizeof(uint32_t);
}

/* Returns how many calls from before the first chunk are still open. They come first: they enclose the others. */
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
		struct member *member = &assembly->members[i];

		member->entries = still_open(member) + member->left_count;
		result->entries += member->entries;
		result->first_tsc = XP_MIN(result->first_tsc, member->first_tsc);
	}
	return err;
}

/* Stores the leading chunks of a thread. */
static int store_leads(const struct assembly *assembly, const struct xp_flight_frame *frame, struct member *member)
{
	uint8_t lead[LEAD_BYTES];
	struct xp_fdr_enc enc;
	int err = 0;

	while (member->placed < member->entries && !err) {
		xp_fdr_enc_begin(&enc, lead, sizeof(lead), member->cpu, member->first_tsc);
		for (; member->placed < member->entries && !err; member->placed += !err)
			err = xp_fdr_enc_function(&enc, member->cpu, member->first_tsc,
						  begun_before(member, member->placed), XP_FDR_ENTER);
		if (!err || err == -ENOSPC)
			err = xp_spool_append(assembly->spool, frame->tid, frame->name, &enc);
	}
	return err;
}

static int store_chunks(const struct assembly *assembly)
{
	struct xp_flight_frame *frame;
	uint64_t pos = 0;
	int err = 0;

	while (!err && (frame = xp_flight_next(assembly->flight, &pos))) {
		const struct xp_fdr_enc enc = { .buf = (uint8_t *)(frame + 1),
						.len = frame->bytes,
						.has_typed = frame->typed };

		if (frame->kind != XP_FLIGHT_CHUNK)
			continue;
		err = store_leads(assembly, frame, find_member(assembly, frame));
		if (!err)
			err = xp_spool_append(assembly->spool, frame->tid, frame->name, &enc);
	}
	return err ? err : xp_spool_flush(assembly->spool);
}

static int make_log(struct assembly *assembly, int dir_fd, const struct xp_log_info *info, xp_log_maker make)
{
	const int length = (int)(strlen(info->final_name) - strlen(XP_LOG_SUFFIX));
	char name[XP_SPOOL_NAME_MAX + sizeof(XP_SPOOL_SUFFIX)];
	struct xp_spool_result made;
	int err;

	snprintf(name, sizeof(name), "%.*s" XP_SPOOL_SUFFIX, length, info->final_name);
	err = xp_spool_create(&assembly->spool, dir_fd, name, info);
	if (err)
		return err;
	err = store_chunks(assembly);
	xp_spool_free(assembly->spool);
	if (!err)
		err = make(dir_fd, name, &made);
	/* A log that was cut off on a full disk does not count: the counts are those of the whole log. */
	if (!err && made.dropped_bytes)
		err = unlinkat(dir_fd, info->final_name, 0) ? -errno : -ENOSPC;
	if (err) {
		unlinkat(dir_fd, name, 0);
		return err;
	}
	assembly->result->fdr_version = made.fdr_version;
	assembly->result->threads = made.threads;
	assembly->result->file_bytes = made.file_bytes;
	return 0;
}

int xp_flight_write_log(struct xp_flight *flight, int dir_fd, const struct xp_log_info *info, xp_log_maker make,
			struct xp_flight_result *result)
{
	struct assembly assembly = { .flight = flight, .result = result };
	int err;

	memset(result, 0, sizeof(*result));
	err = add_up(&assembly);
	if (!err && assembly.count)
		err = make_log(&assembly, dir_fd, info, make);
	result->shares = assembly.shares;
	result->share_count = assembly.count;
	for (size_t i = 0; i < assembly.count; i++)
		free(assembly.members[i].left);
	free(assembly.members);
	xp_u64_map_free(&assembly.by_serial);
	return err;
}
