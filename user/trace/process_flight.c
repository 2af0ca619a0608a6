// SPDX-License-Identifier: BSD-2-Clause
#include "trace/process_flight.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/file_name.h"
#include "base/u64_map.h"
#include "base/util.h"
#include "trace/flight_writer.h"
#include "trace/process.h"
#include "trace/process_log.h"
#include "xprof/wait.h"

const char *xp_flight_cause_name(enum xp_flight_cause cause)
{
	static const char *const names[] = {
		[XP_FLIGHT_ASKED] = "asked", [XP_FLIGHT_KILLED] = "killed",   [XP_FLIGHT_GONE] = "gone",
		[XP_FLIGHT_END] = "end",     [XP_FLIGHT_TRIGGER] = "trigger",
	};

	return names[cause];
}

/* A job, and what it is for. */
struct errand {
	struct xp_flight_job job; /* first: the writer knows only the job */
	struct xp_process *process;
	struct xp_flight_log log;
};

int xp_process_keep_chunk(struct xp_process *process, struct xp_thread *thread)
{
	int err = process->flights.memory ? 0 : xp_flight_new(&process->flights.memory, process->all->flight_bytes);

	if (!err)
		err = xp_flight_add_chunk(process->flights.memory, thread);
	return err ? err : XP_CHUNK_KEPT;
}

static void forget_slow(struct xp_process *process)
{
	if (process->flights.slow)
		process->all->triggers.waiting--;
	free(process->flights.slow);
	process->flights.slow = NULL;
}

/* Passes the memory to the writer; later records use new memory. */
static int write_flight(struct xp_process *process, enum xp_flight_cause cause)
{
	struct errand *errand;
	char base[XP_FILE_BASE_BYTES];

	if (!process->flights.memory)
		return 0;
	xp_process_spool_names(process);
	errand = calloc(1, sizeof(*errand));
	if (!errand)
		return -ENOMEM;
	xp_file_base_name(base, sizeof(base), process->comm, process->pid, process->image);
	snprintf(errand->job.name, sizeof(errand->job.name), "%s.flight%u.fdr", base, ++process->flights.begun);
	errand->process = process;
	errand->log.cause = cause;
	errand->log.signal = process->signal;
	errand->log.at_tsc = xp_clock_now_tsc();
	errand->log.threads = process->flights.threads;
	if (process->flights.slow)
		errand->log.slow = *process->flights.slow;
	process->flights.threads.count = 0;
	forget_slow(process);
	errand->job.info = xp_process_log_info(process);
	errand->job.flight = process->flights.memory;
	process->flights.memory = NULL;
	xp_flight_writer_add(process->all->writer, &errand->job);
	return 0;
}

/* Returns the innermost of the thread's first open calls. */
static struct xp_flight_thread innermost(const struct xp_thread *thread, uint32_t frames)
{
	struct xp_flight_thread note = { .tid = thread->tid };

	while (frames-- && note.call_count < XP_FLIGHT_CALLS_MAX)
		if (!(thread->frames[frames].fn_id & XP_FRAME_FORGOTTEN))
			note.calls[note.call_count++] = thread->frames[frames].fn_id;
	return note;
}

static void note_calls(struct xp_process *process, const struct xp_thread *thread)
{
	struct xp_flight_threads *threads = &process->flights.threads;
	struct xp_flight_thread note = innermost(thread, thread->depth);

	if (!note.call_count)
		return;
	if (threads->count < XP_FLIGHT_THREADS_MAX)
		threads->first[threads->count] = note;
	threads->count++;
}

void xp_process_end_flight_thread(struct xp_process *process, const struct xp_thread *thread)
{
	if (!process->flights.memory)
		return;
	xp_flight_add_stack(process->flights.memory, thread);
	if (process->signal || !process->live)
		note_calls(process, thread);
}

/* Closes the threads' chunks and stores their stacks, which makes the memory complete. */
static int gather(struct xp_process *process)
{
	const struct xp_processes *processes = process->all;
	int err = 0;

	for (size_t i = 0; i < processes->threads.count; i++) {
		struct xp_thread *thread = processes->threads.entries[i].pointer;

		if (thread->process != process)
			continue;
		err = xp_thread_flush(thread) ?: err;
		if (!process->flights.memory)
			continue;
		xp_flight_add_stack(process->flights.memory, thread);
		note_calls(process, thread);
	}
	return err;
}

static bool is_only_live(const struct xp_process *process)
{
	return process->all->first_live == process && !process->next_live;
}

static uint64_t undelayed_ticks(const struct xp_flight_slow_call *slow)
{
	return slow->end_tsc - slow->begin_tsc - slow->delay_ticks;
}

static bool asks_for_log(struct xp_process *process, const struct xp_flight_slow_call *call)
{
	struct xp_triggers *triggers = &process->all->triggers;
	struct xp_trigger *trigger = &triggers->list[call->trigger];
	enum xp_trigger_answer answer =
	    xp_triggers_ask(triggers, process->pid, is_only_live(process), undelayed_ticks(call), xp_clock_now_tsc());

	trigger->beyond += answer == XP_TRIGGER_BEYOND_LIMIT;
	trigger->beyond_share += answer == XP_TRIGGER_BEYOND_SHARE;
	trigger->logs += answer == XP_TRIGGER_WRITES;
	return answer == XP_TRIGGER_WRITES;
}

