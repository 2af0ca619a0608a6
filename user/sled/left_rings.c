// SPDX-License-Identifier: BSD-2-Clause
#include "sled/left_rings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/util.h"
#include "sled/call_rings.h"
#include "sled/ring_pages.h"
#include "sled/stub_map.h"

/* A thread that is in the stub leaves it in some ns, unless it waits for a CPU. */
#define LEAVE_US 10000

struct xp_left_rings {
	struct xp_stub_map stubs; /* locked */
	uint8_t *memory;
	struct xp_shared_pages pages;
	int fd;		  /* borrowed from the stub */
	uint64_t records; /* of each ring */
	bool wraps;
	bool cleared;
};

/* Of a ring: the process changes the copy no more, and keeps its calls. */
struct copy {
	struct xp_call_slot slot;
	struct xp_call_record *records;
	struct xp_ring_call *calls; /* in it */
	size_t room;
};

static struct xp_ring_owners *owners(const struct xp_left_rings *left)
{
	return (struct xp_ring_owners *)(left->memory + XP_CALL_OWNERS_AT);
}

static int lock_all(const struct xp_stub_map *stubs, pid_t pid, char *why, size_t why_size)
{
	for (size_t i = 0; i < stubs->count; i++) {
		pid_t holder = 0;
		int err = xp_stub_lock(&stubs->list[i], &holder);

		if (err == -EBUSY)
			snprintf(why, why_size, "process %d is being recorded by another xprof (process %d)", pid,
				 holder);
		if (err)
			return err;
	}
	return 0;
}

