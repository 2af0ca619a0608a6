/* SPDX-License-Identifier: BSD-2-Clause */
/* What a hostile target may put in the place of a file that is read; the target is this process. */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "target/target.h"
#include "target/file.h"
#include "target/memory.h"

#define BYTES_MAX 1000000

struct fixture {
	char dir[64];
	char path[96]; /* of the file to open */
	char other[96];
	uint64_t start_time;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	strcpy(f->dir, "/tmp/xprof-unit-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	snprintf(f->path, sizeof(f->path), "%s/map", f->dir);
	snprintf(f->other, sizeof(f->other), "%s/other", f->dir);
	f->start_time = xp_target_start_time(getpid());
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	unlink(f->path);
	unlink(f->other);
	rmdir(f->dir);
	free(f);
	return 0;
}

static void put(const char *path, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, "hello", 5), 5);
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static int try_open(const struct fixture *f)
{
	int fd = xp_target_file_open(getpid(), f->start_time, f->path, BYTES_MAX);

	if (fd >= 0)
		close(fd);
	return fd >= 0 ? 0 : fd;
}

static void need_root(void)
{
	if (geteuid()) {
		print_message("skipped: needs root\n");
		skip();
	}
}

static void test_plain(void **state)
{
	struct fixture *f = *state;
	char text[8] = "";
	int fd;

	assert_int_equal(try_open(f), -ENOENT);
	put(f->path, 0600);
	fd = xp_target_file_open(getpid(), f->start_time, f->path, BYTES_MAX);
	assert_true(fd >= 0);
	assert_int_equal(read(fd, text, sizeof(text)), 5);
	assert_string_equal(text, "hello");
	assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	close(fd);
}

static void test_symbolic_link(void **state)
{
	struct fixture *f = *state;

	put(f->other, 0644);
	assert_int_equal(symlink(f->other, f->path), 0);
	assert_int_equal(try_open(f), -ELOOP);
	unlink(f->path);
	/* On the way. */
	assert_int_equal(symlink(f->dir, f->path), 0);
	snprintf(f->path, sizeof(f->path), "%s/map/other", f->dir);
	assert_int_equal(try_open(f), -ELOOP);
	snprintf(f->path, sizeof(f->path), "%s/map", f->dir);
	unlink(f->path);
	/* Of those that /proc makes up. */
	snprintf(f->path, sizeof(f->path), "/proc/%d/exe", getpid());
	assert_int_equal(try_open(f), -ELOOP);
	snprintf(f->path, sizeof(f->path), "/proc/self/root%s/other", f->dir);
	assert_int_equal(try_open(f), -ELOOP);
	snprintf(f->path, sizeof(f->path), "%s/map", f->dir);
}

static void test_hard_link(void **state)
{
	struct fixture *f = *state;

	put(f->other, 0644);
	assert_int_equal(link(f->other, f->path), 0);
	assert_int_equal(try_open(f), -EPERM);
	unlink(f->other);
	assert_int_equal(try_open(f), 0);
}

static void test_fifo(void **state)
{
	struct fixture *f = *state;
	int writer;

	assert_int_equal(mkfifo(f->path, 0644), 0);
	assert_int_equal(try_open(f), -EINVAL);
	/* It was not even opened for a moment: that would wake one who waits to write. */
	writer = open(f->path, O_WRONLY | O_NONBLOCK);
	assert_int_equal(writer, -1);
	assert_int_equal(errno, ENXIO);
}

static void test_directory(void **state)
{
	struct fixture *f = *state;

	strcpy(f->path, f->dir);
	assert_int_equal(try_open(f), -EINVAL);
	snprintf(f->path, sizeof(f->path), "%s/map", f->dir);
}

static void test_device(void **state)
{
	struct fixture *f = *state;

	need_root();
	if (mknod(f->path, S_IFCHR | 0666, makedev(1, 5))) { /* /dev/zero */
		print_message("skipped: no devices can be made here\n");
		skip();
	}
	assert_int_equal(try_open(f), -EINVAL);
}

static void test_huge(void **state)
{
	struct fixture *f = *state;

	put(f->path, 0644);
	assert_int_equal(truncate(f->path, BYTES_MAX), 0);
	assert_int_equal(try_open(f), 0);
	assert_int_equal(truncate(f->path, BYTES_MAX + 1), 0);
	assert_int_equal(try_open(f), -EFBIG);
	assert_int_equal(truncate(f->path, 1ll << 42), 0); /* without a byte on the disk */
	assert_int_equal(try_open(f), -EFBIG);
}

