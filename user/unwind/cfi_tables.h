/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The unwind tables (cfi_table.h) of the files of a recording, piece by piece: a large file's code is in use here and
 * there, and the first answer comes soon. Each is made once, by another process (cfi_worker.h), while the caller goes
 * on, and kept as long as there is room for it (cfi_store.h). Nothing here waits for that process. It may die: the file
 * that it was at has no further tables then, and another process does the rest.
 *
 * Whoever runs a program has a table made of a file of his own, and chooses how long that takes (cfi_worker.h bounds
 * it for each): such foreign files, which belong neither to root nor to who records, go one at a time and behind all
 * others, cannot take all the room to wait, and have a store of their own. Of the others the smallest piece is next.
 */
#ifndef XPROF_CFI_TABLES_H
#define XPROF_CFI_TABLES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "unwind/cfi_table.h"
#include "target/address_space.h"

/* Of a file that has one table. */
#define XP_CFI_PIECE_BYTES (4u << 20)
/* So many pieces wait, each with a descriptor. */
#define XP_CFI_WAITING_MAX 256
#define XP_CFI_FOREIGN_MAX 192 /* of these */
#define XP_CFI_AGAIN_NS 1000000000ull

enum xp_cfi_state {
	XP_CFI_UNASKED,	 /* not asked for, or forgotten to make room */
	XP_CFI_BUILDING, /* will be one of those below */
	XP_CFI_READY,
	/* The piece has none, or those of the file cannot be read: the last state then, unless it was only not opened.
	 */
	XP_CFI_ABSENT,
};

struct xp_cfi_tables;

/* Starts the process: best before there is anything that it should not inherit. -ENOMEM; those of fork(2). */
int xp_cfi_tables_new(struct xp_cfi_tables **tables);
void xp_cfi_tables_free(struct xp_cfi_tables *tables);

/* Of the piece with this offset. *table: NULL unless ready, and valid until the next xp_cfi_tables_collect(). O(1). */
enum xp_cfi_state xp_cfi_tables_get(struct xp_cfi_tables *tables, const struct xp_file *file, uint64_t offset,
				    const struct xp_cfi_table **table);
/*
 * Asks, for process pid, for the table of a piece that is XP_CFI_UNASKED; nothing happens for others. fd: the file,
 * open for reading, which the process may then read whatever its owner and mode; it stays the caller's. Negative: it
 * cannot be opened, and all of it is XP_CFI_ABSENT at once, but some times becomes XP_CFI_UNASKED again after
 * XP_CFI_AGAIN_NS. -EAGAIN: too many are waiting, ask again later; -ENOMEM; those of dup(2) and fstat(2).
 */
int xp_cfi_tables_ask(struct xp_cfi_tables *tables, pid_t pid, const struct xp_file *file, uint64_t offset, int fd);
/* Whether a piece of this file may wait for the process, as far as it is known whose it is: otherwise asking says so.
 */
bool xp_cfi_tables_have_room(const struct xp_cfi_tables *tables, pid_t pid, const struct xp_file *file);
/* Readable when xp_cfi_tables_collect() has something to do. It remains the tables'. */
int xp_cfi_tables_fd(const struct xp_cfi_tables *tables);
/* Takes what is finished: how many pieces have become XP_CFI_READY or XP_CFI_ABSENT that were XP_CFI_BUILDING. */
int xp_cfi_tables_collect(struct xp_cfi_tables *tables);

#endif
