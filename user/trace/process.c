/* SPDX-License-Identifier: BSD-2-Clause */
#include "trace/process.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "sled/call_rings.h"
#include "trace/flight.h"
#include "trace/goroutines.h"
#include "trace/process_flight.h"
#include "trace/process_log.h"
#include "trace/process_rings.h"
#include "trace/thread_run.h"
#include "trace/thread_stacks.h"

#define LOG_AT_ONCE_BYTES (1u << 20)
/* Limit of the time for reading a process's mappings, to find its stacks: this much, plus this share of its time. */
#define MAPS_NS 20000000
#define MAPS_SHARE 100

static int store_chunk(void *arg, struct xp_thread *thread);
static void count_synthesized(void *arg, uint32_t fn_id);
static struct xp_thread *new_stack(void *arg, struct xp_thread *first);
static int find_stack_range(void *arg, uint32_t slot, struct xp_stack_range *range);

void xp_processes_init(struct xp_processes *processes)
{
	processes->last = &processes->first;
	processes->last_live = &processes->first_live;
	processes->stop_tsc = UINT64_MAX;
}

static void process_free(struct xp_process *process)
{
	xp_call_rings_free(process->rings);
	if (process->all->flight_bytes)
		xp_spool_drop(process->log.spool);
	else
		xp_spool_free(process->log.spool);
	xp_flight_free(process->flights.memory);
	free(process->flights.logs);
	free(process->flights.slow);
	xp_functions_free(&process->functions);
	xp_thread_sums_free(&process->sums);
	xp_u64_map_free(&process->goroutines.by_address);
	free(process->attaching.probed_why);
	free(process->attaching.patched_why);
	free(process->exe);
	free(process);
}

/* Removes exited processes: a later process with the PID of one is another process. */
static void forget_ended(struct xp_processes *processes)
{
	struct xp_process **link = &processes->first, *process;

	while ((process = *link)) {
		if (process->live) {
			link = &process->next;
			continue;
		}
		*link = process->next;
		if (xp_u64_map_get(&processes->newest, (uint32_t)process->pid) == process)
			xp_u64_map_remove(&processes->newest, (uint32_t)process->pid);
		xp_spool_leave(process->log.spool);
		process->log.spool = NULL;
		process_free(process);
	}
	processes->last = link;
}

static void note_open_calls(const struct xp_thread *thread)
{
	uint64_t *open_tsc = &thread->process->log.open_tsc;

	if (thread->depth && (!*open_tsc || thread->frames[0].tsc < *open_tsc))
		*open_tsc = thread->frames[0].tsc;
}

int xp_processes_begin_part(struct xp_processes *processes, int dir_fd, uint64_t tsc)
{
	int err = 0;

	processes->dir_fd = dir_fd;
	processes->start_tsc = tsc;
	forget_ended(processes);
	for (struct xp_process *process = processes->first_live; process; process = process->next_live) {
		xp_spool_leave(process->log.spool);
		process->log = (struct xp_process_log){ 0 };
		process->fallen = (struct xp_fallen_calls){ 0 };
		xp_thread_sums_begin_part(&process->sums);
	}
	/* Call it before the first chunk of a log. */
	for (size_t i = 0; i < processes->threads.count; i++)
		note_open_calls(processes->threads.entries[i].pointer);
	for (size_t i = 0; i < processes->threads.count; i++)
		err = xp_thread_begin_part(processes->threads.entries[i].pointer) ?: err;
	return err;
}

void xp_processes_forked(struct xp_processes *processes)
{
	for (struct xp_process *process = processes->first_live; process; process = process->next_live)
		process->rings = NULL;
}

void xp_processes_free(struct xp_processes *processes)
{
	struct xp_process *process, *next;

	for (size_t i = 0; i < processes->threads.count; i++)
		xp_thread_free(processes->threads.entries[i].pointer);
	xp_triggers_free(&processes->triggers);
	xp_u64_map_free(&processes->threads);
	xp_u64_map_free(&processes->newest);
	for (process = processes->first; process; process = next) {
		next = process->next;
		process_free(process);
	}
}

struct xp_process *xp_processes_find(struct xp_processes *processes, pid_t pid)
{
	struct xp_process *process = xp_u64_map_get(&processes->newest, (uint32_t)pid);

