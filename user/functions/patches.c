// SPDX-License-Identifier: BSD-2-Clause
#include "functions/patches.h"

#include <string.h>

#include "base/array.h"

#define SITES_MAX 32 /* maximum number of sites in a window, which has at most 64 bytes */

/* Lists the sites of a window in the order of its instructions. Returns SITES_MAX + 1 if there are more. */
static size_t sites_of(const struct xp_patched_function *patched, uint32_t window,
		       struct xp_trampoline_site sites[SITES_MAX])
{
	const struct xp_call_plan_site *all = patched->plan->sites + patched->function->first_site;
	const uint32_t site_count = patched->function->site_count;
	size_t first = 1 + XP_FIND_FIRST(site_count - 1, i, all[1 + i].window < window), count = 0;

	for (size_t i = all[0].window == window ? 0 : first; i < site_count && all[i].window == window;
	     i = i ? i + 1 : first) {
		if (count == SITES_MAX)
			return SITES_MAX + 1;
		sites[count++] = (struct xp_trampoline_site){
			.offset = (uint8_t)(all[i].vaddr - patched->plan->windows[window].vaddr),
			.kind = all[i].kind,
			.word = patched->words[all[i].kind],
		};
	}
	return count;
}

static bool encode_jumps(const struct xp_patched_function *patched, uint32_t window, uint64_t to,
			 struct xp_code_patch jumps[2])
{
	const struct xp_call_plan_window *planned = &patched->plan->windows[window];
	uint64_t address = planned->vaddr + patched->bias, spring = planned->spring + patched->bias;

	memset(jumps, 0, 2 * sizeof(*jumps));
	jumps[0] = (struct xp_code_patch){ .address = planned->spring ? spring : address, .count = XP_WINDOW_BYTES };
	if (planned->spring)
		jumps[1] = (struct xp_code_patch){ .address = address, .count = XP_SPRING_BYTES };
	return xp_trampoline_jump(jumps[0].address, to, jumps[0].bytes) &&
	       (!planned->spring || xp_trampoline_short_jump(address, spring, jumps[1].bytes));
}

size_t xp_patches_encode(const struct xp_patched_function *patched, uint32_t window, uint64_t at,
			 uint8_t bytes[XP_TRAMPOLINE_BYTES_MAX], struct xp_code_patch jumps[2])
{
	const struct xp_call_plan_window *planned = &patched->plan->windows[window];
	struct xp_trampoline_site sites[SITES_MAX];
	const struct xp_trampoline trampoline = {
		.code = patched->code + (planned->vaddr - patched->code_vaddr),
		.bytes = planned->bytes,
		.address = planned->vaddr + patched->bias,
		.slots = { patched->slots[0], patched->slots[1] },
		.sites = sites,
		.site_count = sites_of(patched, window, sites),
	};

	if (trampoline.site_count > SITES_MAX || !encode_jumps(patched, window, at, jumps))
		return 0;
	return xp_trampoline_encode(&trampoline, at, bytes);
}
