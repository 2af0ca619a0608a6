/* SPDX-License-Identifier: BSD-2-Clause */
/* Executes the stub's code that discards short calls, and reads its rings meanwhile. */
#include "unit.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <libelf.h>
#include <pthread.h>

#include "base/clock.h"
#include "call_stub.h"

#define LONG_TICKS (1ull << 45) /* every call is shorter */
#define TAIL XP_EVENT_TAIL_EXIT

static const uint8_t *leave; /* the slot of exits */

static void begin(bool rdpid, bool neighbor, uint64_t min_ticks)
{
	map_stub(rdpid, neighbor);
	xp_call_ring_drop_short(&test.ring, min_ticks);
	leave = test.stub + xp_stub_take_back_entry(rdpid);
}

static uint64_t taken_back(void)
{
	return test.mine->taken_back & ((1ull << XP_CALL_TAKEN_BACK_BITS) - 1);
}

static uint32_t word_of(uint32_t fn, enum xp_event_kind kind)
{
	return xp_event_word(fn, kind);
}

static uint64_t count_taken_back(void)
{
	const struct xp_call_range all = { .now_tsc = xp_clock_now_tsc() };

	return xp_call_ring_taken_back(&test.ring, &all);
}

/* Reads as the reader polls: entries that may still be discarded stay. */
static size_t poll_ring(struct xp_call *calls, size_t room)
{
	return take_until(UINT64_MAX, calls, room);
}

static void drops_short_calls(bool rdpid, bool neighbor)
{
	struct xp_call_range some = { .has_taken_back = true, .taken_back = 7 };
	struct xp_call calls[4];

	begin(rdpid, neighbor, LONG_TICKS);
	for (unsigned int i = 0; i < 5 * RECORDS; i++) {
		call_slot(test.slot, word(XP_EVENT_ENTRY));
		if (i % 2)
			call_slot(leave, word(TAIL));
		else
			leave_slot(leave, word(XP_EVENT_EXIT));
		assert_int_equal(test.mine->head, 0);
	}
	assert_int_equal(taken_back(), 5 * RECORDS);
	some.now_tsc = xp_clock_now_tsc();
	/* Reads up to a count that BPF has read, and then the rest. */
	assert_int_equal(xp_call_ring_taken_back(&test.ring, &some), 7);
	assert_int_equal(count_taken_back(), 5 * RECORDS - 7);
	assert_int_equal(count_taken_back(), 0);
	assert_int_equal(take(calls, 4), 0);
	/* Nested calls, the inner one first. */
	call_slot(test.slot, word_of(1, XP_EVENT_ENTRY));
	call_slot(test.slot, word_of(2, XP_EVENT_ENTRY));
	call_slot(leave, word_of(2, TAIL));
	call_slot(leave, word_of(1, TAIL));
	assert_int_equal(test.mine->head, 0);
	assert_int_equal(taken_back(), 5 * RECORDS + 2);
	unmap_stub();
}

TEST(test_drops_short_calls)
{
	drops_short_calls(false, false);
	drops_short_calls(false, true);
	if (xp_instructions_try().rdpid)
		drops_short_calls(true, false);
}

TEST(test_keeps_other_calls)
{
	struct xp_call calls[8];

	begin(false, false, LONG_TICKS);
	/* Another function, another place on the stack, an exit without an entry, a call within the call. */
	call_slot(test.slot, word_of(1, XP_EVENT_ENTRY));
	call_slot(leave, word_of(2, TAIL));
	call_slot(test.slot, word_of(1, XP_EVENT_ENTRY));
	leave_slot(leave, word_of(1, TAIL));
	call_slot(leave, word_of(1, TAIL));
	assert_int_equal(take(calls, 8), 5);
	assert_int_equal(take(calls, 8), 0);
	/*
	 * A record through the kernel also keeps the call: the stub fell back to the kernel, or an event was recorded.
	 */
	for (int is_event = 0; is_event < 2; is_event++) {
		uint64_t limit = test.mine->limit;

		call_slot(test.slot, word_of(1, XP_EVENT_ENTRY));
		test.mine->limit = 0;
		call_slot(is_event ? test.stub + xp_stub_memory_event_entry(XP_STUB_TYPED) : test.slot, word_of(2, 0));
		test.mine->limit = limit;
		call_slot(leave, word_of(1, TAIL));
		assert_int_equal(take(calls, 8), 2);
	}
	assert_int_equal(taken_back(), 0);
	unmap_stub();
	/* A long call. */
	begin(false, false, 1);
	call_slot(test.slot, word_of(1, XP_EVENT_ENTRY));
	call_slot(leave, word_of(1, TAIL));
	assert_int_equal(take(calls, 8), 2);
	assert_int_equal(taken_back(), 0);
	unmap_stub();
}

