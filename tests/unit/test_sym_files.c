/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Files next to profiles: created, linked and copied in a separate directory. tests/format/test_profile.py tests that
 * readers accept them.
 */
#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_copy.h"
#include "base/util.h"
#include "store/sym_dir.h"
#include "store/sym_files.h"

struct world {
	char base[PATH_MAX]; /* root directory of the target */
	char out[PATH_MAX];  /* directory of the recording */
	int out_fd;
	uint32_t next_index;
	struct xp_sym_files *sym;
};

static const uint8_t elf_start[] = "\177ELF\2\1\1";

static void start(struct world *world, const char *name)
{
	snprintf(world->out, sizeof(world->out), "%.3000s/%s", world->base, name);
	assert_int_equal(mkdir(world->out, 0700), 0);
	world->out_fd = open(world->out, O_RDONLY | O_DIRECTORY);
	assert_true(world->out_fd >= 0);
	assert_int_equal(xp_sym_files_new(&world->sym, world->out_fd, -1), 0);
}

static int setup(void **state)
{
	struct world *world = calloc(1, sizeof(*world));
	char name[] = "/tmp/xprof-sym-files-XXXXXX";

	xp_log_level = XP_LOG_QUIET;
	assert_non_null(mkdtemp(name));
	assert_non_null(realpath(name, world->base));
	start(world, "out");
	*state = world;
	return 0;
}

static void stop(struct world *world)
{
	xp_sym_files_free(world->sym);
	close(world->out_fd);
}

static int teardown(void **state)
{
	struct world *world = *state;
	char command[PATH_MAX + 16];

	stop(world);
	snprintf(command, sizeof(command), "rm -rf '%s'", world->base);
	assert_int_equal(system(command), 0);
	free(world);
	return 0;
}

/* Creates a file of the target with this content, and opens it. */
static int put_file(struct world *world, const char *name, const void *bytes, size_t size, struct xp_file *file)
{
	static char paths[300][PATH_MAX];
	struct stat st;
	char *path = paths[world->next_index % XP_ARRAY_SIZE(paths)];
	int fd;

	snprintf(path, PATH_MAX, "%.3000s/%s", world->base, name);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, size), size);
	assert_int_equal(fstat(fd, &st), 0);
	*file = (struct xp_file){
		.kind = XP_FILE_DISK,
		.index = world->next_index++,
		.dev = 0xdeadbeef, /* as on btrfs: differs from the number of stat() */
		.inode = st.st_ino,
		.path = path,
	};
	return fd;
}

/* The kernel's names: two windows have none. */
static int describe(void *arg, const uint64_t *addresses, size_t count, char (*texts)[XP_KSYM_TEXT_BYTES])
{
	for (size_t i = 0; i < count; i++)
		snprintf(texts[i], XP_KSYM_TEXT_BYTES, addresses[i] >> 28 == 0xffffffff8 ? "f+0x0/0x100" : "%#x", 1u);
	return *(int *)arg;
}

/* A sample hit the file. fd: opened while its process lived. */
static void keep(struct world *world, int fd, const struct xp_file *file)
{
	assert_int_equal(xp_sym_files_keep(world->sym, fd, file), 0);
}

/* Stores all kept files, and returns the file with names for a file, or NULL. */
static const char *find(struct world *world, const struct xp_file *file)
{
	size_t length = strlen(file->path);
	int err = 0;

	assert_int_equal(xp_sym_files_write(world->sym, describe, &err), 0);
	if (strstr(file->path, " (deleted)"))
		length = (size_t)(strstr(file->path, " (deleted)") - file->path);
	for (size_t i = 0; i < xp_sym_files_count(world->sym); i++) {
		const struct xp_sym_binary *binary = xp_sym_files_get(world->sym, i);

		if (strlen(binary->path) == length && !memcmp(binary->path, file->path, length))
			return binary->sym_path;
	}
	return NULL;
}

/* Does the same for a file that can be opened only by its path. */
static const char *keep_and_find(struct world *world, const struct xp_file *file)
{
	keep(world, -1, file);
	return find(world, file);
}

static void check_content(const char *path, const void *bytes, size_t size)
{
	char content[256];
	int fd = open(path, O_RDONLY | O_NOFOLLOW);

	assert_true(fd >= 0);
	assert_int_equal(read(fd, content, sizeof(content)), size);
	assert_memory_equal(content, bytes, size);
	close(fd);
}

