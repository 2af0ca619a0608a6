// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Program on __jit_debug_register_code(), which a JIT compiler calls after it has changed the list of its code for
 * debuggers (user/jit/src_gdb.h). Rare. The record wakes the loader, which copies new code before it can vanish.
 */
#include "common.bpf.h"

SEC("uprobe")
int jit_changed(struct pt_regs *ctx)
{
	return record_rare(XP_EVENT_JIT);
}
