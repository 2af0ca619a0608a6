/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The BPF ring buffers of a recording, one per CPU, read in place.
 *
 * libbpf's ring_buffer hands every record to a callback and frees it at once. Here records wait in the ring until
 * merge.h has put those of all CPUs in order: the rings themselves are the merge's memory, nothing is copied.
 * The layout of a ring is kernel ABI: one page with the consumer's position, one with the producer's, then the data,
 * mapped twice in a row; each record has a head of 8 bytes (linux/bpf.h, BPF_RINGBUF_BUSY_BIT and others).
 */
#ifndef XPROF_RINGS_H
#define XPROF_RINGS_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "xprof/event.h"

struct xp_ring {
	int map_fd;
	uint8_t *data;
	uint64_t mask; /* size in bytes - 1 */
	uint64_t *consumer;
	const uint64_t *producer;
	uint64_t position;  /* read up to here; *consumer follows */
	uint64_t published; /* what *consumer is */
	uint64_t end;	    /* the producer's position when xp_ring_snapshot() was called */
};

struct xp_rings {
	struct xp_ring *rings; /* index: CPU number */
	unsigned int count;    /* possible CPUs */
};

/*
 * Creates a ring for every possible CPU, `bytes` large for those online and small for the others, which may come
 * online, and puts them into the BPF array of maps outer_fd. Errors: those of bpf(2) and mmap(2). The caller frees.
 */
int xp_rings_open(struct xp_rings **rings, int outer_fd, uint64_t bytes);
void xp_rings_free(struct xp_rings *rings);

enum xp_ring_state {
	XP_RING_RECORD, /* there is a record */
	XP_RING_EMPTY,	/* nothing more up to the snapshot */
	XP_RING_BUSY,	/* the next record is reserved but not yet submitted */
	XP_RING_BROKEN, /* a length that cannot be: the memory was overwritten */
};

/* Looks how far the producer is: what comes later is left for the next snapshot. */
void xp_ring_snapshot(struct xp_ring *ring);
/* Gives what was consumed back to the producer; xp_ring_consume() does it by itself from time to time. */
void xp_ring_publish(struct xp_ring *ring);

/* What is done for each record is here, to be inlined. */

/* Bytes that a record with a body of `size` takes in the ring. */
static inline uint64_t xp_ring_room(uint32_t size)
{
	return ((uint64_t)size + BPF_RINGBUF_HDR_SZ + 7) & ~7ull;
}

/* The next record, which stays in the ring until xp_ring_consume(). */
static inline enum xp_ring_state xp_ring_peek(struct xp_ring *ring, const struct xp_rec **rec, size_t *size)
{
	while (ring->position < ring->end) {
		const uint8_t *head = ring->data + (ring->position & ring->mask);
		uint32_t word = __atomic_load_n((const uint32_t *)head, __ATOMIC_ACQUIRE);
		uint32_t length = word & ~(BPF_RINGBUF_BUSY_BIT | BPF_RINGBUF_DISCARD_BIT);

		if (word & BPF_RINGBUF_BUSY_BIT)
			return XP_RING_BUSY;
		if (xp_ring_room(length) > ring->end - ring->position || xp_ring_room(length) > ring->mask + 1)
			return XP_RING_BROKEN;
		if (word & BPF_RINGBUF_DISCARD_BIT) {
			ring->position += xp_ring_room(length);
			continue;
		}
		*rec = (const struct xp_rec *)(head + BPF_RINGBUF_HDR_SZ);
		*size = length;
		return XP_RING_RECORD;
	}
	return XP_RING_EMPTY;
}

/* Leaves the record behind that xp_ring_peek() gave, `size` bytes long. */
static inline void xp_ring_consume(struct xp_ring *ring, size_t size)
{
	ring->position += xp_ring_room(size);
	/* The producer reads *consumer at each reserve: a write for each record would bounce its cache line. */
	if (ring->position - ring->published > ring->mask / 16)
		xp_ring_publish(ring);
}

#endif
