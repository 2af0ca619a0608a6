/* SPDX-License-Identifier: BSD-2-Clause */
#include "record/outdir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file_name.h"
#include "base/own_file.h"
#include "base/trusted_dir.h"
#include "base/util.h"
#include "base/why.h"

#define OLD_SUFFIX ".old"
#define PARTS_IN_A_SECOND_MAX 1000
#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/* ---- the contents of a directory ---- */

/* Returns whether this is the name of a file of a recording. */
static bool is_ours(const char *name)
{
	return !strcmp(name, XP_MANIFEST_NAME) || !strcmp(name, "perf.data") || xp_file_ends_with(name, ".fdr") ||
	       xp_file_is_export(name) || xp_file_ends_with(name, ".xray.so") || xp_file_ends_with(name, ".prof") ||
	       xp_file_ends_with(name, ".dump") || xp_file_is_spool(name) || xp_file_ends_with(name, ".part");
}

/* Returns whether this is the manifest of a recording, or a spool of an interrupted recording. */
static bool is_mark(const char *name)
{
	return !strcmp(name, XP_MANIFEST_NAME) || xp_file_is_spool(name);
}

struct owner {
	uid_t uid;
	gid_t gid;
};

struct contents {
	size_t entries;
	size_t marks;
	size_t foreign;
	char foreign_name[NAME_MAX + 1]; /* name of one of the foreign entries */
};

#define SYM_DIR "sym" /* the only subdirectory of a recording, see sym_files.h; it holds files and links */

/* Opens SYM_DIR. Returns -ENOTDIR if the entry is something else. */
static int open_sym(int dir_fd, const char *name)
{
	int fd = strcmp(name, SYM_DIR) ? -1 : openat(dir_fd, name, DIR_FLAGS);

	return fd < 0 ? -ENOTDIR : fd;
}

/* Adds the disk space of files that have no other name outside of the recording. */
static int add_bytes(int dir_fd, const char *name, void *arg)
{
	int sym_fd = open_sym(dir_fd, name);
	uint64_t *bytes = arg;
	struct stat st;

	if (sym_fd >= 0) {
		xp_dir_each(sym_fd, add_bytes, arg);
		close(sym_fd);
	} else if (!fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) && st.st_nlink == 1) {
		*bytes += (uint64_t)st.st_blocks * 512; /* stat(2) */
	}
	return 0;
}

uint64_t xp_outdir_bytes(int dir_fd)
{
	uint64_t bytes = 0;

	xp_dir_each(dir_fd, add_bytes, &bytes);
	return bytes;
}

void xp_outdir_limit(struct xp_outdir *outdir, uint64_t max_bytes)
{
	struct statvfs fs;

	outdir->max_bytes = max_bytes ?: XP_OUTDIR_BYTES_MAX;
	if (!max_bytes && !fstatvfs(outdir->fd, &fs))
		outdir->max_bytes = XP_MIN((uint64_t)fs.f_bavail * fs.f_frsize / 2, XP_OUTDIR_BYTES_MAX);
}

bool xp_outdir_is_full(const struct xp_outdir *outdir)
{
	uint64_t bytes = outdir->max_bytes ? xp_outdir_bytes(outdir->fd) : 0;

	if (!outdir->max_bytes || bytes < outdir->max_bytes)
		return false;
	xp_warn("the recording ends: its files have reached %.0f MiB; --max-size SIZE sets the limit, and --functions, "
		"--min-duration and --flight record less",
		(double)bytes / (1 << 20));
	return true;
}

static void count_foreign(struct contents *contents, const char *name)
{
	contents->foreign++;
	snprintf(contents->foreign_name, sizeof(contents->foreign_name), "%s", name);
}

static int take_stock_of_sym(int dir_fd, const char *name, void *arg)
{
	struct stat st;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) || (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode)))
		count_foreign(arg, name);
	return 0;
}

static int take_stock(int dir_fd, const char *name, void *arg)
{
	struct contents *contents = arg;
	struct stat st;
	bool regular = !fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st.st_mode);
	int sym_fd = open_sym(dir_fd, name);

	contents->entries++;
	if (sym_fd >= 0) {
		int err = xp_dir_each(sym_fd, take_stock_of_sym, contents);

		close(sym_fd);
		return err;
	}
	contents->marks += regular && is_mark(name);
	if (!regular || !is_ours(name))
		count_foreign(contents, name);
	return 0;
}

