/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One recording, the only module that knows all others:
 * open -> preflight -> attach -> run -> drain -> finish. Shared by record.c (that sequence), setup.c and
 * setup_samples.c (what is made before a target is touched), survey.c (what the recording will cost), targets.c (what
 * the command line asks for is attached), follow.c (what to attach when a process appears or changes), announce.c (what
 * is said before it begins), run.c (the loop between attach and detach), finish.c (detaching, and the files), summary.c
 * (what is said of it at the end) and failure.c (what is said when something fails).
 */
#ifndef XPROF_RECORD_H_USER
#define XPROF_RECORD_H_USER

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/attach.h"
#include "kernel/attach_samples.h"
#include "base/clock.h"
#include "trace/flight_writer.h"
#include "budget/forecast.h"
#include "target/launch.h"
#include "kernel/merge.h"
#include "sled/object.h"
#include "options.h"
#include "record/outdir.h"
#include "sled/patch.h"
#include "kernel/preflight.h"
#include "trace/process.h"
#include "trace/process_flight.h"
#include "kernel/programs.h"
#include "kernel/rings.h"
#include "sample/samples.h"
#include "kernel/sideband.h"
#include "budget/throttle.h"

/* Where an object's sleds have probes: in a process, or in all (pid 0). */
struct xp_attached {
	const struct xp_object *object;
	pid_t pid;
	struct xp_sled_result sleds;
};

/* Where a dynamic linker has its probe. */
struct xp_linker {
	dev_t dev;
	ino_t inode;
	pid_t pid;
};

/* How often the functions of an object are called, from a moment's count. */
struct xp_surveyed {
	struct xp_object *object;
	uint64_t *calls; /* [functions of the object + 1], index: function id */
};

/* What was found out before the sleds were attached. */
struct xp_survey {
	bool made; /* otherwise only hit_cost may be known */
	struct xp_surveyed *objects;
	size_t object_count;
	size_t sleds;
	uint64_t own_ns; /* of the targets' CPU time while it was counted, without the counting */
	struct xp_hit_cost hit_cost;
	struct xp_forecast_input input;
	struct xp_forecast forecast; /* after xp_survey_forecast() */
};

struct xp_recording {
	const struct xp_options *options;

	struct xp_clock *clock;
	struct xp_programs programs;
	struct xp_attach *attach; /* NULL with --dry-run: nothing is attached, only judged */
	struct xp_patch *patch;	  /* NULL: sleds are probed */
	bool may_patch;		  /* sleds are to be patched where they can be */
	enum xp_stub_form stub_form;
	struct xp_rings *rings;
	struct xp_merge *merge;
	struct xp_objects objects;
	struct xp_processes processes;
	struct xp_flight_writer flight_writer; /* --flight */
	struct xp_launch launch;	       /* pid 0 without CMD */
	struct xp_process *launched;	       /* its image */
	uint64_t launch_deadline;	       /* TSC at which a program without sleds is let go; 0: not set */
	struct xp_outdir outdir;

	/* Samples: all NULL without them. */
	struct xp_sampler *sampler;
	struct xp_sideband *sideband;
	struct xp_samples samples;
	unsigned int jit_watches; /* probes that tell of new JIT code */
	bool *cpus;		  /* --all: [programs.cpus], those to sample */

	struct xp_survey survey;
	struct xp_throttle *throttle; /* --max-overhead; NULL: without */
	bool stopped;		      /* nothing is attached any more, only what is in the rings is read */
	bool with_sleds;	      /* attach sleds where there are any */
	bool with_samples;
	bool multi;	       /* uprobe_multi links */
	bool all_processes;    /* probes are on every process that maps an object: --follow, --exec */
	struct stat exec_file; /* --exec */
	struct xp_attached *attached;
	size_t attached_count;
	struct xp_linker *linkers;
	size_t linker_count;

