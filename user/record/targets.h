/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The targets of a recording: owns the recorded processes with their logs, the binaries that they map, the probes and
 * patched sleds in them, and the command that xprof started. The functions of follow*.c and targets.c use only this
 * part of a recording.
 */
#ifndef XPROF_RECORD_TARGETS_H
#define XPROF_RECORD_TARGETS_H

#include <stdint.h>
#include <sys/types.h>

#include "budget/throttle.h"
#include "event/arrival.h"
#include "kernel/attach.h"
#include "kernel/programs.h"
#include "record/forecast.h"
#include "record/plan.h"
#include "record/usdt_probes.h"
#include "sled/object.h"
#include "sled/patch.h"
#include "target/launch.h"
#include "trace/flight_writer.h"
#include "trace/process.h"
#include "trace/process_flight.h"

/* ---- what xprof attached: probes, patched sleds, the budget, and where they are ---- */

/* An object with probes on its sleds, in one process, or in all (pid 0). */
struct xp_attached {
	const struct xp_object *object;
	pid_t pid;
	struct xp_sled_result sleds;
};

/* A dynamic linker with a probe. */
struct xp_linker {
	dev_t dev;
	ino_t inode;
	pid_t pid;
};

struct xp_probes {
	struct xp_attach *attach;     /* NULL with --dry-run: nothing is attached, only checked */
	struct xp_patch *patch;	      /* NULL: sleds are probed */
	struct xp_throttle *throttle; /* --max-overhead; NULL: no budget */
	struct xp_attached *attached;
	size_t attached_count, attached_room;
	struct xp_linker *linkers;
	size_t linker_count, linker_room;
	struct xp_usdt_probes_on usdt; /* --usdt */
	size_t busy;		       /* objects in a process that the kernel refused to probe with EBUSY */
	bool any_attached;	       /* ever */
	bool told_again;	       /* that an object was loaded again, and calls are missing */
	bool told_late;		       /* that programs are recorded only some milliseconds after they start */
	bool stopped;		       /* nothing is attached any more, only the ring buffers are read */
	uint64_t attach_ns;	       /* time spent attaching, and detaching */
	uint64_t detach_ns;
	uint64_t stopped_ns;	  /* how long targets were stopped to patch sleds, in total */
	uint64_t longest_stop_ns; /* the longest stop */
};

/* ---- the targets ---- */

/* The command that xprof started (record -- CMD): held by ptrace until its objects are mapped and attached. */
struct xp_started_command {
	struct xp_launch launch;    /* owns the child; pid 0 without CMD */
	struct xp_process *process; /* the image that it runs */
	uint64_t release_tsc;	    /* when to release it even without sleds; 0: not set */
};

/* Returns whether xprof traces pid with ptrace, because pid is the command. */
static inline bool xp_command_traces(const struct xp_started_command *command, pid_t pid)
{
	return command->launch.traced && command->launch.pid == pid;
}

struct xp_targets {
	/* Borrowed from the recording: */
	const struct xp_options *options;
	struct xp_plan *plan; /* exec_file is set when the targets are attached */
	const struct xp_clock *clock;
	struct xp_programs *programs;
	/* Samples a process. NULL: nothing is sampled. */
	int (*sample)(void *arg, pid_t pid);
	void *sample_arg;

	struct xp_objects objects;
	struct xp_processes processes;	       /* also has the TSC of the recording's start and end */
	struct xp_flight_writer flight_writer; /* --flight */
	uint64_t other_process;		       /* events of other processes, or of unknown functions */
	struct xp_probes probes;
	struct xp_forecast forecast;
	struct xp_started_command command;
	unsigned int jit_watches; /* probes that report new JIT code */
	uint64_t run_tsc;	  /* time at which everything was attached; 0 before */
};

/* probes.c */

/* Returns the sleds of the object in the process, or in all processes; NULL if there are none. */
const struct xp_attached *xp_probes_find(const struct xp_probes *probes, const struct xp_object *object, pid_t pid);
/* Returns the sleds of the object in any process, or NULL. */
const struct xp_attached *xp_probes_find_any(const struct xp_probes *probes, const struct xp_object *object);
/* Lists probes that were attached. Returns 0 or -ENOMEM. */
int xp_probes_add(struct xp_probes *probes, const struct xp_attached *attached);
/*
 * Attaches the probe that reports changes of the list of objects to this dynamic linker, unless the process (0: all)
 * has it. fd: the linker's file. Without the probe, objects loaded later are not noticed. Returns 0, -ENOMEM, or an
 * error of attaching.
 */
