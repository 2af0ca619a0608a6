// SPDX-License-Identifier: BSD-2-Clause
/* The process that builds unwind tables: its work, its privileges, and the death of the process or of its children. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

#include "base/util.h"
#include "big_cfi.h"
#include "unwind/cfi_store.h"
#include "unwind/cfi_tables.h"

#define WAIT_MS 60000

static struct xp_cfi_tables *start(void)
{
	struct xp_cfi_tables *tables;

	assert_int_equal(xp_cfi_tables_new(&tables), 0);
	return tables;
}

static struct xp_file file_of(size_t index)
{
	return (struct xp_file){ .index = index, .kind = XP_FILE_DISK, .path = (char *)"/no/such/file" };
}

static void ask(struct xp_cfi_tables *tables, size_t index, int fd)
{
	const struct xp_file file = file_of(index);

	assert_int_equal(xp_cfi_tables_ask(tables, &file, 0, fd), 0);
}

static enum xp_cfi_state state_of(struct xp_cfi_tables *tables, size_t index)
{
	const struct xp_file file = file_of(index);
	const struct xp_cfi_table *table;
	enum xp_cfi_state state = xp_cfi_tables_get(tables, &file, 0, &table);

	assert_int_equal(state == XP_CFI_READY, table != NULL);
	return state;
}

/* As in the main loop. */
static void wait_for(struct xp_cfi_tables *tables, int count)
{
	struct pollfd wait = { .fd = xp_cfi_tables_fd(tables), .events = POLLIN };

	while (count > 0) {
		if (poll(&wait, 1, WAIT_MS) != 1)
			fail_msg("still waiting for %d", count);
		count -= xp_cfi_tables_collect(tables);
	}
	assert_int_equal(count, 0);
}

static int own_program(void)
{
	return open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
}

/* Returns the only child of a process, or 0. */
static pid_t child_of(pid_t parent)
{
	char path[64];
	FILE *file;
	int pid = 0;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", parent, parent);
	file = fopen(path, "r");
	assert_non_null(file);
	if (fscanf(file, "%d", &pid) != 1)
		pid = 0;
	fclose(file);
	return pid;
}

static pid_t worker_pid(void)
{
	pid_t pid = child_of(getpid());

	assert_true(pid > 0);
	return pid;
}

TEST(test_states)
{
	struct xp_cfi_tables *tables = start();
	int fd = own_program(), text = memfd_create("text", MFD_CLOEXEC);
	const struct xp_file file = file_of(3);
	const struct xp_cfi_table *table;

	assert_int_equal(write(text, "#!/bin/sh\n", 10), 10);
	assert_int_equal(state_of(tables, 3), XP_CFI_UNASKED);
	ask(tables, 3, fd);
	assert_int_equal(state_of(tables, 3), XP_CFI_BUILDING);
	ask(tables, 3, fd); /* nothing happens */
	ask(tables, 0, text);
	ask(tables, 1000, -1);
	assert_int_equal(state_of(tables, 1000), XP_CFI_ABSENT);
	assert_true(fcntl(fd, F_GETFD) >= 0);
	close(fd);
	close(text);
	wait_for(tables, 2);
	assert_int_equal(xp_cfi_tables_get(tables, &file, 0, &table), XP_CFI_READY);
	assert_true(xp_cfi_table_header(table)->code_bytes[XP_CFI_KNOWN] > 1000);
	assert_int_equal(state_of(tables, 0), XP_CFI_ABSENT);
	assert_int_equal(state_of(tables, 1), XP_CFI_UNASKED);
	assert_int_equal(xp_cfi_tables_collect(tables), 0);
	xp_cfi_tables_free(tables);
}

static void status_line(pid_t pid, const char *name, char *line, int bytes)
{
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "r");
	assert_non_null(file);
	while (fgets(line, bytes, file) && strncmp(line, name, strlen(name)))
		;
	fclose(file);
	assert_int_equal(strncmp(line, name, strlen(name)), 0);
	line[strcspn(line, "\n")] = 0;
}

static int count_fds(pid_t pid)
{
	char path[64], target[256];
	int count = 0;

	for (int i = 0; i < 256; i++) {
		snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, i);
		count += readlink(path, target, sizeof(target)) > 0;
	}
	return count;
}

