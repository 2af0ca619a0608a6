/* SPDX-License-Identifier: BSD-2-Clause */
/* Lists all BPF programs in the kernel, of any user, with the addresses of their code. */
#ifndef XPROF_KERNEL_BPF_LIST_H
#define XPROF_KERNEL_BPF_LIST_H

#include <stddef.h>
#include <stdint.h>

struct xp_bpf_listed {
	uint32_t id;
	const uint8_t *tag; /* 8 bytes */
	/* Its functions; none if it is interpreted, or addresses are not shown (CAP_SYSLOG). */
	const uint64_t *starts;
	const uint32_t *bytes;
	size_t count;
};

/*
 * Calls take() for each program, with data that is valid until it returns. Returns 0, -EPERM without the right to list
 * programs (CAP_SYS_ADMIN), -ENOMEM, or the first error of take().
 */
int xp_bpf_list(int (*take)(void *arg, const struct xp_bpf_listed *program), void *arg);

#endif