/* The limit is exact: a call of exactly this many ticks is long. */
TEST(test_limit)
{
	begin(false, false, 1000000);
	for (unsigned int i = 0; i < 2000; i++) {
		struct xp_call calls[2];
		uint64_t before = taken_back(), from, to;

		call_slot(test.slot, word(XP_EVENT_ENTRY));
		from = test.records[0].time >> XP_CALL_CPU_BITS;
		/* The last bits of the time are a CPU number. */
		test.records[0].time |= i % 2 ? (1u << XP_CALL_CPU_BITS) - 1 : 0;
		test.records[0].time -= (uint64_t)(1000000 - rand() % 800) << XP_CALL_CPU_BITS;
		from = test.records[0].time >> XP_CALL_CPU_BITS;
		call_slot(leave, word(TAIL));
		to = __rdtsc() & ((1ull << (64 - XP_CALL_CPU_BITS)) - 1);
		if (taken_back() > before) {
			test.mine->head = test.ring.next = 0;
			continue;
		}
		assert_true(to - from >= 1000000);
		assert_int_equal(take(calls, 2), 2);
		assert_true(calls[1].tsc - calls[0].tsc >= 1000000);
		test.mine->head = test.ring.next = 0;
	}
	assert_in_range(taken_back(), 1, 1999);
	unmap_stub();
}

TEST(test_preserves_registers)
{
	struct xp_call call;

	begin(false, false, LONG_TICKS);
	/* Records, and returns its stack pointer. */
	assert_int_equal(changed_registers(leave, word(XP_EVENT_EXIT)), 0);
	assert_int_equal(take(&call, 1), 1);
	test.records[1] =
	    (struct xp_call_record){ (__rdtsc() - 1) << XP_CALL_CPU_BITS, word(XP_EVENT_ENTRY), call.slot - 1 };
	test.mine->head = 2;
	assert_int_equal(changed_registers(leave, word(XP_EVENT_EXIT)), 0);
	assert_int_equal(taken_back(), 1);
	assert_int_equal(test.mine->head, 1);
	/* No space, no ring, no table. */
	test.mine->limit = 0;
	assert_int_equal(changed_registers(leave, word(XP_EVENT_EXIT)), 0);
	*test.key += 256;
	assert_int_equal(changed_registers(leave, word(XP_EVENT_EXIT)), 0);
	*(uint64_t *)(test.stub + XP_STUB_TABLE) = 0;
	assert_int_equal(changed_registers(leave, word(XP_EVENT_EXIT)), 0);
	assert_int_equal(changed_registers(test.stub + xp_stub_memory_event_entry(XP_STUB_CUSTOM), 1), 0);
	assert_int_equal(test.mine->head, 1);
	unmap_stub();
}

/* The flags may be in use at an event. */
TEST(test_event_preserves_flags)
{
	const uint64_t arithmetic = 0x8d5;

	begin(false, false, LONG_TICKS);
	for (int slot = XP_STUB_CUSTOM; slot <= XP_STUB_TYPED; slot++) {
		const uint8_t *code = test.stub + xp_stub_memory_event_entry((enum xp_stub_slot)slot);

		for (uint64_t flags = 0; flags <= arithmetic; flags += arithmetic) {
			uint64_t after;

			__asm__ volatile(
			    "pushfq; andq $~0x8d5, (%%rsp); orq %1, (%%rsp); popfq; call *%2; pushfq; pop %0"
			    : "=r"(after)
			    : "r"(flags), "r"(code)
			    : "cc", "memory");
			assert_int_equal(after & arithmetic, flags);
		}
		/* The probe is at an instruction where the stub has nothing on the stack. */
		assert_memory_equal(test.stub + xp_stub_memory_event_probe((enum xp_stub_slot)slot), "\x90\xc3", 2);
	}
	unmap_stub();
}

