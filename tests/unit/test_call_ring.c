/* SPDX-License-Identifier: BSD-2-Clause */
/* Executes the stub's code for memory mode, and reads its rings. */
#include "unit.h"

#include "call_stub.h"

static void records_a_call(bool rdpid, bool neighbor)
{
	struct xp_call calls[4];
	uint64_t begin = __rdtsc();
	unsigned int cpu, cpu_after;

	map_stub(rdpid, neighbor);
	do {
		assert_int_equal(getcpu(&cpu, NULL), 0);
		call_slot(test.slot, word(XP_EVENT_ENTRY));
		call_slot(test.slot, word(XP_EVENT_EXIT));
		assert_int_equal(getcpu(&cpu_after, NULL), 0);
		assert_int_equal(take(calls, 4), 2);
	} while (cpu != cpu_after);
	assert_int_equal(calls[0].word, word(XP_EVENT_ENTRY));
	assert_int_equal(calls[1].word, word(XP_EVENT_EXIT));
	/* Both calls come from the same place of this stack; the sled of an entry has pushed a return address. */
	assert_int_equal(calls[0].slot, calls[1].slot + 1);
	assert_in_range((uint32_t)((uintptr_t)calls >> 3) - calls[1].slot, 1, 512);
	assert_true(begin < calls[0].tsc && calls[0].tsc < calls[1].tsc && calls[1].tsc < __rdtsc());
	assert_int_equal(calls[0].cpu, cpu);
	assert_int_equal(calls[1].cpu, cpu);
	assert_int_equal(take(calls, 4), 0);
	unmap_stub();
}

TEST(test_records_calls)
{
	records_a_call(false, false);
	records_a_call(false, true);
	if (xp_instructions_try().rdpid)
		records_a_call(true, false);
}

TEST(test_preserves_registers)
{
	struct xp_call calls[2];
	uint64_t table;

	for (int rdpid = 0; rdpid <= xp_instructions_try().rdpid; rdpid++) {
		map_stub(rdpid, false);
		assert_int_equal(changed_registers(test.slot, word(XP_EVENT_EXIT)), 0);
		table = *(uint64_t *)(test.stub + XP_STUB_TABLE);
		assert_int_equal(take(calls, 2), 1);
		/* Without a key, space or table, the stub falls back to the kernel; so does the child's nop. */
		for (int is_child = 0; is_child < 2; is_child++) {
			test.stub[XP_STUB_FLAG] = !is_child;
			*test.key += 256;
			assert_int_equal(changed_registers(test.slot, word(XP_EVENT_EXIT)), 0);
			*test.key -= 256;
			test.mine->limit = 0;
			assert_int_equal(changed_registers(test.slot, word(XP_EVENT_EXIT)), 0);
			take_until(UINT64_MAX, calls, 2);
			*(uint64_t *)(test.stub + XP_STUB_TABLE) ^= table;
			assert_int_equal(changed_registers(test.slot, word(XP_EVENT_EXIT)), 0);
			*(uint64_t *)(test.stub + XP_STUB_TABLE) ^= table;
		}
		assert_int_equal(take(calls, 2), 0);
		/* A child with a table records. */
		assert_int_equal(changed_registers(test.slot, word(XP_EVENT_EXIT)), 0);
		assert_int_equal(take(calls, 2), 1);
		unmap_stub();
	}
}

TEST(test_full_ring)
{
	struct xp_call *calls = calloc(RECORDS, sizeof(*calls));
	uint64_t last = 0;

	assert_non_null(calls);
	map_stub(false, false);
	for (unsigned int round = 0; round < 5; round++) {
		/* A record without space falls back to the kernel, and is not in the ring. */
		for (unsigned int i = 0; i < USABLE + 10; i++)
			call_slot(test.slot, xp_event_word(i + 1, XP_EVENT_ENTRY));
		assert_int_equal(take(calls, RECORDS), USABLE);
		for (unsigned int i = 0; i < USABLE; i++) {
			assert_int_equal(calls[i].word, xp_event_word(i + 1, XP_EVENT_ENTRY));
			assert_true(calls[i].tsc >= last);
			last = calls[i].tsc;
		}
	}
	assert_int_equal(test.ring.lost, 0);
	unmap_stub();
	free(calls);
}

