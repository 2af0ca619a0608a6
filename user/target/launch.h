/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `xprof record -- CMD`: starts a program and holds it with ptrace before its first instruction, and again when the
 * dynamic linker has loaded its binaries but not yet run their constructors. Releases the program permanently before
 * main(), so debuggers and waiting parents notice nothing.
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
	int stops;	   /* number of stops of this program at changes of its link map */
};

/*
 * Starts argv and returns when it has stopped at the first instruction of the new program. If the program cannot be
 * executed, returns the error of execvp(3) with a sentence (why.h). xprof must have SIGCHLD and SIGTERM blocked; the
 * new program gets an empty signal mask.
 */
int xp_launch_start(struct xp_launch *launch, char **argv);

enum xp_launch_event {
	XP_LAUNCH_NONE,
	XP_LAUNCH_LOADED, /* stopped at a change of its link map (xp_programs_stop_at_link_map()) */
	XP_LAUNCH_EXEC,	  /* stopped at the first instruction of another program, which a wrapper script executed */
};

/* Lets the stopped program continue. */
int xp_launch_continue(struct xp_launch *launch);
/*
 * Checks for a stop and never waits. Call this after SIGCHLD. A stopped program stays stopped until
 * xp_launch_continue() or xp_launch_release(). Passes other signals on to it. Sets launch->ended when the program ends.
 */
enum xp_launch_event xp_launch_poll_event(struct xp_launch *launch);

/* Call this if a thread other than the first executed a program: ptrace has then lost the process. */
void xp_launch_lose(struct xp_launch *launch);
/* Releases the program permanently. Stops a running program briefly for this. */
int xp_launch_release(struct xp_launch *launch);

/* Reaps the program if it has ended. Does not wait. */
void xp_launch_poll(struct xp_launch *launch);
/* Waits until the program ends. */
void xp_launch_wait(struct xp_launch *launch);
/*
 * Returns xprof's exit code for a program that ended: the exit code of the program, or 128 + signal as in a shell. If
 * the program could not be executed, 127 if it does not exist, otherwise 126, as in env(1).
 */
int xp_launch_exit_code(const struct xp_launch *launch);

#endif
