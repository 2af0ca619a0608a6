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
	bool traced;   /* still held or followed by ptrace */
	bool standing; /* it stands still and waits for us */
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

enum xp_launch_event {
	XP_LAUNCH_NONE,
	XP_LAUNCH_LOADED, /* it stands at a change of its list of loaded objects (xp_programs_stop_at_link_map()) */
	XP_LAUNCH_EXEC,	  /* it stands at the first instruction of another program, which a wrapper has executed */
};

/* Lets it run on from where it stands. */
int xp_launch_continue(struct xp_launch *launch);
/*
 * Whether it has come to a stop; never waits (SIGCHLD tells when to look). It stands still then, until
 * xp_launch_continue() or xp_launch_release(). Its other signals are passed on to it; its end shows in launch->ended.
 */
enum xp_launch_event xp_launch_poll_event(struct xp_launch *launch);

/* Another thread than the first has executed a program: the tracer has lost it. */
void xp_launch_lose(struct xp_launch *launch);
/* Lets it go for good; one that runs is stopped for a moment. */
int xp_launch_release(struct xp_launch *launch);

/* Reaps it when it has ended, without waiting. */
void xp_launch_poll(struct xp_launch *launch);
/* Waits for its end. */
void xp_launch_wait(struct xp_launch *launch);
/* xprof's exit code from its status: its own, or 128 + signal as a shell has it. */
int xp_launch_exit_code(const struct xp_launch *launch);

#endif
