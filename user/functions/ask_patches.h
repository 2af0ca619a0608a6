/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Trampolines and jumps (patches.h) for functions of a planned file (ask.h), made by a confined process, because the
 * decoded code is as untrusted as the file.
 */
#ifndef XPROF_FUNCTIONS_ASK_PATCHES_H
#define XPROF_FUNCTIONS_ASK_PATCHES_H

#include "functions/ask.h"
#include "functions/patches.h"

struct xp_patches_request {
	const struct xp_planned *planned; /* a plan with a code segment */
	const uint32_t *functions;	  /* indexes in the plan; patch all of them */
	size_t count;
	uint64_t bias;	   /* address in the process minus address in the file */
	uint64_t slots[2]; /* addresses of the slots, see struct xp_patched_function */
	uint64_t at;	   /* address of the first trampoline in the process */
	uint32_t words[4]; /* for functions[0], by enum xp_site_kind; for functions[i], plus i */
};

/* The jumps of functions[i] are those from first_jump[i] to first_jump[i + 1]. Without jumps, it cannot be patched. */
struct xp_made_patches {
	uint8_t *code; /* the trampolines */
	size_t bytes;
	size_t room;
	struct xp_code_patch *jumps; /* jumps of a window: the jump in its spring first */
	size_t jump_count;
	size_t jump_room;
	uint32_t *first_jump;
	uint64_t *first_byte; /* index of the first byte of each function's trampolines */
};

/* Returns the maximum number of bytes of the trampolines for a request. */
uint64_t xp_patches_bytes_max(const struct xp_patches_request *request);

/*
 * Makes them from an open regular file. All jumps are in the planned code. Returns 0 or -errno, with a message (why.h):
 * -ETIMEDOUT, -ENOMEM, or -ENOEXEC if the confined process died. The caller frees *made in any case.
 */
int xp_patches_ask(struct xp_made_patches *made, int fd, const struct xp_patches_request *request);
void xp_made_patches_free(struct xp_made_patches *made);

#endif
