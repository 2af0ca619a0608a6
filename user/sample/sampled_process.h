/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The processes of the machine as samples see them: for each its name and what it has mapped, from the side-band and
 * from /proc, in the order of time; and its images, one for each program that it ran, which have the profiles. Kernel
 * threads are one process, 0.
 */
#ifndef XPROF_TASKS_H
#define XPROF_TASKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "jit/jit.h"
#include "profile/profile.h"
#include "kernel/sideband.h"
#include "target/address_space.h"
#include "unwind/unwind.h"

/* A program that a process runs or ran, as far as it was sampled. */
struct xp_image {
	pid_t pid;			 /* 0: all kernel threads */
	unsigned int number;		 /* 1, and one more at each exec */
	char comm[16];			 /* of a process that lives: when xp_tasks_settle() was called */
	struct xp_profile *profile;	 /* NULL at the end, when it is written */
	uint64_t rested_at;		 /* samples in the profile when xp_samples_rest() was last called */
	uint64_t samples;		 /* those too that wait for an unwind table */
	uint64_t stacks[XP_UNWIND_ENDS]; /* how the walks of user stacks ended */
	bool is_over;			 /* the process runs another program since */

	/* Of jit_samples.h: */
	struct xp_jit *jit;	    /* NULL: no sample in JIT code yet */
	struct xp_space *jit_space; /* what was mapped at the newest one */
	uint64_t jit_looked_tsc;
	uint64_t jit_waiting; /* samples whose functions are not known yet */
	uint64_t jit_named;   /* samples in JIT code whose function is known, and others */
	uint64_t jit_unnamed;

	char name[64];	/* of the profile's file; "" before it is written, and when it could not be */
	uint64_t bytes; /* of the file */
};

struct xp_task {
	struct xp_task *next; /* hash chain, by pid */
	pid_t pid;
	unsigned int image_number;
	char comm[16];
	struct xp_space *space;
	bool mapped;		/* space has been read from /proc or told by the side-band */
	uint8_t over;		/* its first thread has ended; 2: and the process was gone when it was last looked */
	struct xp_image *image; /* NULL: no sample yet */
};

struct xp_tasks {
	struct xp_files files;
	struct xp_task **tasks; /* hash */
	size_t task_room;
	size_t task_count;
	struct xp_image **images; /* all that there were */
	size_t image_count;
	size_t image_room;
	uint64_t lost_seen; /* xp_sideband_lost() when /proc was last read again */
	bool has_warned;
};

/* -ENOMEM. */
int xp_tasks_init(struct xp_tasks *tasks);
void xp_tasks_free(struct xp_tasks *tasks);

/* Reads the names and mappings of all processes, or of one: what the side-band does not tell since it was before. */
int xp_tasks_scan_all(struct xp_tasks *tasks);
int xp_tasks_scan(struct xp_tasks *tasks, pid_t pid);
/* When the side-band has lost events since the last call, reads /proc again, names too. lost: xp_sideband_lost(). */
int xp_tasks_repair(struct xp_tasks *tasks, uint64_t lost);

/* A mapping, a name, a fork, an exec, an exit; in the order of time with the samples. */
int xp_tasks_event(struct xp_tasks *tasks, const struct xp_sideband_event *event);

/* What a process has mapped; NULL: nothing is known of it. Valid until its next event. */
const struct xp_space *xp_tasks_space(const struct xp_tasks *tasks, pid_t pid);

/*
 * The task of a sample and its image, both made when they are new; a process that was not seen before is looked up in
 * /proc. comm: its name if nothing else tells one. pid 0: kernel threads. -ENOMEM.
 */
int xp_tasks_sampled(struct xp_tasks *tasks, pid_t pid, const char *comm, struct xp_task **task);
/* The process with this number; NULL: none was heard of. */
struct xp_task *xp_tasks_find(const struct xp_tasks *tasks, pid_t pid);
/* Process pid gets an image, and a profile, even when no sample hits it. -ENOMEM. */
int xp_tasks_expect(struct xp_tasks *tasks, pid_t pid);

/* To be called every second: processes that are gone have no program any more, and what they had mapped is forgotten.
 */
void xp_tasks_forget_gone(struct xp_tasks *tasks);

/* At the end: the names of processes that live are those of their images. */
void xp_tasks_settle(struct xp_tasks *tasks);

#endif
