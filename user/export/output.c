// SPDX-License-Identifier: BSD-2-Clause
#include "export/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own_file.h"
#include "base/owner_rights.h"
#include "base/trusted_dir.h"
#include "base/util.h"

struct writing {
	xp_export_write *write;
	void *arg;
};

/* The incomplete file, for end_by_signal(): valid while is_there. */
static struct {
	volatile sig_atomic_t is_there;
	int dir_fd;
	char name[XP_LOG_NAME_MAX + sizeof(XP_LOG_PART)];
} part;

static void end_by_signal(int number)
{
	static const char text[] = "xprof: error: interrupted: the output is incomplete; no file of it is left\n";

	if (part.is_there)
		unlinkat(part.dir_fd, part.name, 0);
	xp_write_all(STDERR_FILENO, text, sizeof(text) - 1);
	raise(number);
}

void xp_export_file_end_by_signals(void)
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
	const struct sigaction action = { .sa_handler = end_by_signal, .sa_flags = (int)SA_RESETHAND | SA_NODEFER };
	struct sigaction before;

	for (size_t i = 0; i < XP_ARRAY_SIZE(numbers); i++)
		if (!sigaction(numbers[i], NULL, &before) && before.sa_handler != SIG_IGN)
			sigaction(numbers[i], &action, NULL);
}

/* Writes the data to fd, which stays open. */
static int write_to(void *arg, int fd)
{
	const struct writing *writing = arg;
	int own = fcntl(fd, F_DUPFD_CLOEXEC, 0), err;
	FILE *out = own < 0 ? NULL : fdopen(own, "w");
	uid_t uid;
	gid_t gid;

	if (!out) {
		err = -errno;
		if (own >= 0)
			close(own);
		return err;
	}
	if (xp_own_file_user(&uid, &gid) && fd != STDOUT_FILENO && fchown(fd, uid, gid))
		xp_debug("cannot give the file to the user behind sudo: %s", strerror(errno));
	errno = 0;
	err = writing->write(writing->arg, out);
	if (!err && ferror(out)) {
		/* Earlier calls may have set errno; a lasting error occurs again in the flush. */
		clearerr(out);
		errno = 0;
		err = fputc(0, out) == EOF || fflush(out) ? -errno : -EIO;
	}
	if (!err && fflush(out))
		err = errno ? -errno : -EIO;
	if (fclose(out) && !err)
		err = -errno;
	return err;
}

/* The file appears under its name when it is complete. */
static int make(int dir_fd, const char *name, struct writing *writing)
{
	int err;

	snprintf(part.name, sizeof(part.name), "%s" XP_LOG_PART, name);
	part.dir_fd = dir_fd;
	part.is_there = true;
	err = xp_log_file_make(dir_fd, name, write_to, writing);
	part.is_there = false;
	return err;
}

int xp_export_file_given(const char *path, xp_export_write *write, void *arg)
{
	struct writing writing = { write, arg };
	const char *slash = strrchr(path, '/');
	char directory[PATH_MAX];
	struct stat st;
	int fd, err;

	if (strcmp(path, "-") == 0)
		return write_to(&writing, STDOUT_FILENO);
	if (!stat(path, &st) && !S_ISREG(st.st_mode)) {
		fd = open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
		err = fd < 0 || fstat(fd, &st) ? -errno : S_ISREG(st.st_mode) ? -EEXIST : write_to(&writing, fd);
		if (fd >= 0 && close(fd) && !err)
			err = -errno;
		return err;
	}
	snprintf(directory, sizeof(directory), "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
	fd = xp_trusted_dir_open(directory);
	if (fd < 0)
		return fd;
	err = make(fd, slash ? slash + 1 : path, &writing);
	close(fd);
	return err;
}

int xp_export_file_made(const char *directory, const char *name, xp_export_write *write, void *arg)
{
	struct writing writing = { write, arg };
	int dir_fd = xp_own_links_dir_open(directory), err, own_err;
	struct stat dir;

	if (dir_fd < 0)
		return dir_fd;
	err = fstat(dir_fd, &dir) ? -errno : xp_owner_rights_take(&dir);
	if (!err)
		err = make(dir_fd, name, &writing);
	own_err = xp_owner_rights_return();
	close(dir_fd);
	return err ? err : own_err;
}

const char *xp_export_file_reason(int err)
{
	if (err == -EREMCHG)
		return "the path goes through another user's symbolic link: give the directory itself";
	if (err == -ENOTUNIQ)
		return "the directory is root's, but others may write to it: name a file with --output";
	return strerror(-err);
}
