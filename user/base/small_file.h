/* SPDX-License-Identifier: BSD-2-Clause */
/* Files of /proc and /sys. Their paths are printf() formats with arguments, of 255 characters at most. */
#ifndef XPROF_BASE_SMALL_FILE_H
#define XPROF_BASE_SMALL_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* open(2), with O_CLOEXEC. Returns a descriptor or -errno. */
int xp_open_format(int flags, const char *format, ...) __attribute__((format(printf, 2, 3)));
/*
 * Reads a file with one read(2), and terminates the text. What does not fit is left out. Returns the bytes read or
 * -errno; then the text is empty.
 */
ssize_t xp_small_file_read(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Reads the decimal number at the start of a file. Returns 0 or -errno: -EINVAL if there is none. */
int xp_small_file_number(const char *path, uint64_t *number);

#endif