/* The reader leaves an entry that may still be discarded, unless the entry is old or followed by another record. */
TEST(test_reader_leaves_young_entries)
{
	struct xp_call calls[8];

	begin(false, false, LONG_TICKS);
	call_slot(test.slot, word_of(1, XP_EVENT_ENTRY));
	call_slot(test.slot, word_of(2, XP_EVENT_ENTRY));
	assert_int_equal(poll_ring(calls, 8), 0);
	call_slot(leave, word_of(3, TAIL));
	call_slot(test.slot, word_of(4, XP_EVENT_ENTRY));
	assert_int_equal(poll_ring(calls, 8), 3);
	assert_int_equal(calls[2].word, word_of(3, TAIL));
	assert_int_equal(poll_ring(calls, 8), 0);
	/* If the reader reads the entry anyway, the exit is recorded. */
	assert_int_equal(take(calls, 8), 1);
	call_slot(leave, word_of(4, TAIL));
	assert_int_equal(poll_ring(calls, 8), 1);
	assert_int_equal(taken_back(), 0);
	/* A call that contains a record of the kernel is kept. */
	call_slot(test.slot, word_of(5, XP_EVENT_ENTRY));
	call_slot(test.stub + xp_stub_memory_event_entry(XP_STUB_CUSTOM), 0);
	assert_int_equal(poll_ring(calls, 8), 1);
	unmap_stub();
	begin(false, false, 1);
	call_slot(test.slot, word_of(1, XP_EVENT_ENTRY));
	assert_int_equal(poll_ring(calls, 8), 1);
	unmap_stub();
}

/* The number is limited, whatever the process writes. */
TEST(test_hostile_count)
{
	uint64_t now, before, sum = 0;

	begin(false, false, LONG_TICKS);
	before = test.ring.taken_back_tsc;
	for (unsigned int i = 0; i < 100; i++) {
		test.mine->taken_back += i % 2 ? ~0ull / 3 : 1ull << 40;
		sum += count_taken_back();
		now = xp_clock_now_tsc();
	}
	assert_in_range(sum, 0, (now - before) / 16);
	unmap_stub();
}

/* ---- A signal handler at each instruction ---- */

enum action {
	NOTHING,
	SHORT, /* a call that is discarded */
	KEPT,  /* a call that is kept */
	FALLS, /* a call that the kernel records */
	EVENT,
	READS,
	POLLS,
	ACTIONS,
};

static struct stepping {
	unsigned int steps;
	unsigned int at;
	enum action actions[3];
	bool jumps;
	uint64_t cfa;
	unsigned int wrong_cfa;
	bool was_open;	/* the call was not discarded yet when the handler ran */
	bool was_there; /* and its entry was not cleared yet */
	struct xp_call calls[16];
	size_t count;
	sigjmp_buf back;
	uint8_t cfa_offsets[XP_STUB_BYTES];
} stepping;

static void act(enum action action)
{
	uint64_t limit = test.mine->limit;

	switch (action) {
	case SHORT:
		call_slot(test.slot, word_of(FN + 1, XP_EVENT_ENTRY));
		call_slot(leave, word_of(FN + 1, TAIL));
		break;
	case KEPT:
		call_slot(test.slot, word_of(FN + 2, XP_EVENT_ENTRY));
		call_slot(test.slot, word_of(FN + 2, TAIL));
		break;
	case FALLS:
		test.mine->limit = 0;
		call_slot(test.slot, word_of(FN + 3, XP_EVENT_ENTRY));
		call_slot(leave, word_of(FN + 3, TAIL));
		test.mine->limit = limit;
		break;
	case EVENT:
		call_slot(test.stub + xp_stub_memory_event_entry(XP_STUB_CUSTOM), 0);
		break;
	case READS:
		stepping.count += take(stepping.calls + stepping.count, 16 - stepping.count);
		break;
	case POLLS:
		stepping.count += poll_ring(stepping.calls + stepping.count, 16 - stepping.count);
		break;
	default:
		break;
	}
}

static void handle_trap(int number, siginfo_t *info, void *context)
{
	const greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
	uintptr_t offset = (uintptr_t)registers[REG_RIP] - (uintptr_t)test.stub;
	uint64_t cfa;

	(void)number;
	(void)info;
	if (offset - XP_STUB_TEXT >= XP_STUB_TEXT_BYTES)
		return;
	cfa = (uint64_t)registers[REG_RSP] + stepping.cfa_offsets[offset];
	if (!stepping.steps)
		stepping.cfa = cfa;
	stepping.wrong_cfa += cfa != stepping.cfa;
	if (++stepping.steps != stepping.at)
		return;
	stepping.was_open = !taken_back();
	stepping.was_there = test.records[0].word;
	for (size_t i = 0; i < XP_ARRAY_SIZE(stepping.actions); i++)
		act(stepping.actions[i]);
	if (stepping.jumps)
		siglongjmp(stepping.back, 1);
}

