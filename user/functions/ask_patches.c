// SPDX-License-Identifier: BSD-2-Clause
#include "functions/ask_patches.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/confined.h"
#include "base/util.h"
#include "base/why.h"

/* Maximum bytes of a trampoline for a site, and for a byte of its window (a jcc of 2 bytes becomes 6). */
#define SITE_BYTES 64
#define BYTES_PER_BYTE 5
#define END_BYTES 32

/* libLLVM 19's 118,000 functions take 1 s. */
static const struct xp_confined_limits limits = {
	.ns = 60ull * 1000 * 1000 * 1000,
	.cpu_seconds = 30,
	.address_bytes = (rlim_t)4 << 30,
};

/* The answer for each function, followed by its jumps and its code; none if it cannot be patched. */
struct head {
	uint32_t jump_count;
	uint32_t bytes;
};

uint64_t xp_patches_bytes_max(const struct xp_patches_request *request)
{
	const struct xp_call_plan *plan = &request->planned->plan;
	uint64_t bytes = 0;

	for (size_t i = 0; i < request->count; i++) {
		const struct xp_call_plan_function *function = &plan->functions[request->functions[i]];

		bytes += (uint64_t)SITE_BYTES * function->site_count;
		for (uint32_t k = 0; k < function->window_count; k++)
			bytes += END_BYTES + (uint64_t)BYTES_PER_BYTE * plan->windows[function->first_window + k].bytes;
	}
	return bytes;
}

/* ---- the reader ---- */

/* Adds the trampoline and the jumps of a window. */
static bool add_window(struct xp_made_patches *made, const struct xp_patched_function *patched, uint32_t window,
		       uint64_t at)
{
	struct xp_code_patch jumps[2];
	size_t bytes;

	if (XP_ARRAY_RESERVE(made->code, made->room, made->bytes + XP_TRAMPOLINE_BYTES_MAX) ||
	    XP_ARRAY_RESERVE(made->jumps, made->jump_room, made->jump_count + 2))
		return false;
	bytes = xp_patches_encode(patched, window, at + made->bytes, made->code + made->bytes, jumps);
	if (!bytes)
		return false;
	made->bytes += bytes;
	for (size_t i = 0; i < 2 && jumps[i].count; i++)
		made->jumps[made->jump_count++] = jumps[i];
	return true;
}

/* Writes all of a function or nothing. Returns the number of bytes. */
static size_t tell_function(FILE *out, struct xp_made_patches *made, const struct xp_patched_function *patched,
			    uint64_t at)
{
	const struct xp_call_plan_function *function = patched->function;
	struct head head;
	bool good = true;

	made->bytes = made->jump_count = 0;
	for (uint32_t i = 0; good && i < function->window_count; i++)
		good = add_window(made, patched, function->first_window + i, at);
	if (!good)
		made->bytes = made->jump_count = 0;
	head = (struct head){ (uint32_t)made->jump_count, (uint32_t)made->bytes };
	fwrite(&head, sizeof(head), 1, out);
	fwrite(made->jumps, sizeof(*made->jumps), made->jump_count, out);
	fwrite(made->code, 1, made->bytes, out);
	return made->bytes;
}

static int make_patches(int fd, FILE *out, const void *arg)
{
	const struct xp_patches_request *request = arg;
	const struct xp_elf_segment *segment = &request->planned->code;
	uint8_t *code = malloc(segment->bytes);
	struct xp_made_patches made = { 0 };
	uint64_t at = request->at;

	for (uint64_t done = 0; done < segment->bytes;) {
		ssize_t count =
		    code ? pread(fd, code + done, segment->bytes - done, (off_t)(segment->offset + done)) : -1;

		if (count <= 0)
			return 1;
		done += (uint64_t)count;
	}
	for (size_t i = 0; i < request->count; i++) {
		struct xp_patched_function patched = {
			.plan = &request->planned->plan,
			.function = &request->planned->plan.functions[request->functions[i]],
			.code = code,
			.code_vaddr = segment->vaddr,
			.bias = request->bias,
			.slots = { request->slots[0], request->slots[1] },
		};

		for (size_t kind = 0; kind < XP_ARRAY_SIZE(patched.words); kind++)
			patched.words[kind] = request->words[kind] + (uint32_t)i;
		at += tell_function(out, &made, &patched, at);
	}
	return ferror(out) ? 1 : 0;
}

/* ---- the caller ---- */

static bool is_sane(const struct xp_patches_request *request, const struct xp_code_patch *jump)
{
	const struct xp_elf_segment *code = &request->planned->code;

	return (jump->count == XP_WINDOW_BYTES || jump->count == XP_SPRING_BYTES) &&
	       jump->address - request->bias - code->vaddr < code->bytes &&
	       code->bytes - (jump->address - request->bias - code->vaddr) >= jump->count;
}

static int hear_function(struct xp_made_patches *made, const struct xp_patches_request *request, size_t index, FILE *in)
{
	const struct xp_call_plan_function *function = &request->planned->plan.functions[request->functions[index]];
	struct head head;

	if (fread(&head, sizeof(head), 1, in) != 1 || head.jump_count > 2 * (uint64_t)function->window_count ||
	    head.bytes > (uint64_t)XP_TRAMPOLINE_BYTES_MAX * function->window_count)
		return -ENOEXEC;
	if (XP_ARRAY_RESERVE(made->jumps, made->jump_room, made->jump_count + head.jump_count + 1) ||
	    XP_ARRAY_RESERVE(made->code, made->room, made->bytes + head.bytes + 1))
		return -ENOMEM;
	if (fread(made->jumps + made->jump_count, sizeof(*made->jumps), head.jump_count, in) != head.jump_count ||
	    fread(made->code + made->bytes, 1, head.bytes, in) != head.bytes)
		return -ENOEXEC;
	for (uint32_t i = 0; i < head.jump_count; i++)
		if (!is_sane(request, &made->jumps[made->jump_count++]))
			return -ENOEXEC;
	made->bytes += head.bytes;
	made->first_jump[index + 1] = (uint32_t)made->jump_count;
	made->first_byte[index + 1] = made->bytes;
	return 0;
}

int xp_patches_ask(struct xp_made_patches *made, int fd, const struct xp_patches_request *request)
{
	struct xp_confined *confined;
	int err;

	*made = (struct xp_made_patches){ .first_jump = calloc(request->count + 1, sizeof(*made->first_jump)),
					  .first_byte = calloc(request->count + 1, sizeof(*made->first_byte)) };
	xp_why_clear();
	if (!made->first_jump || !made->first_byte)
		return -ENOMEM;
	err = xp_confined_start_fd(&confined, fd, make_patches, request, &limits);
	if (err)
		return err;
	for (size_t i = 0; !err && i < request->count; i++)
		err = hear_function(made, request, i, xp_confined_answers(confined));
	if (!err && made->bytes > xp_patches_bytes_max(request))
		err = -ENOEXEC;
	if (xp_confined_end(confined) == XP_CONFINED_LATE)
		return xp_why_set(-ETIMEDOUT, "its trampolines were not made in time");
	if (err)
		return xp_why_set(err, "its trampolines cannot be made: %s",
				  err == -ENOMEM ? "out of memory" : "the process that makes them failed");
	return 0;
}

void xp_made_patches_free(struct xp_made_patches *made)
{
	free(made->code);
	free(made->jumps);
	free(made->first_jump);
	free(made->first_byte);
}
