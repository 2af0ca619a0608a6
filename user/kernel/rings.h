/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The BPF ring buffers of a recording, one per CPU, read in place.
 *
 * libbpf's ring_buffer passes each record to a callback and frees it immediately. Here, records stay in the ring until
 * merge.h has sorted the records of all CPUs: so the merge needs no other memory, and copies nothing. The layout of a
 * ring is kernel ABI: one page with the consumer position, one with the producer position, then the data, mapped twice
 * in a row. Each record has a header of 8 bytes (linux/bpf.h, BPF_RINGBUF_BUSY_BIT and others).
 */
#ifndef XPROF_KERNEL_RINGS_H
#define XPROF_KERNEL_RINGS_H

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
	uint64_t position;  /* read up to here; *consumer can be lower */
	uint64_t published; /* the value of *consumer */
	uint64_t end;	    /* the producer position at the last xp_ring_snapshot() */
};

struct xp_rings {
	struct xp_ring *rings; /* by CPU number */
	unsigned int count;    /* possible CPUs */
};

/*
 * Creates a ring for every possible CPU and puts the rings into the BPF array of maps outer_fd. Online CPUs get rings
 * of `bytes`; the others, which may come online, get small ones. Returns 0 or the -errno of bpf(2) or mmap(2). The
 * caller frees.
 */
int xp_rings_open(struct xp_rings **rings, int outer_fd, uint64_t bytes);
void xp_rings_free(struct xp_rings *rings);

enum xp_ring_state {
	XP_RING_RECORD, /* there is a record */
	XP_RING_EMPTY,	/* no more records before the snapshot */
	XP_RING_BUSY,	/* the next record is reserved but not yet submitted */
	XP_RING_BROKEN, /* an impossible length: the memory was overwritten */
};

/* Reads the producer position. Later records wait for the next snapshot. */
void xp_ring_snapshot(struct xp_ring *ring);
/* Returns consumed space to the producer. xp_ring_consume() also does this from time to time. */
void xp_ring_publish(struct xp_ring *ring);

/* The per-record functions are inline. */

/* Bytes that a record with a body of `size` occupies in the ring. */
static inline uint64_t xp_ring_room(uint32_t size)
{
	return ((uint64_t)size + BPF_RINGBUF_HDR_SZ + 7) & ~7ull;
}

/* Gets the next record, which stays in the ring until xp_ring_consume(). */
static inline enum xp_ring_state xp_ring_peek(struct xp_ring *ring, const struct xp_event **event, size_t *size)
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
		*event = (const struct xp_event *)(head + BPF_RINGBUF_HDR_SZ);
		*size = length;
		return XP_RING_RECORD;
	}
	return XP_RING_EMPTY;
}

/* Skips the record that xp_ring_peek() returned, of `size` bytes. */
static inline void xp_ring_consume(struct xp_ring *ring, size_t size)
{
	ring->position += xp_ring_room(size);
	/* The producer reads *consumer at each reserve: a write per record would bounce its cache line. */
	if (ring->position - ring->published > ring->mask / 16)
		xp_ring_publish(ring);
}

#endif
