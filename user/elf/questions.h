/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads data about an untrusted ELF file with a confined reader (confined.h). The data is as untrusted as the file, but
 * its format is as described here.
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

/* The functions with sleds. */
struct xp_elf_functions {
	size_t count;
	uint64_t *vaddrs; /* addresses of the first `listed` functions */
	size_t listed;
	uint8_t build_id[20];
	size_t build_id_bytes;
};

/*
 * Lists at most max functions. Returns 0 or an error as above; -ENOEXEC also for a file without sleds. The caller frees
 * vaddrs with free().
 */
int xp_elf_ask_functions(struct xp_elf_functions *functions, const char *path, size_t max,
			 const struct xp_confined_limits *limits);

/* Addresses to name, and the details of the names. */
struct xp_elf_addresses {
	const char *search_path; /* where the search for debug files starts */
	enum xp_name_detail detail;
	const uint64_t *vaddrs; /* as linked */
	size_t count;
};

/* A function at an address: the function itself, or an inlined one. */
struct xp_source_frame {
	const char *function; /* demangled and clean (xp_clean_text); NULL: unknown */
	const char *symbol;   /* clean: as in the file (mangled); NULL: the function itself */
	const char *file;     /* clean; NULL: unknown */
	uint32_t line;	      /* 0: unknown */
};

/* Where the names are stored. */
struct xp_elf_named {
	struct xp_text_pool *texts; /* keeps the strings */
	/*
	 * Receives the frames at an address, the innermost first; the last one is not inlined. count 0: unknown.
	 * Returns 0, or -errno to stop.
	 */
	int (*add)(void *arg, uint64_t vaddr, const struct xp_source_frame *frames, uint32_t count);
	void *arg;
};

/*
 * Names the addresses in their order, until the reader ends, even if it ends early. Returns enum xp_names_lack (0:
 * complete) or -errno: -ETIMEDOUT, an error of named->add(), or an error of starting the reader: -ENOMEM, -EAGAIN.
 */
int xp_elf_ask_names(const char *path, const struct xp_elf_addresses *addresses,
		     const struct xp_confined_limits *limits, const struct xp_elf_named *named);

#endif
