/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `xprof record -- CMD`: starts a program and holds it with ptrace before its first instruction, and again when the
 * dynamic linker has loaded its objects but not yet run their constructors. It is released permanently before main(),
 * so debuggers and waiting parents notice nothing.
 */
#ifndef XPROF_TARGET_LAUNCH_H
#define XPROF_TARGET_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct xp_launch {
	pid_t pid;
	bool traced;   /* still held or followed by ptrace */
	bool standing; /* stopped, waiting for xprof */
	bool ended;
	bool not_executed; /* the child ended because the program cannot be executed */
	int status;	   /* as in wait(2), valid once ended */
	int stops;	   /* number of stops of this program at changes of its list of loaded objects */
};

/*
 * Starts argv and returns when it has stopped at the first instruction of the new program. If the program cannot be
 * executed, returns the error of execvp(3) with a sentence (why.h). xprof must have SIGCHLD and SIGTERM blocked; the
 * new program gets an empty signal mask.
 */
int xp_launch_start(struct xp_launch *launch, char **argv);

enum xp_launch_event {
	XP_LAUNCH_NONE,
	XP_LAUNCH_LOADED, /* stopped at a change of its list of loaded objects (xp_programs_stop_at_link_map()) */
	XP_LAUNCH_EXEC,	  /* stopped at the first instruction of another program, which a wrapper has executed */
};

/* Lets the stopped program continue. */
int xp_launch_continue(struct xp_launch *launch);
/*
 * Checks for a stop and never waits (SIGCHLD says when to check). A stopped program stays stopped until
 * xp_launch_continue() or xp_launch_release(). Other signals are passed on to it. launch->ended reports its end.
 */
enum xp_launch_event xp_launch_poll_event(struct xp_launch *launch);

/* A thread other than the first has executed a program, so the tracer has lost it. */
void xp_launch_lose(struct xp_launch *launch);
/* Releases the program permanently. A running one is stopped for a moment. */
int xp_launch_release(struct xp_launch *launch);

/* Reaps the program if it has ended. Does not wait. */
void xp_launch_poll(struct xp_launch *launch);
/* Waits for its end. */
void xp_launch_wait(struct xp_launch *launch);
/*
 * Returns xprof's exit code for a program that ended: the exit code of the program, or 128 + signal as in a shell. If
 * the program could not be executed, 127 if it does not exist, otherwise 126, as in env(1).
 */
int xp_launch_exit_code(const struct xp_launch *launch);

#endif
