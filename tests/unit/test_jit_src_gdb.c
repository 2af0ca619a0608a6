/* SPDX-License-Identifier: BSD-2-Clause */
/* The list of GDB's JIT interface. The target is this process, which reports false data. */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit.h"

#include "base/util.h"
#include "jit/src_gdb.h"
#include "symfile.h"

#define TEXT 0x7f0000001000ull

/* As in GDB's manual. */
struct jit_code_entry {
	struct jit_code_entry *next_entry;
	struct jit_code_entry *prev_entry;
	const char *symfile_addr;
	uint64_t symfile_size;
};

struct {
	uint32_t version;
	uint32_t action_flag;
	struct jit_code_entry *relevant_entry;
	struct jit_code_entry *first_entry;
} __jit_debug_descriptor;

void __jit_debug_register_code(void);
void __attribute__((noinline)) __jit_debug_register_code(void)
{
	__asm__ volatile("" ::: "memory");
}

struct fixture {
	struct xp_jit_src_gdb *gdb;
	struct xp_jit_code *code;
	uint64_t bytes_left;
	struct jit_code_entry entries[4];
	struct symfile files[4];
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->bytes_left = 64 << 20;
	memset(&__jit_debug_descriptor, 0, sizeof(__jit_debug_descriptor));
	__jit_debug_descriptor.version = 1;
	assert_int_equal(xp_jit_src_gdb_open(&f->gdb, getpid(), (uintptr_t)&__jit_debug_descriptor), 0);
	assert_int_equal(xp_jit_code_new(&f->code, &f->bytes_left, NULL), 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	xp_jit_src_gdb_free(f->gdb);
	xp_jit_code_free(f->code);
	assert_int_equal(f->bytes_left, 64 << 20);
	free(f);
	return 0;
}

/* Adds an entry at the head of the list, as LLVM does. */
static void add(struct fixture *f, int i, const char *name, uint64_t address)
{
	struct jit_code_entry *entry = &f->entries[i], *next = __jit_debug_descriptor.first_entry;

	symfile_init(&f->files[i], address, 0x100);
	symfile_add(&f->files[i], name, 0, 0x80);
	*entry = (struct jit_code_entry){ next, NULL, (const char *)&f->files[i], sizeof(f->files[i]) };
	if (next)
		next->prev_entry = entry;
	__jit_debug_descriptor.first_entry = __jit_debug_descriptor.relevant_entry = entry;
	__jit_debug_descriptor.action_flag = 1;
	__jit_debug_register_code();
}

static void take_out(struct fixture *f, int i)
{
	struct jit_code_entry *entry = &f->entries[i];

	if (entry->prev_entry)
		entry->prev_entry->next_entry = entry->next_entry;
	else
		__jit_debug_descriptor.first_entry = entry->next_entry;
	if (entry->next_entry)
		entry->next_entry->prev_entry = entry->prev_entry;
	__jit_debug_descriptor.relevant_entry = entry;
	__jit_debug_descriptor.action_flag = 2;
}

static void refresh(struct fixture *f, uint64_t tsc, bool is_told)
{
	assert_int_equal(xp_jit_src_gdb_refresh(f->gdb, f->code, NULL, tsc, is_told), 0);
}

static const char *name_at(struct fixture *f, uint64_t address, uint64_t tsc)
{
	struct xp_jit_range range;

	return xp_jit_code_find(f->code, address, tsc, &range) ? range.name : "-";
}

TEST_WITH(test_list, setup, teardown)
{
	struct fixture *f = *state;

	refresh(f, 50, false);
	add(f, 0, "a", TEXT);
	add(f, 1, "b", TEXT + 0x1000);
	refresh(f, 100, false);
	assert_string_equal(name_at(f, TEXT + 0x7f, 100), "a");
	assert_string_equal(name_at(f, TEXT + 0x80, 100), "-");
	assert_string_equal(name_at(f, TEXT + 0x1000, 100), "b");
	take_out(f, 0);
	add(f, 2, "c", TEXT + 0x2000);
	refresh(f, 200, false);
	refresh(f, 300, false);
	assert_string_equal(name_at(f, TEXT, 199), "a");
	assert_string_equal(name_at(f, TEXT, 200), "-");
	assert_string_equal(name_at(f, TEXT + 0x1000, 300), "b");
	assert_string_equal(name_at(f, TEXT + 0x2000, 300), "c");
	assert_int_equal(xp_jit_code_count(f->code), 3);
}

/*
 * Three entries with the maximum of unwind data each. Data that exceeds the limit of a walk comes with the next walk.
 */
TEST_WITH(test_eh_frame, setup, teardown)
{
	enum { LARGE = 15900 << 10, EH_FRAME = 1 << 20 };
	static const uint8_t eh_frame[] = { 20, 0, 0, 0,    0,	0, 0, 0, 1, 'z',  'R', 0, 1, 0x78, 16, 1, 0,
					    12, 7, 8, 0x90, 1,	0, 0, /* CIE; FDE of [TEXT, TEXT + 0x80): */
					    28, 0, 0, 0,    28, 0, 0, 0, 0, 0x10, 0,   0, 0, 0x7f, 0,  0, 0x80 };
	struct fixture *f = *state;
	struct xp_jit_bytes bytes = { .pid = getpid() };
	uint8_t *loaded = calloc(1, EH_FRAME);
	char *large[2];
	struct xp_cfi_found found;

	assert_non_null(loaded);
	memcpy(loaded, eh_frame, sizeof(eh_frame));
	add(f, 0, "a", TEXT);
	symfile_set_eh_frame(&f->files[0], loaded, EH_FRAME);
	for (int i = 0; i < 2; i++) {
		add(f, i + 1, i ? "c" : "b", TEXT + 0x1000 * (i + 1));
		large[i] = calloc(1, LARGE);
		assert_non_null(large[i]);
		memcpy(large[i], &f->files[i + 1], sizeof(f->files[0]));
		f->entries[i + 1].symfile_addr = large[i];
		f->entries[i + 1].symfile_size = LARGE;
	}
	for (int walk = 0, is_left = 1; is_left; walk++) {
		assert_true(walk < 4);
		is_left = xp_jit_src_gdb_refresh(f->gdb, f->code, &bytes, 100 * (walk + 1), false);
		/* The newest entry comes first. The time of a walk is limited, too. */
		assert_string_equal(name_at(f, TEXT + 0x2000, 1000), "c");
		assert_string_equal(name_at(f, TEXT, 1000), is_left ? "-" : "a");
		assert_int_equal(xp_jit_code_has_rules(f->code), !is_left);
		assert_true(walk || is_left);
	}
	assert_string_equal(name_at(f, TEXT + 0x1000, 1000), "b");
	assert_true(xp_jit_code_find_rule(f->code, TEXT + 0x7f, 1000, &found));
	assert_int_equal(found.row.rule, XP_CFI_RSP);
	assert_int_equal(found.row.cfa, 1);
	xp_jit_bytes_free(&bytes);
	free(loaded);
	free(large[0]);
	free(large[1]);
}

/* The same entry and symfile, in the same memory, for other code. */
TEST_WITH(test_reused, setup, teardown)
{
	struct fixture *f = *state;

	add(f, 0, "a", TEXT);
	refresh(f, 100, false);
	take_out(f, 0);
	add(f, 0, "b", TEXT);
	refresh(f, 200, true);
	assert_string_equal(name_at(f, TEXT, 199), "a");
	assert_string_equal(name_at(f, TEXT, 200), "b");
	/* Without an event of the breakpoint, the changed head of the symfile shows the change. */
	take_out(f, 0);
	add(f, 0, "c", TEXT);
	f->files[0].header.e_flags++;
	refresh(f, 300, false);
	assert_string_equal(name_at(f, TEXT, 300), "c");
}

TEST_WITH(test_loops, setup, teardown)
{
	struct fixture *f = *state;

	add(f, 0, "a", TEXT);
	add(f, 1, "b", TEXT + 0x1000);
	refresh(f, 100, false);
	f->entries[0].next_entry = &f->entries[1];
	refresh(f, 200, false);
	f->entries[0].next_entry = &f->entries[0];
	refresh(f, 300, false);
	f->entries[0].prev_entry = &f->entries[0];
	refresh(f, 400, false);
	/* A list in a loop gives no information: known code stays. */
	assert_string_equal(name_at(f, TEXT, 400), "a");
	assert_string_equal(name_at(f, TEXT + 0x1000, 400), "b");
}

/* A loop whose back pointers are consistent, as far as a reader can check. */
TEST_WITH(test_endless, setup, teardown)
{
	struct fixture *f = *state;
	size_t parts = 8, count = parts * XP_JIT_SRC_GDB_ENTRIES_MAX, before, first = 0, most = 0;
	struct jit_code_entry *entries = calloc(count, sizeof(*entries));
	struct symfile file;

	assert_non_null(entries);
	symfile_init(&file, TEXT, 0x100);
	symfile_add(&file, "a", 0, 0x80);
	for (size_t i = 0; i < count; i++)
		entries[i] = (struct jit_code_entry){ i + 1 < count ? &entries[i + 1] : NULL,
						      i ? &entries[i - 1] : NULL, (const char *)&file, sizeof(file) };
	/* The list changes each time: the stored state stays bounded. */
	before = mallinfo2().uordblks;
	for (size_t i = 0; i < parts; i++) {
		__jit_debug_descriptor.first_entry = &entries[i * XP_JIT_SRC_GDB_ENTRIES_MAX];
		__jit_debug_descriptor.first_entry->prev_entry = NULL;
		for (int more = 1; more;) {
			more = xp_jit_src_gdb_refresh(f->gdb, f->code, NULL, 100, false);
			assert_in_range(more, 0, 1);
		}
		most = XP_MAX(most, mallinfo2().uordblks - before);
		first = first ?: most;
	}
	/* A walk keeps at most two parts in addition to its own, at any progress. */
	assert_in_range(most, first, 4 * first);
	free(entries);
}

TEST_WITH(test_nonsense, setup, teardown)
{
	struct fixture *f = *state;

	add(f, 0, "a", TEXT);
	f->entries[0].symfile_addr = NULL;
	refresh(f, 100, false);
	add(f, 1, "b", TEXT);
	f->entries[1].symfile_size = UINT64_MAX;
	refresh(f, 200, false);
	f->entries[1].symfile_size = 0;
	refresh(f, 300, false);
	memset(&f->files[1], 0x55, sizeof(f->files[1]));
	f->entries[1].symfile_size = sizeof(f->files[1]);
	refresh(f, 400, false);
	__jit_debug_descriptor.first_entry = (struct jit_code_entry *)8;
	refresh(f, 500, false);
	__jit_debug_descriptor.version = 2;
	refresh(f, 600, false);
	assert_int_equal(xp_jit_code_count(f->code), 0);
	xp_jit_src_gdb_free(f->gdb);
	assert_int_equal(xp_jit_src_gdb_open(&f->gdb, getpid(), 8), 0);
	refresh(f, 700, false);
}

/* Reads the symbols of this program from its .symtab. */
TEST(test_found_in_file)
{
	struct xp_jit_gdb_file file;
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), none = open("/dev/null", O_RDONLY | O_CLOEXEC);
	uintptr_t start = 0;
	char line[256];
	FILE *maps = fopen("/proc/self/maps", "re");

	assert_non_null(maps);
	assert_non_null(fgets(line, sizeof(line), maps)); /* the first is its offset 0 */
	fclose(maps);
	start = strtoull(line, NULL, 16);
	assert_int_equal(xp_jit_gdb_file_look(&file, fd), 0);
	assert_ptr_equal((void *)(start + file.descriptor), &__jit_debug_descriptor);
	assert_ptr_equal((void *)(start + file.hook), &__jit_debug_register_code);
	assert_int_equal(xp_jit_gdb_file_look(&file, none), -ENOENT);
	close(fd);
	close(none);
}
