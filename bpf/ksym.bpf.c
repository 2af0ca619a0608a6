// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Names of kernel addresses, as the kernel itself finds them; the loader runs this on demand. Reading /proc/kallsyms
 * instead takes longer: the kernel takes tens of milliseconds to print its 200 000 lines.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "xprof/ksym.h"

struct xp_ksym_batch ksyms;

/*
 * Returns 0 if there is no address at index. A separate function: the verifier checks it once, rather than at each
 * iteration of the loop.
 */
int name_ksym(__u32 index)
{
	__u64 address;

	if (index >= XP_KSYM_BATCH)
		return 0;
	address = ksyms.addresses[index];
	if (address)
		BPF_SNPRINTF(ksyms.texts[index], XP_KSYM_TEXT_BYTES, "%pS", address);
	return address != 0;
}

SEC("syscall")
int name_ksyms(void *ctx)
{
	for (__u32 i = 0; i < XP_KSYM_BATCH; i++)
		if (!name_ksym(i))
			break;
	return 0;
}
