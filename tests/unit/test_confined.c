// SPDX-License-Identifier: BSD-2-Clause
/* The privileges of a reader of hostile files, as seen from inside and from outside. */
#include "unit.h"

#include "base/confined.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"

#define SECOND 1000000000ull

static const struct xp_confined_limits usual = { .ns = 20 * SECOND, .cpu_seconds = 10, .address_bytes = 1ull << 30 };
static char own_path[PATH_MAX], directory[] = "/tmp/test_confined.XXXXXX";

static const char *in_directory(const char *name)
{
	static char path[64];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	return path;
}

int unit_set_up(void **state)
{
	char command[2 * PATH_MAX];
	ssize_t bytes = readlink("/proc/self/exe", own_path, sizeof(own_path) - 1);

	(void)state;
	assert_true(bytes > 0 && mkdtemp(directory));
	assert_int_equal(chmod(directory, 0755), 0);
	assert_int_equal(mkfifo(in_directory("fifo"), 0666), 0);
	snprintf(command, sizeof(command),
		 "cd %s && echo text >text && cp '%s' elf && cp elf secret && chmod 600 secret && "
		 "cp elf large && truncate -s 32M large",
		 directory, own_path);
	return system(command);
}

int unit_tear_down(void **state)
{
	char command[PATH_MAX];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", directory);
	return system(command);
}

/* ---- from outside: the reader first writes its process id ---- */

static int work_forever(int fd, FILE *out, const void *arg)
{
	pid_t pid = getpid();

	(void)fd;
	(void)arg;
	fwrite(&pid, sizeof(pid), 1, out);
	fflush(out);
	for (;;)
		__asm__ volatile("pause");
	return 0;
}

static pid_t start_forever(struct xp_confined **confined, const struct xp_confined_limits *limits)
{
	pid_t pid;

	assert_int_equal(xp_confined_start(confined, own_path, work_forever, NULL, limits), 0);
	assert_string_equal(xp_confined_real_path(*confined), own_path);
	assert_int_equal(fread(&pid, sizeof(pid), 1, xp_confined_answers(*confined)), 1);
	return pid;
}

static void assert_status(pid_t pid, const char *const *lines, size_t count)
{
	char path[64], line[256];
	size_t found = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "re");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		for (size_t i = 0; i < count; i++)
			found += !strcmp(line, lines[i]);
	fclose(file);
	assert_int_equal(found, count);
}

/* The reader dies shortly after its opener. */
static void assert_gone(pid_t pid)
{
	for (int i = 0; i < 500 && !kill(pid, 0); i++)
		usleep(10000);
	assert_int_equal(kill(pid, 0), -1);
}

TEST(test_no_privileges)
{
	static const char *const any[] = { "CapInh:\t0000000000000000\n", "CapPrm:\t0000000000000000\n",
					   "CapEff:\t0000000000000000\n", "NoNewPrivs:\t1\n", "Seccomp:\t2\n" };
	static const char *const nobody[] = { "Uid:\t65534\t65534\t65534\t65534\n",
					      "Gid:\t65534\t65534\t65534\t65534\n", "Groups:\t \n" };
	struct xp_confined *confined;
	pid_t pid = start_forever(&confined, &usual);

	assert_status(pid, any, XP_ARRAY_SIZE(any));
	if (geteuid() == 0)
		assert_status(pid, nobody, XP_ARRAY_SIZE(nobody));
	assert_int_equal(xp_confined_end(confined), XP_CONFINED_FAILED);
	assert_gone(pid);
}

TEST(test_time)
{
	const struct xp_confined_limits limits = { .ns = SECOND / 5, .address_bytes = usual.address_bytes };
	struct xp_confined *confined;
	pid_t pid = start_forever(&confined, &limits);

	assert_int_equal(fgetc(xp_confined_answers(confined)), EOF);
	assert_int_equal(xp_confined_end(confined), XP_CONFINED_LATE);
	assert_gone(pid);
}

TEST(test_cpu_time)
{
	const struct xp_confined_limits limits = { .ns = 30 * SECOND, .cpu_seconds = 1, .address_bytes = 1ull << 30 };
	struct xp_confined *confined;
	pid_t pid = start_forever(&confined, &limits);

	assert_int_equal(fgetc(xp_confined_answers(confined)), EOF);
	assert_int_equal(xp_confined_end(confined), XP_CONFINED_FAILED);
	assert_gone(pid);
}

/* ---- from inside: the reader writes one number ---- */

static int64_t answer_of(const char *path, xp_confined_read *read, const void *arg)
{
	struct xp_confined *confined;
	int64_t answer;

	assert_int_equal(xp_confined_start(&confined, path, read, arg, &usual), 0);
	assert_int_equal(fread(&answer, sizeof(answer), 1, xp_confined_answers(confined)), 1);
	assert_int_equal(fgetc(xp_confined_answers(confined)), EOF);
	assert_int_equal(xp_confined_end(confined), XP_CONFINED_DONE);
	return answer;
}

