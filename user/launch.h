/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `xprof record -- CMD`: starts a program and holds it before its first instruction, and again when the dynamic linker
 * has loaded its objects and not yet run their constructors. It is held by ptrace and let go for good before main(),
 * so debuggers and waiting parents notice nothing.
 */
#ifndef XPROF_LAUNCH_H
#define XPROF_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct xp_launch {
	pid_t pid;
	bool traced; /* still held or followed by ptrace */
	bool ended;
	int status; /* as in wait(2), once ended */
	int stops;  /* of this program, at changes of its list of loaded objects */
};

/*
 * Starts argv and returns when it stands at the first instruction of its new program. A program that cannot be
 * executed gives the error of execvp(3) with a sentence in why. SIGCHLD and SIGTERM must be blocked in xprof; the new
 * program gets an empty signal mask.
 */
int xp_launch_start(struct xp_launch *launch, char **argv, char *why, size_t why_size);

/*
 * Lets it run to its next stop: 1 it stands at a change of its list of loaded objects (xp_programs_stop_at_link_map()),
 * 2 it stands at the first instruction of another program (a wrapper such as env has run it), 0 it has ended, or a
 * negative errno, -EINTR when xprof got SIGTERM. Its other signals are passed on to it.
 */
int xp_launch_next(struct xp_launch *launch);

/* Lets it go for good. */
int xp_launch_release(struct xp_launch *launch);

/* Reaps it when it has ended, without waiting. */
void xp_launch_poll(struct xp_launch *launch);
/* Waits for its end. */
void xp_launch_wait(struct xp_launch *launch);
/* xprof's exit code from its status: its own, or 128 + signal as a shell has it. */
int xp_launch_exit_code(const struct xp_launch *launch);

#endif
