// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* What any program on the scheduler's tracepoint costs at least. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("tp_btf/sched_switch")
int empty_switch(void *ctx)
{
	return 0;
}
