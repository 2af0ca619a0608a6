/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The binaries of a recording, as its manifest lists them, and the files with their names: in sym/ of the recording, or
 * at the path of the binary. The file at the path may have changed since, so it is used only if it has the recorded
 * build ID.
 */
#ifndef XPROF_MODEL_BINARIES_H
#define XPROF_MODEL_BINARIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/code_places.h"
#include "base/hash.h"

struct xp_recorded_binary {
	char *path;  /* path in the recorded process */
	char *names; /* path of the file in sym/; NULL: it could not be stored */
	uint8_t build_id[64];
	size_t build_id_bytes; /* 0: none */
	uint64_t inode;
	bool lacks_debug; /* in sym/ */
	bool has_code;	  /* the next two are known (elf/copy.h) */
	uint64_t exec_vaddr, exec_offset;
};

struct xp_recorded_binaries {
	char *directory; /* directory of the recording */
	struct xp_recorded_binary *all;
	size_t count;
	/* Paths of the files in sym/ with names of kernel code, by window, and of the vDSO. NULL: none. */
	char *kernel[XP_KERNEL_WINDOWS];
	char *vdso;
	bool is_listed; /* the manifest has the list; false for recordings of older versions, and interrupted ones */
	/* private */
	struct xp_hash by_path, by_names;
};

/* manifest NULL: none. Returns 0 or -ENOMEM; the caller calls xp_recorded_binaries_free() in any case. */
int xp_recorded_binaries_read(struct xp_recorded_binaries **binaries, const char *directory, const json_t *manifest);
void xp_recorded_binaries_free(struct xp_recorded_binaries *binaries);

/* A mapped binary, as the kernel reports it. */
struct xp_mapped_binary {
	const char *path;
	const uint8_t *build_id;
	size_t build_id_bytes; /* 0: unknown, or none */
	uint64_t inode;	       /* 0: unknown */
};

/* Returns the binary's entry in the list, or NULL. */
const struct xp_recorded_binary *xp_recorded_binaries_find(const struct xp_recorded_binaries *binaries,
							   const struct xp_mapped_binary *mapped);
/*
 * Returns the file with the names of the kernel's code at an address, and in *vaddr the address as linked in that file.
 * NULL: there is none.
 */
const char *xp_recorded_binaries_kernel(const struct xp_recorded_binaries *binaries, uint64_t address, uint64_t *vaddr);

/* Returns the binary whose names are in this file of sym/, given without a directory, or NULL. */
const struct xp_recorded_binary *xp_recorded_binaries_named(const struct xp_recorded_binaries *binaries,
							    const char *file);

/* Reads hexadecimal digits up to the first other character. text: NULL for none. Returns the number of bytes. */
size_t xp_recorded_hex(const char *text, uint8_t *bytes, size_t room);

#endif
