/* SPDX-License-Identifier: BSD-2-Clause */
/* Pages of shared memory that go away: for which the kernel sends SIGBUS. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/shared_pages.h"
#include "base/shield.h"

#define PAGE 4096u
#define PAGES 4u

static uint8_t *map(int fd)
{
	uint8_t *memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	assert_ptr_not_equal(memory, MAP_FAILED);
	return memory;
}

/* A file that becomes shorter gives the signal that a sealed one gives if there is no memory for a page. */
static int shared_file(void)
{
	int fd = memfd_create("test", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, PAGES * PAGE), 0);
	return fd;
}

static int touch(void *arg)
{
	volatile uint8_t *byte = arg;

	*byte = 7;
	return *byte;
}

static void test_missing_pages(void **state)
{
	int fd = shared_file(), other_fd = shared_file();
	struct xp_shared_pages pages = { .start = map(fd), .bytes = PAGES * PAGE };
	struct xp_shared_pages other = { .start = map(other_fd), .bytes = PAGES * PAGE };

	(void)state;
	assert_int_equal(xp_shared_pages_guard(&pages), 0);
	assert_int_equal(xp_shared_pages_guard(&other), 0);
	assert_int_equal(touch(pages.start), 7);
	assert_false(pages.torn);
	assert_int_equal(ftruncate(fd, PAGE), 0);
	assert_int_equal(touch(pages.start), 7);
	assert_false(pages.torn);
	assert_int_equal(touch(pages.start + PAGE), 7);
	assert_true(pages.torn && !other.torn);
	/* In the task that stops a process, which shares the memory. */
	assert_int_equal(xp_shielded(touch, pages.start + 2 * PAGE), 7);
	assert_int_equal(touch(other.start + PAGE), 7);
	assert_false(other.torn);
	xp_shared_pages_forget(&pages);
	xp_shared_pages_forget(&other);
	munmap(pages.start, PAGES * PAGE);
	munmap(other.start, PAGES * PAGE);
	close(fd);
	close(other_fd);
}

/* Other memory still ends the process: so does what is not guarded any more. */
static void test_other_memory(void **state)
{
	int fd = shared_file(), status;
	struct xp_shared_pages pages = { .start = map(fd), .bytes = PAGES * PAGE };
	pid_t pid;

	(void)state;
	assert_int_equal(xp_shared_pages_guard(&pages), 0);
	xp_shared_pages_forget(&pages);
	assert_int_equal(ftruncate(fd, 0), 0);
	pid = fork();
	if (!pid) {
		touch(pages.start);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
	munmap(pages.start, PAGES * PAGE);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_missing_pages),
		cmocka_unit_test(test_other_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
