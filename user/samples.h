/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Samples become profiles: keeps for every process its name and what it has mapped, from the side-band and from /proc,
 * finds the mapping of each address of a sample, and sums the chains in the profile of the process's image. A process
 * that executes a new program gets a new profile. Kernel threads share one profile.
 */
#ifndef XPROF_SAMPLES_H
#define XPROF_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "clock.h"
#include "profile.h"
#include "sideband.h"
#include "space.h"
#include "sym_files.h"
#include "xprof/record.h"

/* seen = written + unstored, always: what was lost on the way is counted by the BPF side. */
struct xp_task {
	struct xp_task *next; /* hash chain, by pid */
	pid_t pid;	      /* 0: all kernel threads */
	unsigned int image;   /* 1, and one more at each exec */
	char comm[16];
	struct xp_space space;
	bool mapped; /* space has been read from /proc or told by the side-band */
	struct xp_profile *profile; /* NULL: no sample yet */
};

/* A profile whose image is over, or a live one at the end. */
struct xp_profile_file {
	pid_t pid;
	unsigned int image;
	char comm[16];
	struct xp_profile *profile;
	uint64_t samples;
	char name[64];	/* of the file; "" when it could not be written */
	uint64_t bytes; /* of the file */
};

struct xp_samples {
	const struct xp_clock *clock; /* set by the caller */
	int dir_fd;		      /* set by the caller */

	struct xp_files files;
	struct xp_sym_files *sym_files;
	struct xp_task **tasks; /* hash */
	size_t task_room;
	struct xp_profile_file *done;
	size_t done_count;
	uint64_t samples;
	uint64_t kernel_samples;
	uint64_t unstored;  /* of samples: their profile could not be written */
	uint64_t lost_seen; /* xp_sideband_lost() when /proc was last read again */
};

/* -ENOMEM. */
int xp_samples_init(struct xp_samples *samples);
void xp_samples_free(struct xp_samples *samples);

/* Reads the names and mappings of all processes, or of one: what the side-band does not tell since it was before. */
int xp_samples_scan_all(struct xp_samples *samples);
int xp_samples_scan(struct xp_samples *samples, pid_t pid);

/* Process pid is a target: it gets a profile even when no sample hits it. -ENOMEM. */
int xp_samples_expect(struct xp_samples *samples, pid_t pid);

/* When the side-band has lost events since the last call, reads /proc again, names too. lost: xp_sideband_lost(). */
int xp_samples_repair(struct xp_samples *samples, uint64_t lost);

/* A mapping, a name, a fork, an exec, an exit; in the order of time with the samples. */
int xp_samples_event(struct xp_samples *samples, const struct xp_sideband_event *event);
/* -EBADMSG: sizes in it contradict each other. */
int xp_samples_record(struct xp_samples *samples, const struct xp_rec *record, size_t size);

/* Writes all profiles and what their readers need beside them. period_ns: what a sample stands for. */
int xp_samples_finish(struct xp_samples *samples, uint64_t period_ns);

#endif
