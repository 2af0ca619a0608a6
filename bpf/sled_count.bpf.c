// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Counts calls without recording them: how often functions are called before a recording. The cookie is the index of
 * the counter.
 */
#include "common.bpf.h"

SEC("uprobe")
int sled_count(struct pt_regs *ctx)
{
	__u32 pid = bpf_get_current_pid_tgid() >> 32;
	__u32 index = bpf_get_attach_cookie(ctx);
	__u64 *count;

	/* Always checked, since a probe may be on every process of a binary. */
	if (!followed(pid))
		return 0;
	count = bpf_map_lookup_elem(&call_counts, &index);
	/* Atomic: another task may run this program on this CPU in the middle of it. */
	if (count)
		__sync_fetch_and_add(count, 1);
	return 0;
}
