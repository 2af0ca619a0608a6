/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads files of /proc and /sys. The paths are printf() formats with arguments, and may have up to 255 characters. */
#ifndef XPROF_BASE_SMALL_FILE_H
#define XPROF_BASE_SMALL_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* open(2), with O_CLOEXEC. Returns a descriptor or -errno. */
int xp_open_format(int flags, const char *format, ...) __attribute__((format(printf, 2, 3)));
/*
 * Reads a file with one read(2), truncates it to size - 1 bytes, and adds a NUL. Returns the bytes read, or -errno and
 * an empty string.
 */
ssize_t xp_small_file_read(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Reads the decimal number at the start of a file. Returns 0 or -errno: -EINVAL if there is none. */
int xp_small_file_number(const char *path, uint64_t *number);

#endif