/* Returns the rule of the unwind table for each byte. */
static void read_cfi(void)
{
	static uint8_t page[XP_STUB_BYTES];
	Dwarf_Frame *frame;
	Dwarf_Op *ops;
	Dwarf_CFI *cfi;
	size_t count;
	Elf *elf;

	xp_stub_make(page);
	assert_int_equal(elf_version(EV_CURRENT), EV_CURRENT);
	elf = elf_memory((char *)page, sizeof(page));
	assert_non_null(elf);
	cfi = dwarf_getcfi_elf(elf);
	assert_non_null(cfi);
	for (uint64_t pc = XP_STUB_TEXT; pc < XP_STUB_TEXT + XP_STUB_TEXT_BYTES; pc++) {
		assert_int_equal(dwarf_cfi_addrframe(cfi, pc, &frame), 0);
		assert_int_equal(dwarf_frame_cfa(frame, &ops, &count), 0);
		assert_true(count == 1 && ops[0].atom == DW_OP_bregx && ops[0].number == 7);
		stepping.cfa_offsets[pc] = (uint8_t)ops[0].number2;
		free(frame);
	}
	dwarf_cfi_end(cfi);
	elf_end(elf);
}

static void catch_traps(void)
{
	const struct sigaction action = { .sa_sigaction = handle_trap, .sa_flags = SA_SIGINFO };

	assert_int_equal(sigaction(SIGTRAP, &action, NULL), 0);
	read_cfi();
}

static size_t count_word(uint32_t wanted)
{
	size_t count = 0;

	for (size_t i = 0; i < stepping.count; i++)
		count += stepping.calls[i].word == wanted;
	return count;
}

/* Makes a call whose entry or exit is interrupted at this step. */
static void interrupted_call(unsigned int at, bool in_entry, uint64_t min_ticks)
{
	begin(false, false, min_ticks);
	stepping.steps = stepping.count = stepping.wrong_cfa = 0;
	stepping.at = at;
	if (sigsetjmp(stepping.back, 1) == 0) {
		if (in_entry) {
			step_slot(test.slot, word(XP_EVENT_ENTRY));
			call_slot(leave, word(TAIL));
		} else {
			call_slot(test.slot, word(XP_EVENT_ENTRY));
			step_slot(leave, word(TAIL));
		}
	}
	stepping.count += take(stepping.calls + stepping.count, 16 - stepping.count);
	assert_int_equal(stepping.wrong_cfa, 0);
}

static bool has(enum action action)
{
	for (size_t i = 0; i < XP_ARRAY_SIZE(stepping.actions); i++)
		if (stepping.actions[i] == action)
			return true;
	return false;
}

/* Each call is discarded or read, exactly once. A call with a BPF record is kept. */
static void check_call(bool in_entry, uint64_t min_ticks)
{
	size_t entries = count_word(word(XP_EVENT_ENTRY)), exits = count_word(word(TAIL));
	size_t kept = has(KEPT), dropped = has(SHORT) && stepping.steps >= stepping.at && min_ticks > 1;

	assert_int_equal(entries, exits);
	assert_int_equal(count_word(word_of(FN + 2, XP_EVENT_ENTRY)), kept);
	assert_int_equal(count_word(word_of(FN + 2, TAIL)), kept);
	/* The handler's own short call is always discarded, except with a short limit. */
	assert_int_equal(count_word(word_of(FN + 1, XP_EVENT_ENTRY)), has(SHORT) - dropped);
	assert_int_equal(taken_back(), dropped + 1 - entries);
	if (min_ticks == 1 || (!in_entry && stepping.was_open && (has(FALLS) || has(EVENT))) ||
	    (!in_entry && stepping.was_there && has(READS)))
		assert_int_equal(entries, 1);
	assert_int_equal(stepping.count, 2 * (entries + kept + has(SHORT) - dropped));
	xp_call_ring_end(&test.ring);
	assert_int_equal(test.ring.lost, 0);
	assert_int_equal(test.mine->head, test.ring.next);
	unmap_stub();
}

static unsigned int count_steps(bool in_entry, uint64_t min_ticks)
{
	memset(stepping.actions, 0, sizeof(stepping.actions));
	interrupted_call(0, in_entry, min_ticks);
	unmap_stub();
	return stepping.steps;
}

