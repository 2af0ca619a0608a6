/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Trampolines in the memory of a process, for functions without sleds. Each recording of an object makes a sealed memfd
 * with the code, which the process maps. After the code, the file lists the jumps to it, so that any xprof can restore
 * them. The original bytes are in the object's file.
 *
 * The file is an ELF file, so that samples in trampolines are unwound. Its only unwind rule is that of a function's
 * first and last instruction, where trampolines record a call. The rule is wrong for other moved instructions.
 *
 * The process may forge such a file. That misleads only the process itself: its own code becomes as in the file.
 */
#ifndef XPROF_SLED_TRAMPOLINES_H
#define XPROF_SLED_TRAMPOLINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sled/text_patches.h"
#include "target/remote.h"

struct xp_stub_map;

/* Offset of the code in the file. */
#define XP_TRAMPOLINES_CODE 128

/* A jump in the file's list. */
struct xp_trampoline_jump {
	uint64_t address;
	uint8_t kind; /* enum xp_jump_place */
	uint8_t bytes[XP_JUMP_BYTES];
	uint8_t zero[2];
};
_Static_assert(sizeof(struct xp_trampoline_jump) == 16, "xp_trampoline_jump");

/* The content of one file. */
struct xp_trampolines {
	uint64_t start; /* where the process has mapped the file */
	uint64_t end;
	ino_t inode;
	struct xp_trampoline_jump *jumps; /* sorted by address, at most one per address */
	size_t count;
	size_t pages; /* number of pages with jumps */
};

struct xp_trampolines_list {
	struct xp_trampolines *all;
	size_t count, room;
};

/*
 * A process with more files is refused: it has forged them, and each takes time to read. The 118 000 functions of
 * libLLVM have half of these jumps.
 */
#define XP_TRAMPOLINES_MAX 64		     /* mappings */
#define XP_TRAMPOLINES_JUMPS_MAX (1u << 20)  /* in all files together */
#define XP_TRAMPOLINES_PAGES_MAX (64u << 10) /* with these jumps */

/* Returns whether the process may get further trampolines with these jumps, sorted by address. */
bool xp_trampolines_may_add(const struct xp_trampolines_list *list, const struct xp_trampolines *more);

/*
 * Finds the trampolines of a process. Returns 0, -ESRCH, -ENOMEM, or -EKEYREJECTED beyond the limits. The caller frees
 * the list, also after an error.
 */
int xp_trampolines_read(struct xp_trampolines_list *list, pid_t pid);
void xp_trampolines_free(struct xp_trampolines_list *list);

/* Returns the size of the mapping for this many bytes of code. */
uint64_t xp_trampolines_room(uint64_t code_bytes);

/*
 * Makes a stopped process map trampolines at trampolines->start. scratch: as for xp_remote_begin_calls(). Sets end and
 * inode. Returns 0 or -errno, with a sentence (why.h).
 */
struct xp_trampolines_code {
	const uint8_t *bytes;
	size_t count;
	uint64_t scratch;
};
int xp_trampolines_map(struct xp_trampolines *trampolines, struct xp_remote *remote,
		       const struct xp_trampolines_code *code);

/* Returns whether the lists have jumps at these addresses. */
bool xp_trampolines_have_jumps(const struct xp_trampolines_list *list, uint64_t start, uint64_t end);

/*
 * Adds the jumps in a mapping of the process that match the file of trampolines, to restore them: short jumps to
 * lists[0], then springs, then windows. lists[] have the mapping and its file. Returns 0 or -ENOMEM.
 */
int xp_trampolines_find_jumps(const struct xp_trampolines *trampolines, pid_t pid,
			      struct xp_text_patches lists[XP_JUMP_PLACES]);

/* Finds the trampolines that no jump of the process leads to. Returns as xp_trampolines_read(). */
int xp_trampolines_read_idle(struct xp_trampolines_list *list, pid_t pid);
/*
 * Unmaps trampolines of a stopped process, unless a thread is in them or may return there. Returns 0, also if the
 * process runs another program, or -errno: -EAGAIN if a thread is in a stub: try again.
 */
int xp_trampolines_unmap(const struct xp_trampolines_list *list, struct xp_remote *remote, pid_t pid,
			 const struct xp_stub_map *stubs);

#endif
