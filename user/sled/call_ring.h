/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The reader of a call ring: the memory in which the stub (stub_memory.c) records the calls of one thread. The process
 * can write anything there at any time, so the reader reads each field once, trusts nothing, and does bounded work.
 *
 * The writer is the thread: it reserves a record, stores its time, and commits it by its word. The reader reads a
 * committed record, clears its word and then raises the limit up to which the writer may reserve. It ignores the
 * writer's count and uses its own position and the words.
 *
 * A signal handler that interrupts the stub between the reserve and the commit records its own calls after the
 * interrupted record, which is a hole until the handler returns. An interrupted record may be older or newer than the
 * records after it, so the reader sorts records by time. It waits at a hole: otherwise it could read the entry of the
 * handler before an older record, and the exit after it. If it cannot wait any longer, it continues after the hole and
 * returns to the hole later. If the handler leaves by longjmp, the hole stays; the reader skips it when the writer
 * needs the space, and counts it as lost.
 *
 * With --min-duration, the exit of a short call discards its entry, if the entry is the last record. Both the stub and
 * the reader clear the word of an entry atomically, so only one of them gets it. The reader leaves a recent entry alone
 * if it is the last record: its exit would follow, and xprof would have to filter both later.
 */
#ifndef XPROF_SLED_CALL_RING_H
#define XPROF_SLED_CALL_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/x86_64/stub.h"
#include "event/call.h"

/*
 * Records that the writer may reserve beyond the limit: one for each signal handler that interrupts it between the test
 * of the limit and the reserve.
 */
#define XP_CALL_RING_MARGIN 256u
/* Limit on the holes of a ring, and on the records that wait for older records: the depth of nested signal handlers. */
#define XP_CALL_RING_HOLES 64u

/* A call that waits for older calls, or for an older BPF record. */
struct xp_pending_call {
	struct xp_call call; /* its word is untrusted */
	uint64_t number;     /* number of its record in the ring */
};

struct xp_call_ring {
	struct xp_call_header *header;	/* shared */
	struct xp_call_record *records; /* shared */
	uint64_t mask;			/* number of records - 1 */
	uint64_t first;			/* number of the first record */
	uint64_t ready;			/* number of records, from the first on, that have pages; mask + 1: all */
	uint64_t next;			/* the next record to take */
	uint64_t lost;			/* number of holes that were given up */
	uint64_t min_ticks;		/* shorter calls are discarded; 0: none */
	uint64_t taken_back;		/* part of the writer's count that was returned or refused */
	uint64_t taken_back_tsc;	/* time up to which calls can be in taken_back */

	uint64_t gap; /* the hole at which the reader waits, plus one; 0: none */
	uint64_t gap_tsc;
	uint64_t holes[XP_CALL_RING_HOLES];
	unsigned int hole_count;
	struct xp_pending_call pending[XP_CALL_RING_HOLES]; /* read, not returned yet; the youngest first */
	unsigned int pending_count;
};

/*
 * Begins an empty ring of a power of two of records, more than 2 * XP_CALL_RING_MARGIN and at most
 * XP_CALL_LARGE_RECORDS. No thread uses it yet.
 */
void xp_call_ring_begin(struct xp_call_ring *ring, struct xp_call_header *header, struct xp_call_record *records,
			uint64_t count);
/* Counts records from this number instead of 0. Call it before a thread uses the ring. */
void xp_call_ring_number_from(struct xp_call_ring *ring, uint64_t first);
/* Lets the writer use only this number of records, from the first on, until more have pages. */
void xp_call_ring_set_ready(struct xp_call_ring *ring, uint64_t ready);
/* Lets the writer discard calls that are shorter. Call it before a thread uses the ring. */
void xp_call_ring_drop_short(struct xp_call_ring *ring, uint64_t min_ticks);

/* Which records to read: older than a TSC, and with a number in the ring less than `end`. */
struct xp_call_range {
	uint64_t until_tsc; /* UINT64_MAX: all times */
	uint64_t end;	    /* UINT64_MAX: all numbers */
	uint64_t now_tsc;   /* a recent TSC, to complete the upper bits of the records' times */
	bool all;	    /* also read entries that the writer may still discard, and records after a hole */
	/* Discarded calls up to this count, of which the low 32 bits are known; or all. */
	bool has_taken_back;
	uint32_t taken_back;
};

/*
 * Returns where the return address of a record's function is on the stack, as in struct xp_call. sp: of the record. An
 * exit jumps to the stub; the other sleds push a return address.
 */
static inline uint32_t xp_call_record_slot(uint32_t sp, uint32_t kind)
{
	return sp + (kind != XP_EVENT_EXIT);
}

/*
 * Reads up to `room` records, oldest first, and releases their space. Returns their number; if it is less than `room`,
 * there are no more records now.
 */
size_t xp_call_ring_take(struct xp_call_ring *ring, const struct xp_call_range *range, struct xp_call *calls,
			 size_t room);
/*
 * The usual case of xp_call_ring_take(), for the caller's loop: committed records that are sorted by time. The caller
 * checks each record, reads the ones it wants, and releases their space at the end.
 */
struct xp_call_cursor {
	struct xp_call_record *records;
	uint64_t mask;
	uint64_t next;
	uint64_t end;	    /* number of a record in the ring */
	uint64_t ahead_end; /* no prefetch from here on: the writer is not farther */
	uint64_t time;	    /* time of the next record, with the CPU in the low bits, as the writer stored it */
	uint64_t word;	    /* 0: the record is not committed */
};