void xp_process_watched_end(void *arg, const struct xp_thread *thread, const struct xp_ended_call *call)
{
	struct xp_process *process = arg;
	struct xp_triggers *triggers = &process->all->triggers;
	size_t index = process->functions.watched.by_id[call->fn_id] - 1u;
	struct xp_flight_slow_call *slow = process->flights.slow, ended;
	struct xp_trigger *trigger = &triggers->list[index];

	if (call->end_tsc - call->begin_tsc <= trigger->above_ticks)
		return;
	trigger->calls++;
	ended = (struct xp_flight_slow_call){ 1,
					      index,
					      innermost(thread, call->frame + 1),
					      call->begin_tsc,
					      call->end_tsc,
					      xp_delays_within(thread->first->delays, call->begin_tsc, call->end_tsc) };
	if (slow) {
		trigger->shared++;
		ended.calls += slow->calls;
		/* The log names the slowest call in it. */
		if (undelayed_ticks(&ended) > undelayed_ticks(slow))
			*slow = ended;
		slow->calls = ended.calls;
	} else if (asks_for_log(process, &ended) && (slow = malloc(sizeof(*slow)))) {
		*slow = ended;
		process->flights.slow = slow;
		triggers->waiting++;
	}
}

int xp_processes_note_wait(struct xp_processes *processes, const struct xp_arrival *arrival)
{
	const struct xp_event_wait *wait = (const struct xp_event_wait *)arrival->event;
	struct xp_thread *thread = xp_u64_map_get(&processes->threads, wait->head.tid);

	if (!processes->triggers.count || !wait->runnable_ns || !thread ||
	    thread->process->pid != (pid_t)wait->head.pid)
		return 0;
	return xp_delays_add(&thread->delays, arrival->tsc, xp_clock_ticks(processes->clock, wait->runnable_ns));
}

int xp_processes_write_triggered(struct xp_processes *processes)
{
	int err = 0;

	for (struct xp_process *process = processes->first_live; process && processes->triggers.waiting;
	     process = process->next_live) {
		if (!process->flights.slow)
			continue;
		err = gather(process) ?: err;
		err = write_flight(process, XP_FLIGHT_TRIGGER) ?: err;
		/* There is no memory: the next slow call tries again. */
		forget_slow(process);
	}
	return err;
}

int xp_processes_write_flights(struct xp_processes *processes)
{
	int err = 0;

	for (struct xp_process *process = processes->first_live; process; process = process->next_live) {
		err = gather(process) ?: err;
		err = write_flight(process, XP_FLIGHT_ASKED) ?: err;
	}
	return err;
}

int xp_process_end_flight(struct xp_process *process)
{
	int err = 0;

	if (process->signal)
		err = write_flight(process, XP_FLIGHT_KILLED);
	else if (process->vanished)
		err = write_flight(process, XP_FLIGHT_GONE);
	else if (process->flights.slow)
		err = write_flight(process, XP_FLIGHT_TRIGGER);
	forget_slow(process);
	xp_flight_free(process->flights.memory);
	process->flights.memory = NULL;
	return err;
}

int xp_process_finish_flight(struct xp_process *process)
{
	int err = write_flight(process, process->flights.slow ? XP_FLIGHT_TRIGGER : XP_FLIGHT_END);

	if (!err && process->flights.count && !process->log.error)
		err = xp_process_name_functions(process);
	process->log.error = process->log.error ?: err;
	return process->log.error;
}

/* Records that were counted as overwritten are in a log now, or lost. */
static uint64_t settle_counts(struct xp_counts *counts, uint64_t records, bool stored)
{
	counts->overwritten -= records;
	if (stored)
		counts->written += records;
	else
		counts->unstored += records;
	return records;
}

static int settle(struct xp_process *process, const struct xp_flight_result *result, bool stored)
{
	const struct xp_processes *processes = process->all;
	struct xp_u64_map by_serial = { 0 };
	uint64_t of_ended = 0;
	int err = 0;

	for (size_t i = 0; i < result->share_count && !err; i++) {
		of_ended += result->shares[i].records;
		err = xp_u64_map_add(&by_serial, result->shares[i].serial, (uint32_t)i) ? 0 : -ENOMEM;
	}
	for (size_t i = 0; i < processes->threads.count; i++) {
		struct xp_thread *thread = processes->threads.entries[i].pointer;
		const uint32_t *share = xp_u64_map_find(&by_serial, thread->serial);

		if (share)
			of_ended -= settle_counts(&thread->counts, result->shares[*share].records, stored);
	}
	for (size_t i = 0; i < process->sums.summary_count; i++) {
		struct xp_thread_summary *summary = &process->sums.summaries[i];
		const uint32_t *share = xp_u64_map_find(&by_serial, summary->serial);

		if (share)
			settle_counts(&summary->counts, result->shares[*share].records, stored);
	}
	settle_counts(&process->sums.counts, of_ended, stored);
	xp_u64_map_free(&by_serial);
	return err;
}

static int take_back(struct xp_flight_job *job, xp_flight_done done, void *arg)
{
	struct errand *errand = (struct errand *)job;
	struct xp_process *process = errand->process;
	struct xp_flight_log *log = &errand->log;
	int err = settle(process, &job->result, !job->error);

	if (job->error || job->result.share_count) {
		memcpy(log->name, job->name, sizeof(log->name));
		log->error = job->error;
		log->first_tsc = job->result.first_tsc;
		log->bytes = job->result.file_bytes;
		log->version = job->result.fdr_version;
		log->records = job->result.records;
		log->entries = job->result.entries;
		log->exits = job->result.exits;
		process->log.error = process->log.error ?: job->error;
		err = err ?: XP_ARRAY_ADD(process->flights.logs, process->flights.count, process->flights.room, *log);
		done(arg, process, log);
	}
	free(job->result.shares);
	free(errand);
	return err;
}

int xp_processes_collect_flights(struct xp_processes *processes, bool wait, xp_flight_done done, void *arg)
{
	struct xp_flight_job *job;
	int err = 0;

	while (processes->writer && (job = xp_flight_writer_collect(processes->writer, wait)))
		err = take_back(job, done, arg) ?: err;
	return err;
}
