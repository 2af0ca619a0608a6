// SPDX-License-Identifier: BSD-2-Clause
#include "elf/die_walk.h"

#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* Limit of abbreviation codes. Compilers number them from 1; large units of Rust have some thousands. */
#define CODE_MAX (1u << 20)

/* ---- abbreviations ---- */

/* Sets *bytes to the size of a form's values. Returns false if the size is not fixed. */
static bool fixed_bytes(const struct xp_die_shapes *shapes, unsigned int form, uint32_t *bytes)
{
	switch (form) {
	case DW_FORM_flag_present:
	case DW_FORM_implicit_const:
		*bytes = 0;
		return true;
	case DW_FORM_data1:
	case DW_FORM_ref1:
	case DW_FORM_flag:
	case DW_FORM_strx1:
	case DW_FORM_addrx1:
		*bytes = 1;
		return true;
	case DW_FORM_data2:
	case DW_FORM_ref2:
	case DW_FORM_strx2:
	case DW_FORM_addrx2:
		*bytes = 2;
		return true;
	case DW_FORM_strx3:
	case DW_FORM_addrx3:
		*bytes = 3;
		return true;
	case DW_FORM_data4:
	case DW_FORM_ref4:
	case DW_FORM_strx4:
	case DW_FORM_addrx4:
	case DW_FORM_ref_sup4:
		*bytes = 4;
		return true;
	case DW_FORM_data8:
	case DW_FORM_ref8:
	case DW_FORM_ref_sig8:
	case DW_FORM_ref_sup8:
		*bytes = 8;
		return true;
	case DW_FORM_data16:
		*bytes = 16;
		return true;
	case DW_FORM_addr:
		*bytes = shapes->address_bytes;
		return true;
	case DW_FORM_strp:
	case DW_FORM_line_strp:
	case DW_FORM_strp_sup:
	case DW_FORM_sec_offset:
	case DW_FORM_GNU_ref_alt:
	case DW_FORM_GNU_strp_alt:
		*bytes = shapes->offset_bytes;
		return true;
	case DW_FORM_ref_addr:
		*bytes = shapes->ref_addr_bytes;
		return true;
	}
	return false;
}

static int add_step(struct xp_die_shapes *shapes, struct xp_die_shape *shape, unsigned int form)
{
	struct xp_die_step step = { 0 };

	if (!fixed_bytes(shapes, form, &step.bytes))
		step.form = form;
	if (!step.form && shape->step_count && !shapes->steps[shapes->step_count - 1].form) {
		shapes->steps[shapes->step_count - 1].bytes += step.bytes;
		return 0;
	}
	if (XP_ARRAY_RESERVE(shapes->steps, shapes->step_room, shapes->step_count + 1))
		return -ENOMEM;
	shapes->steps[shapes->step_count++] = step;
	shape->step_count++;
	return 0;
}

static int add_shape(struct xp_die_shapes *shapes, Dwarf_Abbrev *abbrev)
{
	unsigned int code = dwarf_getabbrevcode(abbrev), name, form;
	struct xp_die_shape shape = {
		.tag = (uint16_t)dwarf_getabbrevtag(abbrev),
		.has_children = dwarf_abbrevhaschildren(abbrev) > 0,
		.first_step = (uint32_t)shapes->step_count,
	};

	if (code > CODE_MAX)
		return -EINVAL;
	if (XP_ARRAY_RESERVE(shapes->all, shapes->room, (size_t)code + 1))
		return -ENOMEM;
	for (; shapes->count <= code; shapes->count++)
		shapes->all[shapes->count] = (struct xp_die_shape){ 0 };
	/*
	 * dwarf_getattrcnt() of elfutils 0.188 miscounts after DW_FORM_implicit_const, so this uses
	 * dwarf_getabbrevattr().
	 */
	for (size_t i = 0; !dwarf_getabbrevattr(abbrev, i, &name, &form, NULL); i++) {
		int err = add_step(shapes, &shape, form);

		if (err)
			return err;
		shape.has_code |= name == DW_AT_low_pc || name == DW_AT_ranges;
	}
	shapes->all[code] = shape;
	return 0;
}

