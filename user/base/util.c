/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/util.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum xp_log_level xp_log_level = XP_LOG_NORMAL;

static __attribute__((format(printf, 2, 0))) void log_line(const char *prefix, const char *format, va_list args)
{
	char before[32];

	snprintf(before, sizeof(before), "xprof: %s", prefix);
	xp_put_line_args(stderr, before, format, args);
}

void xp_error(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	log_line("error: ", format, args);
	va_end(args);
}

int xp_fail(int code, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	log_line("error: ", format, args);
	va_end(args);
	return code;
}

void xp_warn(const char *format, ...)
{
	va_list args;

	if (xp_log_level < XP_LOG_NORMAL)
		return;
	va_start(args, format);
	log_line("warning: ", format, args);
	va_end(args);
}

void xp_info(const char *format, ...)
{
	va_list args;

	if (xp_log_level < XP_LOG_NORMAL)
		return;
	va_start(args, format);
	log_line("", format, args);
	va_end(args);
}

void xp_debug(const char *format, ...)
{
	va_list args;

	if (xp_log_level < XP_LOG_VERBOSE)
		return;
	va_start(args, format);
	log_line("", format, args);
	va_end(args);
}

int xp_refuse(char *why, size_t why_size, int err, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(why, why_size, format, args);
	va_end(args);
	return err;
}

uint64_t xp_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * XP_NS_PER_S + (uint64_t)now.tv_nsec;
}

int xp_write_all(int fd, const void *data, size_t size)
{
	const char *p = data;

	while (size) {
		ssize_t n = write(fd, p, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		p += n;
		size -= n;
	}
	return 0;
}

int xp_pwrite_all(int fd, const void *data, size_t size, uint64_t offset)
{
	const char *p = data;

	while (size) {
		ssize_t n = pwrite(fd, p, size, offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		p += n;
		offset += n;
		size -= n;
	}
	return 0;
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
