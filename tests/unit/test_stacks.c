// SPDX-License-Identifier: BSD-2-Clause
/* Stacks that wait for the tables of files: which files are opened, and when their tables are requested. */
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

#include "unwind/cfi_tables.h"
#include "unwind/stacks.h"

#define FILES (XP_CFI_WAITING_MAX + 50)
#define CODE 0x10000u /* address of the first mapping; the others follow */

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

struct world {
	struct xp_stacks *stacks;
	struct xp_files files;
	struct xp_address_space space;
	struct xp_unwind_thread thread;
	struct xp_unwind_result result;
	char path[4096];
	uint64_t words[16];
};

static struct world *new_world(void)
{
	const struct xp_stacks_options options = { .set_size = no_size };
	struct world *world = calloc(1, sizeof(*world));

	assert_non_null(world);
	assert_true(readlink("/proc/self/exe", world->path, sizeof(world->path) - 1) > 0);
	map_files(&world->files, &world->space, world->path);
	world->thread = (struct xp_unwind_thread){
		.pid = getpid(),
		.tid = getpid(),
		.sp = 0x7fff0000,
		.stack = (const uint8_t *)world->words,
		.stack_bytes = sizeof(world->words),
	};
	assert_int_equal(xp_stacks_new(&world->stacks, &options), 0);
	return world;
}

static void free_world(struct world *world)
{
	xp_stacks_free(world->stacks);
	xp_address_space_free(&world->space);
	xp_files_free(&world->files);
	free(world);
}

/* The walk of a thread that was sampled there waits for the table. */
static void sample_at(struct world *world, uint64_t ip)
{
	struct xp_frame frames[XP_UNWIND_FRAMES_MAX];

	world->thread.ip = ip;
	assert_int_equal(xp_stacks_unwind(world->stacks, &world->space, &world->thread, true, frames, &world->result),
			 0);
	assert_int_equal(world->result.end, XP_UNWIND_WAITS);
}

/* Requests without space are not repeated: their samples wait until there is space. */
TEST(test_full)
{
	struct world *world = new_world();

	for (unsigned int i = 0; i < FILES; i++)
		sample_at(world, CODE + i * 4096);
	for (unsigned int i = 0; i < FILES; i++)
		assert_true(xp_stacks_pending(world->stacks, world->files.all[i], 0));
	free_world(world);
}

static unsigned int count_fds(void)
{
	unsigned int count = 0;

	for (int fd = 0; fd < 1024; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

/* Old return addresses on the stack cause no table. Files are kept open at most as long as a sample waits. */
TEST(test_only_needed)
{
	enum { WORDS = 8 };
	struct world *world = new_world();
	unsigned int fds = count_fds();

	for (unsigned int i = 0; i < WORDS; i++)
		world->words[i] = CODE + (i + 1) * 4096;
	sample_at(world, CODE);
	assert_true(xp_stacks_pending(world->stacks, world->files.all[0], 0));
	for (unsigned int i = 1; i <= WORDS; i++)
		assert_false(xp_stacks_pending(world->stacks, world->files.all[i], 0));
	assert_in_range(count_fds(), fds + WORDS, fds + WORDS + 1);
	sample_at(world, CODE);
	assert_in_range(count_fds(), fds + WORDS, fds + WORDS + 1);
	xp_stacks_release(world->stacks);
	assert_in_range(count_fds(), fds, fds + 1);
	sample_at(world, CODE);
	usleep(XP_STACKS_HELD_NS / 1000 + 1000);
	xp_stacks_collect(world->stacks);
	assert_in_range(count_fds(), fds, fds + 1);
	free_world(world);
}

/* Starts a process that is the only one to map a file. Sets *file and *address; the file starts there. */
static pid_t start_mapper(const char *program, struct xp_file *file, uint64_t *address)
{
	static char path[] = "/tmp/xprof-test-stacks-XXXXXX";
	int fd = mkstemp(path), from = open(program, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *mapped;
	pid_t pid;

	assert_true(fd >= 0 && from >= 0);
	assert_true(sendfile(fd, from, NULL, 1 << 20) > 4096);
	assert_int_equal(fstat(fd, &st), 0);
	mapped = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	assert_true(mapped != MAP_FAILED);
	close(from);
	close(fd);
	pid = fork();
	if (!pid)
		for (;;)
			pause();
	munmap(mapped, 4096);
	unlink(path);
	*address = (uint64_t)mapped;
	*file = (struct xp_file){ .kind = XP_FILE_DISK, .dev = FILES, .inode = st.st_ino, .path = path };
	return pid;
}

/* When the table is known to be necessary, no path leads to the file any more. */
TEST(test_ended_process)
{
	struct world *world;
	struct xp_file file;
	struct xp_vma vma = { 0 };
	pid_t pid;

	if (geteuid())
		skip(); /* needs CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN */
	world = new_world();
	pid = start_mapper(world->path, &file, &vma.start);
	vma.end = vma.start + 4096;
	vma.file = xp_files_intern(&world->files, &file);
	assert_int_equal(xp_address_space_map(&world->space, &vma), 0);
	world->thread.pid = pid;
	world->words[3] = vma.start + 100;
	sample_at(world, CODE);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_false(xp_stacks_pending(world->stacks, vma.file, 0));
	sample_at(world, vma.start + 100);
	assert_true(xp_stacks_pending(world->stacks, vma.file, 0));
	free_world(world);
}