static int find_unit(struct xp_die_shapes *shapes, Dwarf_Die *unit)
{
	Dwarf_Off begin = dwarf_dieoffset(unit) - dwarf_cuoffset(unit), next;
	Dwarf *dwarf = dwarf_cu_getdwarf(unit->cu);
	Dwarf_Half version;
	Dwarf_Die last;
	size_t head;

	if (dwarf_next_unit(dwarf, begin, &next, &head, &version, NULL, &shapes->address_bytes, &shapes->offset_bytes,
			    NULL, NULL))
		return -EINVAL;
	/*
	 * The length in the header may exceed the section. Only libdw knows the section, so this asks it for the last
	 * DIE.
	 */
	if (!dwarf_offdie(dwarf, next - 1, &last) || last.cu != unit->cu)
		return -EINVAL;
	shapes->cu = unit->cu;
	shapes->end = (const uint8_t *)last.addr + 1;
	shapes->ref_addr_bytes = version == 2 ? shapes->address_bytes : shapes->offset_bytes;
	return 0;
}

int xp_die_shapes_read(struct xp_die_shapes *shapes, Dwarf_Die *unit)
{
	Dwarf_Abbrev *abbrev;
	size_t length;
	int err;

	memset(shapes, 0, sizeof(*shapes));
	err = find_unit(shapes, unit);
	for (Dwarf_Off at = 0; !err; at += length) {
		abbrev = dwarf_getabbrev(unit, at, &length);
		if (abbrev == DWARF_END_ABBREV)
			break;
		err = abbrev ? add_shape(shapes, abbrev) : -EINVAL;
	}
	return err;
}

void xp_die_shapes_free(struct xp_die_shapes *shapes)
{
	free(shapes->all);
	free(shapes->steps);
	memset(shapes, 0, sizeof(*shapes));
}

/* ---- the walk ---- */

static void skip_value(struct xp_dwarf_cursor *cursor, const struct xp_die_shapes *shapes, uint64_t form)
{
	uint32_t bytes;

	if (form == DW_FORM_indirect)
		form = xp_dwarf_uleb(cursor);
	if (fixed_bytes(shapes, (unsigned int)form, &bytes)) {
		xp_dwarf_skip(cursor, bytes);
		return;
	}
	switch (form) {
	case DW_FORM_sdata:
	case DW_FORM_udata:
	case DW_FORM_ref_udata:
	case DW_FORM_strx:
	case DW_FORM_addrx:
	case DW_FORM_loclistx:
	case DW_FORM_rnglistx:
	case DW_FORM_GNU_addr_index:
	case DW_FORM_GNU_str_index:
		xp_dwarf_uleb(cursor);
		break;
	case DW_FORM_block:
	case DW_FORM_exprloc:
		xp_dwarf_skip(cursor, xp_dwarf_uleb(cursor));
		break;
	case DW_FORM_block1:
		xp_dwarf_skip(cursor, xp_dwarf_fixed(cursor, 1));
		break;
	case DW_FORM_block2:
		xp_dwarf_skip(cursor, xp_dwarf_fixed(cursor, 2));
		break;
	case DW_FORM_block4:
		xp_dwarf_skip(cursor, xp_dwarf_fixed(cursor, 4));
		break;
	case DW_FORM_string:
		while (xp_dwarf_fixed(cursor, 1))
			;
		break;
	default:
		cursor->bad = true;
	}
}

void xp_die_walk_begin(struct xp_die_walk *walk, const struct xp_die_shapes *shapes, const Dwarf_Die *first)
{
	*walk = (struct xp_die_walk){ .shapes = shapes, .cursor = { first->addr, shapes->end, false } };
}

bool xp_die_walk_next(struct xp_die_walk *walk)
{
	const struct xp_die_shapes *shapes = walk->shapes;
	struct xp_dwarf_cursor *cursor = &walk->cursor;
	uint64_t code;

	do {
		if (walk->shape && !walk->next_depth)
			return false;
		walk->die = (Dwarf_Die){ .addr = (void *)cursor->at, .cu = shapes->cu };
		code = xp_dwarf_uleb(cursor);
		if (cursor->bad || code >= shapes->count || (!code && !walk->next_depth))
			return false;
		walk->next_depth -= !code; /* the end of a list of children */
	} while (!code);
	walk->shape = &shapes->all[code];
	for (uint32_t i = 0; i < walk->shape->step_count; i++) {
		const struct xp_die_step *step = &shapes->steps[walk->shape->first_step + i];

		if (step->form)
			skip_value(cursor, shapes, step->form);
		else
			xp_dwarf_skip(cursor, step->bytes);
	}
	walk->depth = walk->next_depth;
	walk->next_depth += walk->shape->has_children;
	return !cursor->bad && walk->shape->tag;
}