static void test_foreign_owner(void **state)
{
	struct fixture *f = *state;

	need_root();
	put(f->path, 0644);
	assert_int_equal(chown(f->path, 12345, 12345), 0);
	assert_int_equal(try_open(f), -EPERM);
}

static void test_gone(void **state)
{
	struct fixture *f = *state;
	pid_t pid;

	put(f->path, 0644);
	/* Another process has got this number since. */
	assert_int_equal(xp_target_file_open(getpid(), f->start_time + 1, f->path, BYTES_MAX), -ESRCH);
	pid = fork();
	if (!pid)
		_exit(0);
	waitpid(pid, NULL, 0);
	assert_int_equal(xp_target_file_open(pid, f->start_time, f->path, BYTES_MAX), -ESRCH);
}

/* Calls what of a child that has done `as`, and is told to end afterwards. */
static void with_child(void (*as)(void *arg), void (*what)(void *arg, pid_t pid), void *arg)
{
	int ready[2], end[2];
	char byte = 0;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	assert_int_equal(pipe(end), 0);
	pid = fork();
	if (!pid) {
		close(end[1]);
		as(arg);
		if (write(ready[1], &byte, 1) == 1 && read(end[0], &byte, 1) < 0)
			_exit(1);
		_exit(0);
	}
	close(ready[1]);
	close(end[0]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	what(arg, pid);
	close(ready[0]);
	close(end[1]);
	waitpid(pid, NULL, 0);
}

static void as_nobody(void *arg)
{
	(void)arg;
	if (setresgid(12345, 12346, 12345) || setresuid(12345, 12346, 12345))
		_exit(1);
}

/* The target is no longer root: of root's files it gives only those that it could read itself. */
static void open_for_nobody(void *arg, pid_t pid)
{
	struct fixture *f = arg;
	uint64_t start_time = xp_target_start_time(pid);
	struct xp_target_status status;
	int fd;

	assert_int_equal(xp_target_status(&status, pid, start_time), 0);
	assert_int_equal(status.euid, 12346);
	assert_int_equal(status.egid, 12346);
	put(f->path, 0600);
	assert_int_equal(xp_target_file_open(pid, start_time, f->path, BYTES_MAX), -EPERM);
	assert_int_equal(chmod(f->path, 0644), 0);
	fd = xp_target_file_open(pid, start_time, f->path, BYTES_MAX);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(chmod(f->path, 0600), 0);
	assert_int_equal(chown(f->path, 12346, 0), 0);
	fd = xp_target_file_open(pid, start_time, f->path, BYTES_MAX);
	assert_true(fd >= 0);
	close(fd);
}

static void test_effective_user(void **state)
{
	need_root();
	with_child(as_nobody, open_for_nobody, *state);
}

static void in_root(void *arg)
{
	struct fixture *f = arg;

	if (chroot(f->dir) || chdir("/"))
		_exit(1);
}

/* Its paths are those of its own root, which ".." does not leave. */
static void open_in_root(void *arg, pid_t pid)
{
	struct fixture *f = arg;
	uint64_t start_time = xp_target_start_time(pid);
	int fd;

	put(f->path, 0600);
	assert_int_equal(xp_target_file_open(pid, start_time, f->path, BYTES_MAX), -ENOENT);
	for (int up = 0; up < 2; up++) {
		fd = xp_target_file_open(pid, start_time, up ? "/../../map" : "/map", BYTES_MAX);
		assert_true(fd >= 0);
		close(fd);
	}
}

static void test_own_root(void **state)
{
	need_root();
	with_child(in_root, open_in_root, *state);
}

static void on_signal(int signal)
{
	(void)signal;
}

static void test_status(void **state)
{
	struct fixture *f = *state;
	struct xp_target_status status;

	signal(SIGUSR2, on_signal);
	assert_int_equal(xp_target_status(&status, getpid(), f->start_time), 0);
	assert_int_equal(status.euid, geteuid());
	assert_true(status.caught & 1ull << (SIGUSR2 - 1));
	assert_false(status.caught & 1ull << (SIGUSR1 - 1));
	assert_true(status.inner_pid > 0);
	signal(SIGUSR2, SIG_DFL);
	assert_int_equal(xp_target_status(&status, getpid(), f->start_time + 1), -ESRCH);
}

static void check_memory(struct xp_target_memory *memory)
{
	char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), text[8];

	assert_ptr_not_equal(pages, MAP_FAILED);
	assert_int_equal(munmap(pages + 4096, 4096), 0);
	strcpy(pages + 4092, "abc");
	assert_int_equal(xp_target_memory_read(memory, getpid(), (uintptr_t)pages + 4092, text, 4), 0);
	assert_string_equal(text, "abc");
	assert_int_equal(xp_target_memory_read(memory, getpid(), (uintptr_t)pages + 4092, text, 5), -EFAULT);
	assert_int_equal(xp_target_memory_read(memory, getpid(), (uintptr_t)pages + 4096, text, 1), -EFAULT);
	assert_int_equal(xp_target_memory_read(memory, getpid(), UINT64_MAX - 2, text, 8), -EFAULT);
	munmap(pages, 4096);
}