	return process && process->live ? process : NULL;
}

int xp_process_rename(struct xp_process *process, const struct xp_target_info *info, uint64_t tsc)
{
	char *exe = strdup(info->exe);

	if (!exe)
		return -ENOMEM;
	free(process->exe);
	process->exe = exe;
	memcpy(process->comm, info->comm, sizeof(process->comm));
	process->start_time = info->start_time;
	process->begin_tsc = tsc;
	return 0;
}

/* Returns whether this is the same process, exited or not, instead of another one with a reused PID. */
static bool is_same(const struct xp_process *process, const struct xp_process *before)
{
	return !process->start_time || before->start_time == process->start_time;
}

/* Copies what an image inherits from the previous image of the same PID. */
static void inherit(struct xp_process *process, struct xp_process *before)
{
	process->image = before->image + 1;
	if (!is_same(process, before))
		return;
	process->attaching.flees = before->attaching.flees;
	process->attaching.in_vain = before->attaching.in_vain;
	process->cpu.used_ns = before->cpu.used_ns;
	before->cpu.used_ns = 0;
}

/* Adds the newest image of a PID, and ends the previous one. */
static int add_newest(struct xp_processes *processes, struct xp_process *process)
{
	struct xp_process *before = xp_u64_map_get(&processes->newest, (uint32_t)process->pid);
	int err = xp_u64_map_put(&processes->newest, (uint32_t)process->pid, process);

	if (err)
		return err;
	if (before) {
		inherit(process, before);
		xp_process_end(before);
	}
	if (!before || !is_same(process, before)) {
		xp_call_account_open(&processes->accounts, &process->account);
		return 0;
	}
	/* After the last calls of the previous image. */
	process->account = before->account;
	before->account = (struct xp_call_account){ 0 };
	return 0;
}

static void add_live(struct xp_process *process)
{
	struct xp_processes *processes = process->all;

	process->live = true;
	process->live_place = processes->last_live;
	*processes->last_live = process;
	processes->last_live = &process->next_live;
}

static void remove_live(struct xp_process *process)
{
	process->live = false;
	*process->live_place = process->next_live;
	if (process->next_live)
		process->next_live->live_place = process->live_place;
	else
		process->all->last_live = process->live_place;
}

int xp_processes_add(struct xp_processes *processes, struct xp_process **result, pid_t pid,
		     const struct xp_target_info *info, uint64_t tsc)
{
	struct xp_process *process = calloc(1, sizeof(*process));
	int err;

	if (!process)
		return -ENOMEM;
	process->all = processes;
	process->pid = pid;
	process->image = 1;
	process->thread_options = (struct xp_thread_options){
		.min_ticks = processes->min_ticks,
		.sink = store_chunk,
		.synthesized = count_synthesized,
		.arg = process,
		.watched = processes->triggers.count ? &process->functions.watched : NULL,
		.watched_end = xp_process_watched_end,
		.new_stack = new_stack,
		.stack_range = find_stack_range,
	};
	err = xp_process_rename(process, info, tsc) ?: add_newest(processes, process);
	if (err) {
		process_free(process);
		return err;
	}
	*processes->last = process;
	processes->last = &process->next;
	add_live(process);
	*result = process;
	return 0;
}

static int add_thread(struct xp_processes *processes, struct xp_process *process, pid_t tid, struct xp_thread **result)
{
	int err = xp_thread_new(result, &process->thread_options, tid);

	if (err)
		return err;
	err = xp_u64_map_put(&processes->threads, (uint32_t)tid, *result);
	if (err) {
		xp_thread_free(*result);
		return err;
	}
	xp_target_thread_name(process->pid, tid, (*result)->name);
	if (!(*result)->name[0])
		memcpy((*result)->name, process->comm, sizeof(process->comm));
	(*result)->process = process;
	(*result)->last_tsc = process->sums.ended_tsc;
	(*result)->serial = processes->next_serial++;
	return 0;
}

static pid_t next_stack_tid(const struct xp_processes *processes)
{
	return (pid_t)(XP_STACK_TID + processes->next_stack % (INT32_MAX - XP_STACK_TID));
}

