/* SPDX-License-Identifier: BSD-2-Clause */
/* Pages of shared memory that are removed: the kernel sends SIGBUS. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

#include "base/file_view.h"
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

/* A file that becomes shorter causes the same signal as a sealed file without memory for a page. */
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

TEST(test_missing_pages)
{
	int fd = shared_file(), other_fd = shared_file();
	struct xp_shared_pages pages = { .start = map(fd), .bytes = PAGES * PAGE };
	struct xp_shared_pages other = { .start = map(other_fd), .bytes = PAGES * PAGE };

	assert_int_equal(xp_shared_pages_guard(&pages), 0);
	assert_int_equal(xp_shared_pages_guard(&other), 0);
	assert_int_equal(touch(pages.start), 7);
	assert_false(pages.torn);
	assert_int_equal(ftruncate(fd, PAGE), 0);
	assert_int_equal(touch(pages.start), 7);
	assert_false(pages.torn);
	assert_int_equal(touch(pages.start + PAGE), 7);
	assert_true(pages.torn && !other.torn);
	/* In the task that stops a process: it shares the memory. */
	assert_int_equal(xp_shielded(touch, pages.start + 2 * PAGE), 7);
	/* A replaced page has none of the data written after its replacement. */
	assert_int_equal(*(volatile uint8_t *)(pages.start + 3 * PAGE), 0);
	assert_int_equal(touch(other.start + PAGE), 7);
	assert_false(other.torn);
	xp_shared_pages_forget(&pages);
	xp_shared_pages_forget(&other);
	munmap(pages.start, PAGES * PAGE);
	munmap(other.start, PAGES * PAGE);
	close(fd);
	close(other_fd);
}

/* SIGBUS from other memory, or from memory that is no longer guarded, still ends the process. */
TEST(test_other_memory)
{
	int fd = shared_file(), status;
	struct xp_shared_pages pages = { .start = map(fd), .bytes = PAGES * PAGE };
	pid_t pid;

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

/* In a process that also reads views of files, each kind of memory has its own handling. */
static void touch_all(int guarded_fd, bool guard_first)
{
	char path[64];
	struct xp_shared_pages pages = { .start = map(guarded_fd), .bytes = PAGES * PAGE };
	struct xp_file_view view;
	int fd = shared_file();

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (guard_first && xp_shared_pages_guard(&pages))
		_exit(3);
	if (xp_file_view_open(&view, AT_FDCWD, path))
		_exit(4);
	if (!guard_first && xp_shared_pages_guard(&pages))
		_exit(5);
	if (ftruncate(guarded_fd, 0) || touch(pages.start) != 7 || !pages.torn)
		_exit(6);
	if (ftruncate(fd, 0))
		_exit(7);
	_exit(*(volatile const uint8_t *)view.bytes ? 8 : 9);
}

TEST(test_views_of_files)
{
	for (int guard_first = 0; guard_first < 2; guard_first++) {
		int fd = shared_file(), said[2], status;
		char text[128] = "";
		pid_t pid;

		assert_int_equal(pipe(said), 0);
		pid = fork();
		if (!pid) {
			dup2(said[1], STDERR_FILENO);
			touch_all(fd, guard_first);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		close(said[1]);
		assert_true(read(said[0], text, sizeof(text) - 1) > 0);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
		assert_non_null(strstr(text, "a file became shorter while it was read"));
		close(said[0]);
		close(fd);
	}
}
