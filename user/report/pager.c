// SPDX-License-Identifier: BSD-2-Clause
#include "report/pager.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/child.h"
#include "base/util.h"

static void look_at_terminal(struct xp_terminal *terminal)
{
	const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");
	struct winsize size;

	terminal->is_terminal = isatty(STDOUT_FILENO);
	if (!terminal->is_terminal)
		return;
	/* https://no-color.org: NO_COLOR counts if it is set and not empty. */
	terminal->colour = term && strcmp(term, "dumb") != 0 && !(no_color && *no_color);
	if (!ioctl(STDOUT_FILENO, TIOCGWINSZ, &size))
		terminal->columns = size.ws_col;
}

/*
 * Runs the pager. Does not use base/child.h: the user chooses the pager, which needs the terminal and open files, and
 * continues if xprof is killed.
 *
 * Exit codes are those of the shell: 127 if the pager does not exist, 126 if it cannot be executed.
 */
static __attribute__((noreturn)) void run_pager(const char *command, int from)
{
	signal(SIGINT, SIG_DFL);
	signal(SIGPIPE, SIG_DFL);
	/*
	 * F: exit if all fits on the screen, R: show colours, X: do not clear the screen. The user's LESS takes
	 * precedence.
	 */
	setenv("LESS", "FRX", 0);
	if (dup2(from, STDIN_FILENO) >= 0)
		execl("/bin/sh", "sh", "-c", command, NULL);
	_exit(127);
}

static pid_t start_pager(const char *command, int *to)
{
	int ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC))
		return -1;
	pid = fork();
	if (!pid)
		run_pager(command, ends[0]);
	close(ends[0]);
	if (pid < 0)
		close(ends[1]);
	*to = ends[1];
	return pid;
}

/* Shows the text in the pager. Returns false if the pager does not start. */
static bool show(const char *command, const char *text, size_t bytes)
{
	/* The pager handles ^C. Ignore SIGPIPE, because the user may quit the pager before it has read everything. */
	void (*interrupt)(int) = signal(SIGINT, SIG_IGN);
	void (*broken_pipe)(int) = signal(SIGPIPE, SIG_IGN);
	int to, code = 0;
	pid_t pid = start_pager(command, &to);

	if (pid > 0) {
		xp_write_all(to, text, bytes); /* -EPIPE: the user quit the pager early */
		close(to);
		code = xp_child_wait(pid, -1);
	}
	signal(SIGINT, interrupt);
	signal(SIGPIPE, broken_pipe);
	return pid > 0 && code != 126 && code != 127;
}

static int show_page(const struct xp_page *page)
{
	const char *command = getenv("PAGER");

	if (!command)
		command = "command -v less >/dev/null || exit 127; less";
	if (*command && strcmp(command, "cat") != 0 && show(command, page->text, page->bytes))
		return 0;
	return xp_write_all(STDOUT_FILENO, page->text, page->bytes);
}

/* Stores the error of writing, because a stream does not store it. */
static ssize_t write_out(void *cookie, const char *bytes, size_t size)
{
	struct xp_page *page = cookie;
	int err = xp_write_all(STDOUT_FILENO, bytes, size);

	if (!page->err)
		page->err = err;
	return err ? 0 : (ssize_t)size;
}

int xp_page_begin(struct xp_page *page, bool is_data)
{
	memset(page, 0, sizeof(*page));
	if (!is_data)
		look_at_terminal(&page->terminal);
	/* Keeps the text in memory only for a pager, because JSON can be large. */
	page->out = page->terminal.is_terminal ? open_memstream(&page->text, &page->bytes)
					       : fopencookie(page, "w", (cookie_io_functions_t){ .write = write_out });
	return page->out ? 0 : -ENOMEM;
}

int xp_page_end(struct xp_page *page, int err)
{
	bool failed = ferror(page->out);

	failed |= fclose(page->out) != 0;
	if (!err && failed)
		err = page->err ? page->err : -ENOMEM;
	if (!err && page->terminal.is_terminal)
		err = show_page(page);
	free(page->text);
	return err;
}
