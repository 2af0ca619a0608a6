/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/util.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum xp_log_level xp_log_level = XP_LOG_NORMAL;

void xp_log(enum xp_log_level level, const char *prefix, const char *format, ...)
{
	va_list args;

	if (xp_log_level < level)
		return;
	va_start(args, format);
	xp_put_line_args(stderr, prefix, format, args);
	va_end(args);
}

int xp_fail(int code, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	xp_put_line_args(stderr, "xprof: error: ", format, args);
	va_end(args);
	return code;
}

static uint64_t read_clock(clockid_t clock)
{
	struct timespec now = { 0 };

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * XP_NS_PER_S + (uint64_t)now.tv_nsec;
}

uint64_t xp_now_ns(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

void xp_counters_add(void *sum, const void *counters, size_t bytes, int sign)
{
	for (size_t i = 0; i < bytes / sizeof(uint64_t); i++)
		((unsigned long long *)sum)[i] += (uint64_t)sign * ((const unsigned long long *)counters)[i];
}

uint64_t xp_thread_cpu_ns(void)
{
	return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

/* offset -1: writes at the position of the descriptor, which also works for pipes */
static int write_at(int fd, const void *data, size_t size, off_t offset)
{
	const char *p = data;

	while (size) {
		ssize_t n = offset < 0 ? write(fd, p, size) : pwrite(fd, p, size, offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		p += n;
		size -= n;
		offset += offset < 0 ? 0 : n;
	}
	return 0;
}

int xp_write_all(int fd, const void *data, size_t size)
{
	return write_at(fd, data, size, -1);
}

int xp_pwrite_all(int fd, const void *data, size_t size, uint64_t offset)
{
	return offset <= INT64_MAX ? write_at(fd, data, size, (off_t)offset) : -EINVAL;
}

int xp_memfd_make(const char *name, const void *data, size_t size)
{
	int fd = memfd_create(name, MFD_CLOEXEC), err;

	if (fd < 0)
		return -errno;
	err = xp_write_all(fd, data, size);
	if (!err)
		return fd;
	close(fd);
	return err;
}