static int answer(FILE *out, int64_t number)
{
	return fwrite(&number, sizeof(number), 1, out) == 1 ? 0 : 1;
}

static int count_bytes(int fd, FILE *out, const void *arg)
{
	struct stat st;

	(void)arg;
	return answer(out, fstat(fd, &st) ? -errno : st.st_size);
}

/* other: a file to open first, or NULL. */
static int take_memory(int fd, FILE *out, const void *other)
{
	int64_t megabytes = 0;
	void *taken;

	(void)fd;
	if (other && open(other, O_RDONLY) < 0)
		return 1;
	while ((taken = malloc(1 << 20))) {
		*(volatile char *)taken = 1;
		megabytes++;
	}
	return answer(out, megabytes);
}

static int open_path(int fd, FILE *out, const void *path)
{
	int opened = open(path, O_RDONLY);
	int64_t result = opened < 0 ? -errno : opened > fd ? 1 : 0;
	char magic[4];

	if (opened >= 0 && pread(opened, magic, sizeof(magic), 0) != sizeof(magic))
		result = 0;
	return answer(out, result);
}

static int open_to_write(int fd, FILE *out, const void *path)
{
	(void)fd;
	return answer(out, open(path, O_WRONLY) < 0 ? -errno : 1);
}

static int open_socket(int fd, FILE *out, const void *arg)
{
	(void)fd;
	(void)arg;
	return answer(out, socket(AF_INET, SOCK_STREAM, 0) < 0 ? -errno : 1);
}

static int make_process(int fd, FILE *out, const void *arg)
{
	(void)fd;
	(void)arg;
	return answer(out, fork() < 0 ? -errno : 1);
}

TEST(test_file)
{
	struct stat st;

	assert_int_equal(stat(own_path, &st), 0);
	assert_int_equal(answer_of(own_path, count_bytes, NULL), st.st_size);
}

/* The limit grows with the size of the files that the reader reads, up to a maximum. */
TEST(test_memory)
{
	char large[64];

	snprintf(large, sizeof(large), "%s", in_directory("large"));
	assert_in_range(answer_of(in_directory("elf"), take_memory, NULL), 200, 300);
	assert_in_range(answer_of(large, take_memory, NULL), 700, 800);
	assert_in_range(answer_of(in_directory("elf"), take_memory, large), 700, 800);
	assert_in_range(answer_of(large, take_memory, large), 900, 1024);
}

TEST(test_opens)
{
	char elf[64];

	snprintf(elf, sizeof(elf), "%s", in_directory("elf"));
	assert_int_equal(answer_of(own_path, open_path, elf), 1);
	assert_int_equal(answer_of(own_path, open_to_write, elf), -EACCES);
	assert_int_equal(answer_of(own_path, open_path, in_directory("text")), -ENOEXEC);
	assert_int_equal(answer_of(own_path, open_path, in_directory("fifo")), -EINVAL);
	assert_int_equal(answer_of(own_path, open_path, in_directory("none")), -ENOENT);
	assert_int_equal(answer_of(own_path, open_path, "/dev/zero"), -EINVAL);
	assert_int_equal(answer_of(own_path, open_path, "."), -EACCES);
	assert_int_equal(answer_of(own_path, open_socket, NULL), -EPERM);
	assert_int_equal(answer_of(own_path, make_process, NULL), -EPERM);
}

/* The creator of a file must not cause reads of other users' files. */
TEST(test_files_of_others)
{
	char theirs[64], secret[64];

	if (geteuid())
		skip();
	snprintf(theirs, sizeof(theirs), "%s", in_directory("elf"));
	snprintf(secret, sizeof(secret), "%s", in_directory("secret"));
	assert_int_equal(answer_of(theirs, open_path, secret), 1);
	assert_int_equal(chown(theirs, 12345, 12345), 0);
	assert_int_equal(answer_of(theirs, open_path, secret), -EACCES);
	assert_int_equal(answer_of(theirs, open_path, theirs), 1);
	assert_int_equal(chown(secret, 12345, 0), 0);
	assert_int_equal(answer_of(theirs, open_path, secret), 1);
}

TEST(test_cannot_start)
{
	static const struct {
		const char *path;
		int err;
	} cases[] = { { "/dev/zero", -EINVAL }, { "/", -EISDIR }, { "elf", -ENOENT } };
	struct xp_confined *confined;

	for (size_t i = 0; i < XP_ARRAY_SIZE(cases); i++)
		assert_int_equal(xp_confined_start(&confined, cases[i].path, count_bytes, NULL, &usual), cases[i].err);
	assert_int_equal(xp_confined_start(&confined, in_directory("none"), count_bytes, NULL, &usual), -ENOENT);
	assert_int_equal(xp_confined_start(&confined, in_directory("fifo"), count_bytes, NULL, &usual), -EINVAL);
}
