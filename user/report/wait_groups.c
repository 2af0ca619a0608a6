// SPDX-License-Identifier: BSD-2-Clause
#include "report/wait_groups.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/util.h"

static uint64_t length_ns(const struct xp_timed_wait *wait)
{
	return wait->end_ns - wait->begin_ns;
}

static int add(struct xp_wait_groups *groups, const struct xp_thread_times *times, const struct xp_timed_wait *wait)
{
	uint64_t key = times->shapes[wait->stack] * 31 + wait->state;
	uint32_t *index = xp_u64_map_add(&groups->by_key, key, UINT32_MAX);
	double weight = (double)XP_WAIT_CHANCE_ONE / wait->chance;
	struct xp_wait_group *group;

	if (!index)
		return -ENOMEM;
	if (*index == UINT32_MAX) {
		if (XP_ARRAY_RESERVE(groups->list, groups->room, groups->count + 1))
			return -ENOMEM;
		*index = (uint32_t)groups->count;
		groups->list[groups->count++] = (struct xp_wait_group){ .longest = wait };
	}
	group = &groups->list[*index];
	if (length_ns(wait) > length_ns(group->longest))
		group->longest = wait;
	group->count += weight;
	group->blocked_ns += weight * (double)(length_ns(wait) - wait->runnable_ns);
	group->runnable_ns += weight * (double)wait->runnable_ns;
	return 0;
}

static int by_longest(const void *a, const void *b)
{
	const struct xp_wait_group *left = a, *right = b;

	return xp_compare(length_ns(right->longest), length_ns(left->longest));
}

int xp_wait_groups_make(struct xp_wait_groups *groups, const struct xp_thread_times *times,
			const struct xp_select *select, uint64_t above_ns)
{
	uint8_t *marks;
	int err = xp_select_mark_stacks(select, &times->model, &marks);

	for (size_t i = 0; !err && i < times->wait_count; i++) {
		const struct xp_timed_wait *wait = &times->waits[i];

		if (length_ns(wait) > above_ns && xp_select_marked(select, marks[wait->stack]))
			err = add(groups, times, wait);
	}
	free(marks);
	if (!err && groups->count)
		qsort(groups->list, groups->count, sizeof(*groups->list), by_longest);
	return err;
}

void xp_wait_groups_free(struct xp_wait_groups *groups)
{
	free(groups->list);
	xp_u64_map_free(&groups->by_key);
}