/* Adds a further stack, or a goroutine. Frees it after an error. */
static int add_stack(struct xp_process *process, struct xp_thread *stack, const char *name)
{
	struct xp_processes *processes = process->all;

	if (xp_u64_map_put(&processes->threads, (uint32_t)stack->tid, stack)) {
		xp_thread_free(stack);
		return -ENOMEM;
	}
	memcpy(stack->name, name, sizeof(stack->name));
	stack->process = process;
	stack->serial = processes->next_serial++;
	processes->next_stack++;
	process->stacks.count++;
	return 0;
}

static struct xp_thread *new_stack(void *arg, struct xp_thread *first)
{
	struct xp_process *process = arg;
	struct xp_thread *stack;

	if (process->stacks.count == XP_STACKS_MAX || xp_thread_new_stack(&stack, first, next_stack_tid(process->all)))
		return NULL;
	stack->last_tsc = first->last_tsc;
	return add_stack(process, stack, first->name) ? NULL : stack;
}

int xp_process_add_goroutine(struct xp_process *process, struct xp_thread **result)
{
	static const char name[sizeof((*result)->name)] = "goroutine";
	int err = process->stacks.count == XP_STACKS_MAX
		      ? -ENOBUFS
		      : xp_thread_new(result, &process->thread_options, next_stack_tid(process->all));

	if (err)
		return err;
	(*result)->shared_frames = &process->stacks.frames;
	return add_stack(process, *result, name);
}

static int find_stack_range(void *arg, uint32_t slot, struct xp_stack_range *range)
{
	struct xp_process *process = arg;
	uint64_t begin_tsc = xp_clock_now_tsc(), spent = process->stacks.ticks;
	const uint64_t allowed = xp_clock_ticks(process->all->clock, MAPS_NS) +
				 (begin_tsc - XP_MIN(begin_tsc, process->begin_tsc)) / MAPS_SHARE;
	char *text;
	int result;

	if (spent > allowed)
		return -EBUSY;
	result = xp_mappings_text(&text, process->pid);
	if (!result) {
		result = xp_stack_range_find(text, slot, range);
		free(text);
	}
	process->stacks.ticks += xp_clock_now_tsc() - begin_tsc;
	return result;
}

static int end_thread(struct xp_processes *processes, struct xp_thread *thread)
{
	struct xp_stacks *stacks = &thread->stacks;
	int err = 0;

	while (stacks->count > 1)
		err = end_thread(processes, stacks->places[stacks->places[0].stack == thread].stack) ?: err;
	/* The thread may end before xp_processes_forget() is called for functions that are being taken out. */
	err = xp_thread_forget_if(thread, xp_functions_excluded, &thread->process->functions) ?: err;
	err = xp_thread_flush(thread) ?: err;
	xp_process_end_flight_thread(thread->process, thread);
	xp_u64_map_remove(&processes->threads, (uint32_t)thread->tid);
	for (size_t i = 0; i < XP_ARRAY_SIZE(processes->recent); i++)
		if (processes->recent[i] == thread)
			processes->recent[i] = NULL;
	xp_thread_sums_add(&thread->process->sums, thread);
	if (thread->goroutine) {
		xp_u64_map_remove(&thread->process->goroutines.by_address, thread->goroutine);
		*thread->shared_frames -= thread->room;
	} else if (thread->first != thread) {
		xp_stacks_remove(thread);
	}
	thread->process->stacks.count -= thread->shared_frames != NULL;
	xp_thread_free(thread);
	return err;
}

int xp_processes_end_thread(struct xp_processes *processes, pid_t tid)
{
	struct xp_thread *thread = xp_u64_map_get(&processes->threads, (uint32_t)tid);

	return thread ? end_thread(processes, thread) : 0;
}

static int end_threads(struct xp_process *process)
{
	struct xp_processes *processes = process->all;
	int err = 0;

	remove_live(process);
	for (size_t i = processes->threads.count; i--;) {
		struct xp_thread *thread;

		if (i >= processes->threads.count) /* further stacks have ended with their threads */
			continue;
		thread = processes->threads.entries[i].pointer;
		if (thread->process == process)
			err = end_thread(processes, thread) ?: err;
	}
	return err;
}