/* In sym/, with such a name. */
static void check_name(const struct world *world, const char *path, const char *begin)
{
	char prefix[PATH_MAX + 8];

	snprintf(prefix, sizeof(prefix), "%s/sym/%s", world->out, begin);
	assert_int_equal(strncmp(path, prefix, strlen(prefix)), 0);
	assert_null(strchr(path + strlen(prefix), '/'));
	assert_string_equal(path + strlen(path) - 3, ".so");
}

static size_t files_made(const struct world *world)
{
	char path[PATH_MAX + 8];
	struct dirent *entry;
	size_t count = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/sym", world->out);
	dir = opendir(path);
	while (dir && (entry = readdir(dir)))
		count += entry->d_name[0] != '.';
	if (dir)
		closedir(dir);
	return count;
}

/* An existing binary is copied, too: it may change after the recording. */
TEST_WITH(test_library, setup, teardown)
{
	struct world *world = *state;
	const struct xp_sym_binary *binary;
	struct xp_file file;
	int fd = put_file(world, "libx.so.1", elf_start, sizeof(elf_start), &file);
	const char *path = keep_and_find(world, &file);

	check_name(world, path, "libx.so.1.0.");
	check_content(path, elf_start, sizeof(elf_start));
	assert_int_equal(xp_sym_files_count(world->sym), 1);
	binary = xp_sym_files_get(world->sym, 0);
	assert_string_equal(binary->path, file.path);
	assert_int_equal(binary->identity.inode, file.inode);
	assert_ptr_equal(xp_sym_files_stored(world->sym, fd), binary);
	close(fd);
}

static bool is_zero(const char *path, uint64_t offset)
{
	char bytes[64], none[64] = "";
	int fd = open(path, O_RDONLY);

	assert_int_equal(pread(fd, bytes, sizeof(bytes), (off_t)offset), sizeof(bytes));
	close(fd);
	return !memcmp(bytes, none, sizeof(bytes));
}

/* This program: its copy has its build ID as a key, its symbols and no code, once for samples and calls. */
TEST_WITH(test_executable, setup, teardown)
{
	struct world *world = *state;
	struct xp_file file = { .kind = XP_FILE_DISK };
	const struct xp_sym_binary *binary;
	char path[PATH_MAX] = "", key[64];
	const char *names;
	int fd = open("/proc/self/exe", O_RDONLY);

	assert_true(readlink("/proc/self/exe", path, sizeof(path) - 1) > 0);
	file.path = path;
	assert_true(xp_sym_files_wants(world->sym, &file));
	assert_int_equal(xp_sym_files_keep(world->sym, fd, &file), 0);
	assert_false(xp_sym_files_wants(world->sym, &file));
	names = find(world, &file);
	assert_int_equal(xp_sym_files_store(world->sym, fd, path, &binary), 0);
	close(fd);
	assert_ptr_equal(binary->sym_path, names);
	assert_true(binary->copied.has_code && binary->copied.exec_vaddr);
	assert_int_equal(binary->copied.exec_vaddr % 4096, binary->copied.exec_offset % 4096);
	assert_true(binary->copied.build_id_bytes >= 8);
	snprintf(key, sizeof(key), "test_sym_files.0.%02x%02x", binary->copied.build_id[0], binary->copied.build_id[1]);
	check_name(world, names, key);
	assert_true(is_zero(names, binary->copied.exec_offset + 0x100));
	assert_int_equal(files_made(world), 1);
}

/* A file that was changed in place since the sample is not the recorded one. */
TEST_WITH(test_changed, setup, teardown)
{
	struct world *world = *state;
	struct xp_file file;
	int fd = put_file(world, "libx.so.1", elf_start, sizeof(elf_start), &file);

	keep(world, fd, &file);
	assert_int_equal(write(fd, "more", 4), 4);
	close(fd);
	assert_null(find(world, &file));
	assert_int_equal(xp_sym_files_count(world->sym), 0);
}