/* Maps the rings behind a stub, if there are any, and if they are those of the recording. */
static int map_rings(struct xp_left_rings *left, int fd, const uint64_t recording[2])
{
	uint64_t theirs[2];
	int err;

	if (fd < 0)
		return -ENOENT;
	left->memory = mmap(NULL, XP_CALL_RINGS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (left->memory == MAP_FAILED) {
		left->memory = NULL;
		return -errno;
	}
	left->pages = (struct xp_shared_pages){ .start = left->memory, .bytes = XP_CALL_RINGS_BYTES };
	err = xp_shared_pages_guard(&left->pages);
	memcpy(theirs, owners(left)->recording, sizeof(theirs));
	if (!err && (recording ? memcmp(theirs, recording, sizeof(theirs)) : !(theirs[0] | theirs[1])))
		err = -ENOENT;
	left->fd = fd;
	left->records = xp_ring_owners_records(owners(left));
	left->wraps = owners(left)->wraps;
	if (!err)
		return 0;
	xp_shared_pages_forget(&left->pages);
	munmap(left->memory, XP_CALL_RINGS_BYTES);
	left->memory = NULL;
	return err;
}

int xp_left_rings_open(struct xp_left_rings **result, pid_t pid, const uint64_t recording[2], char *why,
		       size_t why_size)
{
	struct xp_left_rings *left = calloc(1, sizeof(*left));
	int err = left ? xp_stub_map_read(&left->stubs, pid) : -ENOMEM;

	why[0] = 0;
	if (!err)
		err = lock_all(&left->stubs, pid, why, why_size);
	if (!err)
		err = -ENOENT;
	for (size_t i = 0; left && i < left->stubs.count && err == -ENOENT; i++)
		err = map_rings(left, left->stubs.list[i].rings, recording);
	if (err == -ENOENT && left->stubs.unopened)
		err = left->stubs.unopened;
	if (!err) {
		*result = left;
		return 0;
	}
	if (!why[0] && err == -ESRCH)
		snprintf(why, why_size, "process %d has ended", pid);
	else if (!why[0] && err == -ENOENT)
		snprintf(why, why_size, "process %d holds no calls of a recording that was cut off", pid);
	else if (!why[0])
		snprintf(why, why_size, "cannot read the calls in process %d: %s", pid, strerror(-err));
	if (left)
		xp_stub_map_free(&left->stubs);
	free(left);
	return err;
}

void xp_left_rings_free(struct xp_left_rings *left)
{
	if (!left)
		return;
	xp_shared_pages_forget(&left->pages);
	munmap(left->memory, XP_CALL_RINGS_BYTES);
	if (left->cleared)
		xp_ring_pages_give_back(left->fd);
	xp_stub_map_free(&left->stubs);
	free(left);
}

/* What the owner of a ring says, checked. Returns false if nobody had it, or if it lies. */
static bool open_ring(const struct xp_left_rings *left, size_t index, struct xp_call_ring *ring,
		      struct xp_ring_owner *owner)
{
	const size_t bytes = left->records * XP_CALL_RECORD_BYTES;

	memcpy(owner, &owners(left)->list[index], sizeof(*owner));
	if (!owner->tid || owner->tid > INT32_MAX || owner->slot >= XP_CALL_SLOTS ||
	    (index + 1) * bytes > XP_CALL_OWNERS_AT - XP_CALL_TABLE_BYTES)
		return false;
	xp_call_ring_resume(ring, (struct xp_call_slot *)left->memory + owner->slot,
			    (struct xp_call_record *)(left->memory + XP_CALL_TABLE_BYTES + index * bytes),
			    left->records, owner->taken);
	ring->wraps = left->wraps;
	return true;
}

void xp_left_rings_recording(const struct xp_left_rings *left, uint64_t recording[2], char *directory)
{
	memcpy(recording, owners(left)->recording, sizeof(owners(left)->recording));
	memcpy(directory, owners(left)->directory, XP_RING_DIRECTORY_BYTES);
	directory[XP_RING_DIRECTORY_BYTES - 1] = 0;
}

uint64_t xp_left_rings_count(const struct xp_left_rings *left)
{
	return xp_ring_owners_count(owners(left), (const struct xp_call_slot *)left->memory);
}

static void free_copy(struct copy *copy)
{
	free(copy->records);
	free(copy->calls);
}

static int new_copy(const struct xp_left_rings *left, struct copy *copy)
{
	copy->room = left->records + XP_CALL_RING_HOLES;
	copy->records = malloc(left->records * sizeof(*copy->records));
	copy->calls = malloc(copy->room * sizeof(*copy->calls));
	return copy->records && copy->calls ? 0 : -ENOMEM;
}

/*
 * A thread that was in the stub for that long may overwrite the oldest records of a ring that wraps, while they are
 * copied: they go by the count that is read afterwards.
 */
static int copy_ring(const struct xp_left_rings *left, struct xp_call_ring *ring, struct copy *copy)
{
	const struct xp_call_slot *slot = ring->slot;

	memcpy(&copy->slot, slot, sizeof(copy->slot));
	memcpy(copy->records, ring->records, left->records * sizeof(*copy->records));
	ring->slot = &copy->slot;
	ring->records = copy->records;
	if (left->wraps) {
		copy->slot.head = __atomic_load_n(&slot->head, __ATOMIC_ACQUIRE);
		xp_call_ring_hold(ring, true);
	}
	copy->slot.head = ring->next + XP_MIN(xp_call_ring_reserved(ring), left->records);
	return left->pages.torn ? -ENOMEM : 0;
}

/* The calls of the copy of a ring, once around. Returns their number. */
static size_t take_ring(struct xp_call_ring *ring, const struct copy *copy)
{
	const struct xp_call_range all = {
		.until_tsc = UINT64_MAX,
		.end = UINT64_MAX,
		.now_tsc = xp_clock_now_tsc(),
		.all = true,
	};
	size_t taken = 0, count;

	do {
		count = xp_call_ring_take(ring, &all, copy->calls + taken, copy->room - taken);
		taken += count;
	} while (taken < copy->room && (count || xp_call_ring_skip(ring)));
	return taken;
}

int xp_left_rings_take(struct xp_left_rings *left, xp_left_rings_taker take, void *arg, struct xp_left_counts *counts)
{
	struct xp_call_slot *table = (struct xp_call_slot *)left->memory;
	struct copy copy = { 0 };
	int err = new_copy(left, &copy);

	*counts = (struct xp_left_counts){ .wraps = left->wraps };
	for (size_t i = 0; i < XP_CALL_SLOTS; i++)
		__atomic_store_n(&table[i].key, 0, __ATOMIC_RELEASE);
	usleep(LEAVE_US);
	for (size_t i = 0; i < XP_CALL_RINGS_MAX && !err; i++) {
		struct xp_ring_owner owner;
		struct xp_call_ring ring;
		size_t count;

		if (!open_ring(left, i, &ring, &owner))
			continue;
		err = copy_ring(left, &ring, &copy);
		if (err)
			break;
		counts->full += !left->wraps && xp_call_ring_left(&ring) >= left->records - XP_CALL_RING_MARGIN;
		count = take_ring(&ring, &copy);
		if (count)
			err = take(arg, (pid_t)owner.tid, copy.calls, count, ring.next > count);
		counts->calls += count;
		counts->lost += ring.lost + ring.hole_count;
		counts->overwritten += ring.overwritten;
		if (owner.taken - owner.stored < 1ull << 40)
			counts->unstored += owner.taken - owner.stored;
		counts->threads++;
	}
	free_copy(&copy);
	return err;
}

void xp_left_rings_clear(struct xp_left_rings *left)
{
	memset(owners(left), 0, sizeof(*owners(left)));
	left->cleared = true;
}
