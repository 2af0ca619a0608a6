// SPDX-License-Identifier: BSD-2-Clause
#include "jit/stdio_tail.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/small_file.h"
#include "elf/find.h"
#include "target/memory.h"
#include "target/target.h"

#define FDS_MAX 4096	/* maximum number of descriptors to check */
#define STREAMS_MAX 256 /* maximum number of open streams to check */
#define MAGIC 0xfbad0000u
#define MAGIC_MASK 0xffff0000u

/* The first members of glibc's struct _IO_FILE. */
struct stream {
	uint32_t flags;
	uint32_t padding;
	uint64_t read[3];
	uint64_t write_base;
	uint64_t write_ptr;
	uint64_t write_end;
	uint64_t buf_base;
	uint64_t buf_end;
	uint64_t saved[3];
	uint64_t markers;
	uint64_t chain;
	int32_t fileno;
};

_Static_assert(offsetof(struct stream, write_base) == 0x20 && offsetof(struct stream, fileno) == 0x70, "_IO_FILE");

/* Reads the link of a descriptor and sets name to its last path component, or "" if there is none. */
static void link_name(int dir, const char *link, char name[NAME_MAX + 1])
{
	char target[PATH_MAX];
	ssize_t length = readlinkat(dir, link, target, sizeof(target) - 1);
	const char *slash;

	name[0] = 0;
	if (length <= 0)
		return;
	target[length] = 0;
	slash = strrchr(target, '/');
	if (slash)
		snprintf(name, NAME_MAX + 1, "%s", slash + 1);
}

/*
 * Returns whether the descriptor refers to the inode. Does not use stat(2), which can hang if the process itself serves
 * the file system. Before Linux 5.15, the kernel does not report the inode.
 */
static bool has_inode(pid_t pid, const char *fd, ino_t inode)
{
	unsigned long long found = inode;
	const char *line;
	char info[256]; /* the inode is in the first lines */

	if (xp_small_file_read(info, sizeof(info), "/proc/%d/fdinfo/%.16s", pid, fd) < 0)
		return false;
	line = strstr(info, "\nino:");
	if (line)
		sscanf(line, " ino: %llu", &found);
	return found == inode;
}

/* Returns the descriptor of the file in the process, or -ENOENT. */
static int find_fd(pid_t pid, int file, ino_t inode)
{
	char path[64], wanted[NAME_MAX + 1], name[NAME_MAX + 1];
	const struct dirent *entry;
	int found = -ENOENT;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	link_name(AT_FDCWD, path, wanted);
	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	if (!dir)
		return -ENOENT;
	for (int i = 0; found < 0 && i < FDS_MAX && (entry = readdir(dir)); i++) {
		link_name(dirfd(dir), entry->d_name, name);
		if (*name && !strcmp(name, wanted) && has_inode(pid, entry->d_name, inode))
			found = atoi(entry->d_name);
	}
	closedir(dir);
	return found;
}

/* Returns the address of the C library's list of all streams, or 0 if the mapping is not such a library. */
static uint64_t list_in(pid_t pid, const struct xp_mapping *mapping)
{
	static const char *const names[] = { "_IO_list_all" };
	struct xp_elf_file *image = malloc(sizeof(*image));
	int fd = image ? xp_mapping_open(pid, mapping) : -1;
	uint64_t value = 0;

	if (fd >= 0 && !xp_elf_file_fd(image, fd)) {
		xp_elf_find(image, names, &value, 1);
		if (value && image->segment_count)
			value += mapping->start - mapping->file_offset - image->segments[0].vaddr +
				 image->segments[0].offset;
		xp_elf_file_close(image);
	}
	if (fd >= 0)
		close(fd);
	free(image);
	return value;
}

static uint64_t find_list(pid_t pid)
{
	struct xp_mappings mappings;
	uint64_t list = 0;

	if (xp_mappings_read(&mappings, pid))
		return 0;
	for (size_t i = 0; i < mappings.count && !list; i++) {
		const char *name = strrchr(mappings.list[i].path, '/');

		if (name && (!strcmp(name, "/libc.so.6") || !strncmp(name, "/libc-2.", 8)))
			list = list_in(pid, &mappings.list[i]);
	}
	xp_mappings_free(&mappings);
	return list;
}

static bool read_stream(const struct xp_stdio_tail *tail, uint64_t address, struct stream *stream)
{
	return !xp_target_memory_read(tail->memory, tail->pid, address, stream, sizeof(*stream)) &&
	       (stream->flags & MAGIC_MASK) == MAGIC;
}

int xp_stdio_tail_find(struct xp_stdio_tail *tail, pid_t pid, int file)
{
	uint64_t list, address;
	struct stream stream;
	struct stat st;

	*tail = (struct xp_stdio_tail){ .memory = tail->memory, .pid = pid };
	if (fstat(file, &st))
		return -errno;
	tail->fd = find_fd(pid, file, st.st_ino);
	list = tail->fd < 0 ? 0 : find_list(pid);
	if (!list || xp_target_memory_read(tail->memory, pid, list, &address, sizeof(address)))
		return -ENOENT;
	for (int i = 0; address && i < STREAMS_MAX && read_stream(tail, address, &stream); i++) {
		if (stream.fileno == tail->fd) {
			tail->stream = address;
			return 0;
		}
		address = stream.chain;
	}
	return -ENOENT;
}

ssize_t xp_stdio_tail_read(const struct xp_stdio_tail *tail, uint8_t bytes[XP_STDIO_TAIL_BYTES_MAX])
{
	struct stream stream, again;
	uint64_t size;

	if (!tail->stream || !read_stream(tail, tail->stream, &stream) || stream.fileno != tail->fd)
		return 0;
	size = stream.write_ptr - stream.write_base;
	if (stream.write_base < stream.buf_base || stream.write_ptr > stream.buf_end ||
	    stream.write_ptr <= stream.write_base || size > XP_STDIO_TAIL_BYTES_MAX ||
	    xp_target_memory_read(tail->memory, tail->pid, stream.write_base, bytes, size))
		return 0;
	if (!read_stream(tail, tail->stream, &again))
		return 0;
	return memcmp(&stream, &again, sizeof(stream)) != 0 ? -EAGAIN : (ssize_t)size;
}
