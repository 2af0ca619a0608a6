/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses and paths of code that no file contains. Recording and reading must use the same values. */
#ifndef XPROF_BASE_CODE_PLACES_H
#define XPROF_BASE_CODE_PLACES_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* All kernel code lies in the last 2 GiB. It is divided into windows; each window has an ELF file with its names. */
#define XP_KERNEL_START 0xffffffff80000000ull
#define XP_KERNEL_WINDOW_BYTES (128ull << 20)
#define XP_KERNEL_WINDOWS 16

/* Patched sleds call the stub. The stub is in a memfd with this name, and /proc/PID/maps shows it with this path. */
#define XP_STUB_NAME "xprof"
#define XP_STUB_PATH "/memfd:" XP_STUB_NAME " (deleted)"

/*
 * Returns whether /proc/PID/maps and the side-band use this path for a file. Mappings without a file have other texts.
 */
static inline bool xp_path_is_of_file(const char *path)
{
	static const char *const of_memory[] = { "/dev/zero", "/SYSV", "/anon_hugepage", "//" };

	for (size_t i = 0; i < sizeof(of_memory) / sizeof(*of_memory); i++)
		if (!strncmp(path, of_memory[i], strlen(of_memory[i])))
			return false;
	return path[0] == '/';
}

#endif
