// SPDX-License-Identifier: BSD-2-Clause
#include "report/log_walk.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/file_view.h"
#include "base/u64_map.h"
#include "base/util.h"

#define LEFT_MAX 4096 /* most calls that one exit can find without exits */

struct walk {
	struct xp_log_visitor *visitor;
	uint64_t pid; /* for records without one */
	struct xp_u64_map by_id;
	struct xp_walked_thread *threads;
	size_t count, room;
	size_t open;	/* capacity of all threads */
	size_t entered; /* index plus one of the thread whose arguments may follow; 0: none */
};

static int thread_of(struct walk *walk, const struct xp_fdr_record *record, size_t *index)
{
	uint64_t key = (uint64_t)(uint32_t)record->pid << 32 | (uint32_t)record->tid;
	uint32_t *known = xp_u64_map_find(&walk->by_id, key);

	if (!known) {
		if (XP_ARRAY_RESERVE(walk->threads, walk->room, walk->count + 1))
			return -ENOMEM;
		known = xp_u64_map_add(&walk->by_id, key, (uint32_t)walk->count);
		if (!known)
			return -ENOMEM;
		walk->threads[walk->count++] = (struct xp_walked_thread){
			.pid = record->pid > 0 ? (uint32_t)record->pid : walk->pid,
			.tid = (uint32_t)record->tid,
		};
	}
	*index = *known;
	return 0;
}

static int enter(struct walk *walk, struct xp_walked_thread *thread, const struct xp_fdr_record *record)
{
	struct xp_log_visitor *visitor = walk->visitor;
	size_t room = thread->room;

	if (thread->depth == room && walk->open >= XP_LOG_WALK_OPEN_MAX) {
		visitor->dropped++;
		return 0;
	}
	if (XP_ARRAY_RESERVE(thread->calls, thread->room, thread->depth + 1))
		return -ENOMEM;
	walk->open += thread->room - room;
	thread->calls[thread->depth++] = (struct xp_walked_call){ record->function.fn_id, record->tsc };
	return visitor->enter ? visitor->enter(visitor->arg, thread, record) : 0;
}

static void abandon(struct walk *walk, struct xp_walked_thread *thread)
{
	if (walk->visitor->abandon)
		walk->visitor->abandon(walk->visitor->arg, thread);
	thread->depth--;
}

/* Calls above the one that ends have no exit. An exit without an entry belongs to a call that began before the log. */
static int leave(struct walk *walk, struct xp_walked_thread *thread, const struct xp_fdr_record *record)
{
	struct xp_log_visitor *visitor = walk->visitor;
	size_t depth = thread->depth, lowest = depth - XP_MIN(depth, (size_t)LEFT_MAX);
	int err;

	while (depth > lowest && thread->calls[depth - 1].function != record->function.fn_id)
		depth--;
	if (depth == lowest)
		return 0;
	while (thread->depth > depth)
		abandon(walk, thread);
	err = visitor->leave ? visitor->leave(visitor->arg, thread, record) : 0;
	thread->depth--;
	return err;
}

static int take(struct walk *walk, const struct xp_fdr_record *record)
{
	bool is_entry = record->kind == XP_FDR_ENTER || record->kind == XP_FDR_ENTER_ARGS;
	struct xp_log_visitor *visitor = walk->visitor;
	size_t index;
	int err;

	if (!record->is_function) {
		if (record->kind == XP_FDR_CALL_ARGUMENT && walk->entered && visitor->argument)
			visitor->argument(visitor->arg, &walk->threads[walk->entered - 1], record->argument);
		return 0;
	}
	err = thread_of(walk, record, &index);
	if (err)
		return err;
	walk->entered = record->kind == XP_FDR_ENTER_ARGS ? index + 1 : 0;
	return is_entry ? enter(walk, &walk->threads[index], record) : leave(walk, &walk->threads[index], record);
}

static int walk_records(struct walk *walk, struct xp_file_view *view, struct xp_violation *violation)
{
	uint64_t release = XP_FILE_VIEW_WINDOW;
	struct xp_fdr_record record;
	struct xp_fdr_reader reader;
	int more, err = xp_fdr_reader_init(&reader, view->bytes, view->size, violation);

	if (err)
		return err;
	walk->visitor->hz = reader.header.cycle_hz;
	while (!err && (more = xp_fdr_reader_next(&reader, &record, violation)) > 0) {
		err = take(walk, &record);
		if (record.offset >= release) {
			xp_file_view_release(view, record.offset);
			release = record.offset + XP_FILE_VIEW_WINDOW;
		}
	}
	for (size_t i = 0; i < walk->count; i++)
		while (walk->threads[i].depth)
			abandon(walk, &walk->threads[i]);
	return err ? err : more;
}

static void walk_free(struct walk *walk)
{
	for (size_t i = 0; i < walk->count; i++) {
		if (walk->threads[i].own)
			walk->visitor->free_own(walk->threads[i].own);
		free(walk->threads[i].calls);
	}
	free(walk->threads);
	xp_u64_map_free(&walk->by_id);
}

static int walk_log(struct xp_log_visitor *visitor, const struct xp_recorded_process *process, bool *broken)
{
	struct walk walk = { .visitor = visitor, .pid = process->pid };
	struct xp_violation violation;
	struct xp_file_view view;
	int err = xp_file_view_open(&view, AT_FDCWD, process->log);

	if (err) {
		if (broken)
			xp_error("%s: cannot read it: %s", process->log, strerror(-err));
	} else {
		err = walk_records(&walk, &view, &violation);
		walk_free(&walk);
		xp_file_view_close(&view);
		if (err == -EBADMSG && broken)
			xp_error("%s: 0x%" PRIx64 ": %s", process->log, violation.offset, violation.text);
	}
	if (err && broken)
		*broken = true;
	return err == -ENOMEM ? err : 0;
}

int xp_log_walk(struct xp_log_visitor *visitor, const struct xp_model_source *source, bool *broken)
{
	int err = 0;

	for (size_t i = 0; !err && i < source->recorded->process_count; i++) {
		visitor->process = i;
		if (source->recorded->processes[i].log)
			err = walk_log(visitor, &source->recorded->processes[i], broken);
	}
	return err;
}