TEST(test_unprivileged)
{
	struct xp_cfi_tables *tables = start();
	int fd = own_program(), hidden = fcntl(fd, F_DUPFD, 100);
	char line[256];
	pid_t pid = worker_pid();

	/* The process has started when it answers. */
	ask(tables, 0, fd);
	wait_for(tables, 1);
	status_line(pid, "CapPrm:", line, sizeof(line));
	assert_string_equal(line, "CapPrm:\t0000000000000000");
	status_line(pid, "CapEff:", line, sizeof(line));
	assert_string_equal(line, "CapEff:\t0000000000000000");
	status_line(pid, "NoNewPrivs:", line, sizeof(line));
	assert_string_equal(line, "NoNewPrivs:\t1");
	assert_int_equal(sched_getscheduler(pid), SCHED_BATCH);
	assert_int_equal(getpriority(PRIO_PROCESS, pid), getpriority(PRIO_PROCESS, 0));
	if (getuid() == 0) {
		status_line(pid, "Uid:", line, sizeof(line));
		assert_string_equal(line, "Uid:\t65534\t65534\t65534\t65534");
		status_line(pid, "Groups:", line, sizeof(line));
		assert_string_equal(line, "Groups:\t ");
		/* The process closes the file and the table after its answer. */
		for (int i = 0; i < 1000 && count_fds(pid) != 4; i++)
			usleep(10000);
		assert_int_equal(count_fds(pid), 4);
	}
	close(hidden);
	close(fd);
	xp_cfi_tables_free(tables);
	assert_int_equal(kill(pid, 0), -1);
}

/* Makes a copy of this program that only root may open. The caller unlinks path. */
static int private_copy(char *path)
{
	int from = own_program(), to = mkstemp(path);
	char bytes[65536];
	ssize_t n;

	assert_true(from >= 0 && to >= 0);
	while ((n = read(from, bytes, sizeof(bytes))) > 0)
		assert_int_equal(write(to, bytes, (size_t)n), n);
	assert_int_equal(fchmod(to, 0600), 0);
	close(from);
	return to;
}

/* A file that the process may not open is read through its descriptor. */
TEST(test_file_of_others)
{
	char path[] = "/tmp/xprof-test-cfi-XXXXXX";
	struct xp_cfi_tables *tables = start();
	int fd = private_copy(path);

	ask(tables, 0, fd);
	unlink(path);
	close(fd);
	wait_for(tables, 1);
	assert_int_equal(state_of(tables, 0), XP_CFI_READY);
	xp_cfi_tables_free(tables);
}

/* The same for a file that is only mapped, as the recorder opens it. */
TEST(test_mapped_file)
{
	char path[] = "/tmp/xprof-test-cfi-XXXXXX", link[128];
	struct xp_cfi_tables *tables;
	int fd = private_copy(path);
	char *mapped = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);

	unlink(path);
	close(fd);
	assert_true(mapped != MAP_FAILED);
	snprintf(link, sizeof(link), "/proc/self/map_files/%lx-%lx", (unsigned long)mapped,
		 (unsigned long)mapped + 4096);
	fd = open(link, O_RDONLY | O_CLOEXEC);
	munmap(mapped, 4096);
	if (fd < 0)
		skip(); /* needs CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN */
	tables = start();
	ask(tables, 0, fd);
	close(fd);
	wait_for(tables, 1);
	assert_int_equal(state_of(tables, 0), XP_CFI_READY);
	xp_cfi_tables_free(tables);
}

