/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The processes that samples refer to. Each process has a name and an address space; the side-band and /proc keep them
 * current, in time order. A process also has one image for each program that it executed. Process 0 represents all
 * kernel threads.
 */
#ifndef XPROF_SAMPLE_SAMPLED_PROCESS_H
#define XPROF_SAMPLE_SAMPLED_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/file_name.h"
#include "base/u64_map.h"
#include "jit/jit.h"
#include "kernel/sideband.h"
#include "sample/cgroups.h"
#include "target/address_space.h"
#include "unwind/unwind.h"

/* A program that a process executes or executed, if it was sampled. */
struct xp_image {
	pid_t pid;			 /* 0: all kernel threads */
	unsigned int number;		 /* 1 for the first program, then incremented at each exec */
	char comm[16];			 /* for a live process: the name at xp_sampled_processes_settle() */
	const char *cgroup;		 /* path at its first sample; NULL: unknown */
	uint64_t since_tsc;		 /* time of the first sample or wait; 0: none */
	uint64_t samples;		 /* including those that wait for an unwind table */
	uint64_t waits;			 /* including waits that wait for an unwind table */
	uint64_t stacks[XP_UNWIND_ENDS]; /* how the walks of user stacks ended */
	bool is_over;			 /* the process has since executed another program */

	/* For jit_samples.h: */
	struct xp_jit *jit;		    /* NULL: no sample in JIT code yet */
	struct xp_address_space *jit_space; /* address space at the newest sample in JIT code */
	uint64_t jit_looked_tsc;
	bool is_jit_wanted; /* there were samples in JIT code since the last poll */
};

struct xp_sampled_process {
	pid_t pid;
	unsigned int image_number;
	char comm[16];
	const char *cgroup; /* the last known cgroup, or that of the parent; NULL: unknown */
	struct xp_address_space *space;
	bool mapped;		/* space has been read from /proc or filled by the side-band */
	uint8_t over;		/* 1: the first thread has ended; 2: the process was also gone at the last check */
	struct xp_image *image; /* NULL: no sample yet */
};

/* Empty if zeroed. */
struct xp_sampled_processes {
	struct xp_files files;
	struct xp_text_pool cgroups;
	struct xp_u64_map by_pid;
	struct xp_image **images; /* all images that ever existed */
	size_t image_count;
	size_t image_room;
	uint64_t lost_seen; /* value of xp_sideband_lost() when /proc was last read again */
	bool has_warned;
};

void xp_sampled_processes_free(struct xp_sampled_processes *processes);

/* Reads the names and mappings that are older than the side-band: of all processes, or of one. */
int xp_sampled_processes_scan_all(struct xp_sampled_processes *processes);
int xp_sampled_processes_scan(struct xp_sampled_processes *processes, pid_t pid);
/* Reads /proc again, names included, if the side-band has lost events since the last call. lost: xp_sideband_lost(). */
int xp_sampled_processes_repair(struct xp_sampled_processes *processes, uint64_t lost);

/* Applies a mapping, a name, a fork, an exec or an exit. Events and samples must be in time order. */
int xp_sampled_processes_event(struct xp_sampled_processes *processes, const struct xp_sideband_event *event);

/*
 * Returns the address space of a process, or NULL if the process is unknown. Valid until the next event of the process.
 */
const struct xp_address_space *xp_sampled_processes_space(const struct xp_sampled_processes *processes, pid_t pid);

/*
 * Finds the process of a sample and its image, and creates them if they are new. Reads /proc for a new process. comm:
 * name of the process if no other source has a name. pid 0: kernel threads. Returns 0 or -ENOMEM.
 */
int xp_sampled_processes_sampled(struct xp_sampled_processes *processes, pid_t pid, const char *comm,
				 struct xp_sampled_process **process);
/* Returns NULL if there is no process with this pid. */
struct xp_sampled_process *xp_sampled_processes_find(const struct xp_sampled_processes *processes, pid_t pid);
/* Gives process pid an image even if no sample hits it. Returns 0 or -ENOMEM. */
int xp_sampled_processes_expect(struct xp_sampled_processes *processes, pid_t pid);

/* Writes the file name of an image's gperftools profile to name. Returns name. */
const char *xp_sampled_profile_name(char name[XP_FILE_PROFILE_BYTES], const struct xp_image *image, const char *suffix);

/*
 * Starts a new part of the recording, without images. Live processes and their mappings remain; exited processes are
 * removed.
 */
void xp_sampled_processes_begin_part(struct xp_sampled_processes *processes);

/* Ends the images of processes that have exited, and frees their address spaces. Call this every second. */
void xp_sampled_processes_forget_gone(struct xp_sampled_processes *processes);

/* Copies the names of live processes to their images. Call this at the end. */
void xp_sampled_processes_settle(struct xp_sampled_processes *processes);

#endif
