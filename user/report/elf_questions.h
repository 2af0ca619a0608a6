/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What one may want to know of an ELF file that nobody vouches for, asked in a confined reader (confined.h). An answer
 * is as little to be trusted as the file, but has the form that is told here.
 */
#ifndef XPROF_ELF_QUESTIONS_H
#define XPROF_ELF_QUESTIONS_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "base/confined.h"
#include "elf/file.h"

struct xp_elf_facts {
	char real_path[PATH_MAX]; /* "": not known */
	uint8_t build_id[64];
	size_t build_id_bytes; /* 0: none */
	struct xp_elf_segment segments[XP_ELF_SEGMENTS_MAX];
	size_t segment_count;
};

/* -ENOEXEC: no ELF file, or a broken one; -ETIMEDOUT, -ENOMEM, those of open(2) and fork(2). *facts is always set. */
int xp_elf_ask_facts(struct xp_elf_facts *facts, const char *path, const struct xp_confined_limits *limits);

/* Functions that have sleds. */
struct xp_elf_functions {
	size_t count;
	uint64_t *vaddrs; /* of the first `listed` of them */
	size_t listed;
	uint8_t build_id[20];
	size_t build_id_bytes;
};

/* Lists at most max of them. Errors as above; -ENOEXEC also of a file without sleds. Freed with free(vaddrs). */
int xp_elf_ask_functions(struct xp_elf_functions *functions, const char *path, size_t max,
			 const struct xp_confined_limits *limits);

#endif
