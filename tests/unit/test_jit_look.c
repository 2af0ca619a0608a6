// SPDX-License-Identifier: BSD-2-Clause
/* The recorder's time for a check of a process's JIT code. */
#include "unit.h"

#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "jit/jit.h"
#include "target/target.h"

#define WATCH_NS (2 * XP_NS_PER_S)

/* GDB's interface, with this program as the watched address. */
struct {
	uint32_t version;
	uint32_t action_flag;
	void *relevant_entry;
	void *first_entry;
} __jit_debug_descriptor = { .version = 1 };

void __jit_debug_register_code(void);
void __attribute__((noinline)) __jit_debug_register_code(void)
{
	__asm__ volatile("" ::: "memory");
}

static void watch(void *arg, pid_t pid, int fd, uint64_t offset)
{
	unsigned int *watched = arg;

	(void)fd;
	assert_int_equal(pid, getpid());
	assert_int_not_equal(offset, 0);
	(*watched)++;
	usleep(WATCH_NS / 1000);
}

/* The mapping of this program's code. */
static void map_program(struct xp_address_space *space, struct xp_file *file, const struct xp_mappings *mappings)
{
	for (size_t i = 0; i < mappings->count; i++) {
		const struct xp_mapping *m = &mappings->list[i];
		const struct xp_vma vma = { m->start, m->end, m->file_offset, file };

		if ((uintptr_t)watch < m->start || (uintptr_t)watch >= m->end)
			continue;
		*file = (struct xp_file){ .kind = XP_FILE_DISK, .dev = m->dev, .inode = m->inode, .path = m->path };
		assert_int_equal(xp_address_space_map(space, &vma), 0);
	}
	assert_int_equal(space->count, 1);
}

/* The time to attach a probe does not count, because the kernel causes it, not the process. */
TEST(test_watching_is_free)
{
	const struct xp_clock clock = { .hz = 2000000000, .mono_hz = 2000000000 };
	unsigned int watched = 0;
	struct xp_jits jits = { .clock = &clock, .bytes_left = 1 << 20, .watch = watch, .arg = &watched };
	struct xp_mappings mappings;
	struct xp_address_space space = { 0 };
	struct xp_file file;
	struct xp_jit *jit;

	assert_int_equal(xp_mappings_read(&mappings, getpid()), 0);
	map_program(&space, &file, &mappings);
	assert_int_equal(xp_jit_new(&jit, &jits, getpid(), 1), 0);
	assert_in_range(xp_jit_refresh(jit, &space, 1000), 0, 1);
	assert_int_equal(watched, 1);
	assert_true(jits.looking.left_ns > -(int64_t)WATCH_NS);
	xp_jit_free(jit);
	xp_jits_free(&jits);
	xp_address_space_free(&space);
	xp_mappings_free(&mappings);
}
