// SPDX-License-Identifier: BSD-2-Clause
#include "target_memory.h"

#include <errno.h>
#include <sys/uio.h>

ssize_t xp_target_memory_read_some(pid_t pid, uint64_t address, void *to, size_t size)
{
	struct iovec here = { to, size };
	struct iovec there = { (void *)(uintptr_t)address, size };
	ssize_t n = process_vm_readv(pid, &here, 1, &there, 1, 0);

	return n < 0 ? -errno : n;
}

int xp_target_memory_read(pid_t pid, uint64_t address, void *to, size_t size)
{
	ssize_t n = xp_target_memory_read_some(pid, address, to, size);

	if (n < 0)
		return (int)n;
	return (size_t)n == size ? 0 : -EFAULT;
}