/* A file replaced by one with the same size, time and inode number has another hash, or another build ID. */
TEST_WITH(test_key_without_build_id, setup, teardown)
{
	static const uint8_t other[] = "\177ELF\2\1\2";
	static const struct timespec times[2] = { { 1, 0 }, { 1, 0 } };
	struct world *world = *state;
	char paths[2][PATH_MAX];
	struct xp_file files[2];

	for (int i = 0; i < 2; i++) {
		int fd = put_file(world, i ? "two" : "one", i ? other : elf_start, sizeof(other), &files[i]);

		assert_int_equal(futimens(fd, times), 0);
		close(fd);
		snprintf(paths[i], PATH_MAX, "%s", keep_and_find(world, &files[i]));
	}
	check_name(world, paths[0], "one.0.8-1-");
	check_name(world, paths[1], "two.1.8-1-");
	assert_string_not_equal(strrchr(paths[0], '-'), strrchr(paths[1], '-'));
}

TEST_WITH(test_blanks, setup, teardown)
{
	static const char *const names[] = { "a b.so", "tab\there.so", "$build.so", "back\\slash.so", "new\nline.so" };
	struct world *world = *state;

	for (size_t i = 0; i < XP_ARRAY_SIZE(names); i++) {
		struct xp_file file;
		const char *path;

		close(put_file(world, names[i], elf_start, sizeof(elf_start), &file));
		path = keep_and_find(world, &file);
		check_name(world, path, "");
		assert_null(strpbrk(path, " \t\n$\\"));
	}
}

TEST_WITH(test_deleted, setup, teardown)
{
	struct world *world = *state;
	struct xp_file file;
	int fd = put_file(world, "gone", elf_start, sizeof(elf_start), &file);
	const char *path;

	keep(world, fd, &file);
	close(fd);
	assert_int_equal(unlink(file.path), 0);
	strcat(file.path, " (deleted)");
	path = find(world, &file);
	check_name(world, path, "gone.0.");
	check_content(path, elf_start, sizeof(elf_start));
}

/* Another file has its name: the executed file is copied; without a descriptor, the other file is not copied. */
TEST_WITH(test_replaced, setup, teardown)
{
	static const uint8_t other[] = "\177ELF\2\1\1 something else";
	struct world *world = *state;
	struct xp_file kept, lost, unused;
	char name[PATH_MAX];
	const char *path;
	int fd = put_file(world, "kept", elf_start, sizeof(elf_start), &kept);

	keep(world, fd, &kept);
	close(fd);
	snprintf(name, sizeof(name), "%s.old", kept.path);
	assert_int_equal(rename(kept.path, name), 0);
	close(put_file(world, "kept", other, sizeof(other), &unused));
	path = find(world, &kept);
	check_name(world, path, "kept.0.");
	check_content(path, elf_start, sizeof(elf_start));

	close(put_file(world, "lost", elf_start, sizeof(elf_start), &lost));
	lost.inode++;
	assert_null(keep_and_find(world, &lost));
}

/* A file that is not on this host has no names, and is not searched repeatedly. */
TEST_WITH(test_unseen, setup, teardown)
{
	struct world *world = *state;
	const struct xp_file file = { .kind = XP_FILE_DISK,
				      .inode = 5,
				      .path = "/nowhere/in this/host\x1b[2J (deleted)" };

	assert_true(xp_sym_files_wants(world->sym, &file));
	for (int i = 0; i < 3; i++)
		keep(world, -1, &file);
	assert_false(xp_sym_files_wants(world->sym, &file));
	assert_null(find(world, &file));
	assert_int_equal(files_made(world), 0);
}

TEST_WITH(test_no_elf, setup, teardown)
{
	struct world *world = *state;
	struct xp_file file;
	const char *path;
	int fd = memfd_create("jit", 0);

	close(put_file(world, "classes.jsa", "no ELF", 6, &file));
	assert_null(keep_and_find(world, &file));
	/*
	 * Memfds, to which JIT compilers write, have no names, either. A memfd that is an executed program is copied.
	 */
	assert_true(fd >= 0);
	file = (struct xp_file){ .kind = XP_FILE_DISK, .index = 1, .path = "/memfd:jit (deleted)" };
	keep(world, fd, &file);
	assert_null(find(world, &file));
	assert_int_equal(write(fd, elf_start, sizeof(elf_start)), sizeof(elf_start));
	file = (struct xp_file){ .kind = XP_FILE_DISK, .index = 2, .path = "/memfd:jit (deleted)" };
	keep(world, fd, &file);
	path = find(world, &file);
	check_name(world, path, "memfd_jit.0.");
	check_content(path, elf_start, sizeof(elf_start));
	close(fd);
}

