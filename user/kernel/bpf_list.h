/* SPDX-License-Identifier: BSD-2-Clause */
/* Lists all BPF programs in the kernel, of any user, with the addresses of their code. */
#ifndef XPROF_KERNEL_BPF_LIST_H
#define XPROF_KERNEL_BPF_LIST_H

#include <stddef.h>
#include <stdint.h>

struct xp_bpf_listed {
	uint32_t id;
	const uint8_t *tag; /* 8 bytes */
	/* Functions of the program. None if the program is interpreted, or if addresses are hidden (CAP_SYSLOG). */
	const uint64_t *starts;
	const uint32_t *bytes;
	size_t count;
};

/*
 * Calls take() for each program. The data is valid until take() returns. Returns 0, -EPERM if xprof may not list
 * programs (CAP_SYS_ADMIN), -ENOMEM, or the first error of take().
 */
int xp_bpf_list(int (*take)(void *arg, const struct xp_bpf_listed *program), void *arg);

#endif
