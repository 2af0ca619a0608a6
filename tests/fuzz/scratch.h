/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A new directory for the files of a fuzz target. Each run makes one, because libFuzzer does not call the target at its
 * end.
 */
#ifndef XPROF_FUZZ_SCRATCH_H
#define XPROF_FUZZ_SCRATCH_H

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check/formats.h"

struct scratch {
	char path[64];
	int fd;
};

/* In memory if possible: some targets write thousands of files per second. */
static inline struct scratch scratch_make(void)
{
	struct scratch scratch = { .path = "/dev/shm/xprof-fuzz-XXXXXX" };

	if (!mkdtemp(scratch.path)) {
		strcpy(scratch.path, "/tmp/xprof-fuzz-XXXXXX");
		if (!mkdtemp(scratch.path))
			abort();
	}
	scratch.fd = open(scratch.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (scratch.fd < 0)
		abort();
	return scratch;
}

static inline int scratch_remove_one(const char *path, const struct stat *st, int flag, struct FTW *walk)
{
	(void)st;
	(void)flag;
	(void)walk;
	return remove(path);
}

static inline void scratch_remove(struct scratch *scratch)
{
	close(scratch->fd);
	if (nftw(scratch->path, scratch_remove_one, 8, FTW_DEPTH | FTW_PHYS))
		abort();
}

/* Checks a file that xprof wrote with the strict checker. */
static inline void scratch_check(int dir_fd, const char *name)
{
	int fd = openat(dir_fd, name, O_RDONLY);
	struct xp_report report = { 0 };
	const struct xp_format *format;
	struct stat st;
	void *bytes;

	if (fd < 0 || fstat(fd, &st) || !st.st_size)
		abort();
	bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (bytes == MAP_FAILED)
		abort();
	format = xp_format_find(bytes, (uint64_t)st.st_size);
	if (!format || format->check(bytes, (uint64_t)st.st_size, &report))
		abort();
	if (report.finding_count) {
		fprintf(stderr, "%s, byte %llu: %s\n", name, (unsigned long long)report.findings[0].offset,
			report.findings[0].text);
		abort();
	}
	munmap(bytes, (size_t)st.st_size);
	close(fd);
}

#endif