/* If a container's path leads to no regular file here, the path is not opened: opening a device may have effects. */
TEST_WITH(test_no_file, setup, teardown)
{
	struct world *world = *state;
	const struct xp_file relative = { .kind = XP_FILE_DISK, .index = 1, .path = "Makefile" };
	int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	char path[PATH_MAX + 8], event[4096];
	struct xp_file file = { .kind = XP_FILE_DISK, .path = path };

	snprintf(path, sizeof(path), "%s/pipe.so", world->base);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_true(inotify_add_watch(watch, world->base, IN_OPEN) >= 0);
	assert_null(keep_and_find(world, &file));
	assert_int_equal(read(watch, event, sizeof(event)), -1);
	assert_int_equal(errno, EAGAIN);
	close(watch);
	assert_null(keep_and_find(world, &relative));
}

TEST_WITH(test_labels, setup, teardown)
{
	static const char *const cases[][2] = {
		{ "/bin/sh", "sh" },
		{ "/a/../..", "_." },
		{ "/", "_" },
		{ "", "_" },
		{ "/x/.hidden", "_hidden" },
		{ "/x/-rf", "_rf" },
		{ "/x/\xff\x01\"'`;|&", "________" },
		{ "/x/y (deleted)", "y" },
		{ "/x/ (deleted)", "__deleted_" },
		{ "/bin/jit", "jit_" },
		{ "/boot/kernel", "kernel_" },
		{ "/x/vdso (deleted)", "vdso_" },
		{ "anon", "anon_" },
		{ "unknown", "unknown_" },
		{ "/x/kernel.so", "kernel.so" },
	};
	char label[XP_SYM_LABEL_BYTES], longest[5000];

	for (size_t i = 0; i < XP_ARRAY_SIZE(cases); i++) {
		xp_sym_dir_label(label, cases[i][0]);
		assert_string_equal(label, cases[i][1]);
	}
	memset(longest, 'x', sizeof(longest));
	longest[0] = '/';
	longest[sizeof(longest) - 1] = 0;
	xp_sym_dir_label(label, longest);
	assert_int_equal(strlen(label), XP_SYM_LABEL_BYTES - 1);
}

/* More files than descriptors: a file that is not on this host is copied immediately; a file on this host waits. */
TEST_WITH(test_limit, setup, teardown)
{
	struct world *world = *state;
	const char *path;
	struct xp_file file, here;
	struct stat st;
	char name[32];
	int fd;

	for (int i = 0; i <= XP_SYM_FDS_MAX; i++) {
		snprintf(name, sizeof(name), "bin%d", i);
		fd = put_file(world, name, elf_start, sizeof(elf_start), &file);
		unlink(file.path);
		assert_int_equal(xp_sym_files_keep(world->sym, fd, &file), 0);
		close(fd);
	}
	assert_int_equal(files_made(world), 1);
	fd = put_file(world, "here.so", elf_start, sizeof(elf_start), &here);
	assert_int_equal(xp_sym_files_keep(world->sym, fd, &here), 0);
	close(fd);
	assert_int_equal(files_made(world), 1);
	path = find(world, &file);
	assert_non_null(path);
	check_name(world, path, "bin256.0.");
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, sizeof(elf_start));
	check_name(world, find(world, &here), "here.so.");
}

TEST_WITH(test_no_file_at_all, setup, teardown)
{
	struct world *world = *state;
	const struct xp_file anon = { .kind = XP_FILE_ANON, .path = "//anon" };
	const struct xp_file vdso = { .kind = XP_FILE_VDSO, .path = "[vdso]" };
	int err = 0;

	assert_false(xp_sym_files_wants(world->sym, &anon));
	assert_false(xp_sym_files_wants(world->sym, &vdso));
	xp_sym_files_want_vdso(world->sym);
	assert_int_equal(xp_sym_files_write(world->sym, describe, &err), 0);
	assert_int_equal(strncmp(xp_sym_files_vdso(world->sym), "vdso.0.", 7), 0);
	assert_int_equal(files_made(world), 1);
}