TEST(test_takes_only_older)
{
	struct xp_call calls[8];
	uint64_t middle;

	map_stub(false, false);
	call_slot(test.slot, word(XP_EVENT_ENTRY));
	middle = __rdtsc();
	call_slot(test.slot, word(XP_EVENT_EXIT));
	assert_int_equal(take_until(middle, calls, 8), 1);
	assert_int_equal(calls[0].word, word(XP_EVENT_ENTRY));
	assert_int_equal(take_until(middle, calls, 8), 0);
	assert_int_equal(take(calls, 8), 1);
	assert_int_equal(calls[0].word, word(XP_EVENT_EXIT));
	/* Reading one record at a time gives the same result. */
	call_slot(test.slot, word(XP_EVENT_ENTRY));
	call_slot(test.slot, word(XP_EVENT_EXIT));
	assert_int_equal(take(calls, 1), 1);
	assert_int_equal(take(calls, 1), 1);
	assert_int_equal(take(calls, 1), 0);
	unmap_stub();
}

static size_t take_range(uint64_t until_tsc, uint64_t end, struct xp_call *calls, size_t room)
{
	const struct xp_call_range range = { .until_tsc = until_tsc, .end = end, .now_tsc = __rdtsc(), .all = true };

	return xp_call_ring_take(&test.ring, &range, calls, room);
}

static void commit(uint64_t number, uint64_t tsc)
{
	test.records[number] =
	    (struct xp_call_record){ tsc << XP_CALL_CPU_BITS, xp_event_word((uint32_t)number + 1, XP_EVENT_ENTRY), 1 };
}

/* A BPF record precedes the ring's records from a number on, even if the reader has read some of them already. */
TEST(test_takes_up_to_a_number)
{
	const uint64_t now = __rdtsc();
	struct xp_call calls[8];

	map_stub(false, false);
	test.mine->head = 4;
	/* 0 is not committed. The last record is older than the two that it interrupted. */
	commit(1, now - 40);
	commit(2, now - 20);
	commit(3, now - 30);
	assert_int_equal(take_range(UINT64_MAX, 1, calls, 8), 0);
	assert_int_equal(take_range(now - 50, UINT64_MAX, calls, 8), 0);
	assert_int_equal(take_range(UINT64_MAX, 1, calls, 8), 0);
	commit(0, now - 45);
	assert_int_equal(take_range(UINT64_MAX, 1, calls, 8), 1);
	assert_int_equal(calls[0].tsc, now - 45);
	assert_int_equal(take_range(UINT64_MAX, 3, calls, 8), 2);
	assert_int_equal(calls[0].tsc, now - 40);
	assert_int_equal(calls[1].tsc, now - 20);
	assert_int_equal(take_range(UINT64_MAX, 4, calls, 8), 1);
	assert_int_equal(calls[0].tsc, now - 30);
	assert_int_equal(test.ring.pending_count, 0);
	unmap_stub();
}

/* The reader waits for an uncommitted record for a limited time and while the ring has space, and then skips it. */
TEST(test_waits_at_a_hole)
{
	struct xp_call calls[RECORDS];
	struct xp_call_range range = { .until_tsc = UINT64_MAX, .end = UINT64_MAX, .now_tsc = __rdtsc() };

	map_stub(false, false);
	test.mine->head = 3;
	commit(1, range.now_tsc - 20);
	commit(2, range.now_tsc - 10);
	assert_int_equal(xp_call_ring_take(&test.ring, &range, calls, 8), 0);
	range.now_tsc += 1ull << 30;
	assert_int_equal(xp_call_ring_take(&test.ring, &range, calls, 8), 0);
	commit(0, range.now_tsc - 30);
	assert_int_equal(xp_call_ring_take(&test.ring, &range, calls, 8), 3);
	test.mine->head = 5;
	commit(4, range.now_tsc);
	assert_int_equal(xp_call_ring_take(&test.ring, &range, calls, 8), 0);
	range.now_tsc += 1ull << 33;
	assert_int_equal(xp_call_ring_take(&test.ring, &range, calls, 8), 1);
	test.mine->head = 6 + RECORDS / 2;
	for (uint64_t i = 6; i < test.mine->head; i++)
		commit(i, range.now_tsc + i);
	assert_int_equal(xp_call_ring_take(&test.ring, &range, calls, RECORDS), RECORDS / 2);
	unmap_stub();
}

