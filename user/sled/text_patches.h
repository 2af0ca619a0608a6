/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many small changes in the text of a stopped process. One write for each takes some 20 microseconds (target_memory.h),
 * and the process stands still meanwhile: where a stretch of text is as in its file but for the sleds, it is written at
 * once. Where it is not, somebody else has changed it (a probe, a breakpoint), perhaps just now: that is left alone.
 */
#ifndef XPROF_EDITS_H
#define XPROF_EDITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf/sled_table.h"
#include "target/remote.h"

struct xp_edit {
	uint64_t address;
	uint32_t sled; /* index in the table of its object */
	uint8_t kind;  /* enum xp_sled_kind */
	uint8_t size;  /* bytes to write; 0: nothing */
	uint8_t bytes[XP_SLED_BYTES_MAX];
};

/* In one mapping of a file. */
struct xp_edits {
	struct xp_edit *list; /* by address */
	size_t count;
	size_t room;
	uint64_t start; /* of the mapping */
	uint64_t end;
	int file_fd;	     /* borrowed */
	uint64_t file_start; /* file offset = address - file_start, modulo 2^64 */
};

/* -ENOMEM. */
int xp_edits_add(struct xp_edits *edits, const struct xp_edit *edit);
/* To be called before writing. -EINVAL: two of them overlap, as no compiler makes them. */
int xp_edits_sort(struct xp_edits *edits);
void xp_edits_free(struct xp_edits *edits);

/*
 * Writes them where `fits` holds for the bytes that are there (xp_sled_bytes() of them) at the moment of writing; the
 * others are left alone, and their size becomes 0. *written is raised by the number of those that were written. Errors
 * are those of xp_remote_write(); some may be written then.
 */
int xp_edits_write(struct xp_edits *edits, struct xp_remote *remote,
		   bool (*fits)(const void *arg, const struct xp_edit *edit, const uint8_t *now), const void *arg,
		   size_t *written);

#endif
