// SPDX-License-Identifier: BSD-2-Clause
#include "sled/call_ring.h"

#include <string.h>

#include "base/clock.h"
#include "base/util.h"
#include "xprof/event.h"

/* Minimum number of TSC ticks that a discarded call costs the thread. */
#define TAKE_BACK_TICKS_MIN 16
#define TIME_BITS (64 - XP_CALL_CPU_BITS)
/* How long the reader waits at a hole: 1 to 2 s. On a busy machine, a signal handler may wait for a CPU that long. */
#define GAP_TICKS (1ull << 32)

static void publish(struct xp_call_ring *ring)
{
	uint64_t end = (ring->hole_count ? ring->holes[0] : ring->next) + ring->mask + 1;

	if (ring->ready <= ring->mask)
		end = ring->first + ring->ready;
	__atomic_store_n(&ring->header->limit, end - XP_CALL_RING_MARGIN, __ATOMIC_RELEASE);
}

void xp_call_ring_begin(struct xp_call_ring *ring, struct xp_call_header *header, struct xp_call_record *records,
			uint64_t count)
{
	memset(ring, 0, sizeof(*ring));
	ring->header = header;
	ring->records = records;
	ring->mask = count - 1;
	ring->ready = count;
	__atomic_store_n(&header->mask, (uint32_t)ring->mask, __ATOMIC_RELAXED);
	__atomic_store_n(&header->min_ticks, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&header->taken_back, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&header->final, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&header->head, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&header->limit, count - XP_CALL_RING_MARGIN, __ATOMIC_RELEASE);
}

void xp_call_ring_number_from(struct xp_call_ring *ring, uint64_t first)
{
	ring->first = ring->next = first;
	__atomic_store_n(&ring->header->final, first, __ATOMIC_RELAXED);
	__atomic_store_n(&ring->header->head, first, __ATOMIC_RELAXED);
	publish(ring);
}

void xp_call_ring_set_ready(struct xp_call_ring *ring, uint64_t ready)
{
	ring->ready = ready;
	publish(ring);
}

void xp_call_ring_drop_short(struct xp_call_ring *ring, uint64_t min_ticks)
{
	ring->min_ticks = XP_MIN(min_ticks, (1ull << TIME_BITS) - 1);
	ring->taken_back_tsc = xp_clock_now_tsc();
	__atomic_store_n(&ring->header->min_ticks, ring->min_ticks << XP_CALL_CPU_BITS, __ATOMIC_RELEASE);
}

/* A record has only the low bits of the TSC: completes them to the value closest to now. */
static inline uint64_t whole_tsc(uint64_t time, uint64_t now_tsc)
{
	const uint64_t range = 1ull << TIME_BITS;
	uint64_t tsc = (now_tsc & ~(range - 1)) | time >> XP_CALL_CPU_BITS;

	if (tsc > now_tsc + range / 2)
		return tsc < range ? tsc : tsc - range;
	return now_tsc > tsc + range / 2 ? tsc + range : tsc;
}

static inline struct xp_call call_of(uint64_t time, uint64_t word, uint64_t now_tsc)
{
	return (struct xp_call){ .tsc = whole_tsc(time, now_tsc),
				 .word = (uint32_t)word,
				 .slot = xp_call_record_slot((uint32_t)(word >> 32), (uint32_t)word >> XP_FN_BITS),
				 .cpu = time & ((1u << XP_CALL_CPU_BITS) - 1),
				 .in_memory = true };
}

/* Reads a record and clears its word, if the record is committed. */
static bool take_record(struct xp_call_ring *ring, uint64_t position, uint64_t now_tsc, struct xp_call *call)
{
	struct xp_call_record *record = &ring->records[position & ring->mask];
	uint64_t word = xp_call_record_word(record);

	if (word && ring->min_ticks)
		word = __atomic_exchange_n((uint64_t *)record + 1, 0, __ATOMIC_ACQ_REL);
	if (!(uint32_t)word)
		return false;
	*call = call_of(xp_call_record_time(record), word, now_tsc);
	if (!ring->min_ticks)
		__atomic_store_n((uint64_t *)record + 1, 0, __ATOMIC_RELAXED);
	return true;
}

/* Inserts a record by time. The caller checks that there is space for it. */
static void put_pending(struct xp_call_ring *ring, const struct xp_call *call, uint64_t number)
{
	unsigned int i = ring->pending_count++;

	for (; i && ring->pending[i - 1].call.tsc <= call->tsc; i--)
		ring->pending[i] = ring->pending[i - 1];
	ring->pending[i] = (struct xp_pending_call){ *call, number };
}

/* Reads the records of holes that have been committed since. */
static void fill_holes(struct xp_call_ring *ring, uint64_t now_tsc)
{
	unsigned int kept = 0;

	for (unsigned int i = 0; i < ring->hole_count; i++) {
		struct xp_call call;

		if (ring->pending_count < XP_CALL_RING_HOLES && take_record(ring, ring->holes[i], now_tsc, &call))
			put_pending(ring, &call, ring->holes[i]);
		else
			ring->holes[kept++] = ring->holes[i];
	}
	ring->hole_count = kept;
}