	uint64_t start_tsc;
	uint64_t run_tsc;   /* when everything was attached; the end is processes.stop_tsc */
	uint64_t attach_ns; /* spent on attaching, and on detaching */
	uint64_t detach_ns;
	uint64_t stopped_ns;	  /* that targets stood still for patched sleds, in all */
	uint64_t longest_stop_ns; /* at once */
	uint64_t by_ktime;	  /* records that CLOCK_MONOTONIC stamped, not the TSC counter */
	uint64_t other_process;	  /* records of processes that are no targets, or of functions that they do not have */
	struct xp_bpf_counters *lost; /* [programs.cpus], read at the end */
	uint64_t missed;
	uint64_t next_repair_tsc; /* of what the side-band lost */
	uint64_t tasks_lost;	  /* records of XP_REC_EXEC to XP_REC_LINK_MAP that found no room */
	char why[2 * PATH_MAX];	  /* the last refusal, in a sentence with room for a path and its remedy */
};

/* setup.c */

/* Everything that does not touch the target yet. Errors: those of bpf(2); rec->why has the sentence. */
int xp_setup(struct xp_recording *rec, const struct xp_preflight *preflight);
/* --max-overhead. What the survey has found too hot is not attached at all at first. */
int xp_setup_budget(struct xp_recording *rec);
/* What BPF is to copy of the user's stacks. */
enum xp_sample_stacks xp_setup_stacks(enum xp_call_graph call_graph);
/* Frees all that the recording owns, but not its output directory. */
void xp_setup_free(struct xp_recording *rec);

/* setup_samples.c */

int xp_setup_samples(struct xp_recording *rec);
/* After xp_setup_samples(). */
int xp_setup_perf(struct xp_recording *rec);

/* targets.c */

/* Attaches everything that the command line asks for, and starts the command. rec->why has the sentence. */
int xp_targets_attach(struct xp_recording *rec);
/* Whether there is anything to record. With --exec, processes may come later; a command may execute another. */
int xp_targets_check(struct xp_recording *rec);

/* follow.c */

/*
 * Makes the program that pid runs an image to be traced, attaches what it has mapped, and lets the BPF side know of the
 * process. *process is set when it succeeds. Errors: -ENOMEM and those of attaching; rec->why has the sentence.
 */
int xp_follow_add(struct xp_recording *rec, struct xp_process **process, pid_t pid, uint64_t tsc);
/* Looks for objects that the process has mapped since. */
int xp_follow_scan(struct xp_recording *rec, struct xp_process *process);
/*
 * Begins anew with a process of which nothing could be attached: it has executed another program meanwhile
 * (process->flees), or had nothing mapped yet. Errors as above.
 */
int xp_follow_again(struct xp_recording *rec, struct xp_process *process);
/* xp_follow_scan() for every live process: records that would have told of objects were lost. */
int xp_follow_rescan(struct xp_recording *rec);
/* exec, fork, exit, changed list of objects. record: checked (rec_check.h). */
int xp_follow_task(struct xp_recording *rec, const struct xp_rec *record, uint64_t tsc);
/* Attaches the file of --exec in all processes, and adds those that already run it. */
int xp_follow_exec_file(struct xp_recording *rec);
/*
 * A record of a process, or of a function in it, that is not known because the process was gone before it could be
 * looked at: makes the process known, and the object that the function is in. comm: its name.
 */
int xp_follow_adopt(struct xp_recording *rec, const struct xp_rec *record, const char *comm, uint64_t tsc);
/* Ends the processes that are gone though no record said so (it was lost), the second time it is called. */
void xp_follow_check(struct xp_recording *rec);
/* Attaches the started program, which stands at its first instruction, and lets it run to where its objects are. */
int xp_follow_launch(struct xp_recording *rec);
/* What became of it since; to be called after each SIGCHLD while launch.traced. Never waits for the program. */
int xp_follow_launch_event(struct xp_recording *rec);
/* Lets the started program go for good, if it is still held or followed by ptrace. */
int xp_follow_release(struct xp_recording *rec);

/* survey.c */

