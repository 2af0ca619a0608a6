/* SPDX-License-Identifier: BSD-2-Clause */
#include "util.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum xp_log_level xp_log_level = XP_LOG_NORMAL;

static void log_line(const char *prefix, const char *format, va_list args)
{
	char line[2048];

	vsnprintf(line, sizeof(line), format, args);
	fprintf(stderr, "xprof: %s%s\n", prefix, line);
}

void xp_error(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	log_line("error: ", format, args);
	va_end(args);
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

/* Length of the valid UTF-8 sequence at s, 0 when there is none. Overlong forms and surrogates are not valid. */
static size_t utf8_length(const unsigned char *s)
{
	if (s[0] < 0x80)
		return 1;
	if (s[0] >= 0xc2 && s[0] < 0xe0)
		return (s[1] & 0xc0) == 0x80 ? 2 : 0;
	if ((s[0] & 0xf0) == 0xe0) {
		if ((s[1] & 0xc0) != 0x80 || (s[2] & 0xc0) != 0x80)
			return 0;
		if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] >= 0xa0))
			return 0;
		return 3;
	}
	if (s[0] >= 0xf0 && s[0] < 0xf5) {
		if ((s[1] & 0xc0) != 0x80 || (s[2] & 0xc0) != 0x80 || (s[3] & 0xc0) != 0x80)
			return 0;
		if ((s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] >= 0x90))
			return 0;
		return 4;
	}
	return 0;
}

void xp_clean_text(char *to, size_t to_size, const char *from)
{
	const unsigned char *s = (const unsigned char *)from;
	size_t used = 0;

	while (*s) {
		size_t n = utf8_length(s);
		/* C1 controls, U+0080 to U+009F, drive a terminal as well as those of ASCII do. */
		bool control = *s < 0x20 || *s == 0x7f || (n == 2 && s[0] == 0xc2 && s[1] < 0xa0);

		if (used + XP_MAX(n, (size_t)1) >= to_size)
			break;
		if (!n || control) {
			to[used++] = '?';
			s += n ? n : 1;
			continue;
		}
		memcpy(to + used, s, n);
		used += n;
		s += n;
	}
	to[used] = 0;
}