TEST(test_signal_at_each_instruction)
{
	const uint64_t limits[] = { 1, LONG_TICKS };
	unsigned int dropped = 0, kept = 0;

	catch_traps();
	stepping.jumps = false;
	for (int in_entry = 0; in_entry < 2; in_entry++)
		for (size_t l = 0; l < XP_ARRAY_SIZE(limits); l++) {
			unsigned int steps = count_steps(in_entry, limits[l]);

			assert_in_range(steps, 30, 120);
			for (unsigned int first = SHORT; first < ACTIONS; first++)
				for (unsigned int then = NOTHING; then < ACTIONS; then += READS)
					for (unsigned int at = 1; at <= steps; at++) {
						stepping.actions[0] = (enum action)first;
						stepping.actions[1] = (enum action)then;
						interrupted_call(at, in_entry, limits[l]);
						dropped += taken_back() > has(SHORT);
						kept += !taken_back();
						check_call(in_entry, limits[l]);
					}
		}
	assert_true(dropped > 300 && kept > 300);
}

/*
 * A handler that ends with longjmp leaves at most one uncommitted record. Entry and exit of the call are discarded
 * together.
 */
TEST(test_longjmp_at_each_instruction)
{
	unsigned int steps, holes = 0, dropped = 0;

	catch_traps();
	stepping.jumps = false;
	steps = count_steps(false, LONG_TICKS);
	stepping.jumps = true;
	for (unsigned int first = NOTHING; first < ACTIONS; first++)
		for (unsigned int at = 1; at <= steps; at++) {
			size_t entries, exits, hole;

			memset(stepping.actions, 0, sizeof(stepping.actions));
			stepping.actions[0] = (enum action)first;
			interrupted_call(at, false, LONG_TICKS);
			stepping.count += take(stepping.calls + stepping.count, 16 - stepping.count);
			xp_call_ring_end(&test.ring);
			hole = test.ring.lost;
			entries = count_word(word(XP_EVENT_ENTRY)) + taken_back() - has(SHORT);
			exits = count_word(word(TAIL));
			assert_in_range(entries + hole, 1, 1 + exits + (entries && hole));
			assert_in_range(entries, 0, 1);
			assert_in_range(hole, 0, 1);
			assert_int_equal(stepping.count, count_word(word(XP_EVENT_ENTRY)) + exits + 2 * has(KEPT));
			holes += hole;
			dropped += taken_back() > has(SHORT);
			unmap_stub();
		}
	assert_true(holes > 5 && dropped > 5);
}

/* ---- The reader on another CPU ---- */

#define CALLS_AT_ONCE 60000

static struct {
	bool done;
	uint64_t taken;
	uint64_t wrong;
	uint64_t dropped;
} beside;

/* Alternately polls and reads everything. The calls that it reads are complete: at most one is open. */
static void *read_beside(void *arg)
{
	struct xp_call calls[64];
	uint32_t open = 0;
	bool done;

	(void)arg;
	do {
		size_t count;

		done = __atomic_load_n(&beside.done, __ATOMIC_ACQUIRE);
		count = beside.taken % 3 ? take(calls, 64) : poll_ring(calls, 64);
		beside.taken += count + !count;
		for (size_t i = 0; i < count; i++) {
			bool is_entry = calls[i].word >> XP_FN_BITS == XP_EVENT_ENTRY;
			uint32_t fn = calls[i].word & XP_FN_MAX;

			beside.wrong += is_entry ? open != 0 : fn != open;
			open = is_entry ? fn : 0;
		}
		beside.taken -= !count;
		beside.dropped += count_taken_back();
		if (!count)
			sched_yield();
		done = done && !count;
	} while (!done);
	beside.wrong += open != 0;
	return NULL;
}

TEST(test_reader_beside)
{
	pthread_t reader;

	memset(&beside, 0, sizeof(beside));
	begin(false, false, 300);
	assert_int_equal(pthread_create(&reader, NULL, read_beside, NULL), 0);
	for (uint32_t i = 1; i <= CALLS_AT_ONCE; i++) {
		while (test.mine->head >= __atomic_load_n(&test.mine->limit, __ATOMIC_ACQUIRE) - 2)
			sched_yield();
		call_slot(test.slot, word_of(i, XP_EVENT_ENTRY));
		for (unsigned int pause = i % 64; pause; pause--)
			__asm__ volatile("pause");
		call_slot(leave, word_of(i, TAIL));
	}
	__atomic_store_n(&beside.done, true, __ATOMIC_RELEASE);
	pthread_join(reader, NULL);
	assert_int_equal(beside.wrong, 0);
	assert_int_equal(beside.dropped, taken_back());
	assert_int_equal(beside.taken + 2 * beside.dropped, 2 * CALLS_AT_ONCE);
	assert_true(beside.dropped > 100 && beside.taken > 100);
	unmap_stub();
}

const char *unit_why_not(void)
{
	return xp_instructions_try().rdfsbase ? NULL : XP_NO_RDFSBASE;
}
