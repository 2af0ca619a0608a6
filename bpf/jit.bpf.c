// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Program on __jit_debug_register_code(), which a JIT compiler calls after it has changed the list of its code for
 * debuggers (user/jit/src_gdb.h). Rare. The record wakes the loader, which copies new code before it can vanish.
 */
#include "common.bpf.h"

SEC("uprobe")
int jit_changed(struct pt_regs *ctx)
{
	__u64 pid_tgid = bpf_get_current_pid_tgid();
	struct xp_event *event = reserve(sizeof(*event), XP_EVENT_JIT);

	if (!event)
		return 0;
	event->time = now();
	event->pid = pid_tgid >> 32;
	event->tid = pid_tgid;
	event->word = xp_event_word(0, XP_EVENT_JIT);
	event->sp = 0;
	bpf_ringbuf_submit(event, BPF_RB_FORCE_WAKEUP);
	return 0;
}