static int flush_spool(struct xp_process *process)
{
	if (!process->log.spool || process->log.error)
		return 0;
	process->log.error = xp_spool_flush(process->log.spool);
	return process->log.error;
}

void xp_process_ran(struct xp_process *process, uint64_t cpu_ns)
{
	struct xp_process *other = xp_processes_find(process->all, process->attaching.inherits_from);

	xp_call_account_earn(&process->all->accounts, &process->account, cpu_ns - XP_MIN(cpu_ns, process->cpu.used_ns));
	if (other)
		xp_call_account_leave(&process->all->accounts, &process->account, &other->account);
	if (process->cpu.used_ns && cpu_ns > process->cpu.used_ns)
		process->all->ended_cpu_ns += cpu_ns - process->cpu.used_ns;
	process->cpu.used_ns = 0;
}

int xp_process_end(struct xp_process *process)
{
	int err;

	if (!process->live)
		return 0;
	err = xp_process_end_calls(process);
	err = end_threads(process) ?: err;
	if (process->all->flight_bytes)
		return err ? err : xp_process_end_flight(process);
	/*
	 * Makes the log now if it is small: thousands of short-lived children would need too many files and buffers. A
	 * long log must wait for the end of the recording, because nothing reads the rings while it is laid out.
	 */
	if (!err && process->log.spool && xp_spool_bytes(process->log.spool) <= LOG_AT_ONCE_BYTES)
		return xp_process_finish(process);
	/* xp_processes_flush() visits live processes only. */
	return flush_spool(process) ?: err;
}

int xp_processes_flush(struct xp_processes *processes)
{
	int err = 0;

	for (size_t i = 0; i < processes->threads.count; i++)
		err = xp_thread_flush(processes->threads.entries[i].pointer) ?: err;
	for (struct xp_process *process = processes->first_live; process; process = process->next_live)
		err = flush_spool(process) ?: err;
	return err;
}

int xp_processes_thread(struct xp_processes *processes, pid_t pid, pid_t tid, struct xp_thread **thread)
{
	struct xp_process *process;

	*thread = xp_u64_map_get(&processes->threads, (uint64_t)tid);
	if (*thread && (*thread)->process->pid == pid)
		return 0;
	process = xp_processes_find(processes, pid);
	if (!process)
		return -ENOENT;
	if (*thread) /* it belongs to a process whose exit event was lost */
		xp_processes_end_thread(processes, tid);
	return add_thread(processes, process, tid, thread);
}

/* Counts a call through the kernel, by its cost for the target. */
static inline void count_hit(struct xp_process *process, const struct xp_range *range, const struct xp_call *call)
{
	struct xp_hits *hits = &process->all->hits;
	enum xp_event_kind kind = xp_call_kind(call);

	if (call->fell_through) {
		process->fallen.no_ring += call->fell_through == XP_FELL_NO_RING;
		process->fallen.full += call->fell_through == XP_FELL_FULL;
	}
	if (range->sleds.mode == XP_SLEDS_PATCHED && kind == XP_EVENT_ENTRY_ARGS)
		hits->args++;
	else if (range->sleds.mode == XP_SLEDS_PATCHED)
		++*(process->attaching.inherits_from ? &hits->child : &hits->stub);
	else if (kind == XP_EVENT_EXIT)
		hits->stepped++;
	else
		hits->emulated++;
}