TEST_WITH(test_kernel, setup, teardown)
{
	struct world *world = *state;
	static const uint64_t addresses[] = { 0xffffffff81000010, 0xffffffff81000100, 0xffffffffc0001500,
					      0xffffffff8fffffff, 0xffffffff90000000, XP_KERNEL_START,
					      UINT64_MAX,	  0x7fffffffffff };
	int err = 0;

	for (size_t i = 0; i < 2 * XP_ARRAY_SIZE(addresses); i++)
		assert_int_equal(xp_sym_files_want_kernel(world->sym, addresses[i / 2]), 0);
	assert_int_equal(xp_sym_files_write(world->sym, describe, &err), 0);
	/* 0xffffffff80.., 88, 90, c0 and f8. */
	assert_int_equal(files_made(world), 5);
	for (unsigned int i = 0; i < XP_KERNEL_WINDOWS; i++) {
		bool is_there = i < 3 || i == 8 || i == 15;

		assert_int_equal(!!xp_sym_files_kernel(world->sym, i), is_there);
		if (is_there)
			assert_int_equal(strncmp(xp_sym_files_kernel(world->sym, i), "kernel.", 7), 0);
	}
}

/* Without names, all kernel code is [kernel]. */
TEST_WITH(test_no_kernel_names, setup, teardown)
{
	struct world *world = *state;
	int err = -EPERM;

	assert_int_equal(xp_sym_files_write(world->sym, describe, &err), 0);
	assert_int_equal(files_made(world), 0);
	assert_int_equal(xp_sym_files_want_kernel(world->sym, 0xffffffff81000010), 0);
	assert_int_equal(xp_sym_files_write(world->sym, describe, &err), 0);
	assert_int_equal(files_made(world), 1);
}

/* Readers end a path at a space; the rest is then relative to the reader's current directory. */
TEST_WITH(test_blank_directory, setup, teardown)
{
	struct world *world = *state;
	struct xp_file file;

	stop(world);
	start(world, "my recording");
	close(put_file(world, "libx.so", elf_start, sizeof(elf_start), &file));
	assert_int_equal(strncmp(keep_and_find(world, &file), "sym/libx.so.0.", 14), 0);
	assert_int_equal(files_made(world), 1);
}

/* No file is created through a link. */
TEST_WITH(test_in_the_way, setup, teardown)
{
	struct world *world = *state;
	struct xp_file file;

	close(put_file(world, "libx.so", elf_start, sizeof(elf_start), &file));
	assert_int_equal(symlinkat("/", world->out_fd, "sym"), 0);
	assert_null(keep_and_find(world, &file));
}

/* Ranges that overlap, are unordered, and extend beyond the end. */
static void test_omitted(int from)
{
	struct xp_interval all[] = {
		{ 1, 3, 0, 0 }, { 2, 4, 0, 0 }, { 2, 3, 0, 0 }, { (10 << 20) + 1, 1 << 30, 0, 0 }
	};
	const struct xp_interval_map omitted = { all, XP_ARRAY_SIZE(all), XP_ARRAY_SIZE(all) };
	int to = memfd_create("to", 0);
	uint64_t left = 100000;
	struct stat st;
	char text[8];

	assert_int_equal(xp_file_copy(from, to, &omitted, &left), 0);
	assert_int_equal(fstat(to, &st), 0);
	assert_int_equal(st.st_size, (10 << 20) + 3);
	assert_int_equal(pread(to, text, 5, 0), 5);
	assert_memory_equal(text, "s\0\0\0t", 5);
	assert_int_equal(pread(to, text, 8, 10 << 20), 3);
	assert_memory_equal(text, "e\0\0", 3);
	close(to);
}

TEST_WITH(test_copy, setup, teardown)
{
	struct world *world = *state;
	const struct xp_interval_map none = { 0 };
	uint64_t left = 100000;
	struct xp_file file;
	struct stat st;
	char text[8] = "";
	int from = put_file(world, "sparse", "start", 5, &file), to = memfd_create("to", 0);

	assert_int_equal(pwrite(from, "end", 3, 10 << 20), 3);
	assert_int_equal(xp_file_copy(from, to, &none, &left), 0);
	assert_int_equal(fstat(to, &st), 0);
	assert_int_equal(st.st_size, (10 << 20) + 3);
	assert_true(st.st_blocks * 512 < 1 << 20);
	assert_true(left < 100000);
	assert_int_equal(pread(to, text, 5, 0), 5);
	assert_string_equal(text, "start");
	assert_int_equal(pread(to, text, 8, 10 << 20), 3);
	assert_memory_equal(text, "end", 3);
	left = 4;
	assert_int_equal(xp_file_copy(from, to, &none, &left), -EFBIG);
	close(to);
	test_omitted(from);
	close(from);
	from = open("/dev/zero", O_RDONLY);
	assert_int_equal(xp_file_copy(from, to, &none, &left), -EINVAL);
	close(from);
}
