/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The kernel addresses passed to the BPF program `name_ksyms`, and the names that it returns. */
#ifndef XPROF_KSYM_H
#define XPROF_KSYM_H

#ifndef __bpf__ /* vmlinux.h defines these types for BPF */
#include <linux/types.h>
#endif

#define XP_KSYM_BATCH 64
#define XP_KSYM_TEXT_BYTES 256

struct xp_ksym_batch {
	__u64 addresses[XP_KSYM_BATCH]; /* up to the first 0 */
	char texts[XP_KSYM_BATCH]
		  [XP_KSYM_TEXT_BYTES]; /* as printed by "%pS": "name+0x10/0x40", in a module "... [name]" */
};

#endif
