// SPDX-License-Identifier: BSD-2-Clause
#include "kernel/event_check.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "xprof/wait.h"

static bool ends(const char comm[16])
{
	return memchr(comm, 0, 16);
}

static bool is_event(const struct xp_event_payload *event, size_t size)
{
	return size >= sizeof(*event) && event->size <= XP_EVENT_PAYLOAD_MAX && event->size <= size - sizeof(*event);
}

static bool is_sample(const struct xp_event_sample *sample, size_t size)
{
	size_t frames;

	if (size < sizeof(*sample) || sample->kernel_frames > XP_SAMPLE_FRAMES_MAX ||
	    sample->user_frames > XP_SAMPLE_FRAMES_MAX || sample->stack_bytes > XP_STACK_BYTES_MAX)
		return false;
	frames = sample->kernel_frames + sample->user_frames;
	return size - sizeof(*sample) >= frames * sizeof(__u64) + sample->stack_bytes && ends(sample->comm);
}

static bool is_wait(const struct xp_event_wait *wait, size_t size)
{
	return size >= sizeof(*wait) && wait->kernel_frames <= XP_SAMPLE_FRAMES_MAX &&
	       size - sizeof(*wait) >= wait->kernel_frames * sizeof(__u64) && wait->chance &&
	       wait->chance <= XP_WAIT_CHOSEN && ends(wait->comm) && ends(wait->waker_comm);
}

static bool is_kind_of_sample(const struct xp_event *event, size_t size)
{
	uint32_t flags = xp_event_fn(event);

	if (flags & XP_SAMPLE_SWITCH)
		return size >= sizeof(struct xp_event_switch);
	if (flags & XP_SAMPLE_WAIT_END)
		return is_wait((const struct xp_event_wait *)event, size);
	if (flags & XP_SAMPLE_WAIT_SUM)
		return size >= sizeof(struct xp_event_wait_sum) &&
		       ends(((const struct xp_event_wait_sum *)event)->comm);
	return is_sample((const struct xp_event_sample *)event, size);
}

static bool is_whole(const struct xp_event *event, size_t size)
{
	switch (xp_event_kind(event)) {
	case XP_EVENT_ENTRY:
	case XP_EVENT_EXIT:
	case XP_EVENT_TAIL_EXIT:
	case XP_EVENT_LINK_MAP:
	case XP_EVENT_JIT:
		return true;
	case XP_EVENT_ENTRY_ARGS:
		return size >= sizeof(struct xp_event_args) &&
		       ((const struct xp_event_args *)event)->count <= XP_ARGS_MAX;
	case XP_EVENT_CUSTOM:
	case XP_EVENT_TYPED:
		return is_event((const struct xp_event_payload *)event, size);
	case XP_EVENT_THREAD:
	case XP_EVENT_THREAD_GONE:
		return size >= sizeof(struct xp_event_thread);
	case XP_EVENT_EXEC:
	case XP_EVENT_FORK:
	case XP_EVENT_EXIT_THREAD:
	case XP_EVENT_EXIT_PROCESS:
		return size >= sizeof(struct xp_event_task) && ends(((const struct xp_event_task *)event)->comm);
	case XP_EVENT_SAMPLE:
		return is_kind_of_sample(event, size);
	default:
		return false;
	}
}

int xp_event_check(const struct xp_event *event, size_t size)
{
	return size >= sizeof(*event) && is_whole(event, size) ? 0 : -EBADMSG;
}
