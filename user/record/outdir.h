/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The directory for a recording's files. An older recording with the same name becomes NAME.old, and an earlier
 * NAME.old is removed. Anything that is not a recording of xprof is never touched.
 *
 * xprof runs as root, often in directories that belong to someone else. So it always creates the directory and never
 * takes one over, follows no symbolic link in its place, and accesses files through its descriptor only. The directory
 * belongs to root, so no one else can create links in it, until xp_outdir_close() gives it to the user behind sudo.
 */
#ifndef XPROF_RECORD_OUTDIR_H
#define XPROF_RECORD_OUTDIR_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct xp_outdir {
	int fd;			  /* descriptor of the directory, for openat(); -1: none */
	char path[PATH_MAX];	  /* as given by the user, for messages */
	int parent_fd;		  /* descriptor of the parent directory */
	char name[NAME_MAX + 1];  /* the name in the parent directory */
	char older[NAME_MAX + 1]; /* the new name of an older recording; "": there was none */
	uint64_t max_bytes;	  /* limit of the files' disk space; 0: none */
};

/*
 * Creates the directory. On failure nothing has changed, and *outdir needs no close. Returns 0 or -errno, with a
 * message (why.h) that has the remedy: -EEXIST if a file there does not belong to xprof; -ENOENT, -EACCES, -EROFS or
 * another error of mkdir(2).
 */
int xp_outdir_open(struct xp_outdir *outdir, const char *path);

/*
 * Opens or creates the directory for the parts of a recording, and locks it. Renames no older recording. Returns 0 or
 * -errno with a message: -EEXIST also if it is a recording, -EBUSY while another xprof makes parts there.
 */
int xp_outdir_open_parts(struct xp_outdir *outdir, const char *path);
/*
 * Creates the directory of a part in the directory of parts, with the first of these names that is free: name, name-001
 * and so on. before: the name of the part before, or ""; a part of the same second, or of an earlier one because the
 * clock was set back, is named by that second and comes after it, also if names in between are free again. Returns 0 or
 * -errno, likewise.
 */
int xp_outdir_open_part(struct xp_outdir *part, const struct xp_outdir *parts, const char *name, const char *before);

/*
 * Removes the recording of this name. Returns 0, or -errno: -EBUSY while it is being recorded or ended; -EEXIST, with a
 * message, if it contains files that xprof did not make, or belongs to another user.
 */
int xp_outdir_remove(int parent_fd, const char *name);
/* Returns the disk space of the files that only this recording has. */
uint64_t xp_outdir_bytes(int dir_fd);

/* Limits the disk space of the files. 0: XP_OUTDIR_BYTES_MAX, or half of the free space if that is less. */
#define XP_OUTDIR_BYTES_MAX (10ull << 30)
void xp_outdir_limit(struct xp_outdir *outdir, uint64_t max_bytes);
/* Returns whether the files have reached the limit, and prints the limit then. False if their size cannot be read. */
bool xp_outdir_is_full(const struct xp_outdir *outdir);

/*
 * keep: gives the directory and its files to the user behind sudo. Otherwise, or if the directory is empty: removes it
 * and renames the older recording back. Returns 0, 1 if it was removed, or -errno after printing the error. Closes
 * everything in any case.
 */
int xp_outdir_close(struct xp_outdir *outdir, bool keep);
/* Closes it while a child process ends the recording and keeps the lock. */
void xp_outdir_leave(struct xp_outdir *outdir);

/*
 * Gives a recording's directory and everything in it to the user behind sudo, if there is one. A directory that is not
 * root's, or contains more than a recording, is skipped. No file may be created in it afterwards. Returns 0, or -errno
 * after printing the error.
 */
int xp_outdir_give(int dir_fd, const char *shown);

#endif
