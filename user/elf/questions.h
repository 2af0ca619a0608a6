/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queries about an untrusted ELF file, answered by a confined reader (confined.h). The answer is as untrusted as the
 * file, but has the form described here.
 */
#ifndef XPROF_ELF_QUESTIONS_H
#define XPROF_ELF_QUESTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "base/confined.h"
#include "base/text_pool.h"
#include "elf/elf_file.h"
#include "elf/names.h"

struct xp_elf_facts {
	char *real_path; /* the path without links; "": unknown */
	uint8_t build_id[64];
	size_t build_id_bytes; /* 0: none */
	struct xp_elf_segment segments[XP_ELF_SEGMENTS_MAX];
	size_t segment_count;
};

/*
 * Returns 0 or -errno: -ENOEXEC if it is not an ELF file or is malformed, -ETIMEDOUT, -ENOMEM, or an error of open(2)
 * or fork(2). *facts is always set; the caller frees real_path.
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

/* Addresses to be named, and how. */
struct xp_elf_addresses {
	const char *search_path; /* where the search for debug files starts */
	enum xp_name_detail detail;
	const uint64_t *vaddrs; /* as linked */
	size_t count;
};

/* A function at an address, or one that is inlined there. */
struct xp_source_frame {
	const char *function; /* demangled and clean (xp_clean_text); NULL: unknown */
	const char *symbol;   /* clean: as in the file (mangled); NULL: the function itself */
	const char *file;     /* clean; NULL: unknown */
	uint32_t line;	      /* 0: unknown */
};

/* The names, and where they are stored. */
struct xp_elf_named {
	struct xp_text_pool *texts; /* keeps the strings */
	/*
	 * Takes the frames at an address, the innermost first; the last one is not inlined. count 0: nothing is known.
	 * Returns 0 or -errno, which ends the reading.
	 */
	int (*add)(void *arg, uint64_t vaddr, const struct xp_source_frame *frames, uint32_t count);
	void *arg;
};

/*
 * Names the addresses in their order, until the reader ends. Returns 0, also if it ended early; enum xp_names_lack;
 * -ETIMEDOUT; an error of named->add(), or one of starting the reader: -ENOMEM, -EAGAIN.
 */
int xp_elf_ask_names(const char *path, const struct xp_elf_addresses *addresses,
		     const struct xp_confined_limits *limits, const struct xp_elf_named *named);

#endif
