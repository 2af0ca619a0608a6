/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/time_slices.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The file is: time on a CPU, time waiting for one, time slices. */
static uint64_t slices_of(int dir_fd, const char *tid)
{
	char path[64], text[96];
	uint64_t slices;
	ssize_t bytes;
	int fd;

	snprintf(path, sizeof(path), "%.20s/schedstat", tid);
	fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	bytes = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (bytes <= 0)
		return 0;
	text[bytes] = 0;
	return sscanf(text, "%*u %*u %" SCNu64, &slices) == 1 ? slices : 0;
}

uint64_t xp_time_slices(pid_t pid)
{
	uint64_t threads = 0, looked = 0, sum = 0;
	struct dirent *entry;
	char path[64];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	if (!dir)
		return 0;
	while ((entry = readdir(dir))) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		if (threads++ >= XP_TIME_SLICES_THREADS_MAX)
			continue;
		sum += slices_of(dirfd(dir), entry->d_name);
		looked++;
	}
	closedir(dir);
	return looked ? sum * threads / looked : 0;
}