/* The thread needs the space: a hole this old is never committed, because a handler left by longjmp. */
static void give_up_holes(struct xp_call_ring *ring)
{
	while (ring->hole_count && ring->next - ring->holes[0] > ring->mask / 2) {
		memmove(ring->holes, ring->holes + 1, --ring->hole_count * sizeof(*ring->holes));
		ring->lost++;
	}
}

/* Returns the index of the first committed record, from the next one to `count`; `count`: there is none. */
static uint64_t find_committed(const struct xp_call_ring *ring, uint64_t count)
{
	uint64_t i = 0;

	while (i < count && !xp_call_record_word(&ring->records[(ring->next + i) & ring->mask]))
		i++;
	return i;
}

/*
 * Returns how many reserved, uncommitted records precede the first committed one. UINT64_MAX: there is no committed
 * record, or too many precede it.
 */
static uint64_t count_holes(const struct xp_call_ring *ring)
{
	uint64_t room = XP_CALL_RING_HOLES - ring->hole_count + 1;
	uint64_t reserved = xp_call_ring_reserved(ring);
	uint64_t limit = reserved > ring->mask + 1 ? 0 : XP_MIN(reserved, room);
	uint64_t count = find_committed(ring, limit), again;

	if (count == limit)
		return UINT64_MAX;
	/* An earlier record may have been committed meanwhile: it is not a hole. */
	while ((again = find_committed(ring, count)) < count)
		count = again;
	return count;
}

/* Records that must not be read yet, because the thread may discard them. */
struct young {
	uint64_t begin; /* index of the first of the last records that are all entries */
	uint64_t tsc;	/* entries from this TSC on are young */
};

/* Goes back from the last record to the last exit: an exit, and the records before it, cannot be discarded. */
static struct young find_young(const struct xp_call_ring *ring, const struct xp_call_range *range)
{
	struct young young = { .begin = UINT64_MAX, .tsc = range->now_tsc - XP_MIN(ring->min_ticks, range->now_tsc) };
	uint64_t final;

	if (!ring->min_ticks || range->all)
		return young;
	young.begin = ring->next + XP_MIN(xp_call_ring_reserved(ring), ring->mask + 1);
	final = __atomic_load_n(&ring->header->final, __ATOMIC_RELAXED);
	while (young.begin != ring->next && young.begin != final) {
		uint32_t word = (uint32_t)xp_call_record_word(&ring->records[(young.begin - 1) & ring->mask]);

		if (word >> XP_FN_BITS != XP_EVENT_ENTRY)
			break;
		young.begin--;
	}
	return young;
}

static bool is_young(const struct xp_call_ring *ring, const struct young *young, uint64_t position, uint64_t now_tsc)
{
	const struct xp_call_record *record = &ring->records[position & ring->mask];

	return position >= young->begin && whole_tsc(xp_call_record_time(record), now_tsc) >= young->tsc;
}

/* Returns whether to wait longer for the next record, which is interrupted and not committed. */
static bool waits_at_gap(struct xp_call_ring *ring, const struct xp_call_range *range)
{
	if (range->all || range->end != UINT64_MAX)
		return false;
	if (ring->gap != ring->next + 1) {
		ring->gap = ring->next + 1;
		ring->gap_tsc = range->now_tsc;
	}
	return range->now_tsc - ring->gap_tsc < GAP_TICKS && xp_call_ring_reserved(ring) < ring->mask / 2;
}

/* Reads the next record in the order of the ring. Skips uncommitted records if a committed one follows. */
static bool next_record(struct xp_call_ring *ring, const struct xp_call_range *range, const struct young *young,
			struct xp_call *call)
{
	const uint64_t now_tsc = range->now_tsc;
	uint64_t holes = 0;

	if (is_young(ring, young, ring->next, now_tsc))
		return false;
	if (!take_record(ring, ring->next, now_tsc, call)) {
		holes = count_holes(ring);
		/* After this, the uncommitted record cannot be discarded: a later record is read first. */
		if (holes == UINT64_MAX || (holes && waits_at_gap(ring, range)) ||
		    is_young(ring, young, ring->next + holes, now_tsc) ||
		    !take_record(ring, ring->next + holes, now_tsc, call))
			return false;
	}
	while (holes--)
		ring->holes[ring->hole_count++] = ring->next++;
	ring->next++;
	return true;
}

/* Returns whether a signal handler that interrupted this record wrote the next one. */
static bool is_before_older(const struct xp_call_ring *ring, const struct xp_call *call, uint64_t now_tsc)
{
	const struct xp_call_record *record = &ring->records[ring->next & ring->mask];

	return xp_call_record_word(record) && whole_tsc(xp_call_record_time(record), now_tsc) < call->tsc;
}

/*
 * Returns whether the next record is from this TSC or later, and was not interrupted by a handler that wrote the record
 * after it.
 */