int xp_probes_add_linker(struct xp_probes *probes, const struct xp_programs *programs, int fd, const struct stat *st,
			 pid_t pid);
/* Detaches all probes that belong to the process. multi: they are uprobe_multi links. */
void xp_probes_drop_process(struct xp_probes *probes, pid_t pid, bool multi);

/* The sum over all objects and processes; its mode means nothing. */
struct xp_sled_result xp_probes_sum(const struct xp_probes *probes);

/* Frees the lists, and detaches what is still attached. Safe on a zeroed struct. */
void xp_probes_free(struct xp_probes *probes);

/* targets.c */

/* Attaches the processes that the command line names, and starts the command. Errors have a message. */
int xp_targets_attach(struct xp_targets *targets);
/*
 * Checks whether there is anything to record. With --exec, processes may start later; a command may execute another
 * program.
 */
int xp_targets_check(struct xp_targets *targets);
/* Call this after a command has exited: warns if a pattern for functions of libraries has matched no function. */
void xp_targets_check_libraries(const struct xp_targets *targets);

/* Probes the function of a JIT compiler, see struct xp_sampling.watch_jit. arg: the targets. */
void xp_targets_watch_jit(void *arg, pid_t pid, int fd, uint64_t offset);

/* follow.c */

/*
 * Adds the program that pid runs as an image, attaches its mapped binaries, and registers the process with BPF.
 * *process is set on success. Returns 0 or -errno: -ENOMEM, or an error of attaching, with a message.
 */
int xp_follow_add(struct xp_targets *targets, struct xp_process **process, pid_t pid, uint64_t tsc);
/* Attaches binaries that the process has mapped since the last scan. */
int xp_follow_scan(struct xp_targets *targets, struct xp_process *process);
/*
 * Scans a process without attached binaries again: it has executed another program meanwhile
 * (process->attaching.flees), or had nothing mapped yet. Errors as above.
 */
int xp_follow_again(struct xp_targets *targets, struct xp_process *process);
/* Calls xp_follow_scan() for every live process, if lost events could have reported binaries. */
int xp_follow_rescan(struct xp_targets *targets);
/* Handlers of events of these kinds (arrivals.c). Return 0 or -errno. */
int xp_follow_exec(struct xp_targets *targets, const struct xp_arrival *arrival);
int xp_follow_fork(struct xp_targets *targets, const struct xp_arrival *arrival);
int xp_follow_exit_thread(struct xp_targets *targets, const struct xp_arrival *arrival);
int xp_follow_exit_process(struct xp_targets *targets, const struct xp_arrival *arrival);
int xp_follow_link_map(struct xp_targets *targets, const struct xp_arrival *arrival);
/* Attaches the file of --exec in all processes, and adds the processes that already run it. */
int xp_follow_exec_file(struct xp_targets *targets);
/*
 * Handles an event of an unknown process or function: the process exited before it could be scanned. Adds the process,
 * and the binary that contains the function. comm: name of the process.
 */
int xp_follow_adopt(struct xp_targets *targets, const struct xp_arrival *arrival, const char *comm);
/* Releases stubs of exited processes that their children do not use. */
void xp_follow_release_stubs(struct xp_targets *targets);
/* Ends processes that exited without an exit event, when they are found missing for the second time. */
void xp_follow_check(struct xp_targets *targets);
/*
 * Attaches the started program, which is stopped at its first instruction, and lets it run until its objects are
 * mapped.
 */
int xp_follow_launch(struct xp_targets *targets);
/* Handles changes of the command; call this after each SIGCHLD while launch.traced. Never waits for the program. */
int xp_follow_launch_event(struct xp_targets *targets);
/* Releases the started program permanently, if ptrace still traces it. */
int xp_follow_release(struct xp_targets *targets);

/* side_lines.c */

/*
 * Adds the source lines of functions to the side ELFs (instr_map.h). Reads them from debug information after all
 * targets are released and all logs are written, in bounded time. Returns 0 or -errno.
 */
int xp_side_lines_add(struct xp_targets *targets);

#endif