static void make_path(struct xp_cfi_tables *tables, size_t index, const char *path, const char *opened)
{
	const struct xp_file file = { .index = index, .kind = XP_FILE_DISK, .path = (char *)path };
	int fd = open(opened, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(xp_cfi_tables_ask(tables, &file, 0, fd), 0);
	close(fd);
	wait_for(tables, 1);
	assert_int_equal(state_of(tables, index), XP_CFI_READY);
}

/*
 * System files share a process, which has no privileges, either. If it dies, another process builds the remaining
 * tables.
 */
TEST(test_system_files)
{
	struct xp_cfi_tables *tables = start();
	char line[256];
	pid_t first, second;

	make_path(tables, 0, "/usr/bin/true", "/usr/bin/true");
	first = child_of(worker_pid());
	assert_true(first > 0);
	make_path(tables, 1, "/usr/bin/ls", "/usr/bin/ls");
	assert_int_equal(child_of(worker_pid()), first);
	status_line(first, "CapPrm:", line, sizeof(line));
	assert_string_equal(line, "CapPrm:\t0000000000000000");
	status_line(first, "NoNewPrivs:", line, sizeof(line));
	assert_string_equal(line, "NoNewPrivs:\t1");
	kill(first, SIGKILL);
	make_path(tables, 2, "/usr/bin/cat", "/usr/bin/cat");
	make_path(tables, 3, "/usr/bin/cp", "/usr/bin/cp");
	second = child_of(worker_pid());
	assert_true(second > 0 && second != first);
	xp_cfi_tables_free(tables);
	assert_int_equal(kill(second, 0), -1);
}

/* Each of these files has its own process, which ends with the file: no file can claim to be a system file. */
TEST(test_not_of_the_system)
{
	static const char *const paths[] = { "/usr/bin/ls", "/usr/lib/../../tmp/copy", "/tmp/ls", "" };
	char copy[] = "/tmp/xprof-test-cfi-XXXXXX", changed[] = "/usr/libexec/xprof-test-cfi-XXXXXX";
	struct xp_cfi_tables *tables = start();

	close(private_copy(copy));
	for (size_t i = 0; i < XP_ARRAY_SIZE(paths); i++)
		make_path(tables, i, paths[i], copy);
	make_path(tables, 10, copy, copy);
	assert_int_equal(child_of(worker_pid()), 0);
	unlink(copy);
	if (!geteuid() && !unshare(CLONE_NEWNS)) {
		int fd;

		assert_int_equal(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
		assert_int_equal(mount("none", "/usr/libexec", "tmpfs", 0, NULL), 0);
		fd = private_copy(changed);
		assert_int_equal(fchmod(fd, 0664), 0);
		make_path(tables, 11, changed, changed);
		assert_int_equal(fchmod(fd, 0644), 0);
		assert_int_equal(fchown(fd, 4711, 0), 0);
		make_path(tables, 12, changed, changed);
		assert_int_equal(child_of(worker_pid()), 0);
		assert_int_equal(fchown(fd, 0, 0), 0);
		make_path(tables, 13, changed, changed);
		assert_int_not_equal(child_of(worker_pid()), 0);
		close(fd);
		assert_int_equal(umount2("/usr/libexec", MNT_DETACH), 0);
	}
	xp_cfi_tables_free(tables);
}

TEST(test_killed)
{
	struct xp_cfi_tables *tables = start();
	int slow = endless_cfi_elf(), fd = own_program();
	pid_t first = worker_pid();

	ask(tables, 0, slow);
	for (size_t i = 1; i < 20; i++)
		ask(tables, i, fd);
	kill(first, SIGKILL);
	wait_for(tables, 20);
	assert_int_equal(state_of(tables, 0), XP_CFI_ABSENT);
	for (size_t i = 1; i < 20; i++)
		assert_int_equal(state_of(tables, i), XP_CFI_READY);
	assert_int_not_equal(worker_pid(), first);
	/* The death of an idle worker has no effect. */
	kill(worker_pid(), SIGKILL);
	ask(tables, 20, fd);
	wait_for(tables, 1);
	ask(tables, 21, fd);
	wait_for(tables, 1);
	assert_int_equal(state_of(tables, 21), XP_CFI_READY);
	close(slow);
	close(fd);
	xp_cfi_tables_free(tables);
}

/* A file whose reader would need hours is killed; the worker continues. Meanwhile the queue is bounded. */
TEST(test_endless)
{
	struct xp_cfi_tables *tables = start();
	int slow = endless_cfi_elf(), fd = own_program();
	const struct xp_file more = file_of(XP_CFI_WAITING_MAX);
	pid_t pid = worker_pid();

	ask(tables, 0, slow);
	for (size_t i = 1; i < XP_CFI_WAITING_MAX; i++)
		ask(tables, i, fd);
	assert_int_equal(xp_cfi_tables_ask(tables, &more, 0, fd), -EAGAIN);
	assert_int_equal(state_of(tables, more.index), XP_CFI_UNASKED);
	wait_for(tables, XP_CFI_WAITING_MAX);
	assert_int_equal(state_of(tables, 0), XP_CFI_ABSENT);
	assert_int_equal(state_of(tables, XP_CFI_WAITING_MAX - 1), XP_CFI_READY);
	assert_int_equal(worker_pid(), pid);
	close(slow);
	close(fd);
	xp_cfi_tables_free(tables);
}

/* A smaller file overtakes files that the process has not started. */
TEST(test_smallest_first)
{
	enum { SENT = 8 }; /* as in cfi_tables.c */
	struct xp_cfi_tables *tables = start();
	int slow = endless_cfi_elf(), small = big_cfi_elf(1, 2, 1);

	for (size_t i = 0; i <= SENT; i++)
		ask(tables, i, slow); /* the process has all except the last */
	ask(tables, SENT + 1, small);
	for (size_t i = 0; i < SENT; i++) {
		assert_int_equal(state_of(tables, i), XP_CFI_BUILDING);
		kill(worker_pid(), SIGKILL);
		wait_for(tables, i + 1 < SENT ? 1 : 2);
		assert_int_equal(state_of(tables, i), XP_CFI_ABSENT);
	}
	assert_int_equal(state_of(tables, SENT), XP_CFI_BUILDING);
	assert_int_equal(state_of(tables, SENT + 1), XP_CFI_READY);
	close(slow);
	close(small);
	xp_cfi_tables_free(tables);
}

/*
 * The maximum number of waiting files of other users, each using the maximum time, does not block a large file of root.
 */
TEST(test_foreign)
{
	struct xp_cfi_tables *tables;
	int foreign = endless_cfi_elf(), plain = big_cfi_elf(1, 2, 1);
	const struct xp_file more = file_of(XP_CFI_FOREIGN_MAX), other = file_of(1000);

	if (geteuid())
		skip(); /* needs CAP_CHOWN */
	tables = start();
	assert_int_equal(fchown(foreign, 4711, 4711), 0);
	assert_int_equal(ftruncate(plain, 16 << 20), 0);
	for (size_t i = 0; i < XP_CFI_FOREIGN_MAX; i++)
		ask(tables, i, foreign);
	assert_true(xp_cfi_tables_have_room(tables, &more)); /* unknown owner */
	assert_int_equal(xp_cfi_tables_ask(tables, &more, 0, foreign), -EAGAIN);
	assert_false(xp_cfi_tables_have_room(tables, &more));
	assert_int_equal(state_of(tables, more.index), XP_CFI_UNASKED);
	assert_true(xp_cfi_tables_have_room(tables, &other));
	ask(tables, other.index, plain);
	/* The process has priority over others, but not for these files. */
	while (!child_of(worker_pid()) ||
	       getpriority(PRIO_PROCESS, child_of(worker_pid())) != getpriority(PRIO_PROCESS, 0))
		usleep(1000);
	kill(worker_pid(), SIGKILL);
	wait_for(tables, 2);
	assert_int_equal(state_of(tables, 0), XP_CFI_ABSENT);
	assert_int_equal(state_of(tables, 1), XP_CFI_BUILDING);
	assert_int_equal(state_of(tables, other.index), XP_CFI_READY);
	assert_true(xp_cfi_tables_have_room(tables, &more));
	close(foreign);
	close(plain);
	xp_cfi_tables_free(tables);
}

/* 48 MB that would expand to 600 MB. */
TEST(test_memory_hog)
{
	struct xp_cfi_tables *tables = start();
	int fd = hog_cfi_elf(), plain = big_cfi_elf(1, 2, 1);

	ask(tables, 0, fd);
	ask(tables, 1, plain);
	wait_for(tables, 2);
	assert_int_equal(state_of(tables, 0), XP_CFI_ABSENT);
	assert_int_equal(state_of(tables, 1), XP_CFI_READY);
	close(fd);
	close(plain);
	xp_cfi_tables_free(tables);
}

/* Tables of 4.3 MB: three fit. */
static int large_elf(void)
{
	return big_cfi_elf(8192, 62, 1);
}

TEST(test_oldest_is_forgotten)
{
	struct xp_cfi_tables *tables = start();
	int fd = large_elf();

	for (size_t i = 0; i < 3; i++)
		ask(tables, i, fd);
	wait_for(tables, 3);
	for (size_t i = 3; i > 0; i--)
		assert_int_equal(state_of(tables, i - 1), XP_CFI_READY);
	ask(tables, 3, fd);
	wait_for(tables, 1);
	assert_int_equal(state_of(tables, 3), XP_CFI_READY);
	assert_int_equal(state_of(tables, 2), XP_CFI_UNASKED);
	assert_int_equal(state_of(tables, 1), XP_CFI_READY);
	assert_int_equal(state_of(tables, 0), XP_CFI_READY);
	close(fd);
	xp_cfi_tables_free(tables);
}

/* Tables that do not fit leave the space of another user's processes alone. */
TEST(test_space_of_another_user)
{
	enum { FILES = 4, FOREIGN = FILES };
	struct xp_cfi_tables *tables = start();
	int fd = large_elf(), foreign = big_cfi_elf(1, 2, 1);

	if (!geteuid())
		assert_int_equal(fchown(foreign, 4711, 4711), 0);
	ask(tables, FOREIGN, foreign);
	wait_for(tables, 1);
	for (size_t i = 0; i < FILES; i++) {
		ask(tables, i, fd);
		wait_for(tables, 1);
		assert_int_equal(state_of(tables, i), XP_CFI_READY);
	}
	assert_int_equal(state_of(tables, 0), XP_CFI_UNASKED);
	assert_int_equal(state_of(tables, FOREIGN), geteuid() ? XP_CFI_UNASKED : XP_CFI_READY);
	close(foreign);
	close(fd);
	xp_cfi_tables_free(tables);
}

/* A file without an index: each wide piece is built when requested, and its table covers only this piece. */
TEST(test_wide_pieces)
{
	enum { ENTRIES = 4096, ROWS = 32, STEP = 63, BYTES = ENTRIES * ROWS * STEP };
	static const uint64_t offsets[] = { CFI_ELF_CODE, BYTES - STEP, XP_CFI_WIDE_BYTES - 1 };
	const struct xp_cfi_table *tables_of[XP_ARRAY_SIZE(offsets)];
	struct xp_cfi_tables *tables = start();
	int fd = big_cfi_elf(ENTRIES, ROWS, STEP);
	const struct xp_file file = file_of(0);
	uint64_t known = 0;

	assert_int_equal(xp_cfi_tables_get(tables, &file, UINT32_MAX + 1ull, &tables_of[0]), XP_CFI_ABSENT);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(xp_cfi_tables_get(tables, &file, offsets[i], &tables_of[i]), XP_CFI_UNASKED);
		assert_int_equal(xp_cfi_tables_ask(tables, &file, offsets[i], fd), 0);
		assert_int_equal(xp_cfi_tables_get(tables, &file, offsets[i], &tables_of[i]), XP_CFI_BUILDING);
		wait_for(tables, 1);
	}
	for (size_t i = 0; i < XP_ARRAY_SIZE(offsets); i++)
		assert_int_equal(xp_cfi_tables_get(tables, &file, offsets[i], &tables_of[i]), XP_CFI_READY);
	assert_ptr_equal(tables_of[0], tables_of[2]);
	for (uint64_t offset = CFI_ELF_CODE; offset < CFI_ELF_CODE + BYTES; offset += STEP) {
		for (size_t i = 0; i < 2; i++) {
			bool is_its = offset / XP_CFI_WIDE_BYTES == i;

			assert_int_equal(xp_cfi_find(tables_of[i], offset)->rule, is_its ? XP_CFI_RSP : XP_CFI_NONE);
		}
	}
	for (size_t i = 0; i < 2; i++)
		known += xp_cfi_table_header(tables_of[i])->code_bytes[XP_CFI_KNOWN];
	assert_int_equal(known, BYTES);
	/* The table after all code is empty. */
	assert_int_equal(xp_cfi_tables_ask(tables, &file, 100u << 20, fd), 0);
	wait_for(tables, 1);
	assert_int_equal(xp_cfi_tables_get(tables, &file, 100u << 20, &tables_of[0]), XP_CFI_READY);
	assert_int_equal(xp_cfi_table_header(tables_of[0])->row_count, 1);
	close(fd);
	xp_cfi_tables_free(tables);
}

enum { INDEXED_ENTRIES = 40, INDEXED_STEP = 63, INDEXED_ROWS = 1000 };

static void put_indexed(uint8_t *eh_frame, uint64_t section, struct big_cfi_index *index)
{
	size_t at = sizeof(big_cfi_cie);

	memcpy(eh_frame, big_cfi_cie, sizeof(big_cfi_cie));
	for (uint32_t i = 0; i < INDEXED_ENTRIES; i++) {
		const uint32_t vaddr = CFI_ELF_CODE + i * INDEXED_ROWS * INDEXED_STEP;

		index->entries[2 * i] = (int32_t)vaddr;
		index->entries[2 * i + 1] = (int32_t)at;
		at += big_cfi_fde(eh_frame + at, at, vaddr, section, INDEXED_ROWS, INDEXED_STEP);
	}
}

/* For a file with an index, the cost of a table depends on its piece: the table covers only this piece. */
TEST(test_pieces)
{
	enum { BYTES = INDEXED_ENTRIES * INDEXED_ROWS * INDEXED_STEP };
	struct xp_cfi_tables *tables = start();
	int fd = indexed_cfi_elf(BYTES, INDEXED_ENTRIES * (INDEXED_ROWS * 3ul + 24) + 64, INDEXED_ENTRIES, put_indexed);
	const struct xp_file file = file_of(0);

	for (uint64_t at = CFI_ELF_CODE; at < BYTES; at += XP_CFI_PIECE_BYTES) {
		const uint64_t start = at - at % XP_CFI_PIECE_BYTES, end = start + XP_CFI_PIECE_BYTES;
		const struct xp_cfi_table *table;

		assert_int_equal(xp_cfi_tables_get(tables, &file, at, &table), XP_CFI_UNASKED);
		assert_int_equal(xp_cfi_tables_ask(tables, &file, at, fd), 0);
		wait_for(tables, 1);
		assert_int_equal(xp_cfi_tables_get(tables, &file, end - 1, &table), XP_CFI_READY);
		assert_int_equal(xp_cfi_tables_get(tables, &file, start, &table), XP_CFI_READY);
		assert_false(xp_cfi_table_header(table)->is_wide);
		assert_int_equal(xp_cfi_find(table, XP_MAX(start, (uint64_t)CFI_ELF_CODE))->rule, XP_CFI_RSP);
		if (end < BYTES)
			assert_int_equal(xp_cfi_find(table, end - 1)->rule, XP_CFI_RSP);
		assert_int_equal(xp_cfi_find(table, end)->rule, XP_CFI_NONE);
		if (start)
			assert_int_equal(xp_cfi_find(table, start - 1)->rule, XP_CFI_NONE);
	}
	close(fd);
	xp_cfi_tables_free(tables);
}

/* Many pieces of a file without an index are requested before the file is known: one table covers all. */
TEST(test_becomes_wide)
{
	enum { ENTRIES = 2048, ROWS = 32, STEP = 63, PIECES = 12 };
	struct xp_cfi_tables *tables = start();
	int fd = big_cfi_elf(ENTRIES, ROWS, STEP);
	const struct xp_file file = file_of(0);
	const struct xp_cfi_table *table, *first;

	for (uint64_t i = 0; i < PIECES; i++)
		assert_int_equal(xp_cfi_tables_ask(tables, &file, i * XP_CFI_PIECE_BYTES, fd), 0);
	wait_for(tables, PIECES);
	assert_int_equal(xp_cfi_tables_get(tables, &file, 0, &first), XP_CFI_READY);
	assert_true(xp_cfi_table_header(first)->is_wide);
	for (uint64_t i = 0; i < PIECES; i++) {
		assert_int_equal(xp_cfi_tables_get(tables, &file, i * XP_CFI_PIECE_BYTES, &table), XP_CFI_READY);
		assert_ptr_equal(table, first);
		assert_int_equal(xp_cfi_tables_ask(tables, &file, i * XP_CFI_PIECE_BYTES, fd), 0); /* nothing to do */
	}
	assert_int_equal(xp_cfi_tables_collect(tables), 0);
	close(fd);
	xp_cfi_tables_free(tables);
}

/* A Go program without debug sections has frame pointers, and one place where they are invalid. */
TEST(test_no_entries)
{
	static const uint8_t signal_return[] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 };
	enum { PLACE = XP_CFI_PIECE_BYTES + 4711 };
	const struct cfi_elf elf = { .code_bytes = 2 * XP_CFI_PIECE_BYTES };
	struct xp_cfi_tables *tables = start();
	const struct xp_file file = file_of(0);
	const struct xp_cfi_table *table;
	int fd = cfi_elf_make(&elf);

	assert_int_equal(pwrite(fd, signal_return, sizeof(signal_return), PLACE), sizeof(signal_return));
	ask(tables, 0, fd);
	wait_for(tables, 1);
	assert_int_equal(state_of(tables, 0), XP_CFI_ABSENT);
	assert_int_equal(xp_cfi_tables_get(tables, &file, PLACE, &table), XP_CFI_UNASKED);
	assert_int_equal(xp_cfi_tables_ask(tables, &file, PLACE, fd), 0);
	wait_for(tables, 1);
	assert_int_equal(xp_cfi_tables_get(tables, &file, PLACE, &table), XP_CFI_READY);
	assert_int_equal(xp_cfi_find(table, PLACE)->rule, XP_CFI_SIGNAL);
	assert_int_equal(state_of(tables, 0), XP_CFI_ABSENT);
	close(fd);
	xp_cfi_tables_free(tables);
}

