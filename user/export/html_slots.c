// SPDX-License-Identifier: BSD-2-Clause
#include "export/html_slots.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/util.h"
#include "model/input.h"
#include "model/json_data.h"

struct entry {
	uint32_t slot;
	uint32_t node;
	uint32_t state; /* its index */
	uint64_t values[2];
};

static int compare(const void *a, const void *b)
{
	const struct entry *left = a, *right = b;

	return xp_compare(left->slot, right->slot) ?: xp_compare(left->node, right->node)
						   ?: xp_compare(left->state, right->state);
}

/* Sorts the entries, and adds up entries with the same slot, node and state. Returns their number. */
static size_t add_up(struct entry *entries, size_t count)
{
	size_t kept = 0;

	qsort(entries, count, sizeof(*entries), compare);
	for (size_t i = 0; i < count; i++) {
		if (kept && !compare(&entries[kept - 1], &entries[i])) {
			entries[kept - 1].values[0] += entries[i].values[0];
			entries[kept - 1].values[1] += entries[i].values[1];
		} else {
			entries[kept++] = entries[i];
		}
	}
	return kept;
}

uint32_t xp_html_state_index(uint32_t state, const uint32_t *states, size_t count)
{
	uint32_t index = 0;

	while (index + 1 < count && states[index] != state)
		index++;
	return index;
}

static void put(FILE *out, const struct entry *entries, size_t count, uint64_t period, bool has_states)
{
	struct xp_json_numbers numbers = { .out = out };
	struct entry before = { 0 };

	for (size_t i = 0; i < count; i++) {
		const struct entry *entry = &entries[i];

		xp_json_number(&numbers, entry->slot - before.slot);
		xp_json_signed(&numbers, (int64_t)entry->node - before.node);
		if (has_states)
			xp_json_number(&numbers, entry->state);
		xp_json_number(&numbers, entry->values[0]);
		xp_json_signed(&numbers, (int64_t)(entry->values[1] - entry->values[0] * period));
		before = *entry;
	}
	xp_json_numbers_end(&numbers);
}

int xp_html_put_slots(FILE *out, const struct xp_model *model, const uint32_t *node_of, const uint32_t *states,
		      size_t state_count, size_t max)
{
	uint64_t slot_ns = model->slot_ns, from_ns = slot_ns * model->first_slot;
	size_t count = model->sample_count;
	struct entry *entries;

	if (!slot_ns || !count)
		return 0;
	entries = calloc(count, sizeof(*entries));
	if (!entries)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		const struct xp_model_sample *sample = &model->samples[i];

		entries[i].slot =
		    (uint32_t)XP_MIN((XP_MAX(sample->time_ns, from_ns) - from_ns) / slot_ns, (uint64_t)XP_MODEL_SLOTS);
		entries[i].state = xp_html_state_index(sample->state, states, state_count);
		entries[i].values[0] = sample->values[0];
		entries[i].values[1] = sample->values[1];
		entries[i].node = node_of[i];
	}
	count = add_up(entries, count);
	while (count > max && slot_ns * 2 > slot_ns && entries[count - 1].slot) {
		for (size_t i = 0; i < count; i++)
			entries[i].slot /= 2;
		slot_ns *= 2;
		count = add_up(entries, count);
	}
	fprintf(out, ",\n\"slotNs\":%" PRIu64 ",\"slotFromNs\":%" PRIu64 ",\"entries\":%zu,\"slots\":\"", slot_ns,
		from_ns, count);
	put(out, entries, count, model->period_ns, state_count > 0);
	putc('"', out);
	free(entries);
	return 0;
}
