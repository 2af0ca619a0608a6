// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * On __jit_debug_register_code(), which a JIT compiler calls when it has changed the list of its code for debuggers
 * (user/jit_src_gdb.h). Rare; the record wakes the loader, which copies what is new before it can vanish.
 */
#include "common.bpf.h"

SEC("uprobe")
int jit_changed(struct pt_regs *ctx)
{
	__u64 pid_tgid = bpf_get_current_pid_tgid();
	struct xp_rec *rec = reserve(sizeof(*rec), XP_REC_JIT);

	if (!rec)
		return 0;
	rec->time = now();
	rec->pid = pid_tgid >> 32;
	rec->tid = pid_tgid;
	rec->word = xp_rec_word(0, XP_REC_JIT);
	rec->sp = 0;
	bpf_ringbuf_submit(rec, BPF_RB_FORCE_WAKEUP);
	return 0;
}
