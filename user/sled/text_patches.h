/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes many small changes to the text of a stopped process. A write per change takes 20 us, during which the process
 * is stopped. So if a stretch of text matches its file except for the sleds, xprof writes it at once. A difference
 * means that another tool has changed the text (a probe, a breakpoint), perhaps just now: xprof does not write those
 * bytes.
 */
#ifndef XPROF_SLED_TEXT_PATCHES_H
#define XPROF_SLED_TEXT_PATCHES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf/sled_table.h"
#include "target/remote.h"
#include "target/target.h"

/* Jumps to trampolines, in the order of writing; they are restored in reverse order. */
enum xp_jump_place {
	XP_JUMP_WINDOW = XP_SLED_KINDS, /* 5 bytes */
	XP_JUMP_SPRING,			/* 5 bytes that only a short jump leads to */
	XP_JUMP_SHORT,			/* 2 bytes */
	XP_TEXT_PATCH_KINDS,
};
#define XP_JUMP_PLACES (XP_TEXT_PATCH_KINDS - XP_JUMP_WINDOW)
#define XP_JUMP_BYTES 5

struct xp_text_patch {
	uint64_t address;
	uint32_t sled; /* index in the table of its object; for a jump: its function */
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

/* Returns how many bytes it may change. */
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
 * Sorts by address; call it before writing. Keeps one of equal jumps: a short jump is in the lists of all trampolines
 * of its function, also of those of earlier recordings. Returns -EINVAL if other patches overlap.
 */
int xp_text_patches_sort(struct xp_text_patches *text_patches);
void xp_text_patches_free(struct xp_text_patches *text_patches);

/*
 * Writes each change if `fits` accepts the bytes that are there at that moment (xp_text_patch_bytes()). Skips the other
 * changes, and sets their size to 0. Adds the number of written changes to *written. Returns 0 or the error of
 * xp_remote_write(), after which some changes may be written.
 */
int xp_text_patches_write(struct xp_text_patches *text_patches, struct xp_remote *remote,
			  bool (*fits)(const void *arg, const struct xp_text_patch *text_patch, const uint8_t *now),
			  const void *arg, size_t *written);

#endif
