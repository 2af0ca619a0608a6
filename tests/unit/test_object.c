/* SPDX-License-Identifier: BSD-2-Clause */
#include <sys/mman.h>
#include <unistd.h>

#include "unit.h"

#include "sled/object.h"
#include "tiny_elf.h"

/* Unordered sleds, and three equal ones: a million probes at one address would keep the kernel busy forever. */
TEST(test_each_place_once)
{
	static const uint8_t code[] = { 0xeb, 0x09 };
	static const size_t places[] = { 0x40, 0x20, 0x40, 0x60, 0x40 };
	struct xp_objects objects = { 0 };
	struct xp_object *object;
	struct tiny_elf elf;
	int refused, fd = memfd_create("tiny", 0);

	tiny_init(&elf, 0);
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		tiny_code(&elf, places[i], code, sizeof(code));
		tiny_sled(&elf, places[i], places[i], XP_SLED_ENTRY, 2);
	}
	tiny_section_bytes(&elf, TINY_S_MAP, 32 * elf.sleds);
	assert_int_equal(write(fd, elf.bytes, sizeof(elf.bytes)), sizeof(elf.bytes));
	assert_int_equal(xp_objects_add(&objects, &object, &(struct xp_object_file){ fd, "tiny", 0 }, &refused), 0);
	assert_non_null(object->table);
	assert_int_equal(object->table->sled_count, 5);
	assert_int_equal(object->selected_count, 3);
	assert_int_equal(object->selected[0], 1);
	assert_int_equal(object->selected[1], 0);
	assert_int_equal(object->selected[2], 3);
	assert_int_equal(xp_object_selected_from(object, TINY_TEXT + 0x21), 1);
	assert_int_equal(xp_object_selected_from(object, TINY_TEXT + 0x61), 3);
	xp_objects_free(&objects);
	close(fd);
}
