/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A recording, the only module that knows all others: open -> preflight -> attach -> run -> drain -> finish. Shared by
 * recording.c (that sequence), setup.c and setup_samples.c (what is made before a target is touched), call_rate.c (the
 * cost of the recording), targets.c (attaches what the command line requests), follow.c (what to attach when a process
 * appears or changes), announce.c (messages before it begins), run.c (the loop between attach and detach), finish.c
 * (detaching, and the files), summary.c (messages at its end) and failure.c (error messages).
 */
#ifndef XPROF_RECORD_RECORDING_H
#define XPROF_RECORD_RECORDING_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "budget/forecast.h"
#include "budget/throttle.h"
#include "kernel/attach.h"
#include "kernel/attach_samples.h"
#include "kernel/merge.h"
#include "kernel/preflight.h"
#include "kernel/programs.h"
#include "kernel/rings.h"
#include "kernel/sideband.h"
#include "options.h"
#include "record/outdir.h"
#include "sample/samples.h"
#include "sled/object.h"
#include "sled/patch.h"
#include "target/launch.h"
#include "trace/flight_writer.h"
#include "trace/process.h"
#include "trace/process_flight.h"

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

/* How often the functions of an object are called, counted for a moment. */
struct xp_call_rate_object {
	struct xp_object *object;
	uint64_t *calls; /* [functions of the object + 1], indexed by function ID */
};

/* What was measured before the sleds were attached. */
struct xp_call_rates {
	bool made; /* if not set, only hit_cost may be known */
	struct xp_call_rate_object *objects;
	size_t object_count;
	size_t sleds;
	uint64_t own_ns; /* CPU time of the targets during the count, without that of the counting */
	struct xp_probe_cost hit_cost;
	struct xp_forecast_input input;
	struct xp_forecast forecast; /* after xp_call_rate_forecast() */
};

struct xp_recording {
	const struct xp_options *options;

	struct xp_clock *clock;
	struct xp_programs programs;
	struct xp_attach *attach; /* NULL with --dry-run: nothing is attached, only checked */
	struct xp_patch *patch;	  /* NULL: sleds are probed */
	bool may_patch;		  /* sleds are to be patched where possible */
	enum xp_stub_form stub_form;
	struct xp_rings *rings;
	struct xp_merge *merge;
	struct xp_objects objects;
	struct xp_processes processes;
	struct xp_flight_writer flight_writer; /* --flight */
	struct xp_launch launch;	       /* pid 0 without CMD */
	struct xp_process *launched;	       /* the image of the command */
	uint64_t launch_deadline;	       /* TSC at which a program without sleds is released; 0: not set */
	struct xp_outdir outdir;

	/* Sampling: all NULL without it. */
	struct xp_sampler *sampler;
	struct xp_sideband *sideband;
	struct xp_samples samples;
	unsigned int jit_watches; /* probes that report new JIT code */
	bool *cpus;		  /* --all: [programs.cpus], the CPUs to sample */

	struct xp_call_rates survey;
	struct xp_throttle *throttle; /* --max-overhead; NULL: no budget */
	bool stopped;		      /* nothing is attached any more, only the ring buffers are read */
	bool with_sleds;	      /* attach sleds if there are any */
	bool with_samples;
	bool multi;	       /* uprobe_multi links */
	bool all_processes;    /* probes are on all processes that map an object: --follow, --exec */
	struct stat exec_file; /* --exec */
	struct xp_attached *attached;
	size_t attached_count;
	struct xp_linker *linkers;
	size_t linker_count;

