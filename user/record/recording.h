/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A recording, the only module that knows all others. It consists of parts; each owns something, and its header says
 * what. These are the steps, in order, and the parts that each of them fills or ends:
 *
 *	plan	 recording.c  plan, clock, outdir
 *	setup	 setup.c      traced, bpf, sampling, off_cpu and probes, without touching a target; rates (call_rate.c)
 *	attach	 targets.c    probes, traced and command: what the command line requests, by follow*.c
 *	run	 run.c	      reads bpf into traced and sampling; follow*.c attaches what appears or changes
 *	stop	 finish.c     restores patched sleds and the command; later events are not part of the recording
 *	detach	 finish.c     ends probes; reads what is left in the rings
 *	files	 finish.c     logs of traced, profiles and perf.data of sampling, in outdir
 *	summary	 summary.c    reads all parts: figures on stderr; manifest*.c: manifest.json
 *	free	 setup.c      all parts; outdir is closed last (recording.c)
 */
#ifndef XPROF_RECORD_RECORDING_H
#define XPROF_RECORD_RECORDING_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "record/bpf_side.h"
#include "record/call_rate.h"
#include "record/command.h"
#include "record/off_cpu.h"
#include "record/outdir.h"
#include "record/plan.h"
#include "record/probes.h"
#include "record/sampling.h"
#include "record/traced.h"

struct xp_recording {
	const struct xp_options *options; /* borrowed */
	struct xp_plan plan;
	struct xp_clock *clock;
	struct xp_outdir outdir;
	struct xp_bpf_side bpf;
	struct xp_call_rates rates;
	struct xp_probes probes;
	struct xp_traced traced;
	struct xp_sampling sampling;
	struct xp_off_cpu off_cpu;
	struct xp_started_command command;
	uint64_t run_tsc; /* when everything was attached; 0 before. traced.processes has the start and the end */
	int own_nice;	  /* before xprof took the reader's */
};

/* setup.c */

/*
 * Sets up everything that does not touch the target yet. Returns 0 or an error of bpf(2), with a sentence (why.h).
 */
int xp_setup(struct xp_recording *recording);
/* --max-overhead. Functions that the count found too hot are not attached at first. */
int xp_setup_budget(struct xp_recording *recording);
/* Frees everything that the recording owns except its output directory. */
void xp_setup_free(struct xp_recording *recording);

/* targets.c */

/* Attaches everything that the command line requests, and starts the command. An error has a sentence. */
int xp_targets_attach(struct xp_recording *recording);
/*
 * Checks whether there is anything to record. With --exec, processes may start later; a command may execute another
 * program.
 */
int xp_targets_check(struct xp_recording *recording);

/* follow.c */

/*
 * Adds the program that pid runs as an image to be traced, attaches what it has mapped, and announces the process to
 * BPF. *process is set on success. Returns 0 or -errno: -ENOMEM, or an error of attaching, with a sentence.
 */
int xp_follow_add(struct xp_recording *recording, struct xp_process **process, pid_t pid, uint64_t tsc);
/* Attaches objects that the process has mapped since. */
int xp_follow_scan(struct xp_recording *recording, struct xp_process *process);
/*
 * Starts over with a process that has nothing attached: it has executed another program meanwhile
 * (process->attaching.flees), or had mapped nothing yet. Errors as above.
 */
int xp_follow_again(struct xp_recording *recording, struct xp_process *process);
/* xp_follow_scan() for every live process, if records that could have reported objects were lost. */
int xp_follow_rescan(struct xp_recording *recording);
/* Handlers of events of these kinds (arrivals.c). Return 0 or -errno. */
int xp_follow_exec(struct xp_recording *recording, const struct xp_arrival *arrival);
int xp_follow_fork(struct xp_recording *recording, const struct xp_arrival *arrival);
int xp_follow_exit_thread(struct xp_recording *recording, const struct xp_arrival *arrival);
int xp_follow_exit_process(struct xp_recording *recording, const struct xp_arrival *arrival);
int xp_follow_link_map(struct xp_recording *recording, const struct xp_arrival *arrival);
/* Attaches the file of --exec in all processes, and adds those that already run it. */
int xp_follow_exec_file(struct xp_recording *recording);
/*
 * Handles an event of an unknown process or function: the process was gone before it could be scanned. Adds the
 * process, and the object that contains the function. comm: the name of the process.
 */
int xp_follow_adopt(struct xp_recording *recording, const struct xp_arrival *arrival, const char *comm);
/* Releases what processes that have ended have left for their children, where there are no children either. */
void xp_follow_release_stubs(struct xp_recording *recording);
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

/* run.c */

/* Blocks the signals that end a recording. Returns a signalfd for them, or -errno. */
int xp_run_block_signals(const struct xp_options *options);
/*
 * Records until a signal, the end of the time, the end of all targets, or an error. Returns 0 or -errno. From then on,
 * xp_interrupt_watch() takes the signals.
 */
int xp_run(struct xp_recording *recording, int signal_fd);
/* Reads what is in the ring buffers, after the end of xp_run(). Returns 0 or -errno. */
int xp_run_make_room(struct xp_recording *recording);
/* Reads what is left in the ring buffers after everything has been detached. */
int xp_run_drain(struct xp_recording *recording);
/* Records and reports flight recorder logs that have been written. wait: wait for all requested ones. */
int xp_run_collect_flights(struct xp_recording *recording, bool wait);

/* finish.c */

/* Ends the recorded period: restores sleds. Returns 0, or the error of taking records. */
int xp_finish_stop(struct xp_recording *recording);
/*
 * Detaches everything, reads what is left in the ring buffers, and gives up the reader's priority. After the detaching,
 * a second signal ends xprof at once; the spools stay for `xprof recover`.
 */
int xp_finish_detach(struct xp_recording *recording);
/* Makes the files of every image that had sleds. Goes on after an error, so that the other files are kept. */
int xp_finish_files(struct xp_recording *recording);
/* If the recording never began: kills the command while xprof holds it, so that it runs none of its instructions. */
void xp_finish_kill(struct xp_recording *recording);
/*
 * Waits for the command, which may go on after the recording. Returns the exit code: that of the command if nothing
 * else failed.
 */
int xp_finish_command(struct xp_recording *recording, int code);

/* summary.c */

struct xp_totals {
	struct xp_counts counts; /* of all processes; filtered does not include other_process */
	uint64_t seen;		 /* by the BPF side: counts.seen + other_process + lost_ring */
	uint64_t filtered;	 /* for all reasons */
	uint64_t lost_ring;	 /* no room in a ring buffer, or a program skipped by the kernel */
	uint64_t lost;		 /* lost_ring + events that could not be stored */
	uint64_t samples;	 /* in profiles */
	uint64_t samples_lost;	 /* no room in a ring buffer; samples seen = samples + samples_lost */
	uint64_t waits_lost;
	uint64_t switches_lost; /* switches of threads, likewise */
	uint64_t idle;		/* samples of idle CPUs, which are only counted */
	uint64_t missed;	/* periods without a sample, see xp_sampler_periods() */
	size_t processes;
	size_t threads;
};
void xp_recording_totals(const struct xp_recording *recording, struct xp_totals *totals);
/* Prints to stderr figures, files, and for each the next command to type. */
void xp_summary_print(const struct xp_recording *recording, const struct xp_totals *totals);

/* recording.c: the whole recording. Returns an exit code. */
int xp_record(const struct xp_options *options);

#endif
