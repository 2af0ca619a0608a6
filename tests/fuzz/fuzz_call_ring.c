// SPDX-License-Identifier: BSD-2-Clause
/*
 * Fuzzes the reader of call rings: a process may write anything to its rings, at any time. The reader must end, stay in
 * its memory, and return at most the requested number of records, in order of time. The records must give valid chunks
 * of a log, with each record accounted for.
 */
#include <string.h>

#include "fuzz.h"

#include "sled/call_ring.h"
#include "trace/ring_calls.h"

#define RECORDS 1024u
#define ROOM 100u
#define NOW (1ull << 50)
#define PID 7
#define TID 8
#define FUNCTIONS 64u

enum step_kind {
	STEP_WRITE, /* a record, at the reader's position or some records later */
	STEP_HEAD,
	STEP_TAKE,
	STEP_TAKE_NUMBER,
	STEP_TAKE_BACK, /* the writer may discard calls from now on */
	STEP_COUNT,
	STEP_LOG, /* reads all calls into the log of the thread */
	STEP_KINDS,
};

struct step {
	uint8_t kind;
	uint8_t room;
	int16_t where;
	uint32_t word;
	uint64_t time;
};

static void take(struct xp_call_ring *ring, const struct xp_call_range *range, size_t room)
{
	struct xp_call calls[ROOM];
	uint64_t next = ring->next, lost = ring->lost;
	size_t count = xp_call_ring_take(ring, range, calls, room);

	CHECK(count <= room);
	CHECK(ring->next - next <= RECORDS);
	CHECK(ring->lost - lost <= XP_CALL_RING_HOLES);
	CHECK(ring->hole_count <= XP_CALL_RING_HOLES && ring->pending_count <= XP_CALL_RING_HOLES);
	/* The writer reserves only space that has been read. */
	CHECK(ring->header->limit <= ring->next + RECORDS - XP_CALL_RING_MARGIN);
	for (size_t i = 0; i < count; i++)
		CHECK(calls[i].tsc < range->until_tsc && calls[i].word);
}

static int check_chunk(void *arg, struct xp_thread *thread)
{
	(void)arg;
	CHECK(!xp_fdr_chunk_scan(thread->enc.buf, thread->enc.len, NULL));
	return 0;
}

static void ignore(void *arg, uint32_t fn_id)
{
	(void)arg;
	(void)fn_id;
}

static struct xp_process *begin_process(struct xp_processes *processes)
{
	static struct xp_sled_table table = { .function_count = FUNCTIONS };
	static struct xp_function_budget budget[FUNCTIONS + 1];
	static struct xp_object objects[2] = { { .table = &table },
					       { .table = &table, .fn_base = FUNCTIONS, .budget = budget } };
	const struct xp_sled_result sleds = { .attached = 2, .begin_tsc = 100 };
	const struct xp_target_info info = { .comm = "program" };
	struct xp_process *process;

	for (unsigned int i = 0; i <= FUNCTIONS; i++)
		budget[i] = (struct xp_function_budget){ .out_tsc = i % 4 ? UINT64_MAX : NOW };
	xp_processes_init(processes);
	CHECK(!xp_processes_add(processes, &process, PID, &info, 1));
	process->thread_options.sink = check_chunk;
	process->thread_options.synthesized = ignore;
	CHECK(!xp_functions_add(&process->functions, &objects[0], &sleds));
	CHECK(!xp_functions_add(&process->functions, &objects[1], &sleds));
	return process;
}

static void end_process(struct xp_processes *processes)
{
	const struct xp_counts *counts = &processes->first->sums.counts;

	CHECK(!xp_processes_end_thread(processes, TID));
	CHECK(counts->seen == counts->written + xp_counts_filtered(counts));
	CHECK(counts->in_memory <= counts->seen);
	processes->first->live = false;
	xp_processes_free(processes);
}

static void log_calls(struct xp_process *process, struct xp_thread_ring *ring, const struct step *step)
{
	struct xp_call_range range = { .until_tsc = step->time, .end = UINT64_MAX, .now_tsc = NOW, .all = true };
	const struct xp_thread *thread = xp_u64_map_get(&process->all->threads, TID);
	const uint64_t before = process->sums.counts.seen + (thread ? thread->counts.seen : 0);
	const uint64_t back = ring->ring.taken_back, next = ring->ring.next;
	const unsigned int kept = ring->ring.hole_count + ring->ring.pending_count;
	uint64_t seen;

	process->reading.work = 0;
	CHECK(!xp_ring_calls_take(process, ring, TID, &range));
	thread = xp_u64_map_get(&process->all->threads, TID);
	seen = process->sums.counts.seen + (thread ? thread->counts.seen : 0) - before;
	/* Uncommitted records are committed later. */
	CHECK(seen <= ring->ring.next - next + kept + 2 * (ring->ring.taken_back - back));
}

static void do_step(struct xp_process *process, struct xp_thread_ring *thread_ring, const struct step *step)
{
	struct xp_call_ring *ring = &thread_ring->ring;
	struct xp_call_range range = { .until_tsc = UINT64_MAX, .end = UINT64_MAX, .now_tsc = NOW };
	struct xp_call_record *record;

	switch (step->kind % STEP_KINDS) {
	case STEP_WRITE:
		record = &ring->records[(ring->next + (uint64_t)step->where) & ring->mask];
		record->time = step->time;
		record->word = step->word;
		record->sp = step->room;
		break;
	case STEP_HEAD:
		ring->header->head = ring->next + (uint64_t)step->where;
		break;
	case STEP_TAKE:
		range.until_tsc = step->time;
		range.all = step->where % 2;
		take(ring, &range, step->room % (ROOM + 1));
		break;
	case STEP_TAKE_BACK:
		xp_call_ring_drop_short(ring, step->time);
		ring->header->final = step->word;
		break;
	case STEP_LOG:
		log_calls(process, thread_ring, step);
		break;
	case STEP_COUNT:
		ring->header->taken_back = step->time;
		range.now_tsc = ring->taken_back_tsc + step->word;
		/* At most the calls that were possible since the last check. */
		CHECK(xp_call_ring_taken_back(ring, &range) <= step->word);
		break;
	default:
		range.end = xp_call_ring_number(ring, step->word);
		take(ring, &range, step->room % (ROOM + 1));
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct xp_call_record records[RECORDS];
	struct xp_call_header header = { 0 };
	struct xp_thread_ring ring = { 0 };
	struct xp_processes processes = { 0 };
	struct xp_process *process = begin_process(&processes);
	struct step step;

	memset(records, 0, sizeof(records));
	xp_call_ring_begin(&ring.ring, &header, records, RECORDS);
	for (; size >= sizeof(step); data += sizeof(step), size -= sizeof(step)) {
		memcpy(&step, data, sizeof(step));
		do_step(process, &ring, &step);
	}
	xp_call_ring_end(&ring.ring);
	CHECK(ring.ring.hole_count == 0);
	end_process(&processes);
	return 0;
}
