/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `record --rotate`: a recording as parts that follow each other without gap or overlap. Each part is a recording like
 * any other, in a directory of its own that is named by the time of its start.
 *
 *	 rings, side-band, call rings
 *		    |
 *		  merge		one order of time
 *		    |
 *   events before T|events from T on			T: the mark of a pass of the merge, after which all older events
 *	  |	    |	    |				were taken
 *	part N	  fork	 part N+1
 *	  |		    `-- goes on in xprof: what is attached, and what is known of processes and threads, stays;
 *	  |			what belongs to a part begins anew: each owner has a function xp_<owner>_begin_part()
 *	  `-- ends in a child process, which has a copy of everything as of T: it does what the end of a recording does
 *	      (finish.c, products) at its own pace, and touches no target
 *
 * After each part, another child deletes the oldest parts (parts.h). Where the disk is full, the part has ended
 * early, and what arrives is counted as lost, until there is room for the next part.
 *
 * What is open at T: a wait and a call belong to the part in which they end. The logs of part N+1 begin with the
 * entries of the calls that are open at T, at their times, so that its readers find the whole call; in the logs of
 * part N, these calls have no exit, as at the end of any recording. The manifest of part N says that it goes on:
 * readers of xprof take these calls for calls of the next part, but the time that they took until T is in part N.
 * While samples wait for an unwind table, the next part begins up to a second later: the child would start a process of
 * its own that builds these tables again. Samples that still wait end in the child.
 *
 * So xprof reads the rings on: a rotation takes it the time of a fork. At most XP_PART_ENDS_MAX children run; a part
 * goes on until one of them has ended. If xprof is killed, its children end their parts, and `xprof recover` ends the
 * last one.
 */
#ifndef XPROF_RECORD_ROTATE_H
#define XPROF_RECORD_ROTATE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/child.h"
#include "base/clock.h"
#include "record/outdir.h"
#include "record/plan.h"

struct xp_recording;

/* What to do when the files of a recording, or of one of its parts, are written. */
struct xp_record_after {
	/* Makes the products (files for other tools) of the recording in options->output_dir. Returns an exit code. */
	int (*products)(const struct xp_options *options);
	/* Called when the recording in this directory is complete. */
	void (*complete)(void *arg, const char *directory);
	void *arg;
};

#define XP_PART_ENDS_MAX 2

/* A part that a child process ends. */
struct xp_part_end {
	pid_t pid;
	char path[PATH_MAX];
};

/* Without --rotate, parts.fd and shared_fd are -1, and only the end of the recording uses this. */
struct xp_rotation {
	/* Set by the caller: */
	const struct xp_options *options;
	const struct xp_record_after *after;

	struct xp_outdir parts;	   /* the directory of the parts */
	char newest[NAME_MAX + 1]; /* the name of the newest part; "": there is none */
	int shared_fd;		   /* directory of the names that the parts share (store/sym_shared.h); -1: none */
	uint64_t next_tsc;	   /* when the next part begins; UINT64_MAX: not by time */
	struct xp_part_end ends[XP_PART_ENDS_MAX];
	size_t end_count;
	struct xp_child cleaner; /* deletes old parts; pid 0: none runs */
	bool is_asked;		 /* SIGHUP, or the size of the part, has requested that the next part begins now */
	bool goes_on;		 /* another part follows this one, and a child ends this one */
	bool is_paused;		 /* the disk is full, and the part has ended early: events are only counted */
	uint64_t told_ns;	 /* when xprof last printed that the disk is full (CLOCK_MONOTONIC) */
	uint64_t due_ns;	 /* when the next part was first due (CLOCK_MONOTONIC); 0: it is not due yet */
	bool has_waited;	 /* the next part is due, but too many parts are still ending */
	uint64_t postponed;	 /* number of parts that began later for that reason */
	int code;		 /* first exit code of a part that is not 0 */
};

/* Opens the directory of the parts, and in it the first part. Returns 0 or -errno with a message (why.h). */
int xp_rotation_open(struct xp_rotation *rotation, const struct xp_clock *clock, const struct xp_options *options,
		     struct xp_outdir *first);
/* A part begins: the time of the next one counts from here. */
void xp_rotation_begin(struct xp_rotation *rotation, const struct xp_clock *clock, uint64_t tsc);
/*
 * Call this after a pass. done_tsc: all older events have been read. Begins another part if one is due. Returns 1 then,
 * otherwise 0, or the error that ends the recording.
 */
int xp_rotate(struct xp_recording *recording, uint64_t done_tsc);
/* Returns 0 for the error of a full disk, which does not end the recording (lost events are counted), otherwise err. */
int xp_rotation_forgives(int err);
/* Call this every second: checks the size of the part, and whether the disk is full. */
void xp_rotation_tend(struct xp_recording *recording);
/* Makes the products of a part or a recording. Returns an exit code. */
int xp_rotation_products(const struct xp_rotation *rotation, const char *path);
/* Call this after the last part: waits for parts that are ending. A signal ends the wait. Returns an exit code. */
int xp_rotation_end(struct xp_rotation *rotation);

#endif
