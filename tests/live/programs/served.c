// SPDX-License-Identifier: BSD-2-Clause
/*
 * A file system with one file, which this process serves until SIGUSR1: served DIRECTORY FILE. The file "program" in
 * the directory has the content of FILE. Requests after SIGUSR1 wait until this process exits. After SIGUSR2, the first
 * read fails, and later ones wait.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define FILE_NODE 2
#define NAME "program"

static volatile sig_atomic_t is_silent;
static volatile sig_atomic_t fails_reads;
static unsigned int failed_reads;
static int file_fd;
static off_t file_bytes;

static void be_silent(int number)
{
	(void)number;
	is_silent = 1;
}

static void fail_reads(int number)
{
	(void)number;
	fails_reads = 1;
}

static void reply(int fuse, uint64_t unique, int err, const void *data, size_t bytes)
{
	struct fuse_out_header header = { .len = sizeof(header) + bytes, .error = err, .unique = unique };
	struct iovec parts[] = { { &header, sizeof(header) }, { (void *)data, bytes } };

	(void)!writev(fuse, parts, bytes ? 2 : 1);
}

static struct fuse_attr attributes(uint64_t node)
{
	return (struct fuse_attr){
		.ino = node,
		.mode = node == FILE_NODE ? S_IFREG | 0755 : S_IFDIR | 0755,
		.nlink = 1,
		.size = node == FILE_NODE ? file_bytes : 0,
	};
}

/* The kernel must not cache anything: it requests attributes each time. */
static void answer(int fuse, const struct fuse_in_header *in, const char *body)
{
	static char piece[1 << 20];
	const struct fuse_read_in *read_in = (const void *)body;
	struct fuse_entry_out entry = { .nodeid = FILE_NODE, .attr = attributes(FILE_NODE) };
	struct fuse_attr_out attr = { .attr = attributes(in->nodeid) };
	struct fuse_init_out init = { .major = FUSE_KERNEL_VERSION, .minor = 31, .max_write = 65536 };
	struct fuse_statfs_out system = { 0 };
	struct fuse_open_out open = { .open_flags = 0 };
	ssize_t got;

	switch (in->opcode) {
	case FUSE_INIT:
		return reply(fuse, in->unique, 0, &init, sizeof(init));
	case FUSE_LOOKUP:
		return strcmp(body, NAME) ? reply(fuse, in->unique, -ENOENT, NULL, 0)
					  : reply(fuse, in->unique, 0, &entry, sizeof(entry));
	case FUSE_GETATTR:
		return reply(fuse, in->unique, 0, &attr, sizeof(attr));
	case FUSE_OPEN:
	case FUSE_OPENDIR:
		return reply(fuse, in->unique, 0, &open, sizeof(open));
	case FUSE_READ:
		if (fails_reads && failed_reads++)
			return;
		if (fails_reads)
			return reply(fuse, in->unique, -EIO, NULL, 0);
		got = pread(file_fd, piece, read_in->size, (off_t)read_in->offset);
		return reply(fuse, in->unique, 0, piece, got > 0 ? (size_t)got : 0);
	case FUSE_STATFS:
		return reply(fuse, in->unique, 0, &system, sizeof(system));
	case FUSE_RELEASE:
	case FUSE_FLUSH:
	case FUSE_RELEASEDIR:
	case FUSE_ACCESS:
		return reply(fuse, in->unique, 0, NULL, 0);
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		return;
	default:
		return reply(fuse, in->unique, -ENOSYS, NULL, 0);
	}
}

static int mount_it(const char *directory)
{
	int fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	char options[128];

	snprintf(options, sizeof(options), "fd=%d,rootmode=40755,user_id=0,group_id=0,allow_other,default_permissions",
		 fuse);
	if (fuse < 0 || mount("served", directory, "fuse", 0, options)) {
		printf("cannot: %s\n", strerror(errno));
		fflush(stdout);
		exit(0);
	}
	return fuse;
}

int main(int argc, char **argv)
{
	static char request[FUSE_MIN_READ_BUFFER + (1 << 20)];
	struct stat st;
	int fuse;

	if (argc != 3)
		return 2;
	file_fd = open(argv[2], O_RDONLY | O_CLOEXEC);
	if (file_fd < 0 || fstat(file_fd, &st))
		return 1;
	file_bytes = st.st_size;
	fuse = mount_it(argv[1]);
	signal(SIGUSR1, be_silent);
	signal(SIGUSR2, fail_reads);
	puts("ready");
	fflush(stdout);
	for (;;) {
		ssize_t got = read(fuse, request, sizeof(request));

		if (got < 0 && errno == ENODEV)
			return 0; /* unmounted */
		if (got >= (ssize_t)sizeof(struct fuse_in_header) && !is_silent)
			answer(fuse, (const struct fuse_in_header *)request, request + sizeof(struct fuse_in_header));
	}
}
