/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many small changes to the text of a stopped process. A write per change takes some 20 microseconds, during
 * which the process is stopped. So a stretch of text that matches its file except for the sleds is written with one
 * write. A difference means that another tool has changed the text (a probe, a breakpoint), perhaps just now: those
 * bytes are not written.
 */
#ifndef XPROF_SLED_TEXT_PATCHES_H
#define XPROF_SLED_TEXT_PATCHES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf/sled_table.h"
#include "target/remote.h"
#include "target/target.h"

/* Jumps to trampolines, in the order in which they are written; they are restored in the opposite order. */
enum xp_jump_place {
	XP_JUMP_WINDOW = XP_SLED_KINDS, /* 5 bytes */
	XP_JUMP_SPRING,			/* 5 bytes, to which only a short jump leads */
	XP_JUMP_SHORT,			/* 2 bytes */
	XP_TEXT_PATCH_KINDS,
};
#define XP_JUMP_PLACES (XP_TEXT_PATCH_KINDS - XP_JUMP_WINDOW)
#define XP_JUMP_BYTES 5

struct xp_text_patch {
	uint64_t address;
	uint32_t sled; /* index in the table of its object; of a jump: its function */
	uint8_t kind;  /* enum xp_sled_kind or enum xp_jump_place */
	uint8_t size;  /* bytes to write; 0: nothing */
	union {
		uint8_t bytes[XP_SLED_BYTES_MAX];
		struct {
			uint8_t to[XP_JUMP_BYTES];
			uint8_t from[XP_JUMP_BYTES]; /* the bytes that must be there */
		} jump;
	};
};

/* The bytes that it may change. */
size_t xp_text_patch_bytes(const struct xp_text_patch *text_patch);

/* The changes in one mapping of a file. */
struct xp_text_patches {
	struct xp_text_patch *list; /* by address */
	size_t count;
	size_t room;
	uint64_t start; /* start of the mapping */
	uint64_t end;
	int file_fd;	     /* borrowed */
	uint64_t file_start; /* file offset = address - file_start, modulo 2^64 */
};

/* An empty list, for a mapping of this file. */
struct xp_text_patches xp_text_patches_in(const struct xp_mapping *mapping, int file_fd);
/* Returns 0 or -ENOMEM. */
int xp_text_patches_add(struct xp_text_patches *text_patches, const struct xp_text_patch *text_patch);
/*
 * Call it before writing. Keeps one of equal jumps: a short jump is in the lists of all trampolines of its function,
 * also of those that an earlier recording has left. Returns -EINVAL if others overlap.
 */
int xp_text_patches_sort(struct xp_text_patches *text_patches);
void xp_text_patches_free(struct xp_text_patches *text_patches);

/*
 * Writes the changes for which `fits` accepts the bytes present at the moment of writing (xp_text_patch_bytes()).
 * Skips the others, and sets their size to 0. Adds the number of changes written to *written. Returns 0 or the error of
 * xp_remote_write(), after which some changes may be written.
 */
int xp_text_patches_write(struct xp_text_patches *text_patches, struct xp_remote *remote,
			  bool (*fits)(const void *arg, const struct xp_text_patch *text_patch, const uint8_t *now),
			  const void *arg, size_t *written);

#endif
