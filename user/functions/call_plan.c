// SPDX-License-Identifier: BSD-2-Clause
#include "functions/call_plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/util.h"
#include "functions/go_plan.h"
#include "functions/windows.h"

/* Limit for a whole file, to bound the time. libLLVM 19 (45 MB of code) uses a hundredth of it. */
#define TABLE_ENTRIES_MAX (1ull << 26)
#define ROWS_MAX (1ull << 28)

struct planning {
	struct xp_code_map map;
	struct xp_code_part *parts;
	struct xp_call_plan *plan;
	uint64_t table_budget;
	uint64_t row_budget;
};

/* A function that is being planned. */
struct work {
	struct planning *planning;
	struct xp_jump_targets targets;
	struct xp_call_plan_function function;
	uint32_t root;
	bool has_unreached; /* the function has code that nothing reaches */
};

/* ---- sites ---- */

static int add_site(struct work *work, uint64_t vaddr, enum xp_site_kind kind)
{
	struct xp_call_plan *plan = work->planning->plan;

	return XP_ARRAY_ADD(
	    plan->sites, plan->site_count, plan->site_room,
	    (struct xp_call_plan_site){ .vaddr = vaddr, .window = XP_NO_WINDOW, .kind = (uint8_t)kind });
}

static int add_direct_jump(struct work *work, uint64_t at, enum xp_code_kind kind)
{
	struct planning *planning = work->planning;
	struct xp_code code;

	xp_code_map_decode(&planning->map, at, &code);
	if (!xp_code_leaves(&planning->map, planning->parts, work->root, code.target))
		return 0;
	return add_site(work, at, kind == XP_CODE_JUMP ? XP_SITE_TAIL : XP_SITE_CONDITIONAL_TAIL);
}

static int add_indirect_jump(struct work *work, uint32_t part, uint64_t at)
{
	switch (xp_jump_targets_find(&work->targets, part, at)) {
	case XP_JUMP_TAIL:
		return add_site(work, at, XP_SITE_TAIL);
	case XP_JUMP_AMBIGUOUS:
		work->function.reason = XP_CALL_PLAN_AMBIGUOUS;
		return 0;
	default:
		return 0;
	}
}

static int add_exits(struct work *work, uint32_t part)
{
	const struct xp_code_map *map = &work->planning->map;
	const struct xp_cfi_fde *fde = &map->fdes.all[part];
	int err = 0;

	for (uint64_t at = fde->vaddr; !err && at < fde->vaddr + fde->bytes; at = xp_code_map_next(map, at)) {
		enum xp_code_kind kind = xp_code_map_kind(map, at);

		if (kind == XP_CODE_RET)
			err = add_site(work, at, XP_SITE_RETURN);
		else if (kind == XP_CODE_JUMP || kind == XP_CODE_BRANCH)
			err = add_direct_jump(work, at, kind);
		else if (kind == XP_CODE_INDIRECT)
			err = add_indirect_jump(work, part, at);
	}
	return err;
}

/*
 * Checks for code that nothing reaches, such as data, and targets of a switch whose table is not recognized. Landing
 * pads of exceptions are not reached either, but usually have no exits of their own.
 */
static void check_reach(struct work *work, uint32_t part)
{
	const struct xp_code_map *map = &work->planning->map;
	const struct xp_cfi_fde *fde = &map->fdes.all[part];
	bool is_reached = true;

	for (uint64_t at = fde->vaddr; at < fde->vaddr + fde->bytes; at = xp_code_map_next(map, at)) {
		enum xp_code_kind kind = xp_code_map_kind(map, at);
		bool is_end = kind == XP_CODE_RET || kind == XP_CODE_INDIRECT;

		is_reached |= xp_code_map_is(map, at, XP_MARK_TARGET);
		if (!is_reached && is_end)
			work->function.reason = XP_CALL_PLAN_UNREACHED;
		if (!is_reached && kind != XP_CODE_NOP && kind != XP_CODE_STOP)
			work->has_unreached = true;
		is_reached &= !is_end && kind != XP_CODE_JUMP && kind != XP_CODE_STOP;
	}
}

static int add_sites(struct work *work)
{
	const struct xp_code_map *map = &work->planning->map;
	int err = add_site(work, xp_code_entry(map, &map->fdes.all[work->root]), XP_SITE_ENTRY);

	for (uint32_t part = work->root; !err && part != XP_NO_PART; part = work->planning->parts[part].next)
		err = add_exits(work, part);
	for (uint32_t part = work->root; !err && part != XP_NO_PART; part = work->planning->parts[part].next)
		check_reach(work, part);
	if (work->has_unreached)
		xp_jump_targets_doubt(&work->targets);
	if (work->targets.is_loop)
		work->function.reason = XP_CALL_PLAN_LOOP;
	return err;
}

