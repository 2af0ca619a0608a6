// SPDX-License-Identifier: BSD-2-Clause
#include "explain/call_story.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"

#define MEANWHILE_SHARE 0.25 /* share of a wait that the waker's own wait must have to be printed */

/* How long two times overlap. */
static uint64_t overlap(struct xp_time_range a, struct xp_time_range b)
{
	uint64_t begin = XP_MAX(a.begin_ns, b.begin_ns), end = XP_MIN(a.end_ns, b.end_ns);

	return end > begin ? end - begin : 0;
}

static void add_wait(struct xp_story *story, const struct xp_thread_times *times, const struct xp_model_wait *wait,
		     struct xp_neighbours *neighbours)
{
	const struct xp_time_range waited = { xp_model_wait_blocked_until(wait), wait->end_ns };
	const struct xp_time_range here = { XP_MAX(waited.begin_ns, story->range.begin_ns),
					    XP_MIN(waited.end_ns, story->range.end_ns) };
	uint64_t runnable = overlap(story->range, waited);
	uint64_t blocked = overlap(story->range, (struct xp_time_range){ wait->begin_ns, waited.begin_ns });
	struct xp_story_wait *group = story->waits, *end = group + story->wait_count;

	story->blocked_ns += blocked;
	story->runnable_ns += runnable;
	if (runnable)
		xp_thread_times_neighbours(times, neighbours, wait->thread, wait->cpu, here);
	if (runnable > story->starved_ns) {
		story->starved_ns = runnable;
		story->starved_cpu = wait->cpu;
	}
	while (group < end && (group->longest->state != wait->state || group->longest->waker_tid != wait->waker_tid ||
			       times->shapes[group->longest->stack] != times->shapes[wait->stack]))
		group++;
	if (group == end && story->wait_count == XP_STORY_WAITS_MAX)
		return;
	if (group == end) {
		story->wait_count++;
		*group = (struct xp_story_wait){ .longest = wait };
	}
	if (blocked + runnable > group->longest_ns) {
		group->longest = wait;
		group->longest_ns = blocked + runnable;
	}
	group->count++;
	group->blocked_ns += blocked;
	group->runnable_ns += runnable;
}

static void add_sample(struct xp_story *story, const struct xp_thread_times *times, uint32_t stack)
{
	struct xp_story_stack *group = story->stacks, *end = group + story->stack_count;

	story->samples++;
	while (group < end && times->shapes[group->stack] != times->shapes[stack])
		group++;
	if (group == end && story->stack_count == XP_STORY_STACKS_MAX)
		return;
	if (group == end) {
		story->stack_count++;
		*group = (struct xp_story_stack){ .stack = stack };
	}
	group->samples++;
}

static int by_wait_ns(const void *a, const void *b)
{
	const struct xp_story_wait *left = a, *right = b;
	uint64_t left_ns = left->blocked_ns + left->runnable_ns, right_ns = right->blocked_ns + right->runnable_ns;

	return (left_ns < right_ns) - (left_ns > right_ns);
}

static int by_samples(const void *a, const void *b)
{
	const struct xp_story_stack *left = a, *right = b;

	return (left->samples < right->samples) - (left->samples > right->samples);
}

static void find_cause(struct xp_story *story, const struct xp_thread_times *times)
{
	uint64_t most = XP_MAX(story->on_cpu_ns, XP_MAX(story->runnable_ns, story->blocked_ns));

	if (!times->model.wait_count || !most)
		story->cause = XP_STORY_UNKNOWN;
	else if (most == story->blocked_ns)
		story->cause = XP_STORY_BLOCKED;
	else if (most == story->runnable_ns)
		story->cause = XP_STORY_RUNNABLE;
	else
		story->cause = XP_STORY_ON_CPU;
}

static void find_neighbour(struct xp_story *story, const struct xp_neighbours *neighbours)
{
	for (size_t i = 0; i < neighbours->count; i++)
		if (neighbours->ns[i] > story->neighbour_ns) {
			story->neighbour = neighbours->threads[i];
			story->neighbour_ns = neighbours->ns[i];
		}
	story->neighbour_ns = XP_MIN(story->neighbour_ns, story->runnable_ns);
}

void xp_story_make(struct xp_story *story, const struct xp_thread_times *times, uint32_t thread,
		   struct xp_time_range range)
{
	const struct xp_model_wait *waits;
	const struct xp_model_sample *samples;
	struct xp_neighbours neighbours = { .count = 0 };
	uint64_t waited;
	size_t count;

	*story = (struct xp_story){ .range = range, .thread = thread, .neighbour = XP_MODEL_NONE };
	if (thread == XP_MODEL_NONE)
		return;
	waits = xp_thread_times_waits(times, thread, range, &count);
	for (size_t i = 0; i < count; i++)
		add_wait(story, times, &waits[i], &neighbours);
	samples = xp_thread_times_samples(times, thread, range, &count);
	for (size_t i = 0; i < count; i++)
		add_sample(story, times, samples[i].stack);
	waited = story->blocked_ns + story->runnable_ns;
	story->on_cpu_ns = range.end_ns - range.begin_ns - XP_MIN(waited, range.end_ns - range.begin_ns);
	qsort(story->waits, story->wait_count, sizeof(story->waits[0]), by_wait_ns);
	qsort(story->stacks, story->stack_count, sizeof(story->stacks[0]), by_samples);
	find_cause(story, times);
	find_neighbour(story, &neighbours);
}

bool xp_story_look_at_waker(struct xp_story_waker *waker, const struct xp_thread_times *times,
			    const struct xp_model_wait *wait)
{
	struct xp_time_range range = { wait->begin_ns, xp_model_wait_blocked_until(wait) };
	uint32_t thread = wait->waker_tid ? xp_thread_times_find(times, 0, wait->waker_tid) : XP_MODEL_NONE;
	const struct xp_model_wait *waits;
	struct xp_story story;
	size_t count;

	*waker = (struct xp_story_waker){ .thread = thread, .neighbour = XP_MODEL_NONE };
	if (thread == XP_MODEL_NONE || thread == wait->thread)
		return false;
	xp_story_make(&story, times, thread, range);
	waker->samples = story.samples;
	waker->stack = story.stack_count ? story.stacks[0].stack : 0;
	if (xp_story_has_neighbour(&story))
		waker->neighbour = story.neighbour;
	waits = xp_thread_times_waits(times, thread, range, &count);
	for (size_t i = 0; i < count; i++) {
		uint64_t ns = overlap(range, (struct xp_time_range){ waits[i].begin_ns, waits[i].end_ns });

		if (ns > waker->wait_ns) {
			waker->wait = &waits[i];
			waker->wait_ns = ns;
		}
	}
	if ((double)waker->wait_ns < MEANWHILE_SHARE * (double)(range.end_ns - range.begin_ns))
		waker->wait = NULL;
	return waker->wait || waker->samples;
}
