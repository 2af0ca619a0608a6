/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The unwind tables (cfi_table.h) of the files of a recording. Tables are made piece by piece: only parts of a large
 * file are in use, and the first table is ready soon. Another process (cfi_worker.h) makes each table once while the
 * caller goes on; the table is kept as long as there is room (cfi_store.h). Nothing here waits for that process. If it
 * dies, the file that it was reading gets no further tables, and a new process does the rest.
 *
 * Users can run programs from files that they made, and so choose how long their tables take (cfi_worker.h limits the
 * time per table). Such foreign files belong neither to root nor to the user who records. They go one at a time and
 * after all others, cannot fill the queue, and have a separate store. Of the other files, the smallest piece goes
 * first.
 */
#ifndef XPROF_UNWIND_CFI_TABLES_H
#define XPROF_UNWIND_CFI_TABLES_H

#include <stdbool.h>
#include <stdint.h>

#include "target/address_space.h"
#include "unwind/cfi_table.h"

/*
 * The part of a file that has one table, and of a file whose entries have no index, see struct xp_cfi_range. Samples
 * hit few functions: with pieces of 4 MiB for all files, a recording of 10 s of all processes at 99 Hz took a third
 * more.
 */
#define XP_CFI_PIECE_BYTES (256u << 10)
#define XP_CFI_WIDE_BYTES (4u << 20)
/* Limit of waiting pieces; each holds a descriptor. */
#define XP_CFI_WAITING_MAX 256
#define XP_CFI_FOREIGN_MAX 192 /* limit for foreign files, included in the above */
#define XP_CFI_AGAIN_NS 1000000000ull

enum xp_cfi_state {
	XP_CFI_UNASKED,	 /* not requested yet, or evicted */
	XP_CFI_BUILDING, /* becomes one of the states below */
	XP_CFI_READY,
	/* The piece has no table, or the file cannot be read. Final, unless the file merely could not be opened. */
	XP_CFI_ABSENT,
};

struct xp_cfi_tables;

/*
 * Starts the process; call this before there is anything that the process should not inherit. Returns 0, -ENOMEM, or an
 * error of fork(2).
 */
int xp_cfi_tables_new(struct xp_cfi_tables **tables);
void xp_cfi_tables_free(struct xp_cfi_tables *tables);

/*
 * In a child process that fork(2) made: leaves the process to the parent, which it serves. The next request or
 * xp_cfi_tables_collect() starts another one, which makes also what the parent's had not made yet.
 */
void xp_cfi_tables_forked(struct xp_cfi_tables *tables);

/*
 * The state of the piece that contains this offset. *table: NULL unless XP_CFI_READY; valid until the next
 * xp_cfi_tables_collect(). O(1).
 */
enum xp_cfi_state xp_cfi_tables_get(struct xp_cfi_tables *tables, const struct xp_file *file, uint64_t offset,
				    const struct xp_cfi_table **table);
/*
 * Requests the table of a piece that is XP_CFI_UNASKED; does nothing for other pieces. fd: the file, open for reading,
 * so that the process can read it with any owner and mode; it stays the caller's. A negative fd means that the file
 * cannot be opened: the whole file becomes XP_CFI_ABSENT at once, but the first few times it becomes XP_CFI_UNASKED
 * again after XP_CFI_AGAIN_NS. Returns 0 or -errno: -EAGAIN if too many pieces are waiting (retry later), -ENOMEM, or
 * an error of dup(2) or fstat(2).
 */
int xp_cfi_tables_ask(struct xp_cfi_tables *tables, const struct xp_file *file, uint64_t offset, int fd);
/*
 * Returns whether a piece of this file may be queued, as far as the file's owner is known; if it is not,
 * xp_cfi_tables_ask() decides.
 */
bool xp_cfi_tables_have_room(const struct xp_cfi_tables *tables, const struct xp_file *file);
/* Readable when xp_cfi_tables_collect() has work to do. Stays owned by the tables. */
int xp_cfi_tables_fd(const struct xp_cfi_tables *tables);
/* Takes finished tables. Returns how many pieces went from XP_CFI_BUILDING to XP_CFI_READY or XP_CFI_ABSENT. */
int xp_cfi_tables_collect(struct xp_cfi_tables *tables);

#endif