/*
 * Counts the calls of the running targets for a moment, and finds out what recording them will cost. Needs
 * uprobe_multi; without it, or when something fails, which -v tells, there is no survey: that is no reason not to
 * record.
 */
void xp_survey(struct xp_recording *rec);
void xp_survey_free(struct xp_survey *survey);
/* Makes the forecast, once it is known which sleds are probed and which patched. */
void xp_survey_forecast(struct xp_recording *rec);
/* "4812 sleds, about 310 000 calls/s; ..." */
void xp_survey_text(const struct xp_survey *survey, char *text, size_t size);

/* announce.c */

/* To stdout: what would be attached. */
void xp_announce_dry_run(const struct xp_recording *rec);
/* To stderr: the forecast, what the budget leaves out, and what is recorded until when. */
void xp_announce(const struct xp_recording *rec);

/* run.c */

/* Blocks the signals that end a recording and gives a signalfd for them, or a negative errno. */
int xp_run_block_signals(const struct xp_recording *rec);
/* From here on a second signal ends xprof at once; the spools stay for `xprof recover`. */
void xp_run_unblock_signals(void);
/* Records until a signal, the end of the time, the end of all targets, or an error (a negative errno). */
int xp_run(struct xp_recording *rec, int signal_fd);
/* After all is detached: what is still in the rings. */
int xp_run_drain(struct xp_recording *rec);
/* Takes note of the flight recorders' logs that are written, and says so; wait: of all that are asked for. */
int xp_run_collect_flights(struct xp_recording *rec, bool wait);
/* Reads the counters of what the BPF side lost into rec. */
void xp_run_read_losses(struct xp_recording *rec);

/* finish.c */

/* The end of what is recorded. Sleds are put back before a second signal may end xprof. */
void xp_finish_stop(struct xp_recording *rec);
/* Detaches everything, and reads what is still in the rings. */
int xp_finish_detach(struct xp_recording *rec);
/* Makes the files of every image that had sleds; goes on after an error, so that the others are kept. */
int xp_finish_files(struct xp_recording *rec);
/*
 * The command that xprof started: killed when the recording never began, waited for otherwise. Gives the exit code:
 * the command's when nothing else failed.
 */
int xp_finish_launch(struct xp_recording *rec, int code, bool recorded);

/* summary.c */

struct xp_totals {
	struct xp_counts counts; /* of all processes; filtered does not have other_process */
	uint64_t seen;		 /* by the BPF side: counts.seen + other_process + lost_ring */
	uint64_t filtered;	 /* all reasons */
	uint64_t lost_ring;	 /* no room in a ring, or a program skipped by the kernel */
	uint64_t lost;		 /* lost_ring + what could not be stored */
	uint64_t samples;	 /* in profiles */
	uint64_t samples_lost;	 /* no room in a ring; samples seen = samples + samples_lost */
	uint64_t idle;		 /* samples of idle CPUs, which are only counted */
	uint64_t missed;	 /* periods that brought no sample, see xp_sampler_periods() */
	size_t processes;
	size_t threads;
};
void xp_recording_totals(const struct xp_recording *rec, struct xp_totals *totals);
/* To stderr: figures, files, and the next command to type for each. */
void xp_summary_print(const struct xp_recording *rec, const struct xp_totals *totals);
/* Room for manifest.json, before the other files are written: a descriptor for xp_summary_manifest(), or -errno. */
int xp_summary_reserve(const struct xp_recording *rec);
/* manifest.json. */
int xp_summary_manifest(const struct xp_recording *rec, const struct xp_totals *totals, int reserved_fd);

/* failure.c */

/* What to do about an error of storage, as the end of a sentence: "; make room there ...", or "". */
const char *xp_failure_remedy(int err);
int xp_failure_exit_code(int err);
/* Says once what failed: rec->why where a sentence was left, the errno otherwise. Gives the exit code. */
int xp_failure_report(struct xp_recording *rec, int err, const char *doing);

/* record.c: the whole recording; an exit code. */
int xp_record(const struct xp_options *options);

#endif
