// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Names of kernel addresses, as the kernel itself finds them: the loader runs this when it needs some. All of
 * /proc/kallsyms is 200 000 lines, which the kernel takes tens of milliseconds to print.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "xprof/ksym.h"

struct xp_ksym_batch ksyms;

SEC("syscall")
int name_ksyms(void *ctx)
{
	for (int i = 0; i < XP_KSYM_BATCH; i++) {
		__u64 address = ksyms.addresses[i];

		if (!address)
			break;
		BPF_SNPRINTF(ksyms.texts[i], XP_KSYM_TEXT_BYTES, "%pS", address);
	}
	return 0;
}
