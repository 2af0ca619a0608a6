// SPDX-License-Identifier: BSD-2-Clause
/* `xprof view [DIR]`: shows the page of a recording in a browser. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/child.h"
#include "base/own_file.h"
#include "base/small_file.h"
#include "commands.h"
#include "kernel/privilege.h"

#define OPENER "xdg-open"
#define OPENER_MS 3000	       /* enough time to fail; with some browsers, xdg-open runs until the browser ends */
#define ENVIRONMENT_MAX 131072 /* bytes of the environment of a shell; the rest is ignored */
#define ANCESTORS_MAX 64

/* Exit codes of the child. The exit codes of xdg-open are below 10. */
enum {
	CHILD_FAILED = 124,
	CHILD_NO_DISPLAY = 125,
	CHILD_NOT_EXECUTABLE = 126, /* like the shell */
	CHILD_NOT_FOUND = 127,
};

/* ---- in the child, which has only the rights of the user ---- */

static pid_t parent_of(pid_t pid)
{
	char text[1024];
	const char *after;

	if (xp_small_file_read(text, sizeof(text), "/proc/%d/stat", pid) <= 0 || !(after = strrchr(text, ')')))
		return 0;
	return (pid_t)strtol(after + strcspn(after, "0123456789"), NULL, 10);
}

/*
 * Returns the environment of the shell that started sudo, or NULL. The browser needs WAYLAND_DISPLAY and the address of
 * the session bus, which sudo removes. The environment is never freed.
 */
static char **environment_of_shell(uid_t uid)
{
	char path[64], *text = malloc(ENVIRONMENT_MAX), **list = NULL;
	pid_t pid = getppid();
	ssize_t bytes = 0;
	size_t count = 0;
	struct stat st;

	for (int i = 0; text && pid > 1 && bytes <= 0 && i < ANCESTORS_MAX; i++, pid = parent_of(pid)) {
		snprintf(path, sizeof(path), "/proc/%d", pid);
		if (!stat(path, &st) && st.st_uid == uid)
			bytes = xp_small_file_read(text, ENVIRONMENT_MAX, "/proc/%d/environ", pid);
	}
	if (bytes > 0)
		list = calloc((size_t)bytes + 1, sizeof(*list));
	for (ssize_t at = 0; list && at < bytes; at += (ssize_t)strlen(text + at) + 1)
		list[count++] = text + at;
	return list;
}

static void take_environment(uid_t uid)
{
	char **list = environment_of_shell(uid);
	const struct passwd *user;

	if (list)
		environ = list;
	else if ((user = getpwuid(uid)))
		setenv("HOME", user->pw_dir, 1);
}

static bool is_set(const char *name)
{
	const char *value = getenv(name);

	return value && *value;
}

/*
 * Runs xdg-open. Does not use base/child.h: the browser is a program of the user, and it outlives xprof. It gets a new
 * session, so that it keeps running when sudo closes its terminal.
 */
static __attribute__((noreturn)) void run_opener(const char *page)
{
	int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
	bool had_sudo;
	sigset_t none;
	uid_t uid;
	gid_t gid;

	had_sudo = xp_own_file_user(&uid, &gid);
	if (nowhere < 0 || xp_privilege_to_user())
		_exit(CHILD_FAILED);
	if (had_sudo)
		take_environment(uid);
	if (!is_set("DISPLAY") && !is_set("WAYLAND_DISPLAY"))
		_exit(CHILD_NO_DISPLAY);
	setsid();
	for (int number = 1; number < NSIG; number++)
		signal(number, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		dup2(nowhere, fd);
	if (close_range(STDERR_FILENO + 1, UINT_MAX, 0))
		_exit(CHILD_FAILED);
	execlp(OPENER, OPENER, page, NULL);
	_exit(errno == ENOENT ? CHILD_NOT_FOUND : CHILD_NOT_EXECUTABLE);
}

/* ---- the command ---- */

enum xp_exit xp_view_open(const char *directory)
{
	char *absolute = realpath(directory, NULL), page[PATH_MAX + NAME_MAX];
	uid_t uid;
	gid_t gid;
	int code;
	pid_t pid;

	if (!absolute)
		return xp_fail(XP_EXIT_FAILED, "%s: cannot open it: %s", directory, strerror(errno));
	/* xdg-open cannot mistake an absolute path for an option or a URL. */
	snprintf(page, sizeof(page), "%s/recording.html", absolute);
	free(absolute);
	if (access(page, F_OK)) /* nothing was recorded, which xp_cmd_export() has reported */
		return XP_EXIT_OK;
	if (!geteuid() && (!xp_own_file_user(&uid, &gid) || !uid)) {
		xp_info("no browser is started as root; open %s in the browser of a user", page);
		return XP_EXIT_OK;
	}
	pid = fork();
	if (!pid)
		run_opener(page);
	code = pid < 0 ? CHILD_FAILED : xp_child_wait(pid, OPENER_MS);
	if (!code || code == -EAGAIN)
		xp_info("opened %s in the browser", page);
	else if (code == CHILD_NO_DISPLAY)
		xp_info("there is no display; open %s in a browser", page);
	else if (code == CHILD_NOT_FOUND)
		xp_warn(OPENER " is not installed (package xdg-utils); open %s in a browser", page);
	else
		xp_warn(OPENER " failed; open %s in a browser", page);
	return !code || code == -EAGAIN || code == CHILD_NO_DISPLAY ? XP_EXIT_OK : XP_EXIT_FAILED;
}

enum xp_exit xp_cmd_view(const struct xp_options *options)
{
	struct xp_options page = *options;
	struct stat st;
	enum xp_exit code;

	if (!stat(options->operands[0], &st) && !S_ISDIR(st.st_mode))
		return xp_fail(XP_EXIT_USAGE, "%s is a file; give the directory of a recording, or use 'xprof export'",
			       options->operands[0]);
	page.formats = 1u << XP_FORMAT_HTML;
	code = xp_cmd_export(&page);
	return code ? code : xp_view_open(options->operands[0]);
}
