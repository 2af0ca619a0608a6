/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A recording, the only module that knows all others. It consists of parts; each owns something, and its header says
 * what. These are the steps, in order, and the parts that each of them fills or ends:
 *
 *	plan	 recording.c  plan, clock, outdir
 *	setup	 setup.c      targets, bpf, sampling and off_cpu, without touching a target
 *	attach	 targets.c    targets: what the command line requests, by follow*.c
 *	run	 run.c	      reads bpf into targets and sampling; follow*.c attaches what appears or changes
 *		 rotate.c     --rotate: another part of the recording begins, and a child process ends the one before
 *	stop	 finish.c     restores patched sleds and the command; later events are not part of the recording
 *	detach	 finish.c     ends probes; reads what is left in the rings
 *	files	 finish.c     logs of targets, profiles and perf.data of sampling, in outdir
 *	summary	 finish.c, summary.c    reads all parts: figures on stderr; manifest*.c: manifest.json
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
#include "record/off_cpu.h"
#include "record/outdir.h"
#include "record/plan.h"
#include "record/rotate.h"
#include "record/sampling.h"
#include "record/targets.h"

struct xp_recording {
	const struct xp_options *options; /* borrowed */
	struct xp_plan plan;
	struct xp_clock *clock;
	struct xp_outdir outdir;
	struct xp_bpf_side bpf;
	struct xp_targets targets;
	struct xp_sampling sampling;
	struct xp_off_cpu off_cpu;
	struct xp_rotation rotation;
	int own_nice; /* priority of xprof before it raised the reader's */
};

/* setup.c */

/* Sets up everything that does not touch the target. Returns 0 or an error of bpf(2), with a message (why.h). */
int xp_setup(struct xp_recording *recording);
/* Sets up --max-overhead. Functions that the measurement found too hot are not attached at first. */
int xp_setup_budget(struct xp_recording *recording);
/* Frees everything that the recording owns except its output directory. */
void xp_setup_free(struct xp_recording *recording);

/* run.c */

/* Blocks the signals that end a recording. Returns a signalfd for them, or -errno. */
int xp_run_block_signals(const struct xp_options *options);
/*
 * Records until a signal, the end of the time or of all targets, or an error. Then xp_interrupt_watch() handles
 * signals.
 */
int xp_run(struct xp_recording *recording, int signal_fd);
/* Reads the ring buffers after the end of xp_run(). Returns 0 or -errno. */
int xp_run_make_room(struct xp_recording *recording);
/* Reads the remaining events in the ring buffers after everything has been detached. */
int xp_run_drain(struct xp_recording *recording);
/* Records and reports flight recorder logs that have been written. wait: wait for all requested ones. */
int xp_run_collect_flights(struct xp_recording *recording, bool wait);

/* arrivals.c: hands an event to the handler of its kind. Returns 0 or -errno: -EBADMSG if it is not valid. */
int xp_arrivals_take(struct xp_recording *recording, const struct xp_arrival *arrival);

/* finish.c */

/* Ends the recorded period: restores sleds. Returns 0, or the error of reading records. */
int xp_finish_stop(struct xp_recording *recording);
/*
 * Detaches everything, reads the remaining events in the ring buffers, and restores xprof's own priority. After the
 * detaching, a second signal ends xprof immediately; the spools stay for `xprof recover`.
 */
int xp_finish_detach(struct xp_recording *recording);
/* Writes the files, manifest.json and the summary. code: exit code so far. Returns the first code that is not 0. */
int xp_finish_store(struct xp_recording *recording, int code);
/* If the recording never began: kills the command before it runs its first instruction. */
void xp_finish_kill(struct xp_recording *recording);
/* Waits for the command. Returns the exit code: that of the command if nothing else failed. */
int xp_finish_command(struct xp_recording *recording, int code);

/* summary.c */

struct xp_totals {
	struct xp_counts counts; /* sums of all processes; filtered does not include other_process */
	uint64_t seen;		 /* events seen by the BPF programs: counts.seen + other_process + lost_ring */
	uint64_t filtered;	 /* for all reasons */
	uint64_t lost_ring;	 /* no space in a ring buffer, or a BPF program skipped by the kernel */
	uint64_t lost;		 /* lost_ring + events that could not be stored */
	uint64_t samples;	 /* in profiles */
	uint64_t samples_lost;	 /* no space in a ring buffer; samples seen = samples + samples_lost */
	uint64_t waits_lost;
	uint64_t usdt; /* hits of USDT probes in perf.data; seen = usdt + usdt_lost */
	uint64_t usdt_lost;
	uint64_t switches_lost; /* lost context switches */
	uint64_t idle;		/* samples of idle CPUs, which are only counted */
	uint64_t missed;	/* periods without a sample, see xp_sampler_periods() */
	size_t processes;
	size_t threads;
};
void xp_recording_totals(const struct xp_recording *recording, struct xp_totals *totals);
/* Returns the duration from when everything was attached to the end, or to now. */
uint64_t xp_summary_duration_ns(const struct xp_recording *recording);
/* Returns whether the log has another version than requested: the requested version has no typed events. */
bool xp_summary_has_other_version(const struct xp_recording *recording, const struct xp_process *process);
/* Prints one line to stderr about this part of a recording. */
void xp_summary_print_part(const struct xp_recording *recording, const struct xp_totals *totals);
/* Prints figures, files, and a command to type for each file to stderr. */
void xp_summary_print(const struct xp_recording *recording, const struct xp_totals *totals);

/* recording.c: makes a recording, from start to end. Returns an exit code. */
int xp_record(const struct xp_options *options, const struct xp_record_after *after);

#endif
