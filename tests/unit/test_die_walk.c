// SPDX-License-Identifier: BSD-2-Clause
/* The walk over the DIEs of a unit, beside libdw's own over this program, whose units come from this compiler. */

#include "unit.h"

#include <dwarf.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "elf/die_walk.h"

#define UNITS_MAX 30

/* The DIEs below parent, by libdw; the walk goes along. Returns how many. */
static size_t walk_along(struct xp_die_walk *walk, Dwarf_Die *parent, unsigned int depth)
{
	size_t count = 0;
	Dwarf_Die die;

	if (dwarf_child(parent, &die))
		return 0;
	do {
		bool has_code = dwarf_hasattr(&die, DW_AT_low_pc) || dwarf_hasattr(&die, DW_AT_ranges);

		assert_true(xp_die_walk_next(walk));
		assert_ptr_equal(walk->die.addr, die.addr);
		assert_int_equal(walk->depth, depth);
		assert_int_equal(walk->shape->tag, dwarf_tag(&die));
		assert_int_equal(dwarf_tag(&walk->die), dwarf_tag(&die));
		assert_int_equal(walk->shape->has_code, has_code);
		count += 1 + walk_along(walk, &die, depth + 1);
	} while (!dwarf_siblingof(&die, &die));
	return count;
}

static size_t walk_from(const struct xp_die_shapes *shapes, Dwarf_Die *first)
{
	struct xp_die_walk walk;
	size_t count;

	xp_die_walk_begin(&walk, shapes, first);
	assert_true(xp_die_walk_next(&walk));
	assert_int_equal(walk.depth, 0);
	count = walk_along(&walk, first, 1);
	assert_false(xp_die_walk_next(&walk));
	return count;
}

TEST(test_walk)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	Dwarf *dwarf = dwarf_begin(fd, DWARF_C_READ);
	struct xp_die_shapes shapes;
	size_t count = 0, units = 0;
	Dwarf_CU *cu = NULL;
	Dwarf_Die unit, child;

	assert_non_null(dwarf);
	for (; units < UNITS_MAX && !dwarf_get_units(dwarf, cu, &cu, NULL, NULL, &unit, NULL); units++) {
		assert_int_equal(xp_die_shapes_read(&shapes, &unit), 0);
		count += walk_from(&shapes, &unit);
		/* A part of the unit ends where it ends. */
		if (!dwarf_child(&unit, &child))
			do
				walk_from(&shapes, &child);
			while (!dwarf_siblingof(&child, &child));
		xp_die_shapes_free(&shapes);
	}
	assert_true(units > 1 && count > 1000);
	dwarf_end(dwarf);
	close(fd);
}

/* A DIE with this content in place of the unit's first one, in bytes of our own. */
static bool walks(struct xp_die_shapes *shapes, const uint8_t *bytes, size_t size)
{
	const Dwarf_Die first = { .addr = (void *)bytes, .cu = shapes->cu };
	struct xp_die_walk walk;

	shapes->end = bytes + size;
	xp_die_walk_begin(&walk, shapes, &first);
	while (xp_die_walk_next(&walk))
		;
	return !walk.cursor.bad;
}

TEST(test_bad_bytes)
{
	struct xp_die_step steps[] = { { .form = DW_FORM_block4 }, { .form = 0xffff } };
	struct xp_die_shape all[] = {
		{ 0 },
		{ .tag = DW_TAG_subprogram, .has_children = true },
		{ .tag = DW_TAG_variable, .step_count = 1 },
		{ .tag = DW_TAG_variable, .first_step = 1, .step_count = 1 },
	};
	struct xp_die_shapes shapes = { .all = all, .count = 4, .steps = steps, .step_count = 2 };

	assert_true(walks(&shapes, (const uint8_t[]){ 1, 1, 0, 0 }, 4));
	assert_true(walks(&shapes, (const uint8_t[]){ 0 }, 1));
	assert_true(walks(&shapes, (const uint8_t[]){ 9 }, 1));
	assert_true(walks(&shapes, (const uint8_t[]){ 2, 1, 0, 0, 0, 7 }, 6));
	assert_false(walks(&shapes, (const uint8_t[]){ 1, 1, 0 }, 3));
	assert_false(walks(&shapes, (const uint8_t[]){ 2, 2, 0, 0, 0, 7 }, 6));
	assert_false(walks(&shapes, (const uint8_t[]){ 2, 0xff, 0xff, 0xff, 0xff, 7 }, 6));
	assert_false(walks(&shapes, (const uint8_t[]){ 3, 0, 0 }, 3));
	assert_false(walks(&shapes, (const uint8_t[]){ 0x81 }, 1));
}
