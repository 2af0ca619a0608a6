// SPDX-License-Identifier: BSD-2-Clause
#include "functions/go_plan.h"

#include <errno.h>
#include <string.h>

#include "base/array.h"

#define R14 14
/* The check of the stack is in the first instructions: at most 8 in Go 1.19. */
#define CHECK_INSTRUCTIONS_MAX 12

/* A function that is being planned. */
struct work {
	const struct xp_code_map *map;
	struct xp_call_plan *plan;
	struct xp_call_plan_function function;
	uint64_t end;
	uint64_t entry;		/* address of the entry's probe */
	bool has_check;		/* the probe is on the jump to runtime.morestack */
	uint64_t morestack;	/* target of this jump */
	uint8_t jump_condition; /* the low nibble of its opcode */
};

static const uint8_t *bytes_at(const struct work *work, uint64_t vaddr)
{
	return work->map->code + (vaddr - work->map->start);
}

static bool is_inside(const struct work *work, uint64_t vaddr)
{
	return vaddr >= work->function.vaddr && vaddr < work->end;
}

/* Returns whether the code is cmp 0x10(%r14) or 0x18(%r14): g.stackguard0 and g.stackguard1. */
static bool is_check(const uint8_t *code, size_t bytes)
{
	return bytes == 4 && (code[0] & 0xfb) == 0x49 && code[1] == 0x3b && (code[2] & 0xc7) == 0x46 &&
	       (code[3] == 0x10 || code[3] == 0x18);
}

/* Returns the low nibble of the opcode of a jcc. */
static uint8_t condition_at(const struct work *work, uint64_t vaddr)
{
	const uint8_t *end = bytes_at(work, xp_code_map_next(work->map, vaddr));

	return (xp_code_map_next(work->map, vaddr) - vaddr >= 6 ? end[-5] : end[-2]) & 15;
}

static void find_check(struct work *work)
{
	uint64_t at = work->function.vaddr;
	bool is_compared = false;
	struct xp_code code;

	work->entry = at;
	for (int i = 0; i < CHECK_INSTRUCTIONS_MAX && at < work->end; i++, at += code.bytes) {
		xp_code_map_decode(work->map, at, &code);
		if (is_compared && code.kind == XP_CODE_BRANCH && code.target > at && is_inside(work, code.target)) {
			work->entry = at;
			work->has_check = true;
			work->morestack = code.target;
			work->jump_condition = condition_at(work, at);
			return;
		}
		is_compared = is_check(bytes_at(work, at), code.bytes);
		if (code.kind != XP_CODE_PLAIN && code.kind != XP_CODE_NOP && code.kind != XP_CODE_BRANCH)
			return;
	}
}

/* Returns whether the kernel accepts a probe: only these prefixes, and no long nop, which it may replace. */
static bool can_probe(const struct work *work, uint64_t vaddr)
{
	const enum xp_code_kind kind = xp_code_map_kind(work->map, vaddr);
	const size_t bytes = xp_code_map_next(work->map, vaddr) - vaddr;

	return !memchr("\x26\x2e\x36\x3e\x64\x65\x66\x67\xf0", *bytes_at(work, vaddr), 9) && kind != XP_CODE_FIXED &&
	       kind != XP_CODE_STOP && kind != XP_CODE_ENDBR && (kind != XP_CODE_NOP || bytes == 1);
}

static int add_site(struct work *work, uint64_t vaddr, enum xp_site_kind kind)
{
	struct xp_call_plan *plan = work->plan;
	const bool is_entry = kind == XP_SITE_ENTRY;

	return XP_ARRAY_ADD(
	    plan->sites, plan->site_count, plan->site_room,
	    (struct xp_call_plan_site){
		.vaddr = vaddr,
		.window = XP_NO_WINDOW,
		.kind = (uint8_t)kind,
		.can_probe = can_probe(work, vaddr),
		.has_condition = is_entry ? work->has_check : kind == XP_SITE_CONDITIONAL_TAIL,
		/* The entry counts if the jump is not taken: opposite conditions differ in bit 0. */
		.condition = is_entry ? work->jump_condition ^ 1 : condition_at(work, vaddr),
	    });
}

/* Returns whether a jump goes to the start of the function, or to the check of the stack, without calling morestack. */
static bool is_loop(const struct work *work, uint64_t at, const struct xp_code *code)
{
	if (code->kind == XP_CODE_CALL || !code->has_target || code->target < work->function.vaddr ||
	    code->target > work->entry)
		return false;
	return !work->has_check || at < work->morestack || code->target != work->function.vaddr;
}

static int add_exits(struct work *work)
{
	struct xp_code code;
	int err = 0;

	for (uint64_t at = work->function.vaddr; !err && at < work->end; at += code.bytes) {
		xp_code_map_decode(work->map, at, &code);
		if (is_loop(work, at, &code))
			work->function.reason = XP_CALL_PLAN_LOOP;
		/* A function without a check may be a wrapper for ABI0, which loads r14. */
		if (!work->has_check &&
		    xp_code_writes(bytes_at(work, at), code.bytes, R14, &(struct xp_code_place){ 0 }))
			work->function.reason = XP_CALL_PLAN_ASSEMBLY;
		if (code.kind == XP_CODE_RET)
			err = add_site(work, at, XP_SITE_RETURN);
		else if (code.kind == XP_CODE_JUMP && !is_inside(work, code.target))
			err = add_site(work, at, XP_SITE_TAIL);
		else if (code.kind == XP_CODE_BRANCH && !is_inside(work, code.target))
			err = add_site(work, at, XP_SITE_CONDITIONAL_TAIL);
	}
	return err;
}

static int plan_sites(struct work *work)
{
	struct xp_call_plan_function *function = &work->function;
	struct xp_call_plan *plan = work->plan;
	int err;

	find_check(work);
	function->first_site = (uint32_t)plan->site_count;
	err = add_site(work, work->entry, XP_SITE_ENTRY) ?: add_exits(work);
	if (err || function->reason) {
		plan->site_count = function->first_site;
		return err;
	}
	function->site_count = (uint32_t)(plan->site_count - function->first_site);
	function->exit_count = function->probe_count = function->site_count - 1;
	function->way = XP_CALL_PLAN_PROBES;
	return 0;
}

static int plan_function(struct xp_call_plan *plan, const struct xp_code_map *map, size_t index)
{
	const struct xp_cfi_fde *fde = &map->fdes.all[index];
	const struct xp_go_function *go = xp_go_functions_find(&map->go, fde->vaddr);
	struct work work = {
		.map = map,
		.plan = plan,
		.function = { .vaddr = fde->vaddr, .bytes = fde->bytes, .way = XP_CALL_PLAN_REFUSED },
		.end = fde->vaddr + fde->bytes,
	};
	int err = 0;

	if (XP_ARRAY_RESERVE(plan->functions, plan->function_room, plan->function_count + 1))
		return -ENOMEM;
	if (go && go->is_assembly)
		work.function.reason = XP_CALL_PLAN_ASSEMBLY;
	else if (!map->is_decodable[index])
		work.function.reason = XP_CALL_PLAN_UNDECODED;
	else
		err = plan_sites(&work);
	plan->functions[plan->function_count++] = work.function;
	return err;
}

int xp_go_plan_make(struct xp_call_plan *plan, const struct xp_code_map *map)
{
	int err = 0;

	for (size_t i = 0; !err && i < map->fdes.count; i++)
		err = plan_function(plan, map, i);
	return err;
}
