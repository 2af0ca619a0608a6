// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The minimum cost of any BPF program on a uprobe. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("uprobe")
int empty(struct pt_regs *ctx)
{
	return 0;
}
