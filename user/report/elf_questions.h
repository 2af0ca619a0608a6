/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Questions about an untrusted ELF file, answered by a confined reader (confined.h). The answer is as untrusted as the
 * file, but has the form described here.
 */
#ifndef XPROF_REPORT_ELF_QUESTIONS_H
#define XPROF_REPORT_ELF_QUESTIONS_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "base/confined.h"
#include "elf/file.h"

struct xp_elf_facts {
	char real_path[PATH_MAX]; /* "": unknown */
	uint8_t build_id[64];
	size_t build_id_bytes; /* 0: none */
	struct xp_elf_segment segments[XP_ELF_SEGMENTS_MAX];
	size_t segment_count;
};

/*
 * Returns 0 or -errno: -ENOEXEC if it is not an ELF file or is malformed, -ETIMEDOUT, -ENOMEM, or an error of open(2)
 * or fork(2). *facts is always set.
 */
int xp_elf_ask_facts(struct xp_elf_facts *facts, const char *path, const struct xp_confined_limits *limits);

/* The functions that have sleds. */
struct xp_elf_functions {
	size_t count;
	uint64_t *vaddrs; /* of the first `listed` ones */
	size_t listed;
	uint8_t build_id[20];
	size_t build_id_bytes;
};

/*
 * Lists at most max functions. Returns 0 or an error as above, and -ENOEXEC for a file without sleds, too. The caller
 * frees vaddrs with free().
 */
int xp_elf_ask_functions(struct xp_elf_functions *functions, const char *path, size_t max,
			 const struct xp_confined_limits *limits);

#endif
