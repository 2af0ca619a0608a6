// SPDX-License-Identifier: BSD-2-Clause
/* The memory of a flight recorder. */
#include "trace/flight.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/util.h"

struct xp_flight {
	uint8_t *data;
	uint64_t size;
	uint64_t head; /* position of the oldest frame; positions count up, past the end of the memory */
	uint64_t tail; /* position after the newest frame */
};

_Static_assert(sizeof(struct xp_flight_frame) % 8 == 0, "frames stay aligned");

int xp_flight_new(struct xp_flight **result, uint64_t bytes)
{
	struct xp_flight *flight = calloc(1, sizeof(*flight));

	if (!flight)
		return -ENOMEM;
	flight->data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (flight->data == MAP_FAILED) {
		free(flight);
		return -ENOMEM;
	}
	flight->size = bytes;
	*result = flight;
	return 0;
}

void xp_flight_free(struct xp_flight *flight)
{
	if (!flight)
		return;
	munmap(flight->data, flight->size);
	free(flight);
}

static uint64_t room_of(uint32_t bytes)
{
	return sizeof(struct xp_flight_frame) + (((uint64_t)bytes + 7) & ~7ull);
}

static uint64_t left_in_lap(const struct xp_flight *flight, uint64_t pos)
{
	return flight->size - (pos & (flight->size - 1));
}

static struct xp_flight_frame *frame_at(const struct xp_flight *flight, uint64_t pos)
{
	return (struct xp_flight_frame *)(flight->data + (pos & (flight->size - 1)));
}

/* Returns the position after the frame or gap at pos. */
static uint64_t behind(const struct xp_flight *flight, uint64_t pos)
{
	uint64_t left = left_in_lap(flight, pos);

	if (left < sizeof(struct xp_flight_frame) || frame_at(flight, pos)->kind == XP_FLIGHT_SKIP)
		return pos + left;
	return pos + room_of(frame_at(flight, pos)->bytes);
}

static void make_room(struct xp_flight *flight, uint64_t need)
{
	while (flight->tail + need - flight->head > flight->size)
		flight->head = behind(flight, flight->head);
}

/* Adds a frame with space for its bytes; NULL if the frame can never fit. */
static struct xp_flight_frame *add_frame(struct xp_flight *flight, const struct xp_thread *thread,
					 enum xp_flight_kind kind, uint64_t bytes)
{
	uint64_t need = bytes <= flight->size ? room_of(bytes) : UINT64_MAX, left;
	struct xp_flight_frame *frame;

	/* A frame uses at most half of the memory, so the gap that it may leave at the end is at most half, too. */
	if (need > flight->size / 2)
		return NULL;
	left = left_in_lap(flight, flight->tail);
	if (left < need) {
		make_room(flight, left);
		if (left >= sizeof(*frame))
			frame_at(flight, flight->tail)->kind = XP_FLIGHT_SKIP;
		flight->tail += left;
	}
	make_room(flight, need);
	frame = frame_at(flight, flight->tail);
	*frame = (struct xp_flight_frame){ .bytes = bytes, .kind = kind, .serial = thread->serial, .tid = thread->tid };
	memcpy(frame->name, thread->name, sizeof(frame->name));
	flight->tail += need;
	return frame;
}

int xp_flight_add_chunk(struct xp_flight *flight, const struct xp_thread *thread)
{
	struct xp_flight_frame *frame = add_frame(flight, thread, XP_FLIGHT_CHUNK, thread->enc.len);

	if (!frame)
		return -ENOSPC;
	frame->typed = thread->enc.has_typed;
	frame->records = thread->chunk_written;
	memcpy(frame + 1, thread->enc.buf, thread->enc.len);
	return 0;
}

void xp_flight_add_stack(struct xp_flight *flight, const struct xp_thread *thread)
{
	struct xp_flight_frame *frame =
	    thread->depth ? add_frame(flight, thread, XP_FLIGHT_STACK, thread->depth * sizeof(uint32_t)) : NULL;
	uint32_t *ids;

	if (!frame)
		return;
	ids = (uint32_t *)(frame + 1);
	for (uint32_t i = 0; i < thread->depth; i++)
		ids[i] = thread->frames[i].fn_id & ~XP_FRAME_FORGOTTEN;
}

struct xp_flight_frame *xp_flight_next(const struct xp_flight *flight, uint64_t *pos)
{
	uint64_t at = XP_MAX(*pos, flight->head);
	struct xp_flight_frame *frame;

	while (at < flight->tail &&
	       (left_in_lap(flight, at) < sizeof(*frame) || frame_at(flight, at)->kind == XP_FLIGHT_SKIP))
		at = behind(flight, at);
	if (at >= flight->tail)
		return NULL;
	frame = frame_at(flight, at);
	*pos = behind(flight, at);
	return frame;
}
