// SPDX-License-Identifier: BSD-2-Clause
/*
 * Fuzzes plans for functions without sleds, and their trampolines: the input is an ELF file. For any input, windows do
 * not overlap, springs are in reach, sites are in the windows that they name, and trampolines can be decoded to their
 * ends.
 */
#include <string.h>

#include "arch/x86_64/code_decode.h"
#include "functions/patches.h"
#include "fuzz.h"

#define FAR 0x10000000 /* distance from a window to its trampoline and to the slot */

static void check_trampoline(const struct xp_patched_function *patched, uint32_t window, struct xp_elf_file *file)
{
	const struct xp_call_plan_window *planned = &patched->plan->windows[window];
	const struct xp_elf_segment *segment = xp_elf_file_segment(file, planned->vaddr, planned->bytes);
	uint8_t code[UINT8_MAX], bytes[XP_TRAMPOLINE_BYTES_MAX];
	struct xp_patched_function one = *patched;
	uint64_t at = planned->vaddr + FAR;
	struct xp_code_patch jumps[2];
	struct xp_code decoded;
	size_t count;

	CHECK(segment);
	CHECK(xp_elf_file_read(file, code, segment->offset + (planned->vaddr - segment->vaddr), planned->bytes));
	one.code = code;
	one.code_vaddr = planned->vaddr;
	one.slots[0] = one.slots[1] = at + FAR;
	count = xp_patches_encode(&one, window, at, bytes, jumps);
	for (size_t i = 0; i < count; i += decoded.bytes)
		CHECK(xp_code_decode(bytes + i, count - i, at + i, &decoded));
}

static int by_vaddr(const void *a, const void *b)
{
	const struct xp_call_plan_window *left = a, *right = b;

	return left->vaddr < right->vaddr ? -1 : left->vaddr > right->vaddr;
}

static void check_sites(const struct xp_call_plan *plan, const struct xp_call_plan_function *function)
{
	CHECK((function->way == XP_CALL_PLAN_REFUSED) == !function->site_count);
	CHECK(function->first_site + function->site_count <= plan->site_count);
	for (size_t i = 0; i < function->site_count; i++) {
		const struct xp_call_plan_site *site = &plan->sites[function->first_site + i];

		CHECK((site->kind == XP_SITE_ENTRY) == !i);
		if (site->window == XP_NO_WINDOW)
			continue;
		CHECK(site->window < plan->window_count);
		CHECK(site->vaddr - plan->windows[site->window].vaddr < plan->windows[site->window].bytes);
	}
}

/* Sorts the windows. */
static void check_windows(struct xp_call_plan *plan)
{
	if (plan->window_count)
		qsort(plan->windows, plan->window_count, sizeof(*plan->windows), by_vaddr);
	for (size_t i = 0; i < plan->window_count; i++) {
		const struct xp_call_plan_window *window = &plan->windows[i];
		int64_t distance = (int64_t)(window->spring - (window->vaddr + XP_SPRING_BYTES));

		CHECK(window->bytes >= (window->spring ? XP_SPRING_BYTES : XP_WINDOW_BYTES));
		CHECK(!window->spring || (distance >= INT8_MIN && distance <= INT8_MAX));
		CHECK(!i || window->vaddr - window[-1].vaddr >= window[-1].bytes);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct xp_elf_file *file;
	struct xp_call_plan plan;

	if (!size)
		return 0;
	file = calloc(1, sizeof(*file));
	CHECK(file);
	if (!xp_elf_file_memory(file, data, size)) {
		if (!xp_call_plan_make(&plan, file)) {
			for (size_t i = 0; i < plan.function_count; i++) {
				const struct xp_call_plan_function *function = &plan.functions[i];
				const struct xp_patched_function patched = { .plan = &plan, .function = function };

				check_sites(&plan, function);
				for (uint32_t k = 0; k < function->window_count; k++)
					check_trampoline(&patched, function->first_window + k, file);
			}
			check_windows(&plan);
		}
		xp_call_plan_free(&plan);
	}
	xp_elf_file_close(file);
	free(file);
	return 0;
}
