/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The reader of a call ring: the memory in which the stub (stub_memory.c) records the calls of one thread. The process
 * can write everything there at any time, so each field is read once, nothing is trusted, and each call does bounded
 * work.
 *
 * The writer reserves a record, stores its time, and commits it by its word. The reader takes a committed record,
 * clears its word and then raises the limit up to which the writer may reserve. It ignores the writer's count, and uses
 * its own position and the words.
 *
 * A signal handler that interrupts the stub between the reserve and the commit records its own calls after the
 * interrupted record, which is a hole until the handler returns. An interrupted record may be older or newer than the
 * records after it, so records are sorted by time. The reader waits at a hole: otherwise it could read the entry of the
 * handler before an older record, and the exit after it. If it cannot wait any longer, it continues after the hole and
 * returns to it later. If the handler leaves by longjmp, the hole stays; the reader skips it when it needs the space,
 * and counts it as lost.
 *
 * With --min-duration, the exit of a short call discards its entry, if the entry is the last record. The stub and the
 * reader exchange the word of an entry, so only one of them gets it. The reader can take an entry at any time, but does
 * not take a young entry that is the last record: the exit would follow, and both would have to be filtered later.
 */
#ifndef XPROF_SLED_CALL_RING_H
#define XPROF_SLED_CALL_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/x86_64/stub.h"
#include "event/call.h"

/*
 * Records that the writer may reserve beyond the limit: one for each signal handler that interrupts it between its look
 * at the limit and its reserve.
 */
#define XP_CALL_RING_MARGIN 256u
/* Limit on the holes of a ring, and on the records that wait for older ones: the depth of nested signal handlers. */
#define XP_CALL_RING_HOLES 64u

/* A call that waits for older calls, or for an older record of BPF. */
struct xp_pending_call {
	struct xp_call call; /* its word is what the process has written */
	uint64_t number;     /* in the ring */
};

struct xp_call_ring {
	struct xp_call_header *header;	/* shared */
	struct xp_call_record *records; /* shared */
	uint64_t mask;			/* number of records - 1 */
	uint64_t next;			/* the next record to take */
	uint64_t lost;			/* holes that were given up */
	uint64_t min_ticks;		/* shorter calls are taken back; 0: none are */
	uint64_t taken_back;		/* the part of the writer's count that was returned or refused */
	uint64_t taken_back_tsc;	/* it can have taken those back by then */

	uint64_t gap; /* the hole where the reader waits, plus one; 0: there is none */
	uint64_t gap_tsc;
	uint64_t holes[XP_CALL_RING_HOLES];
	unsigned int hole_count;
	struct xp_pending_call pending[XP_CALL_RING_HOLES]; /* taken, not returned yet; the youngest first */
	unsigned int pending_count;
};

/*
 * Begins an empty ring of a power of two of records, more than 2 * XP_CALL_RING_MARGIN and at most
 * XP_CALL_LARGE_RECORDS. No thread uses it yet.
 */
void xp_call_ring_begin(struct xp_call_ring *ring, struct xp_call_header *header, struct xp_call_record *records,
			uint64_t count);
/* Counts the records from this number on, not from 0. Before a thread uses the ring. */
void xp_call_ring_number_from(struct xp_call_ring *ring, uint64_t first);
/* Lets the writer discard calls that are shorter. Call it before a thread uses the ring. */
void xp_call_ring_drop_short(struct xp_call_ring *ring, uint64_t min_ticks);

/* Which records to take: those that are older than a TSC and whose number in the ring is less than `end`. */
struct xp_call_range {
	uint64_t until_tsc; /* UINT64_MAX: of any time */
	uint64_t end;	    /* UINT64_MAX: of any number */
	uint64_t now_tsc;   /* a TSC that was read before, for the upper bits of the records' times */
	bool all;	    /* also read entries that the writer may still discard, and records after a hole */
	/* The calls that were taken back: those up to this count, of which the low 32 bits are known, or all. */
	bool has_taken_back;
	uint32_t taken_back;
};

