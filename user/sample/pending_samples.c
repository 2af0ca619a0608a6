/* SPDX-License-Identifier: BSD-2-Clause */
#include "sample/pending_samples.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static size_t sample_bytes(size_t size)
{
	return offsetof(struct xp_waiting_sample, record) + size;
}

/* A space is counted once, however many samples hold it. */
static size_t space_bytes(const struct xp_space *space)
{
	return space->waiters
		   ? 0
		   : sizeof(*space) + space->count * sizeof(*space->vmas) + space->jit_count * sizeof(*space->jit);
}

int xp_waiting_add(struct xp_waiting *waiting, const struct xp_waiting_sample *from, const struct xp_rec_sample *record)
{
	size_t bytes = sample_bytes(from->size) + space_bytes(from->space);
	struct xp_waiting_sample *sample;

	if (waiting->bytes + bytes > XP_WAITING_BYTES_MAX)
		return -ENOSPC;
	sample = malloc(sample_bytes(from->size));
	if (!sample)
		return -ENOMEM;
	memcpy(sample, from, offsetof(struct xp_waiting_sample, record));
	memcpy(&sample->record, record, from->size);
	sample->space = xp_space_share(from->space);
	sample->space->waiters++;
	sample->next = NULL;
	*(waiting->last ? &waiting->last->next : &waiting->first) = sample;
	waiting->last = sample;
	waiting->count++;
	waiting->bytes += bytes;
	return 0;
}

static void drop(struct xp_waiting *waiting, struct xp_waiting_sample *sample)
{
	sample->space->waiters--;
	waiting->bytes -= sample_bytes(sample->size) + space_bytes(sample->space);
	waiting->count--;
	xp_space_put(sample->space);
	free(sample);
}

int xp_waiting_each(struct xp_waiting *waiting, int (*take)(void *arg, struct xp_waiting_sample *sample), void *arg)
{
	struct xp_waiting_sample **link = &waiting->first, *sample;
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

void xp_waiting_free(struct xp_waiting *waiting)
{
	struct xp_waiting_sample *sample;

	while ((sample = waiting->first)) {
		waiting->first = sample->next;
		drop(waiting, sample);
	}
	waiting->last = NULL;
}