/* ---- windows ---- */

static int find_windows(struct work *work)
{
	struct planning *planning = work->planning;
	struct xp_call_plan *plan = planning->plan;
	struct xp_windows windows = { &planning->map, &work->targets, plan, plan->window_count, false };
	struct xp_call_plan_site *sites = plan->sites + work->function.first_site;
	int err = 0;

	for (int pass = 0; pass < 2; pass++) {
		windows.has_springs = pass;
		for (size_t i = 1; !err && i < work->function.site_count; i++)
			if (sites[i].window == XP_NO_WINDOW)
				err = xp_windows_exit(&windows,
						      (uint32_t)xp_code_map_find(&planning->map, sites[i].vaddr),
						      sites[i].vaddr, &sites[i].window);
		if (!err && sites[0].window == XP_NO_WINDOW)
			err = xp_windows_entry(&windows, work->root, sites[0].vaddr, &sites[0].window);
	}
	return err;
}

/* ---- functions ---- */

static enum xp_call_plan_reason refusal(const struct planning *planning, uint32_t root)
{
	for (uint32_t part = root; part != XP_NO_PART; part = planning->parts[part].next) {
		if (!planning->map.is_decodable[part])
			return XP_CALL_PLAN_UNDECODED;
		if (planning->parts[part].is_shared)
			return XP_CALL_PLAN_SHARED;
	}
	if (planning->parts[root].is_loop)
		return XP_CALL_PLAN_LOOP;
	return planning->parts[root].leaves ? XP_CALL_PLAN_LEAVES : XP_CALL_PLAN_OK;
}

/*
 * Prepares a uprobe on a return or a jump. The kernel accepts no segment or lock prefixes (arch/x86/kernel/uprobes.c),
 * such as notrack; of the others, compilers use only rep, bnd and REX here.
 */
static void prepare_probe(const struct work *work, struct xp_call_plan_site *site)
{
	const struct xp_code_map *map = &work->planning->map;
	const uint8_t *code = map->code + (site->vaddr - map->start),
		      *end = code + (xp_code_map_next(map, site->vaddr) - site->vaddr);

	site->can_probe = !memchr("\x26\x2e\x36\x3e\x64\x65\x66\x67\xf0", *code, 9);
	site->has_condition = site->kind == XP_SITE_CONDITIONAL_TAIL;
	if (site->has_condition)
		site->condition = (end - code >= 6 ? end[-5] : end[-2]) & 15;
}

static void count_sites(struct work *work)
{
	struct xp_call_plan_site *sites = work->planning->plan->sites + work->function.first_site;
	struct xp_call_plan_function *function = &work->function;

	function->exit_count = function->site_count - 1;
	for (size_t i = 1; i < function->site_count; i++) {
		if (sites[i].window != XP_NO_WINDOW)
			continue;
		function->probe_count++;
		prepare_probe(work, &sites[i]);
	}
	function->way = sites[0].window == XP_NO_WINDOW ? XP_CALL_PLAN_PROBES : XP_CALL_PLAN_PATCHED;
}

/* Ignores padding. */
static void find_faults(struct work *work)
{
	const struct xp_code_map *map = &work->planning->map;

	for (uint32_t i = 0; i < work->function.window_count; i++) {
		struct xp_call_plan_window *window = &work->planning->plan->windows[work->function.first_window + i];

		for (uint64_t at = window->vaddr, end = at + window->bytes;
		     at < end && xp_code_map_kind(map, at) != XP_CODE_NONE; at = xp_code_map_next(map, at)) {
			struct xp_code code;

			xp_code_map_decode(map, at, &code);
			window->may_fault |= code.may_fault && code.kind != XP_CODE_STOP;
		}
	}
}

static int by_window(const void *a, const void *b)
{
	const struct xp_call_plan_site *left = a, *right = b;

	return xp_compare(left->window, right->window) ?: xp_compare(left->vaddr, right->vaddr);
}