static void test_memory(void **state)
{
	struct xp_target_memory *memory;

	(void)state;
	need_root(); /* for a child to read its parent */
	assert_int_equal(xp_target_memory_new(&memory), 0);
	check_memory(memory);
	xp_target_memory_free(memory);
}

/* More than goes through at once. */
static void test_large_memory(void **state)
{
	size_t size = 1000000;
	uint8_t *from = malloc(size), *to = calloc(1, size);
	struct xp_target_memory *memory;

	(void)state;
	need_root();
	for (size_t i = 0; i < size; i++)
		from[i] = (uint8_t)(i * 7 >> 5);
	assert_int_equal(xp_target_memory_new(&memory), 0);
	assert_int_equal(xp_target_memory_read(memory, getpid(), (uintptr_t)from, to, size), 0);
	assert_memory_equal(from, to, size);
	xp_target_memory_free(memory);
	free(from);
	free(to);
}

/* A page that its process never fills: the one that reads it would wait for ever. */
struct trap {
	uint8_t *page;
};

static void set_trap(void *arg)
{
	struct trap *trap = arg;
	struct uffdio_register area = { .range = { (uintptr_t)trap->page, 4096 },
					.mode = UFFDIO_REGISTER_MODE_MISSING };
	struct uffdio_api api = { .api = UFFD_API };
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);

	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &area))
		_exit(1);
}

static void read_trap(void *arg, pid_t pid)
{
	struct trap *trap = arg;
	struct xp_target_memory *memory;
	char byte;

	assert_int_equal(xp_target_memory_new(&memory), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(xp_target_memory_read(memory, pid, (uintptr_t)trap->page, &byte, 1), -ETIMEDOUT);
	/* Nothing of that one any more, but of others. */
	assert_int_equal(xp_target_memory_read(memory, pid, (uintptr_t)trap, &byte, 1), -ETIMEDOUT);
	assert_int_equal(xp_target_memory_read(memory, getpid(), (uintptr_t)trap, &byte, 1), 0);
	xp_target_memory_free(memory);
	kill(pid, SIGKILL);
}

static void test_stuck_memory(void **state)
{
	struct trap trap = { .page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) };
	int fd;

	(void)state;
	need_root();
	fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	if (fd < 0) {
		print_message("skipped: no userfaultfd here\n");
		skip();
	}
	close(fd);
	with_child(set_trap, read_trap, &trap);
	munmap(trap.page, 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_plain, setup, teardown),
		cmocka_unit_test_setup_teardown(test_symbolic_link, setup, teardown),
		cmocka_unit_test_setup_teardown(test_hard_link, setup, teardown),
		cmocka_unit_test_setup_teardown(test_fifo, setup, teardown),
		cmocka_unit_test_setup_teardown(test_directory, setup, teardown),
		cmocka_unit_test_setup_teardown(test_device, setup, teardown),
		cmocka_unit_test_setup_teardown(test_huge, setup, teardown),
		cmocka_unit_test_setup_teardown(test_foreign_owner, setup, teardown),
		cmocka_unit_test_setup_teardown(test_gone, setup, teardown),
		cmocka_unit_test_setup_teardown(test_effective_user, setup, teardown),
		cmocka_unit_test_setup_teardown(test_own_root, setup, teardown),
		cmocka_unit_test_setup_teardown(test_status, setup, teardown),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_large_memory),
		cmocka_unit_test(test_stuck_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
