/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The directory that a recording's files go to. An older recording of that name becomes NAME.old; one that was there
 * as NAME.old is removed. What is no recording of xprof is never touched.
 *
 * xprof runs as root, often in directories that belong to someone else. So the directory is made here and never taken
 * over, no symbolic link is followed at its place, files are reached through its descriptor alone, and it stays root's
 * own (nobody else can put links into it) until xp_outdir_close() gives it to the user behind sudo.
 */
#ifndef XPROF_OUTDIR_H
#define XPROF_OUTDIR_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct xp_outdir {
	int fd;			  /* of the directory, for openat(); -1: none */
	char path[PATH_MAX];	  /* as given, for messages */
	int parent_fd;		  /* of the directory that it is in */
	char name[NAME_MAX + 1];  /* its name there */
	char older[NAME_MAX + 1]; /* the name that an older recording has now, "" when there was none */
};

/*
 * Makes the directory. On failure nothing has changed, *outdir needs no close, and why has a sentence with the remedy.
 * Errors: -EEXIST something there is not xprof's; -ENOENT, -EACCES, -EROFS and so on as of mkdir(2).
 */
int xp_outdir_open(struct xp_outdir *outdir, const char *path, char *why, size_t why_size);

/*
 * keep: gives directory and files to the user behind sudo. Not keep, or an empty directory: removes it again and puts
 * the older recording back in its place. Returns 0 or -errno and has then printed what failed; all is closed anyway.
 */
int xp_outdir_close(struct xp_outdir *outdir, bool keep);

/*
 * Gives a recording's directory and all that is in it to the user behind sudo, if there is one; what is not root's, or
 * holds more than a recording, is left alone. Nothing may be made there afterwards. 0, or -errno when that was said.
 */
int xp_outdir_give(int dir_fd, const char *shown);

/* The user behind sudo: SUDO_UID and SUDO_GID, when xprof runs as root. False: there is none. */
bool xp_outdir_owner(uid_t *uid, gid_t *gid);

#endif