static int read_contents(int dir_fd, struct contents *contents)
{
	memset(contents, 0, sizeof(*contents));
	return xp_dir_each(dir_fd, take_stock, contents);
}

static int remove_any(int dir_fd, const char *name, void *arg)
{
	(void)arg;
	return unlinkat(dir_fd, name, 0) && errno != ENOENT ? -errno : 0;
}

static int remove_file(int dir_fd, const char *name, void *arg)
{
	int sym_fd = open_sym(dir_fd, name);
	int err;

	(void)arg;
	if (sym_fd >= 0) {
		err = xp_dir_each(sym_fd, remove_any, NULL);
		close(sym_fd);
		if (!err && unlinkat(dir_fd, name, AT_REMOVEDIR))
			err = -errno;
		return err;
	}
	return is_ours(name) && unlinkat(dir_fd, name, 0) && errno != ENOENT ? -errno : 0;
}

/* Removes the files of a recording, and its directory. */
static int remove_recording(int parent_fd, const char *name, int dir_fd)
{
	int err = xp_dir_each(dir_fd, remove_file, NULL);

	if (!err && unlinkat(parent_fd, name, AT_REMOVEDIR))
		err = -errno;
	return err;
}

/* ---- an existing directory of the same name ---- */

/*
 * Returns whether xprof must not move or remove a directory. xprof may if the directory belongs to root, to the user
 * behind sudo, or to the owner of its parent directory, because that owner could do the same.
 */
static bool is_somebody_elses(int parent_fd, int dir_fd)
{
	struct stat dir, parent;
	uid_t uid;
	gid_t gid;

	if (fstat(dir_fd, &dir) || fstat(parent_fd, &parent))
		return true;
	return dir.st_uid != geteuid() && dir.st_uid != parent.st_uid &&
	       !(xp_own_file_user(&uid, &gid) && dir.st_uid == uid);
}

/* A directory that already has this name. */
struct occupant {
	const char *name;
	const char *shown; /* its name for messages */
	int fd;		   /* valid after look_at() */
	struct contents contents;
};

