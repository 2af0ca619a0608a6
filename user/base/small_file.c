// SPDX-License-Identifier: BSD-2-Clause
#include "base/small_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

static int open_path(int flags, const char *format, va_list args)
{
	char path[256];
	int length = vsnprintf(path, sizeof(path), format, args), fd;

	if (length < 0 || (size_t)length >= sizeof(path))
		return -ENAMETOOLONG;
	fd = open(path, flags | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int xp_open_format(int flags, const char *format, ...)
{
	va_list args;
	int fd;

	va_start(args, format);
	fd = open_path(flags, format, args);
	va_end(args);
	return fd;
}

ssize_t xp_small_file_read(char *text, size_t size, const char *format, ...)
{
	va_list args;
	ssize_t bytes;
	int fd;

	text[0] = 0;
	va_start(args, format);
	fd = open_path(O_RDONLY, format, args);
	va_end(args);
	if (fd < 0)
		return fd;
	bytes = read(fd, text, size - 1);
	if (bytes < 0)
		bytes = -errno;
	else
		text[bytes] = 0;
	close(fd);
	return bytes;
}

int xp_small_file_number(const char *path, uint64_t *number)
{
	char text[64];
	ssize_t bytes = xp_small_file_read(text, sizeof(text), "%s", path);

	if (bytes < 0)
		return (int)bytes;
	return sscanf(text, "%" SCNu64, number) == 1 ? 0 : -EINVAL;
}