/*
 * Where the return address of a record's function is on the stack, as in struct xp_call. sp: of the record. An exit
 * jumps to the stub; the other sleds have pushed a return address.
 */
static inline uint32_t xp_call_record_slot(uint32_t sp, uint32_t kind)
{
	return sp + (kind != XP_EVENT_EXIT);
}

/*
 * Takes up to `room` records, oldest first. Returns their number; less than `room`: there are no more records now.
 * Returns the space to the writer.
 */
size_t xp_call_ring_take(struct xp_call_ring *ring, const struct xp_call_range *range, struct xp_call *calls,
			 size_t room);
/*
 * The usual case of xp_call_ring_take(), for the caller's loop: committed records, none of which is followed by an
 * older one. The caller examines each record, takes the ones it wants, and returns their space to the writer at the
 * end.
 */
struct xp_call_cursor {
	struct xp_call_record *records;
	uint64_t mask;
	uint64_t next;
	uint64_t end;	    /* the number of a record in the ring */
	uint64_t ahead_end; /* where to stop asking for lines: the writer is not farther */
	uint64_t time;	    /* of the next one, with the CPU in the low bits, as it was written */
	uint64_t word;	    /* 0: it is not committed */
};

/*
 * The writer's CPU has the lines of the ring, and the reader writes to them, too: it prefetches a line this many
 * records ahead, if the writer is farther ahead. Without that, it waits for each line twice.
 */
#define XP_CALL_RING_AHEAD 64u

/* The word and the stack pointer of a record, which are one store of the writer; 0: it is not committed. */
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

/* How many records were reserved and not taken. None if the process lies. */
static inline uint64_t xp_call_ring_reserved(const struct xp_call_ring *ring)
{
	uint64_t reserved = __atomic_load_n(&ring->header->head, __ATOMIC_ACQUIRE) - ring->next;

	return reserved > INT64_MAX ? 0 : reserved;
}

/*
 * The number up to which there may be records. The writer has reserved them, so that old records behind that are not
 * taken again. Once around at most: a process may write records as fast as they are taken, and any count.
 */
static inline uint64_t xp_call_ring_end_of(const struct xp_call_ring *ring, const struct xp_call_range *range)
{
	uint64_t reserved = xp_call_ring_reserved(ring);
	uint64_t end = ring->next + (reserved < ring->mask + 1 ? reserved : ring->mask + 1);

	return range->end < end ? range->end : end;
}

/* Begins to read up to `room` records, up to range->end. The caller checks range->until_tsc. */
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

/* Returns the space of the records before `next` to the writer. */
void xp_call_ring_advance(struct xp_call_ring *ring, uint64_t next);

/* The record after the next one, read once. */
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
 * Returns whether the record is not older than the next one. For records of two CPUs at the same time, the result may
 * be false.
 */
static inline bool xp_call_cursor_is_ordered(const struct xp_call_cursor *cursor, struct xp_call_behind behind)
{
	return !behind.word || behind.time >= cursor->time;
}

/* Takes the record, which is committed and ordered. */
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
 * Whether the records must be put in order: some are missing between others, or wait for older ones; or whether the
 * writer may take them back. The loop above is not for them.
 */
static inline bool xp_call_ring_is_disordered(const struct xp_call_ring *ring)
{
	return ring->hole_count || ring->pending_count || ring->min_ticks;
}

/* Whether there is nothing to take. */
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
/* The number of a record of which the low 32 bits are known: the one that is closest to the next one to take. */
uint64_t xp_call_ring_number(const struct xp_call_ring *ring, uint32_t low);

/*
 * Returns the number of records that the thread reserved, as it reports, but that were not returned: at most the
 * capacity.
 */
uint64_t xp_call_ring_left(const struct xp_call_ring *ring);
/* No thread writes any more: gives up the holes. */
void xp_call_ring_end(struct xp_call_ring *ring);

#endif