/* Opens the directory and counts its contents. Returns 1 if there is no such name. */
static int look_at(int parent_fd, struct occupant *occupant)
{
	const char *name = occupant->name, *shown = occupant->shown;
	struct stat st;
	int err;

	if (fstatat(parent_fd, name, &st, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT ? 1 : xp_why_set(-errno, "%s: %s", shown, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return xp_why_set(-EEXIST, "%s is %s, not a directory: move it away, or choose another name with -o",
				  shown, S_ISLNK(st.st_mode) ? "a symbolic link" : "a file");
	occupant->fd = openat(parent_fd, name, DIR_FLAGS);
	if (occupant->fd < 0)
		return xp_why_set(-errno, "%s: cannot open the directory: %s", shown, strerror(errno));
	if (is_somebody_elses(parent_fd, occupant->fd)) {
		close(occupant->fd);
		return xp_why_set(-EEXIST, "%s belongs to another user: choose another directory with -o", shown);
	}
	err = read_contents(occupant->fd, &occupant->contents);
	if (err) {
		close(occupant->fd);
		return xp_why_set(err, "%s: cannot read the directory: %s", shown, strerror(-err));
	}
	return 0;
}

/* Removes NAME.old if it is a recording and nothing else. */
static int clear_old(const struct xp_outdir *outdir, const char *old)
{
	char shown[PATH_MAX + sizeof(OLD_SUFFIX)];
	struct occupant occupant = { .name = old, .shown = shown };
	const struct contents *contents = &occupant.contents;
	int err;

	snprintf(shown, sizeof(shown), "%s%s", outdir->path, OLD_SUFFIX);
	err = look_at(outdir->parent_fd, &occupant);
	if (err)
		return err > 0 ? 0 : err;
	if (contents->foreign)
		err =
		    xp_why_set(-EEXIST,
			       "%s would be removed but contains something that is not xprof's (%s): move it away, or "
			       "choose another directory with -o",
			       shown, contents->foreign_name);
	else if (contents->entries && !contents->marks)
		err = xp_why_set(-EEXIST,
				 "%s would be removed but is not a recording (no manifest.json): move it away, or "
				 "choose another directory with -o",
				 shown);
	else
		err = remove_recording(outdir->parent_fd, old, occupant.fd);
	close(occupant.fd);
	if (err && !xp_why_has(err))
		xp_why_set(err, "%s: cannot remove this older recording: %s", shown, strerror(-err));
	return err;
}

/* Frees the name: renames a recording of that name to NAME.old, or removes an empty directory. */
static int clear_place(struct xp_outdir *outdir)
{
	char old[NAME_MAX + 1 + sizeof(OLD_SUFFIX)];
	struct occupant occupant = { .name = outdir->name, .shown = outdir->path };
	int err;

	err = look_at(outdir->parent_fd, &occupant);
	if (err)
		return err > 0 ? 0 : err;
	close(occupant.fd);
	if (!occupant.contents.entries) {
		if (unlinkat(outdir->parent_fd, outdir->name, AT_REMOVEDIR))
			return xp_why_set(-errno, "%s: cannot replace this empty directory: %s", outdir->path,
					  strerror(errno));
		return 0;
	}
	if (!occupant.contents.marks)
		return xp_why_set(
		    -EEXIST,
		    "%s exists and is not an xprof recording (no manifest.json): choose another directory with -o",
		    outdir->path);
	snprintf(old, sizeof(old), "%s%s", outdir->name, OLD_SUFFIX);
	if (strlen(old) > NAME_MAX)
		return xp_why_set(
		    -ENAMETOOLONG,
		    "%s: the name is too long to rename the older recording to NAME.old: choose another with -o",
		    outdir->path);
	err = clear_old(outdir, old);
	if (err)
		return err;
	/* A directory that was created since stays: renameat() works only if the name is free or an empty directory. */
	if (renameat(outdir->parent_fd, outdir->name, outdir->parent_fd, old))
		return xp_why_set(-errno, "%s: cannot rename the older recording to %s: %s", outdir->path, old,
				  strerror(errno));
	memcpy(outdir->older, old, strlen(old) + 1);
	return 0;
}

/* ---- opening ---- */

static int open_parent(struct xp_outdir *outdir)
{
	char parent[PATH_MAX];
	size_t length = strlen(outdir->path);
	char *slash;

	if (!length)
		return xp_why_set(-EINVAL, "the output directory's name is empty");
	memcpy(parent, outdir->path, length + 1);
	while (length > 1 && parent[length - 1] == '/')
		parent[--length] = 0;
	slash = strrchr(parent, '/');
	if (strlen(slash ? slash + 1 : parent) > NAME_MAX)
		return xp_why_set(-ENAMETOOLONG, "the output directory's name is too long");
	snprintf(outdir->name, sizeof(outdir->name), "%.*s", NAME_MAX, slash ? slash + 1 : parent);
	if (!outdir->name[0] || !strcmp(outdir->name, ".") || !strcmp(outdir->name, ".."))
		return xp_why_set(
		    -EINVAL,
		    "%s is not a name for a new directory, which xprof creates: choose another, such as -o xprof.out",
		    outdir->path);
	if (slash)
		slash[slash == parent] = 0; /* "/name": the root directory */
	outdir->parent_fd = xp_trusted_dir_open(slash ? parent : ".");
	if (outdir->parent_fd >= 0)
		return 0;
	if (outdir->parent_fd == -ENOENT)
		return xp_why_set(-ENOENT,
				  "%s does not exist: make it first, or choose another directory "
				  "with -o",
				  slash ? parent : ".");
	if (outdir->parent_fd == -EREMCHG)
		return xp_why_set(-EREMCHG,
				  "%s goes through another user's symbolic link in a world-writable directory: choose "
				  "another directory with -o",
				  parent);
	return xp_why_set(outdir->parent_fd, "%s: cannot create a directory there: %s", slash ? parent : ".",
			  strerror(-outdir->parent_fd));
}

static int refuse_mkdir(const struct xp_outdir *outdir, int err)
{
	const char *reason = strerror(-err);

	if (err == -EACCES || err == -EPERM)
		reason = "you may not write there";
	else if (err == -EROFS)
		reason = "the file system is read-only";
	else if (err == -EOPNOTSUPP)
		reason = "the file system has no modes that keep other users out (mount it with umask=077)";
	return xp_why_set(err, "%s: cannot create the output directory, %s: choose another with -o", outdir->path,
			  reason);
}

static int make(struct xp_outdir *outdir)
{
	struct contents contents = { 0 };
	int err;

	outdir->fd = xp_own_dir_create(outdir->parent_fd, outdir->name);
	err = outdir->fd < 0 ? outdir->fd : read_contents(outdir->fd, &contents);
	if (err == -EEXIST || contents.entries)
		return xp_why_set(
		    -EEXIST,
		    "%s: the new directory belongs to another user, who replaced it, or its file system sets the owner "
		    "(FUSE, vfat): use -o with a directory on another file system to which only you can write",
		    outdir->path);
	return err ? refuse_mkdir(outdir, err) : 0;
}

static void put_older_back(struct xp_outdir *outdir)
{
	if (outdir->older[0])
		renameat(outdir->parent_fd, outdir->older, outdir->parent_fd, outdir->name);
	outdir->older[0] = 0;
}

void xp_outdir_leave(struct xp_outdir *outdir)
{
	if (outdir->fd >= 0)
		close(outdir->fd);
	if (outdir->parent_fd >= 0)
		close(outdir->parent_fd);
	outdir->fd = -1;
	outdir->parent_fd = -1;
}

static int begin(struct xp_outdir *outdir, const char *path)
{
	*outdir = (struct xp_outdir){ .fd = -1, .parent_fd = -1 };
	xp_why_clear();
	if (strlen(path) >= sizeof(outdir->path))
		return xp_why_set(-ENAMETOOLONG, "the output directory's name is too long");
	strcpy(outdir->path, path);
	return open_parent(outdir);
}

int xp_outdir_open(struct xp_outdir *outdir, const char *path)
{
	int err = begin(outdir, path);

	if (!err)
		err = clear_place(outdir);
	if (!err)
		err = make(outdir);
	if (err) {
		put_older_back(outdir);
		xp_outdir_leave(outdir);
		return err;
	}
	/* Shows `xprof recover` that the recording is running, if the file system can lock directories. */
	flock(outdir->fd, LOCK_EX | LOCK_NB);
	return 0;
}

/* ---- parts ---- */

/* Opens the existing directory, or creates one that belongs to the user behind sudo, as do its parts. */
static int open_or_make(struct xp_outdir *outdir)
{
	struct occupant occupant = { .name = outdir->name, .shown = outdir->path };
	struct owner owner;
	struct stat st;
	int err = look_at(outdir->parent_fd, &occupant);

	if (err > 0) {
		err = make(outdir);
		if (!err && xp_own_file_user(&owner.uid, &owner.gid) && fchown(outdir->fd, owner.uid, owner.gid))
			err = xp_why_set(-errno, "%s: cannot give it to user %u: %s", outdir->path, owner.uid,
					 strerror(errno));
		return err;
	}
	if (err)
		return err;
	outdir->fd = occupant.fd;
	if (fstat(outdir->fd, &st) || st.st_mode & (S_IWGRP | S_IWOTH))
		return xp_why_set(
		    -EPERM, "%s: other users may write there; run chmod go-w, or choose another directory with -o",
		    outdir->path);
	if (!occupant.contents.marks)
		return 0;
	return xp_why_set(-EEXIST,
			  "%s is a recording, not a directory of the parts of one: choose another directory with -o",
			  outdir->path);
}

int xp_outdir_open_parts(struct xp_outdir *outdir, const char *path)
{
	int err = begin(outdir, path) ?: open_or_make(outdir);

	if (!err && flock(outdir->fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
		err = xp_why_set(-EBUSY, "another xprof makes parts in %s: choose another directory with -o",
				 outdir->path);
	if (err)
		xp_outdir_leave(outdir);
	return err;
}

int xp_outdir_open_part(struct xp_outdir *part, const struct xp_outdir *parts, const char *name, const char *before)
{
	int bytes = (int)strlen(name), length, err = -EEXIST;
	const bool is_before = strncmp(name, before, (size_t)bytes) <= 0;

	/* Not a duplicate, which shares the lock of the parts: a child process that ends a part must not keep it. */
	*part = (struct xp_outdir){ .fd = -1, .parent_fd = openat(parts->fd, ".", DIR_FLAGS) };
	if (part->parent_fd < 0)
		return -errno;
	for (unsigned int i = 0; i < PARTS_IN_A_SECOND_MAX && err == -EEXIST; i++) {
		snprintf(part->name, sizeof(part->name), i ? "%.*s-%03u" : "%.*s", bytes, is_before ? before : name, i);
		length = snprintf(part->path, sizeof(part->path), "%s/%s", parts->path, part->name);
		if ((!is_before || strcmp(part->name, before) > 0) &&
		    faccessat(part->parent_fd, part->name, F_OK, AT_SYMLINK_NOFOLLOW))
			err = length < (int)sizeof(part->path) ? make(part) : -ENAMETOOLONG;
	}
	if (!err)
		flock(part->fd, LOCK_EX | LOCK_NB);
	else
		xp_outdir_leave(part);
	return err;
}

int xp_outdir_remove(int parent_fd, const char *name)
{
	struct occupant occupant = { .name = name, .shown = name };
	int err = look_at(parent_fd, &occupant);

	if (err)
		return XP_MIN(err, 0);
	if (occupant.contents.foreign)
		err = xp_why_set(-EEXIST, "%s has something that is not xprof's: %s", name,
				 occupant.contents.foreign_name);
	else if (occupant.contents.entries && !occupant.contents.marks &&
		 faccessat(occupant.fd, "perf.data", F_OK, AT_SYMLINK_NOFOLLOW))
		err = xp_why_set(-EEXIST, "%s is not a recording", name);
	else
		err = flock(occupant.fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK
			  ? -EBUSY
			  : remove_recording(parent_fd, name, occupant.fd);
	close(occupant.fd);
	return err;
}

/* ---- closing ---- */

static int give_file(int dir_fd, const char *name, void *arg)
{
	const struct owner *owner = arg;
	/* Also handles links: the link itself, not its target. */
	int fd = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC), sym_fd = open_sym(dir_fd, name), err = 0;
	struct stat st;

	if (sym_fd >= 0) {
		err = xp_dir_each(sym_fd, give_file, arg);
		close(sym_fd);
	}
	if (fd < 0)
		return -errno;
	if (!err && fstat(fd, &st))
		err = -errno;
	/* Skips a file with a second name, perhaps outside of the directory: xprof did not make it. */
	if (!err && (S_ISDIR(st.st_mode) ? sym_fd >= 0 : st.st_nlink == 1) &&
	    fchownat(fd, "", owner->uid, owner->gid, AT_EMPTY_PATH))
		err = -errno;
	close(fd);
	return err;
}

/* Gives the directory last: while it belongs to root, no one else can change its contents. */
int xp_outdir_give(int dir_fd, const char *shown)
{
	struct contents contents;
	struct owner owner;
	struct stat st;
	int err;

	if (!xp_own_file_user(&owner.uid, &owner.gid))
		return 0;
	err = fstat(dir_fd, &st) ? -errno : read_contents(dir_fd, &contents);
	if (!err && (st.st_uid || contents.foreign || !contents.entries))
		return 0; /* it already belongs to someone else, or contains more than a recording */
	if (!err)
		err = xp_dir_each(dir_fd, give_file, &owner);
	if (!err && fchown(dir_fd, owner.uid, owner.gid))
		err = -errno;
	if (err)
		xp_error("%s: cannot give the files to user %u: %s", shown, owner.uid, strerror(-err));
	return err;
}

int xp_outdir_close(struct xp_outdir *outdir, bool keep)
{
	struct contents contents;
	int err;

	if (outdir->fd < 0)
		return 0;
	err = read_contents(outdir->fd, &contents);
	if (!err && keep && contents.entries) {
		err = xp_outdir_give(outdir->fd, outdir->path);
		goto out;
	}
	if (!err)
		err = remove_recording(outdir->parent_fd, outdir->name, outdir->fd);
	if (err)
		xp_error("%s: cannot remove the directory of this failed recording: %s", outdir->path, strerror(-err));
	else
		put_older_back(outdir);
	err = err ?: 1;
out:
	xp_outdir_leave(outdir);
	return err;
}
