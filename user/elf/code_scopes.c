// SPDX-License-Identifier: BSD-2-Clause
#include "elf/code_scopes.h"

#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/util.h"

#define SCOPE_DEPTH_MAX 256

static bool is_code_scope(Dwarf_Die *die, int tag)
{
	return (tag == DW_TAG_inlined_subroutine || tag == DW_TAG_lexical_block) && xp_die_has_code(die);
}

/* Lists the scopes in a DIE: those directly in it, each followed by the scopes in it. */
static int add_scopes(struct xp_code_scopes *scopes, Dwarf_Die *parent, unsigned int depth)
{
	int err = 0, end;
	Dwarf_Die die;

	for (end = dwarf_child(parent, &die); !err && !end && depth < SCOPE_DEPTH_MAX;
	     end = dwarf_siblingof(&die, &die)) {
		size_t index = scopes->count;
		int tag = dwarf_tag(&die);

		if (!is_code_scope(&die, tag))
			continue;
		if (XP_ARRAY_RESERVE(scopes->all, scopes->room, index + 1))
			return -ENOMEM;
		scopes->all[scopes->count++] =
		    (struct xp_code_scope){ .die = die, .inlined = tag == DW_TAG_inlined_subroutine };
		err = add_scopes(scopes, &die, depth + 1);
		scopes->all[index].next = scopes->count;
	}
	return err;
}

static int read_scopes(struct xp_code_scopes *scopes, Dwarf_Die *function)
{
	scopes->function = function->addr;
	scopes->count = 0;
	scopes->range_count = 0;
	return add_scopes(scopes, function, 0);
}

static int read_ranges(struct xp_code_scopes *scopes, struct xp_code_scope *scope)
{
	Dwarf_Addr base, start, end;
	ptrdiff_t at = 0;

	scope->has_ranges = true;
	scope->range_first = scopes->range_count;
	while ((at = dwarf_ranges(&scope->die, at, &base, &start, &end)) > 0) {
		if (XP_ARRAY_ADD(scopes->ranges, scopes->range_count, scopes->range_room,
				 (struct xp_code_range){ start, end }))
			return -ENOMEM;
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

size_t xp_code_scopes_inlined(struct xp_code_scopes *scopes, Dwarf_Die *function, uint64_t address,
			      struct xp_code_scope **inlined, size_t room)
{
	size_t count = 0, end;

	if (scopes->function != function->addr && read_scopes(scopes, function))
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

bool xp_die_has_code(Dwarf_Die *die)
{
	return dwarf_hasattr(die, DW_AT_low_pc) || dwarf_hasattr(die, DW_AT_ranges);
}

void xp_code_scopes_free(struct xp_code_scopes *scopes)
{
	free(scopes->all);
	free(scopes->ranges);
	memset(scopes, 0, sizeof(*scopes));
}
