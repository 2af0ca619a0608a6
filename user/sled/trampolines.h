/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Trampolines in the memory of a process, for functions without sleds. Each recording of an object has a file of its
 * own: a sealed memfd with the code, which the process maps, and behind it a list of the jumps that lead there, by
 * which anyone can restore them. The list has no original bytes: those are in the object's file.
 *
 * The file is an ELF file, so that samples in trampolines are unwound. Its only unwind rule is that of a function's
 * first and last instruction, where trampolines record a call. It is wrong for the other instructions that have moved.
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

/* A jump, as the file has it. */
struct xp_trampoline_jump {
	uint64_t address;
	uint8_t kind; /* enum xp_jump_place */
	uint8_t bytes[XP_JUMP_BYTES];
	uint8_t zero[2];
};
_Static_assert(sizeof(struct xp_trampoline_jump) == 16, "xp_trampoline_jump");

/* What one file has. */
struct xp_trampolines {
	uint64_t start; /* where the process has mapped it */
	uint64_t end;
	ino_t inode;
	struct xp_trampoline_jump *jumps; /* by address, no two at the same one */
	size_t count;
	size_t pages; /* on which they are */
};

struct xp_trampolines_list {
	struct xp_trampolines *all;
	size_t count, room;
};

/*
 * A process with more is refused: it has forged them, and each takes time. libLLVM's 118 000 functions have half of
 * these jumps.
 */
#define XP_TRAMPOLINES_MAX 64		     /* mappings */
#define XP_TRAMPOLINES_JUMPS_MAX (1u << 20)  /* in all of them */
#define XP_TRAMPOLINES_PAGES_MAX (64u << 10) /* on which these are */

/* Whether the process may have further trampolines with these jumps, sorted by address. */
bool xp_trampolines_may_add(const struct xp_trampolines_list *list, const struct xp_trampolines *more);

/*
 * Finds the trampolines of a process. Returns 0, -ESRCH, -ENOMEM, or -EKEYREJECTED for more than the limits. The caller
 * frees the list on success and on error.
 */
int xp_trampolines_read(struct xp_trampolines_list *list, pid_t pid);
void xp_trampolines_free(struct xp_trampolines_list *list);

/* The bytes from the start of the mapping to its end, for this many bytes of code. */
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

/* Whether the lists have jumps at these addresses. */
bool xp_trampolines_have_jumps(const struct xp_trampolines_list *list, uint64_t start, uint64_t end);

/*
 * Adds the jumps in a mapping of the process that are as in the file of trampolines, for them to be restored: to
 * lists[0] short jumps, then springs, then windows. lists[] have the mapping and its file. Returns 0 or -ENOMEM.
 */
int xp_trampolines_find_jumps(const struct xp_trampolines *trampolines, pid_t pid,
			      struct xp_text_patches lists[XP_JUMP_PLACES]);

/* Finds the trampolines to which no jump of the process leads. As xp_trampolines_read(). */
int xp_trampolines_read_idle(struct xp_trampolines_list *list, pid_t pid);
/*
 * Unmaps trampolines of a stopped process, unless a thread is in them or may return there. Returns 0, also if the
 * process runs another program, or -errno: -EAGAIN if a thread is in a stub: try again.
 */
int xp_trampolines_unmap(const struct xp_trampolines_list *list, struct xp_remote *remote, pid_t pid,
			 const struct xp_stub_map *stubs);

#endif