static int plan_sites(struct work *work)
{
	struct xp_call_plan *plan = work->planning->plan;
	int err;

	work->function.first_site = (uint32_t)plan->site_count;
	err = add_sites(work);
	if (err || work->function.reason) {
		plan->site_count = work->function.first_site;
		return err;
	}
	work->function.site_count = (uint32_t)(plan->site_count - work->function.first_site);
	work->function.first_window = (uint32_t)plan->window_count;
	err = find_windows(work);
	work->function.window_count = (uint32_t)plan->window_count - work->function.first_window;
	if (err)
		return err;
	count_sites(work);
	find_faults(work);
	qsort(plan->sites + work->function.first_site + 1, work->function.site_count - 1, sizeof(*plan->sites),
	      by_window);
	return 0;
}

static int plan_function(struct planning *planning, uint32_t root)
{
	const struct xp_cfi_fde *fde = &planning->map.fdes.all[root];
	struct xp_call_plan *plan = planning->plan;
	struct work work = {
		.planning = planning,
		.targets = { .map = &planning->map,
			     .parts = planning->parts,
			     .root = root,
			     .table_budget = &planning->table_budget,
			     .row_budget = &planning->row_budget },
		.function = { .vaddr = fde->vaddr, .bytes = fde->bytes, .reason = refusal(planning, root) },
		.root = root,
	};
	int err = 0;

	if (XP_ARRAY_RESERVE(plan->functions, plan->function_room, plan->function_count + 1))
		return -ENOMEM;
	if (!work.function.reason)
		err = plan_sites(&work);
	if (work.function.reason)
		work.function.way = XP_CALL_PLAN_REFUSED;
	plan->functions[plan->function_count++] = work.function;
	return err;
}

static int plan_all(struct planning *planning)
{
	int err = 0;

	if (planning->map.is_go)
		return xp_go_plan_make(planning->plan, &planning->map);
	planning->parts = calloc(planning->map.fdes.count, sizeof(*planning->parts));
	if (!planning->parts)
		return -ENOMEM;
	xp_code_groups_find(&planning->map, planning->parts);
	for (size_t i = 0; !err && i < planning->map.fdes.count; i++)
		if (planning->parts[i].kind == XP_PART_FUNCTION)
			err = plan_function(planning, (uint32_t)i);
	return err;
}

int xp_call_plan_make(struct xp_call_plan *plan, struct xp_elf_file *file)
{
	struct planning planning = { .plan = plan, .table_budget = TABLE_ENTRIES_MAX, .row_budget = ROWS_MAX };
	int err;

	memset(plan, 0, sizeof(*plan));
	err = xp_code_map_read(&planning.map, file);
	if (!err)
		err = plan_all(&planning);
	free(planning.parts);
	xp_code_map_free(&planning.map);
	return err;
}

void xp_call_plan_free(struct xp_call_plan *plan)
{
	free(plan->functions);
	free(plan->sites);
	free(plan->windows);
}

const char *xp_call_plan_reason_word(enum xp_call_plan_reason reason)
{
	static const char *const words[XP_CALL_PLAN_REASONS] = {
		[XP_CALL_PLAN_OK] = "ok",
		[XP_CALL_PLAN_UNDECODED] = "undecoded",
		[XP_CALL_PLAN_LOOP] = "loop",
		[XP_CALL_PLAN_SHARED] = "shared",
		[XP_CALL_PLAN_LEAVES] = "no-unwind",
		[XP_CALL_PLAN_AMBIGUOUS] = "ambiguous",
		[XP_CALL_PLAN_UNREACHED] = "unreached",
		[XP_CALL_PLAN_ASSEMBLY] = "assembly",
	};

	return reason < XP_CALL_PLAN_REASONS ? words[reason] : "unknown";
}

const char *xp_call_plan_reason_text(enum xp_call_plan_reason reason)
{
	static const char *const texts[XP_CALL_PLAN_REASONS] = {
		[XP_CALL_PLAN_OK] = "its calls can be recorded",
		[XP_CALL_PLAN_UNDECODED] = "its code does not decode to the end of its unwind entry",
		[XP_CALL_PLAN_LOOP] = "its first instruction is the head of a loop",
		[XP_CALL_PLAN_SHARED] = "it shares code with another function",
		[XP_CALL_PLAN_LEAVES] = "it jumps to code without an unwind entry",
		[XP_CALL_PLAN_AMBIGUOUS] = "an indirect jump may be a switch or a tail call",
		[XP_CALL_PLAN_UNREACHED] = "nothing seems to reach one of its exits, so it may be data",
		[XP_CALL_PLAN_ASSEMBLY] = "it is written in assembly, or called from assembly",
	};

	return reason < XP_CALL_PLAN_REASONS ? texts[reason] : "unknown";
}