static bool is_too_young(const struct xp_call_ring *ring, uint64_t until_tsc, uint64_t now_tsc)
{
	const struct xp_call_record *record = &ring->records[ring->next & ring->mask];
	const struct xp_call_record *after = &ring->records[(ring->next + 1) & ring->mask];
	uint64_t tsc = whole_tsc(xp_call_record_time(record), now_tsc);

	if (!xp_call_record_word(record) || tsc < until_tsc)
		return false;
	return !xp_call_record_word(after) || whole_tsc(xp_call_record_time(after), now_tsc) >= tsc;
}

/*
 * Returns pending records of the range up to last_tsc, oldest first. Omits records after the end of the range: they
 * were read from after a hole, or committed while the reader was at it.
 */
static size_t return_pending(struct xp_call_ring *ring, const struct xp_call_range *range, uint64_t last_tsc,
			     struct xp_call *calls, size_t room)
{
	size_t count = 0;

	for (unsigned int i = ring->pending_count; i && count < room; i--) {
		struct xp_pending_call *oldest = &ring->pending[i - 1];

		if (oldest->call.tsc >= range->until_tsc || oldest->call.tsc > last_tsc)
			break;
		if (oldest->number >= range->end)
			continue;
		calls[count++] = oldest->call;
		memmove(oldest, oldest + 1, (ring->pending_count-- - i) * sizeof(*oldest));
	}
	return count;
}

void xp_call_ring_advance(struct xp_call_ring *ring, uint64_t next)
{
	ring->next = next;
	publish(ring);
}

/* The usual case: committed records that are already sorted by time. */
static size_t take_ordered(struct xp_call_ring *ring, const struct xp_call_range *range, struct xp_call *calls,
			   size_t room)
{
	struct xp_call_cursor cursor = xp_call_cursor_begin(ring, range, room);
	size_t count = 0;

	for (; cursor.next < cursor.end && cursor.word; count++) {
		struct xp_call_behind behind = xp_call_cursor_behind(&cursor);

		calls[count] = call_of(cursor.time, cursor.word, range->now_tsc);
		if (calls[count].tsc >= range->until_tsc || !xp_call_cursor_is_ordered(&cursor, behind))
			break;
		xp_call_cursor_take(&cursor, behind);
	}
	ring->next = cursor.next;
	return count;
}

size_t xp_call_ring_take(struct xp_call_ring *ring, const struct xp_call_range *range, struct xp_call *calls,
			 size_t room)
{
	const uint64_t end = xp_call_ring_end_of(ring, range);
	const uint64_t until_tsc = range->until_tsc, now_tsc = range->now_tsc;
	const struct young young = find_young(ring, range);
	size_t count = 0, returned;
	struct xp_call call;

	fill_holes(ring, now_tsc);
	for (;;) {
		if (!xp_call_ring_is_disordered(ring))
			count += take_ordered(ring, range, calls + count, room - count);
		if (count == room)
			break;
		if (ring->next < end && ring->pending_count < XP_CALL_RING_HOLES &&
		    !is_too_young(ring, until_tsc, now_tsc) && next_record(ring, range, &young, &call)) {
			put_pending(ring, &call, ring->next - 1);
			if (!is_before_older(ring, &call, now_tsc))
				count += return_pending(ring, range, call.tsc, calls + count, room - count);
			continue;
		}
		returned = return_pending(ring, range, UINT64_MAX, calls + count, room - count);
		count += returned;
		if (!returned)
			break;
	}
	give_up_holes(ring);
	publish(ring);
	return count;
}

uint32_t xp_call_ring_told_taken_back(const struct xp_call_ring *ring)
{
	return (uint32_t)__atomic_load_n(&ring->header->taken_back, __ATOMIC_RELAXED);
}

uint64_t xp_call_ring_taken_back(struct xp_call_ring *ring, const struct xp_call_range *range)
{
	const uint64_t mask = (1ull << XP_CALL_TAKEN_BACK_BITS) - 1;
	uint64_t told = __atomic_load_n(&ring->header->taken_back, __ATOMIC_RELAXED) & mask;
	uint64_t count = (told - ring->taken_back) & mask, ticks = range->now_tsc - ring->taken_back_tsc;

	if (range->has_taken_back)
		count = XP_MIN(count, (uint64_t)XP_MAX((int32_t)(range->taken_back - (uint32_t)ring->taken_back), 0));
	if (!ring->min_ticks || !count)
		return 0;
	ring->taken_back += count;
	count = XP_MIN(count, ticks / TAKE_BACK_TICKS_MIN);
	ring->taken_back_tsc += count * TAKE_BACK_TICKS_MIN;
	return count;
}

uint64_t xp_call_ring_number(const struct xp_call_ring *ring, uint32_t low)
{
	return ring->next + (uint64_t)(int64_t)(int32_t)(low - (uint32_t)ring->next);
}

uint64_t xp_call_ring_left(const struct xp_call_ring *ring)
{
	return ring->hole_count + ring->pending_count + XP_MIN(xp_call_ring_reserved(ring), ring->mask + 1);
}

void xp_call_ring_end(struct xp_call_ring *ring)
{
	/* Reserved but never committed: the process was killed there, or reports a false count. */
	ring->lost += ring->hole_count + XP_MIN(xp_call_ring_reserved(ring), ring->mask + 1);
	ring->hole_count = 0;
}