TEST(test_too_many_rows)
{
	struct xp_cfi_tables *tables = start();
	int fd = big_cfi_elf(16384, 62, 1);

	ask(tables, 0, fd);
	wait_for(tables, 1);
	assert_int_equal(state_of(tables, 0), XP_CFI_ABSENT);
	close(fd);
	xp_cfi_tables_free(tables);
}

/* Has the file read repeatedly: each attempt ends at its time limit. */
static void read_until_killed(int fd)
{
	struct xp_cfi_tables *tables = start();

	for (size_t index = 0;; index++) {
		ask(tables, index, fd);
		wait_for(tables, 1);
	}
}

/* A child that had not yet set its death signal exits by itself. */
static void assert_ended(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 1);
}

/* xprof is killed while a file is read: both processes die. */
TEST(test_dies_with_us)
{
	uint64_t end_ns = xp_now_ns() + WAIT_MS * 1000000ull;
	int slow = endless_cfi_elf(), status;
	pid_t pid, worker, reader;

	/* Grandchildren are reparented to this process. */
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0);
	pid = fork();
	if (!pid)
		read_until_killed(slow);
	while (!(worker = child_of(pid)) || !(reader = child_of(worker))) {
		if (xp_now_ns() > end_ns) {
			kill(pid, SIGKILL);
			fail_msg("nothing reads the file");
		}
		usleep(1000);
	}
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_ended(worker);
	assert_ended(reader);
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0), 0);
	close(slow);
}

/* If the process ended before its file was opened, the file is opened through another process. */
TEST(test_opened_later)
{
	struct xp_cfi_tables *tables = start();
	int fd = own_program();

	ask(tables, 0, -1);
	ask(tables, 0, fd); /* too early */
	assert_int_equal(state_of(tables, 0), XP_CFI_ABSENT);
	usleep(XP_CFI_AGAIN_NS / 1000 + 1000);
	assert_int_equal(state_of(tables, 0), XP_CFI_UNASKED);
	ask(tables, 0, fd);
	wait_for(tables, 1);
	assert_int_equal(state_of(tables, 0), XP_CFI_READY);
	close(fd);
	xp_cfi_tables_free(tables);
}