/* Single-steps through the stub, with a signal handler after each instruction. */
static struct stepping {
	unsigned int steps;
	unsigned int at; /* the step at which the handler calls the stub, too */
	bool reads;	 /* also read the ring ... */
	bool turns;	 /* ... between the handler's entry and exit */
	bool jumps;	 /* the handler ends with longjmp */
	struct xp_call calls[8];
	size_t taken;
	sigjmp_buf back;
} stepping;

static void handle_trap(int number, siginfo_t *info, void *context)
{
	uintptr_t rip = (uintptr_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];

	(void)number;
	(void)info;
	if (rip - (uintptr_t)test.slot >= XP_STUB_MEMORY_BYTES || ++stepping.steps != stepping.at)
		return;
	call_slot(test.slot, xp_event_word(FN + 1, XP_EVENT_ENTRY));
	if (stepping.turns)
		stepping.taken = take_until(UINT64_MAX, stepping.calls, 8);
	call_slot(test.slot, xp_event_word(FN + 1, XP_EVENT_EXIT));
	if (stepping.reads)
		stepping.taken = take(stepping.calls, 8);
	if (stepping.jumps)
		siglongjmp(stepping.back, 1);
}

/* An entry that is interrupted at this step, and its exit. Returns the number of steps. */
static unsigned int interrupted_call(unsigned int at, bool reads, bool jumps)
{
	stepping.steps = stepping.taken = 0;
	stepping.at = at;
	stepping.reads = reads;
	stepping.jumps = jumps;
	if (sigsetjmp(stepping.back, 1) == 0)
		step_slot(test.slot, word(XP_EVENT_ENTRY));
	call_slot(test.slot, word(XP_EVENT_EXIT));
	stepping.taken += take(stepping.calls + stepping.taken, 8 - stepping.taken);
	return stepping.steps;
}

static void catch_traps(void)
{
	const struct sigaction action = { .sa_sigaction = handle_trap, .sa_flags = SA_SIGINFO };

	assert_int_equal(sigaction(SIGTRAP, &action, NULL), 0);
}

static size_t count_word(uint32_t wanted)
{
	size_t count = 0;

	for (size_t i = 0; i < stepping.taken; i++)
		count += stepping.calls[i].word == wanted;
	return count;
}

/* Each call is recorded once and in order of time, wherever a handler interrupts the stub. */
TEST(test_signal_at_each_instruction)
{
	unsigned int steps;

	catch_traps();
	map_stub(false, false);
	steps = interrupted_call(0, false, false);
	assert_in_range(steps, 30, 60);
	assert_int_equal(stepping.taken, 2);
	for (int reads = -1; reads < 2; reads++)
		for (unsigned int at = 1; at <= steps; at++) {
			stepping.turns = reads < 0;
			interrupted_call(at, reads > 0, false);
			assert_int_equal(stepping.taken, 4);
			assert_int_equal(count_word(word(XP_EVENT_ENTRY)), 1);
			assert_int_equal(stepping.calls[3].word, word(XP_EVENT_EXIT));
			/* If the reader ran during the handler, it returned the handler's calls first. */
			for (size_t i = 1; i < 4 && reads <= 0; i++)
				assert_true(stepping.calls[i].tsc >= stepping.calls[i - 1].tsc);
			assert_int_equal(count_word(xp_event_word(FN + 1, XP_EVENT_ENTRY)), 1);
			assert_int_equal(count_word(xp_event_word(FN + 1, XP_EVENT_EXIT)), 1);
		}
	stepping.turns = false;
	xp_call_ring_end(&test.ring);
	assert_int_equal(test.ring.lost, 0);
	unmap_stub();
}

/*
 * A handler that ends with longjmp leaves at most one uncommitted record, which counts as lost when the reader skips
 * it.
 */