	uint64_t start_tsc;
	uint64_t run_tsc;   /* when everything was attached; the end is processes.stop_tsc */
	uint64_t attach_ns; /* time spent attaching, and detaching */
	uint64_t detach_ns;
	uint64_t stopped_ns;	  /* how long targets were stopped to patch sleds, in total */
	uint64_t longest_stop_ns; /* the longest stop */
	uint64_t by_ktime;	  /* records timed by CLOCK_MONOTONIC instead of the TSC */
	uint64_t other_process;	  /* records of processes that are not targets, or of functions that they do not have */
	struct xp_bpf_counters *lost; /* [programs.cpus], read at the end */
	uint64_t missed;
	uint64_t next_repair_tsc; /* next repair of what the side-band lost */
	uint64_t tasks_lost;	  /* records from XP_EVENT_EXEC to XP_EVENT_LINK_MAP that were lost for lack of room */
	char why[2 * PATH_MAX];	  /* sentence about the last refusal, with room for a path and its remedy */
};

/* setup.c */

/*
 * Sets up everything that does not touch the target yet. Returns 0 or an error of bpf(2); recording->why has the
 * sentence.
 */
int xp_setup(struct xp_recording *recording, const struct xp_preflight *preflight);
/* --max-overhead. Functions that the count found too hot are not attached at first. */
int xp_setup_budget(struct xp_recording *recording);
/* What BPF is to copy of user stacks. */
enum xp_sample_stacks xp_setup_stacks(enum xp_call_graph call_graph);
/* Frees everything that the recording owns except its output directory. */
void xp_setup_free(struct xp_recording *recording);

/* setup_samples.c */

int xp_setup_samples(struct xp_recording *recording);
/* After xp_setup_samples(). */
int xp_setup_perf(struct xp_recording *recording);

/* targets.c */

/* Attaches everything that the command line requests, and starts the command. recording->why has the sentence. */
int xp_targets_attach(struct xp_recording *recording);
/*
 * Checks whether there is anything to record. With --exec, processes may start later; a command may execute another
 * program.
 */
int xp_targets_check(struct xp_recording *recording);

/* follow.c */

/*
 * Adds the program that pid runs as an image to be traced, attaches what it has mapped, and announces the process to
 * BPF. *process is set on success. Returns 0 or -errno: -ENOMEM, or an error of attaching; recording->why has the
 * sentence.
 */
int xp_follow_add(struct xp_recording *recording, struct xp_process **process, pid_t pid, uint64_t tsc);
/* Attaches objects that the process has mapped since. */
int xp_follow_scan(struct xp_recording *recording, struct xp_process *process);
/*
 * Starts over with a process that has nothing attached: it has executed another program meanwhile
 * (process->flees), or had mapped nothing yet. Errors as above.
 */
int xp_follow_again(struct xp_recording *recording, struct xp_process *process);
/* xp_follow_scan() for every live process, if records that could have reported objects were lost. */
int xp_follow_rescan(struct xp_recording *recording);
/* Handles exec, fork, exit, and changed lists of objects. record: already checked (event_check.h). */
int xp_follow_task(struct xp_recording *recording, const struct xp_event *record, uint64_t tsc);
/* Attaches the file of --exec in all processes, and adds those that already run it. */
int xp_follow_exec_file(struct xp_recording *recording);
/*
 * Handles a record of an unknown process or function: the process was gone before it could be scanned. Adds the
 * process, and the object that contains the function. comm: the name of the process.
 */
int xp_follow_adopt(struct xp_recording *recording, const struct xp_event *record, const char *comm, uint64_t tsc);
/* Ends processes that are gone although no record said so (it was lost), the second time that they are found gone. */
void xp_follow_check(struct xp_recording *recording);
/*
 * Attaches the started program, which is stopped at its first instruction, and lets it run until its objects are
 * mapped.
 */
int xp_follow_launch(struct xp_recording *recording);
/* Handles its changes since; to be called after each SIGCHLD while launch.traced. Never waits for the program. */
int xp_follow_launch_event(struct xp_recording *recording);
/* Releases the started program permanently, if it is still held or followed by ptrace. */
int xp_follow_release(struct xp_recording *recording);

/* call_rate.c */

/*
 * Counts the calls of the running targets for a moment, and estimates the cost of recording them. Needs uprobe_multi.
 * Without it, or after an error, which -v shows, there is no estimate; recording goes on.
 */
