/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The profiles that wait for the engine: a directory with one file for each request. A file contains the body of its
 * request, so that a repeated request is the same as the first one.
 *
 * The names are made of a time and numbers only: TIME-PID-NUMBER.ENGINE, where TIME is when the profile was queued (ns,
 * CLOCK_REALTIME). They appear once the file is complete. The queue ignores all other names.
 *
 * Limits: XP_PUSH_QUEUE_* below. Beyond them, the oldest profiles are dropped.
 */
#ifndef XPROF_PUSH_PUSH_QUEUE_H
#define XPROF_PUSH_PUSH_QUEUE_H

#include <stdint.h>
#include <stdio.h>

#include "push/push_config.h"

#define XP_PUSH_QUEUE_BYTES_MAX (256ull << 20)
#define XP_PUSH_QUEUE_COUNT_MAX 10000
#define XP_PUSH_QUEUE_AGE_MAX_NS (24 * 3600 * 1000000000ull)

#define XP_PUSH_FILE_BYTES 64 /* size of a name */

struct xp_push_file {
	char name[XP_PUSH_FILE_BYTES];
	uint64_t queued_ns;
	uint64_t bytes;
};

struct xp_push_queue {
	int fd;
	enum xp_push_engine engine;
	struct xp_push_file *files; /* the oldest first */
	size_t count;
	size_t room;
};

/*
 * Opens the directory, or creates it, and locks it. Removes incomplete files. The caller calls xp_push_queue_close(),
 * also after an error. Returns 0 or -errno: -EBUSY if another process has locked it, -EPERM if it belongs to another
 * user.
 */
int xp_push_queue_open(struct xp_push_queue *queue, const char *path, enum xp_push_engine engine);
/* Also removes the directory if it is empty. */
void xp_push_queue_close(struct xp_push_queue *queue, const char *path);

/* Adds a file to the directory. `number` makes its name unique in this process. Returns 0 or -errno. */
int xp_push_queue_put(int dir_fd, enum xp_push_engine engine, unsigned int number, int (*write)(void *arg, int fd),
		      void *arg);

/*
 * Reads the names of the files for this engine, and removes files beyond the limits; removes files for another engine
 * only by age. *dropped grows by the number of removed files. Returns 0 or -errno.
 */
int xp_push_queue_scan(struct xp_push_queue *queue, uint64_t *dropped);
/* Opens a file. Returns a descriptor or -errno. */
int xp_push_queue_take(const struct xp_push_queue *queue, const char *name);
/* Removes a file. */
void xp_push_queue_remove(struct xp_push_queue *queue, const char *name);

#endif
