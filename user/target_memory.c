// SPDX-License-Identifier: BSD-2-Clause
#include "target_memory.h"

#include <errno.h>
#include <sys/uio.h>

int xp_target_memory_read(pid_t pid, uint64_t address, void *to, size_t size)
{
	struct iovec here = { to, size };
	struct iovec there = { (void *)(uintptr_t)address, size };
	ssize_t n = process_vm_readv(pid, &here, 1, &there, 1, 0);

	if (n < 0)
		return -errno;
	return (size_t)n == size ? 0 : -EFAULT;
}
