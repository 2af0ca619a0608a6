// SPDX-License-Identifier: BSD-2-Clause
#include "kernel/event_check.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

static bool ends(const char comm[16])
{
	return memchr(comm, 0, 16);
}

static bool is_event(const struct xp_rec_event *event, size_t size)
{
	return size >= sizeof(*event) && event->size <= XP_EVENT_PAYLOAD_MAX && event->size <= size - sizeof(*event);
}

static bool is_sample(const struct xp_rec_sample *sample, size_t size)
{
	size_t frames;

	if (size < sizeof(*sample) || sample->kernel_frames > XP_SAMPLE_FRAMES_MAX ||
	    sample->user_frames > XP_SAMPLE_FRAMES_MAX || sample->stack_bytes > XP_STACK_BYTES_MAX)
		return false;
	frames = sample->kernel_frames + sample->user_frames;
	return size - sizeof(*sample) >= frames * sizeof(__u64) + sample->stack_bytes && ends(sample->comm);
}

static bool is_whole(const struct xp_rec *rec, size_t size)
{
	switch (xp_rec_kind(rec)) {
	case XP_REC_ENTRY:
	case XP_REC_EXIT:
	case XP_REC_TAIL_EXIT:
	case XP_REC_LINK_MAP:
	case XP_REC_JIT:
		return true;
	case XP_REC_ENTRY_ARGS:
		return size >= sizeof(struct xp_rec_args) && ((const struct xp_rec_args *)rec)->count <= XP_ARGS_MAX;
	case XP_REC_CUSTOM_EVENT:
	case XP_REC_TYPED_EVENT:
		return is_event((const struct xp_rec_event *)rec, size);
	case XP_REC_EXEC:
	case XP_REC_FORK:
	case XP_REC_EXIT_THREAD:
	case XP_REC_EXIT_PROCESS:
		return size >= sizeof(struct xp_rec_task) && ends(((const struct xp_rec_task *)rec)->comm);
	case XP_REC_SAMPLE:
		return is_sample((const struct xp_rec_sample *)rec, size);
	default:
		return false;
	}
}

int xp_rec_check(const struct xp_rec *rec, size_t size)
{
	return size >= sizeof(*rec) && is_whole(rec, size) ? 0 : -EBADMSG;
}
