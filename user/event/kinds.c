/* SPDX-License-Identifier: BSD-2-Clause */
#include "event/kinds.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "xprof/wait.h"

static bool ends(const char comm[16])
{
	return memchr(comm, 0, 16);
}

static bool are_args(const struct xp_event *event, size_t size)
{
	(void)size;
	return ((const struct xp_event_args *)event)->count <= XP_ARGS_MAX;
}

static bool is_payload(const struct xp_event *event, size_t size)
{
	const struct xp_event_payload *payload = (const struct xp_event_payload *)event;

	return payload->size <= XP_EVENT_PAYLOAD_MAX && payload->size <= size - sizeof(*payload);
}

static bool is_task(const struct xp_event *event, size_t size)
{
	(void)size;
	return ends(((const struct xp_event_task *)event)->comm);
}

static bool is_sample(const struct xp_event *event, size_t size)
{
	const struct xp_event_sample *sample = (const struct xp_event_sample *)event;
	size_t frames;

	if (sample->kernel_frames > XP_SAMPLE_FRAMES_MAX || sample->user_frames > XP_SAMPLE_FRAMES_MAX ||
	    sample->stack_bytes > XP_STACK_BYTES_MAX)
		return false;
	frames = sample->kernel_frames + sample->user_frames;
	return size - sizeof(*sample) >= frames * sizeof(__u64) + sample->stack_bytes && ends(sample->comm);
}

static bool is_wait(const struct xp_event *event, size_t size)
{
	const struct xp_event_wait *wait = (const struct xp_event_wait *)event;

	return wait->kernel_frames <= XP_SAMPLE_FRAMES_MAX &&
	       size - sizeof(*wait) >= wait->kernel_frames * sizeof(__u64) && wait->chance &&
	       wait->chance <= XP_WAIT_CHOSEN && ends(wait->comm) && ends(wait->waker_comm);
}

static bool is_sum(const struct xp_event *event, size_t size)
{
	(void)size;
	return ends(((const struct xp_event_wait_sum *)event)->comm);
}

static bool is_usdt(const struct xp_event *event, size_t size)
{
	(void)size;
	return ends(((const struct xp_event_usdt *)event)->comm);
}

/* clang-format off */
const struct xp_kind xp_kinds[XP_EVENT_KINDS] = {
	/* kind                     name            least size                         of_program is_valid */
	[XP_EVENT_ENTRY]        = { "entry",        sizeof(struct xp_event),           true,      NULL },
	[XP_EVENT_EXIT]         = { "exit",         sizeof(struct xp_event),           true,      NULL },
	[XP_EVENT_TAIL_EXIT]    = { "tail_exit",    sizeof(struct xp_event),           true,      NULL },
	[XP_EVENT_ENTRY_ARGS]   = { "entry_args",   sizeof(struct xp_event_args),      true,      are_args },
	[XP_EVENT_CUSTOM]       = { "custom_event", sizeof(struct xp_event_payload),   true,      is_payload },
	[XP_EVENT_TYPED]        = { "typed_event",  sizeof(struct xp_event_payload),   true,      is_payload },
	[XP_EVENT_GO_ENTRY]     = { "go_entry",     sizeof(struct xp_event_go),        true,      NULL },
	[XP_EVENT_GO_EXIT]      = { "go_exit",      sizeof(struct xp_event_go),        true,      NULL },
	[XP_EVENT_THREAD]       = { "thread",       sizeof(struct xp_event_thread),    false,     NULL },
	[XP_EVENT_THREAD_GONE]  = { "thread_gone",  sizeof(struct xp_event_thread),    false,     NULL },
	[XP_EVENT_EXEC]         = { "exec",         sizeof(struct xp_event_task),      false,     is_task },
	[XP_EVENT_FORK]         = { "fork",         sizeof(struct xp_event_task),      false,     is_task },
	[XP_EVENT_EXIT_THREAD]  = { "exit_thread",  sizeof(struct xp_event_task),      false,     is_task },
	[XP_EVENT_EXIT_PROCESS] = { "exit_process", sizeof(struct xp_event_task),      false,     is_task },
	[XP_EVENT_LINK_MAP]     = { "link_map",     sizeof(struct xp_event),           false,     NULL },
	[XP_EVENT_JIT]          = { "jit",          sizeof(struct xp_event),           false,     NULL },
	[XP_EVENT_SAMPLE]       = { "sample",       sizeof(struct xp_event_sample),    false,     is_sample },
	[XP_EVENT_SWITCH]       = { "switch",       sizeof(struct xp_event_switch),    false,     NULL },
	[XP_EVENT_WAIT_BEGIN]   = { "wait_begin",   sizeof(struct xp_event_sample),    false,     is_sample },
	[XP_EVENT_WAIT]         = { "wait",         sizeof(struct xp_event_wait),      false,     is_wait },
	[XP_EVENT_WAIT_SUM]     = { "wait_sum",     sizeof(struct xp_event_wait_sum),  false,     is_sum },
	[XP_EVENT_USDT]         = { "usdt",         sizeof(struct xp_event_usdt),      false,     is_usdt },
};
/* clang-format on */

_Static_assert(XP_EVENT_KINDS <= XP_EVENT_KINDS_ROOM, "xp_bpf_counters");

int xp_event_check(const struct xp_arrival *arrival)
{
	const struct xp_kind *kind;

	if (arrival->size < sizeof(struct xp_event) || xp_event_kind(arrival->event) >= XP_EVENT_KINDS)
		return -EBADMSG;
	kind = &xp_kinds[xp_event_kind(arrival->event)];
	if (arrival->size < kind->size || (kind->is_valid && !kind->is_valid(arrival->event, arrival->size)))
		return -EBADMSG;
	return 0;
}