/*
 * The reader prefetches this many records ahead, if the writer is farther ahead. The writer's CPU has the cache lines
 * of the ring, and the reader writes to them, too: without prefetching, it waits for each line twice.
 */
#define XP_CALL_RING_AHEAD 64u

/*
 * Returns the word and the stack pointer of a record, which the writer stores together; 0: the record is not committed.
 */
static inline uint64_t xp_call_record_word(const struct xp_call_record *record)
{
	uint64_t word;

	_Static_assert(offsetof(struct xp_call_record, word) == 8, "the second half");
	word = __atomic_load_n((const uint64_t *)record + 1, __ATOMIC_ACQUIRE);
	return (uint32_t)word ? word : 0;
}

static inline uint64_t xp_call_record_time(const struct xp_call_record *record)
{
	return __atomic_load_n(&record->time, __ATOMIC_RELAXED);
}

/* Returns how many records were reserved and not read; 0 if the process reports a false count. */
static inline uint64_t xp_call_ring_reserved(const struct xp_call_ring *ring)
{
	uint64_t reserved = __atomic_load_n(&ring->header->head, __ATOMIC_ACQUIRE) - ring->next;

	return reserved > INT64_MAX ? 0 : reserved;
}

/*
 * Returns the number up to which there may be records. Never goes beyond the records that the writer has reserved,
 * which would read old records again, nor once around the ring: a process may write records as fast as they are read,
 * and any count.
 */
static inline uint64_t xp_call_ring_end_of(const struct xp_call_ring *ring, const struct xp_call_range *range)
{
	uint64_t reserved = xp_call_ring_reserved(ring);
	uint64_t end = ring->next + (reserved < ring->mask + 1 ? reserved : ring->mask + 1);

	return range->end < end ? range->end : end;
}

/* Starts to read up to `room` records, up to range->end. The caller checks range->until_tsc. */
static inline struct xp_call_cursor xp_call_cursor_begin(const struct xp_call_ring *ring,
							 const struct xp_call_range *range, size_t room)
{
	const struct xp_call_record *record = &ring->records[ring->next & ring->mask];
	uint64_t end = xp_call_ring_end_of(ring, range);

	return (struct xp_call_cursor){
		.records = ring->records,
		.mask = ring->mask,
		.next = ring->next,
		.end = end < ring->next + room ? end : ring->next + room,
		.ahead_end = end > XP_CALL_RING_AHEAD ? end - XP_CALL_RING_AHEAD : 0,
		.word = xp_call_record_word(record),
		.time = xp_call_record_time(record),
	};
}

/* Releases the space of the records before `next` to the writer. */
void xp_call_ring_advance(struct xp_call_ring *ring, uint64_t next);

/* The record after the next one, read only once. */
struct xp_call_behind {
	uint64_t time;
	uint64_t word;
};

static inline __attribute__((always_inline)) struct xp_call_behind
xp_call_cursor_behind(const struct xp_call_cursor *cursor)
{
	const struct xp_call_record *record = &cursor->records[(cursor->next + 1) & cursor->mask];

	return (struct xp_call_behind){ .word = xp_call_record_word(record), .time = xp_call_record_time(record) };
}

/*
 * Returns whether the record after the next one is not older. May return false for two records of the same time from
 * two CPUs.
 */
static inline bool xp_call_cursor_is_ordered(const struct xp_call_cursor *cursor, struct xp_call_behind behind)
{
	return !behind.word || behind.time >= cursor->time;
}

/* Reads the record, which is committed and sorted. */
static inline __attribute__((always_inline)) void xp_call_cursor_take(struct xp_call_cursor *cursor,
								      struct xp_call_behind behind)
{
	uint64_t *word = (uint64_t *)&cursor->records[cursor->next & cursor->mask] + 1;

	__atomic_store_n(word, 0, __ATOMIC_RELAXED);
	if (!(cursor->next % 4) && cursor->next < cursor->ahead_end)
		__builtin_prefetch(&cursor->records[(cursor->next + XP_CALL_RING_AHEAD) & cursor->mask], 1);
	cursor->next++;
	cursor->word = behind.word;
	cursor->time = behind.time;
}

/*
 * Returns whether the records need the slow path: some are missing or wait for older ones, or the writer may discard
 * them. The loop above cannot read them.
 */
static inline bool xp_call_ring_is_disordered(const struct xp_call_ring *ring)
{
	return ring->hole_count || ring->pending_count || ring->min_ticks;
}

/* Returns whether there are no records to read. */
static inline bool xp_call_ring_is_empty(const struct xp_call_ring *ring)
{
	return !xp_call_ring_is_disordered(ring) &&
	       __atomic_load_n(&ring->header->head, __ATOMIC_ACQUIRE) == ring->next;
}

/* Returns the number of discarded calls that the writer reports, the low 32 bits. */
uint32_t xp_call_ring_told_taken_back(const struct xp_call_ring *ring);
/*
 * Returns the number of calls that the writer discarded since the last time. It is at most the number that is possible,
 * even if the writer reports more.
 */
uint64_t xp_call_ring_taken_back(struct xp_call_ring *ring, const struct xp_call_range *range);
/* Completes the number of a record from its low 32 bits: the number closest to the next record to read. */
uint64_t xp_call_ring_number(const struct xp_call_ring *ring, uint32_t low);

/* Returns how many records the thread claims to have reserved and that were not returned: at most the capacity. */
uint64_t xp_call_ring_left(const struct xp_call_ring *ring);
/* Call this when no thread writes any more: gives up the holes. */
void xp_call_ring_end(struct xp_call_ring *ring);

#endif