/* Handles a call. No function stores its address, so a caller keeps it in registers, which saves 1.6 ns. */
static inline __attribute__((always_inline)) int take(struct xp_thread *thread, struct xp_call call)
{
	struct xp_process *process = thread->process;
	struct xp_function_budget *budget;
	const struct xp_range *range;
	enum xp_event_kind kind;
	uint32_t id;

	range = xp_functions_find(&process->functions, xp_call_fn(&call), &id);
	/* The process can write any kind into its ring. */
	if (!range || (!call.event && xp_call_kind(&call) > XP_EVENT_TAIL_EXIT))
		return 1;
	budget = range->budget ? &range->budget[id] : NULL;
	if (!call.in_memory)
		count_hit(process, range, &call);
	if (budget && xp_call_is_entry(&call))
		xp_process_count_entry(process, budget, call.in_memory);
	/*
	 * Sleds are attached and detached one kind after the other, and one process after the other. In between, calls
	 * would lack their exits, or the waits of their time. A thread may have been in a sled when that was restored.
	 */
	if (call.tsc < range->sleds.begin_tsc || call.tsc < process->all->begin_tsc ||
	    call.tsc > process->all->stop_tsc || (budget && xp_function_is_out(budget, call.tsc)))
		return xp_thread_filter(thread, XP_FILTER_OUTSIDE);
	kind = xp_call_kind(&call);
	/* In functions without sleds, each exit looks like a tail exit (plan_table.h). */
	if (range->object->plan && kind == XP_EVENT_TAIL_EXIT)
		kind = XP_EVENT_EXIT;
	call.word = xp_event_word(id + range->fdr_base, kind);
	return xp_thread_put(thread, &call);
}

int xp_thread_take(struct xp_thread *thread, const struct xp_call *call)
{
	return take(thread, *call);
}

/* Returns 1 if the event belongs to a thread instead of a goroutine. */
static int record_goroutine(struct xp_processes *processes, const struct xp_arrival *arrival)
{
	const struct xp_event_go *event = (const struct xp_event_go *)arrival->event;
	enum xp_event_kind kind = xp_event_kind(arrival->event);
	struct xp_thread *thread;
	int err;

	if ((kind != XP_EVENT_GO_ENTRY && kind != XP_EVENT_GO_EXIT) || !event->goroutine)
		return 1;
	err = xp_goroutine_find(processes, event, &thread);
	if (!err)
		err = take(thread, xp_call_of(arrival));
	if (err != -ENOBUFS)
		return err == 1 ? -ENOENT : err;
	err = xp_processes_thread(processes, (pid_t)event->head.pid, (pid_t)event->head.tid, &thread);
	return err ?: xp_thread_filter(thread, XP_FILTER_TOO_DEEP);
}

int xp_processes_record(struct xp_processes *processes, const struct xp_arrival *arrival)
{
	/* Consecutive events of a CPU usually belong to the same thread. */
	struct xp_thread **recent = &processes->recent[arrival->cpu % XP_ARRAY_SIZE(processes->recent)];
	struct xp_call call = xp_call_of(arrival);
	const struct xp_event *event = arrival->event;
	struct xp_thread *thread = *recent;
	int err = record_goroutine(processes, arrival);

	if (err != 1)
		return err;
	err = 0;
	if (!thread || thread->tid != (pid_t)event->tid || thread->process->pid != (pid_t)event->pid) {
		err = xp_processes_thread(processes, (pid_t)event->pid, (pid_t)event->tid, &thread);
		if (err)
			return err;
		*recent = thread;
	}
	if (thread->process->rings)
		err = xp_thread_take_before(thread, call);
	if (!err)
		err = take(thread, call);
	return err == 1 ? -ENOENT : err;
}

void xp_processes_forget(struct xp_processes *processes, const struct xp_object *object, uint32_t function_id)
{
	for (size_t i = 0; i < processes->threads.count; i++) {
		struct xp_thread *thread = processes->threads.entries[i].pointer;

		for (size_t r = 0; r < thread->process->functions.range_count; r++)
			if (thread->process->functions.ranges[r].object == object)
				xp_thread_forget(thread, thread->process->functions.ranges[r].fdr_base + function_id);
	}
}

static void count_synthesized(void *arg, uint32_t fn_id)
{
	struct xp_process *process = arg;

	xp_thread_sums_synthesized(&process->sums, fn_id, process->functions.count);
}

static int store_chunk(void *arg, struct xp_thread *thread)
{
	struct xp_process *process = arg;

	/* A dry run has no directory. */
	if (process->all->dir_fd < 0)
		return 0;
	return process->all->flight_bytes ? xp_process_keep_chunk(process, thread)
					  : xp_process_spool_chunk(process, thread);
}

int xp_process_finish(struct xp_process *process)
{
	if (process->live) {
		xp_process_end_calls(process);
		end_threads(process);
	}
	if (process->all->dir_fd < 0)
		return 0;
	return process->all->flight_bytes ? xp_process_finish_flight(process) : xp_process_finish_log(process);
}
