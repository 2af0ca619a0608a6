// SPDX-License-Identifier: BSD-2-Clause
/* A stack that leads to more files than may be requested at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "unwind/cfi_tables.h"
#include "unwind/stacks.h"

#define FILES (XP_CFI_WAITING_MAX + 50)
#define CODE 0x10000u /* of the first one; the others follow */

static void no_size(void *arg, pid_t tid, const struct xp_stack_size *size)
{
	(void)arg;
	(void)tid;
	(void)size;
}

/* This program, mapped as many files. */
static void map_files(struct xp_files *files, struct xp_address_space *space, char *path)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	for (unsigned int i = 0; i < FILES; i++) {
		struct xp_file file = { .kind = XP_FILE_DISK, .dev = i, .inode = st.st_ino, .path = path };
		struct xp_vma vma = { CODE + i * 4096, CODE + (i + 1) * 4096, 0, xp_files_intern(files, &file) };

		assert_non_null(vma.file);
		assert_int_equal(xp_address_space_map(space, &vma), 0);
	}
}

/* Requests without room are not repeated: their samples wait until there is room. */
static void test_full(void **state)
{
	const struct xp_stacks_options options = { .set_size = no_size };
	struct xp_frame frames[XP_UNWIND_FRAMES_MAX];
	struct xp_unwind_thread thread = { .pid = getpid(), .tid = getpid(), .ip = CODE, .sp = 0x7fff0000 };
	struct xp_unwind_result result;
	struct xp_files files = { 0 };
	struct xp_address_space space = { 0 };
	struct xp_stacks *stacks;
	uint64_t words[FILES];
	char path[4096] = "";

	(void)state;
	assert_true(readlink("/proc/self/exe", path, sizeof(path) - 1) > 0);
	map_files(&files, &space, path);
	for (unsigned int i = 0; i < FILES; i++)
		words[i] = CODE + i * 4096;
	thread.stack = (const uint8_t *)words;
	thread.stack_bytes = sizeof(words);
	assert_int_equal(xp_stacks_new(&stacks, &options), 0);
	assert_int_equal(xp_stacks_unwind(stacks, &space, &thread, true, frames, &result), 0);
	assert_int_equal(result.end, XP_UNWIND_WAITS);
	for (unsigned int i = 0; i < FILES; i++)
		assert_true(xp_stacks_pending(stacks, files.all[i], 0));
	xp_stacks_free(stacks);
	xp_address_space_free(&space);
	xp_files_free(&files);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
