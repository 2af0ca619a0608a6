// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The minimum cost of any BPF program on the scheduler's tracepoint. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("tp_btf/sched_switch")
int empty_switch(void *ctx)
{
	return 0;
}