TEST(test_longjmp_at_each_instruction)
{
	unsigned int steps, holes = 0;

	catch_traps();
	map_stub(false, false);
	steps = interrupted_call(0, false, false);
	for (unsigned int at = 1; at <= steps; at++) {
		uint64_t head = test.mine->head;

		interrupted_call(at, false, true);
		holes += (unsigned int)(test.mine->head - head - stepping.taken);
		assert_in_range(stepping.taken, 3, 4);
		assert_in_range(test.mine->head - head, stepping.taken, 4);
		assert_int_equal(count_word(word(XP_EVENT_EXIT)), 1);
		assert_int_equal(count_word(xp_event_word(FN + 1, XP_EVENT_ENTRY)), 1);
		assert_int_equal(count_word(xp_event_word(FN + 1, XP_EVENT_EXIT)), 1);
	}
	assert_in_range(holes, 5, steps);
	assert_int_equal(test.ring.lost + test.ring.hole_count, holes);
	/* The space of uncommitted records is reused. */
	for (unsigned int i = 0; i < 4 * RECORDS; i++) {
		struct xp_call call;

		call_slot(test.slot, word(XP_EVENT_ENTRY));
		assert_int_equal(take(&call, 1), 1);
	}
	assert_int_equal(test.ring.lost, holes);
	assert_int_equal(test.ring.hole_count, 0);
	unmap_stub();
}

/* A thread without TLS uses the free entry of ring 0, which has no space. */
TEST(test_no_fs_base)
{
	struct xp_call calls[2];
	uint64_t fs_base = fs_base_now();

	map_stub(false, false);
	__asm__ volatile("wrfsbase %0" ::"r"(0ull));
	call_slot(test.slot, word(XP_EVENT_ENTRY));
	__asm__ volatile("wrfsbase %0" ::"r"(fs_base));
	assert_int_equal(*(uint64_t *)(test.stub + XP_STUB_RINGS + offsetof(struct xp_call_header, head)), 0);
	assert_int_equal(take(calls, 2), 0);
	unmap_stub();
}

/* Records of an earlier recording after the writer's position are ignored. */
TEST(test_old_records)
{
	struct xp_call calls[8];

	map_stub(false, false);
	for (unsigned int i = 0; i < RECORDS; i++)
		test.records[i] = (struct xp_call_record){ __rdtsc() << XP_CALL_CPU_BITS, word(XP_EVENT_ENTRY), 1 };
	assert_int_equal(take(calls, 8), 0);
	call_slot(test.slot, word(XP_EVENT_EXIT));
	assert_int_equal(take(calls, 8), 1);
	assert_int_equal(calls[0].word, word(XP_EVENT_EXIT));
	unmap_stub();
}

/* For any content of the ring, the reader ends, stays in its memory, and returns no more than requested. */
TEST(test_hostile_ring)
{
	struct xp_call *calls = calloc(RECORDS, sizeof(*calls));
	unsigned int seed = 1;

	assert_non_null(calls);
	map_stub(false, false);
	for (unsigned int round = 0; round < 2000; round++) {
		for (unsigned int i = 0; i < 200; i++) {
			struct xp_call_record *record = &test.records[rand_r(&seed) % RECORDS];

			record->time =
			    rand_r(&seed) % 3 ? (uint64_t)rand_r(&seed) << rand_r(&seed) % 33 : __rdtsc() << 12;
			record->word = rand_r(&seed) % 3 ? (uint32_t)rand_r(&seed) : 0;
		}
		test.mine->head = rand_r(&seed) % 2 ? (uint64_t)rand_r(&seed) << rand_r(&seed) % 33
						    : test.ring.next + rand_r(&seed) % 300;
		assert_in_range(take_until(__rdtsc() - rand_r(&seed), calls, 100), 0, 100);
		assert_true(test.ring.hole_count <= XP_CALL_RING_HOLES);
		assert_true(test.ring.pending_count <= XP_CALL_RING_HOLES);
	}
	xp_call_ring_end(&test.ring);
	unmap_stub();
	free(calls);
}

const char *unit_why_not(void)
{
	return xp_instructions_try().rdfsbase ? NULL : XP_NO_RDFSBASE;
}
