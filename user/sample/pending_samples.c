/* SPDX-License-Identifier: BSD-2-Clause */
#include "sample/pending_samples.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

#define WAIT_SECONDS 5
#define SAMPLE_BYTES (9u << 10)

size_t xp_pending_samples_limit(uint64_t hz, unsigned int cpus)
{
	uint64_t bytes_per_hz = (uint64_t)cpus * WAIT_SECONDS * SAMPLE_BYTES;

	if (!hz || hz > XP_WAITING_BYTES_MAX / bytes_per_hz)
		return XP_WAITING_BYTES_MAX;
	return XP_MAX(hz * bytes_per_hz, (uint64_t)XP_WAITING_BYTES_MIN);
}

static size_t sample_bytes(size_t size)
{
	return offsetof(struct xp_pending_sample, record) + size;
}

/* Returns the size of an address space, or 0 if another waiting sample holds the same one and it is already counted. */
static size_t space_bytes(const struct xp_address_space *space)
{
	return space->waiters
		   ? 0
		   : sizeof(*space) + space->count * sizeof(*space->vmas) + space->jit_count * sizeof(*space->jit);
}

int xp_pending_samples_add(struct xp_pending_samples *waiting, const struct xp_pending_sample *from,
			   const struct xp_event_sample *record)
{
	size_t bytes = sample_bytes(from->size) + space_bytes(from->space);
	struct xp_pending_sample *sample;

	if (waiting->bytes + bytes > waiting->bytes_max)
		return -ENOSPC;
	sample = malloc(sample_bytes(from->size));
	if (!sample)
		return -ENOMEM;
	memcpy(sample, from, offsetof(struct xp_pending_sample, record));
	memcpy(&sample->record, record, from->size);
	sample->space = xp_address_space_share(from->space);
	sample->space->waiters++;
	sample->next = NULL;
	*(waiting->last ? &waiting->last->next : &waiting->first) = sample;
	waiting->last = sample;
	waiting->count++;
	waiting->bytes += bytes;
	return 0;
}

static void drop(struct xp_pending_samples *waiting, struct xp_pending_sample *sample)
{
	sample->space->waiters--;
	waiting->bytes -= sample_bytes(sample->size) + space_bytes(sample->space);
	waiting->count--;
	xp_address_space_release(sample->space);
	free(sample);
}

int xp_pending_samples_each(struct xp_pending_samples *waiting,
			    int (*take)(void *arg, struct xp_pending_sample *sample), void *arg)
{
	struct xp_pending_sample **link = &waiting->first, *sample;
	int first = 0;

	waiting->last = NULL;
	while ((sample = *link)) {
		int ret = take(arg, sample);

		if (ret == 1) {
			waiting->last = sample;
			link = &sample->next;
			continue;
		}
		first = first ?: ret;
		*link = sample->next;
		drop(waiting, sample);
	}
	return first;
}

void xp_pending_samples_free(struct xp_pending_samples *waiting)
{
	struct xp_pending_sample *sample;

	while ((sample = waiting->first)) {
		waiting->first = sample->next;
		drop(waiting, sample);
	}
	waiting->last = NULL;
}
