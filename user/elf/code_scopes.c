// SPDX-License-Identifier: BSD-2-Clause
#include "elf/code_scopes.h"

#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/util.h"

#define SCOPE_DEPTH_MAX 256

static bool is_code_scope(const struct xp_die_shape *shape)
{
	return shape->has_code && (shape->tag == DW_TAG_inlined_subroutine || shape->tag == DW_TAG_lexical_block);
}

static int add_scope(struct xp_code_scopes *scopes, const struct xp_die_walk *walk)
{
	if (XP_ARRAY_RESERVE(scopes->all, scopes->room, scopes->count + 1))
		return -ENOMEM;
	scopes->all[scopes->count++] =
	    (struct xp_code_scope){ .die = walk->die, .inlined = walk->shape->tag == DW_TAG_inlined_subroutine };
	return 0;
}

/* Ends the open scopes that do not contain a DIE at this depth. */
static void close_scopes(struct xp_code_scopes *scopes, size_t *open, unsigned int *open_count, unsigned int depth)
{
	while (*open_count >= depth)
		scopes->all[open[--*open_count]].next = scopes->count;
}

/* Lists the scopes of the function: those directly in it, and nested ones. */
static int read_scopes(struct xp_code_scopes *scopes, const struct xp_die_shapes *shapes, const Dwarf_Die *function)
{
	size_t open[SCOPE_DEPTH_MAX]; /* the scopes that contain the current DIE; their depths are 1, 2 and so on */
	unsigned int open_count = 0;
	struct xp_die_walk walk;
	int err = 0;

	scopes->function = function->addr;
	scopes->count = 0;
	scopes->range_count = 0;
	xp_die_walk_begin(&walk, shapes, function);
	while (!err && xp_die_walk_next(&walk)) {
		close_scopes(scopes, open, &open_count, XP_MAX(walk.depth, 1u));
		if (walk.depth != open_count + 1 || walk.depth > SCOPE_DEPTH_MAX || !is_code_scope(walk.shape))
			continue;
		err = add_scope(scopes, &walk);
		if (!err)
			open[open_count++] = scopes->count - 1;
	}
	close_scopes(scopes, open, &open_count, 1);
	return err;
}

static int read_ranges(struct xp_code_scopes *scopes, struct xp_code_scope *scope)
{
	Dwarf_Addr base, start, end;
	ptrdiff_t at = 0;

	scope->has_ranges = true;
	scope->range_first = scopes->range_count;
	while ((at = dwarf_ranges(&scope->die, at, &base, &start, &end)) > 0) {
		if (XP_ARRAY_RESERVE(scopes->ranges, scopes->range_room, scopes->range_count + 1))
			return -ENOMEM;
		scopes->ranges[scopes->range_count++] = (struct xp_code_range){ start, end };
		scope->range_count++;
	}
	return 0;
}

static bool has_address(struct xp_code_scopes *scopes, struct xp_code_scope *scope, uint64_t address)
{
	if (!scope->has_ranges && read_ranges(scopes, scope))
		return false;
	for (size_t i = 0; i < scope->range_count; i++) {
		const struct xp_code_range *range = &scopes->ranges[scope->range_first + i];

		if (address >= range->start && address < range->end)
			return true;
	}
	return false;
}

size_t xp_code_scopes_inlined(struct xp_code_scopes *scopes, const struct xp_die_shapes *shapes,
			      const Dwarf_Die *function, uint64_t address, struct xp_code_scope **inlined, size_t room)
{
	size_t count = 0, end;

	if (scopes->function != function->addr && read_scopes(scopes, shapes, function))
		scopes->count = 0;
	end = scopes->count;
	for (size_t i = 0; i < end && count < room;) {
		struct xp_code_scope *scope = &scopes->all[i];

		if (!has_address(scopes, scope, address)) {
			i = scope->next;
			continue;
		}
		if (scope->inlined)
			inlined[count++] = scope;
		end = scope->next;
		i++;
	}
	return count;
}

void xp_code_scopes_free(struct xp_code_scopes *scopes)
{
	free(scopes->all);
	free(scopes->ranges);
	memset(scopes, 0, sizeof(*scopes));
}
