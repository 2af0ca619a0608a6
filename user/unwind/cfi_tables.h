/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The unwind tables (cfi_table.h) of the files of a recording. Tables are made piece by piece, because a recording uses
 * only parts of a large file, and a small piece is ready sooner. Another process (cfi_worker.h) makes each table once,
 * and the caller continues meanwhile. Tables are kept while there is space (cfi_store.h). No function here waits for
 * the process. If the process dies, the file that it was reading gets no more tables, and a new process makes the other
 * tables.
 *
 * A user can execute a hostile file whose tables take long; cfi_worker.h limits the time per table. A foreign file
 * belongs neither to root nor to the user who records. Foreign files are handled one at a time and after all other
 * files, cannot fill the queue, and have a separate store. Among other files, the smallest piece is made first.
 */
#ifndef XPROF_UNWIND_CFI_TABLES_H
#define XPROF_UNWIND_CFI_TABLES_H

#include <stdbool.h>
#include <stdint.h>

#include "target/address_space.h"
#include "unwind/cfi_table.h"

/*
 * Size of the part of a file that has one table. A file whose entries have no index has larger parts, see struct
 * xp_cfi_range. Samples hit few functions: with pieces of 4 MiB for all files, a recording of all processes for 10 s at
 * 99 Hz used a third more CPU time.
 */
#define XP_CFI_PIECE_BYTES (256u << 10)
#define XP_CFI_WIDE_BYTES (4u << 20)
/* Maximum number of waiting pieces; each keeps a descriptor open. */
#define XP_CFI_WAITING_MAX 256
#define XP_CFI_FOREIGN_MAX 192 /* maximum number of waiting pieces of foreign files, included in XP_CFI_WAITING_MAX */
#define XP_CFI_AGAIN_NS 1000000000ull

enum xp_cfi_state {
	XP_CFI_UNASKED,	 /* not requested yet, or evicted */
	XP_CFI_BUILDING, /* becomes one of the states below */
	XP_CFI_READY,
	/* The piece has no table, or the file cannot be read. Final, except if the file could not be opened. */
	XP_CFI_ABSENT,
};

struct xp_cfi_tables;

/*
 * Creates the tables and starts the process. Call this before xprof opens anything that the process must not inherit.
 * Returns 0, -ENOMEM, or an error of fork(2).
 */
int xp_cfi_tables_new(struct xp_cfi_tables **tables);
void xp_cfi_tables_free(struct xp_cfi_tables *tables);

/*
 * Call this in a child process after fork(2). Leaves the worker process to the parent. The next request or
 * xp_cfi_tables_collect() starts another worker, which also makes the tables that the parent's worker has not finished.
 */
void xp_cfi_tables_forked(struct xp_cfi_tables *tables);

/*
 * Returns the state of the piece that contains this offset. *table: NULL unless the state is XP_CFI_READY; valid until
 * the next xp_cfi_tables_collect(). Takes O(1) time.
 */
enum xp_cfi_state xp_cfi_tables_get(struct xp_cfi_tables *tables, const struct xp_file *file, uint64_t offset,
				    const struct xp_cfi_table **table);
/*
 * Requests the table of a piece that is XP_CFI_UNASKED; does nothing for other pieces. fd: the file, open for reading;
 * the caller still owns it. The process reads fd, so the owner and mode of the file do not matter. A negative fd means
 * that the file cannot be opened: the whole file becomes XP_CFI_ABSENT immediately, but after the first few failures it
 * becomes XP_CFI_UNASKED again after XP_CFI_AGAIN_NS. Returns 0 or -errno: -EAGAIN if too many pieces are waiting
 * (retry later), -ENOMEM, or an error of dup(2) or fstat(2).
 */
int xp_cfi_tables_ask(struct xp_cfi_tables *tables, const struct xp_file *file, uint64_t offset, int fd);
/*
 * Returns whether a piece of this file may be queued. If the owner of the file is not known yet, assumes that the file
 * is not foreign; xp_cfi_tables_ask() then checks the owner.
 */
bool xp_cfi_tables_have_room(const struct xp_cfi_tables *tables, const struct xp_file *file);
/* Returns a descriptor that is readable when xp_cfi_tables_collect() has work to do. The tables own it. */
int xp_cfi_tables_fd(const struct xp_cfi_tables *tables);
/*
 * Stores finished tables. Returns the number of pieces that changed from XP_CFI_BUILDING to XP_CFI_READY or
 * XP_CFI_ABSENT.
 */
int xp_cfi_tables_collect(struct xp_cfi_tables *tables);

#endif
