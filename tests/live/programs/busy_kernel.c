// SPDX-License-Identifier: BSD-2-Clause
/* For LD_PRELOAD: the kernel is too busy for probes while the file $BUSY_KERNEL exists. */
#include <dlfcn.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TRACE_UPROBE_MULTI 48

long syscall(long number, ...)
{
	long (*next)(long, ...) = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	long args[6];
	va_list list;

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		args[i] = va_arg(list, long);
	va_end(list);
	if (number == SYS_bpf && args[0] == BPF_LINK_CREATE && ((const uint32_t *)args[1])[2] == TRACE_UPROBE_MULTI &&
	    !access(getenv("BUSY_KERNEL"), F_OK)) {
		errno = EBUSY;
		return -1;
	}
	return next(number, args[0], args[1], args[2], args[3], args[4], args[5]);
}