void xp_call_rates(struct xp_recording *recording);
void xp_call_rates_free(struct xp_call_rates *survey);
/* Makes the forecast, once it is known which sleds are probed and which are patched. */
void xp_call_rate_forecast(struct xp_recording *recording);
/* "4812 sleds, about 310 000 calls/s; ..." */
void xp_call_rates_text(const struct xp_call_rates *survey, char *text, size_t size);

/* announce.c */

/* Prints to stdout what would be attached. */
void xp_announce_dry_run(const struct xp_recording *recording);
/* Prints to stderr the forecast, what the budget leaves out, what is recorded, and until when. */
void xp_announce(const struct xp_recording *recording);

/* run.c */

/* Blocks the signals that end a recording. Returns a signalfd for them, or -errno. */
int xp_run_block_signals(const struct xp_recording *recording);
/* After this, a second signal ends xprof at once; the spools stay for `xprof recover`. */
void xp_run_unblock_signals(void);
/* Records until a signal, the end of the time, the end of all targets, or an error. Returns 0 or -errno. */
int xp_run(struct xp_recording *recording, int signal_fd);
/* Reads what is left in the ring buffers after everything has been detached. */
int xp_run_drain(struct xp_recording *recording);
/* Records and reports flight recorder logs that have been written. wait: wait for all requested ones. */
int xp_run_collect_flights(struct xp_recording *recording, bool wait);
/* Reads the BPF side's counters of losses into recording. */
void xp_run_read_losses(struct xp_recording *recording);

/* finish.c */

/* Ends the recorded period. Sleds are restored before a second signal may end xprof. */
void xp_finish_stop(struct xp_recording *recording);
/* Detaches everything, and reads what is left in the ring buffers. */
int xp_finish_detach(struct xp_recording *recording);
/* Makes the files of every image that had sleds. Goes on after an error, so that the other files are kept. */
int xp_finish_files(struct xp_recording *recording);
/*
 * Kills the command that xprof started if the recording never began; otherwise waits for it. Returns the exit code:
 * that of the command if nothing else failed.
 */
int xp_finish_launch(struct xp_recording *recording, int code, bool recorded);

/* summary.c */

struct xp_totals {
	struct xp_counts counts; /* of all processes; filtered does not include other_process */
	uint64_t seen;		 /* by the BPF side: counts.seen + other_process + lost_ring */
	uint64_t filtered;	 /* for all reasons */
	uint64_t lost_ring;	 /* no room in a ring buffer, or a program skipped by the kernel */
	uint64_t lost;		 /* lost_ring + events that could not be stored */
	uint64_t samples;	 /* in profiles */
	uint64_t samples_lost;	 /* no room in a ring buffer; samples seen = samples + samples_lost */
	uint64_t idle;		 /* samples of idle CPUs, which are only counted */
	uint64_t missed;	 /* periods without a sample, see xp_sampler_periods() */
	size_t processes;
	size_t threads;
};
void xp_recording_totals(const struct xp_recording *recording, struct xp_totals *totals);
/* Prints to stderr figures, files, and for each the next command to type. */
void xp_summary_print(const struct xp_recording *recording, const struct xp_totals *totals);
/*
 * Reserves room for manifest.json before the other files are written. Returns a descriptor for xp_summary_manifest(),
 * or -errno.
 */
int xp_summary_reserve(const struct xp_recording *recording);
/* Writes manifest.json. */
int xp_summary_manifest(const struct xp_recording *recording, const struct xp_totals *totals, int reserved_fd);

/* failure.c */

/* The remedy for an error of storage, as the end of a sentence: "; make room there ...", or "". */
const char *xp_failure_remedy(int err);
int xp_failure_exit_code(int err);
/* Reports a failure once: recording->why if a sentence is there, the errno otherwise. Returns the exit code. */
int xp_failure_report(struct xp_recording *recording, int err, const char *doing);

/* recording.c: the whole recording. Returns an exit code. */
int xp_record(const struct xp_options *options);

#endif
