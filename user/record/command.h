/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The command that xprof started (record -- CMD): held by ptrace until its objects are mapped and attached. Owns the
 * child; the image belongs to the traced processes.
 */
#ifndef XPROF_RECORD_COMMAND_H
#define XPROF_RECORD_COMMAND_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "target/launch.h"
#include "trace/process.h"

struct xp_started_command {
	struct xp_launch launch;    /* pid 0 without CMD */
	struct xp_process *process; /* the image that it runs */
	uint64_t release_tsc;	    /* when it is released although it has no sleds; 0: not set */
};

/* Whether xprof holds or follows pid by ptrace, because it is the command. */
static inline bool xp_command_traces(const struct xp_started_command *command, pid_t pid)
{
	return command->launch.traced && command->launch.pid == pid;
}

#endif
