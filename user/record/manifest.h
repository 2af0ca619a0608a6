/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * manifest.json: what was recorded, how, and what is missing from it. The caller fills the structures below, whose
 * pointers stay its own, and calls xp_manifest_write(). Texts may hold anything: they are cleaned here (xp_clean_text).
 *
 * In the file: names end in their unit, times are ISO 8601 in UTC, build ids hexadecimal. For totals, processes and
 * threads seen = written + filtered.total + lost.total + overwritten (the last with a flight recorder only). Numbers
 * are integers below 2^63 (JSON readers that hold them as doubles are exact up to 2^53).
 */
#ifndef XPROF_MANIFEST_H
#define XPROF_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "budget/forecast.h"
#include "trace/thread.h"
#include "unwind/unwind.h"
#include "xprof/event.h"

#define XP_MANIFEST_NAME "manifest.json"
/* Of the file's layout: goes up when a member changes its meaning or vanishes. */
#define XP_MANIFEST_VERSION 1
/* More threads than this of one process are only counted. */
#define XP_MANIFEST_THREADS_MAX 1000

struct xp_manifest_clock {
	const char *source; /* xp_clock_source() */
	uint64_t hz;
	uint64_t start_tsc;
	uint64_t error_bound_ns;
	uint64_t ktime_error_ns; /* of the records timed by CLOCK_MONOTONIC */
	bool constant_tsc;
	bool nonstop_tsc;
	uint64_t records_by_ktime; /* timed by CLOCK_MONOTONIC, not by the TSC counter */
};

/* A function that the budget took out of the recording. */
struct xp_manifest_taken_out {
	uint32_t id;	     /* in the object, from 1 */
	const char *name;    /* NULL: not known */
	unsigned int times;  /* that it was taken out */
	uint64_t out_ns;     /* in all */
	uint64_t counted_ns; /* of these, counted */
	uint64_t calls;	     /* counted */
};

struct xp_manifest_object {
	const char *path;
	const uint8_t *build_id;
	size_t build_id_bytes; /* 0: none */
	size_t functions;
	const char *sled_mode; /* "probe", "patch" */
	size_t sleds_attached;
	size_t sleds_patched;	  /* refused: other bytes than an unpatched sled's */
	size_t sleds_unreadable;  /* refused: memory that could not be read */
	size_t sleds_overwritten; /* patched by XRay's runtime during the recording */
	uint32_t first_id;	  /* of its functions, in the process's log */
	const struct xp_manifest_taken_out *taken_out;
	size_t taken_out_count;
};

struct xp_manifest_thread {
	pid_t tid;
	const char *name;
	struct xp_counts counts;
};

/* A log of a flight recorder. */
struct xp_manifest_flight {
	const char *log_name;
	const char *cause;	      /* "asked", "killed", "gone", "end" */
	int signal;		      /* that killed the process; 0: none */
	int error;		      /* -errno: it could not be written, and its records are lost */
	uint64_t from_ns;	      /* after the recording's start: the oldest record */
	uint64_t to_ns;		      /* when the log was asked for */
	uint64_t records;	      /* in it */
	uint64_t synthesized_entries; /* of calls that had begun before */
	uint64_t synthesized_exits;
};

struct xp_manifest_process {
	pid_t pid;
	unsigned int image; /* 1, and one more at each exec */
	const char *comm;
	const char *exe;
	uint64_t start_ns;	/* after the recording's start */
	const char *log_name;	/* NULL or "": none */
	int error;		/* -errno: something of the log is missing; 0: nothing */
	const char *probed_why; /* why sleds are probed that were to be patched; NULL or "": none are */
	struct xp_counts counts;
	const uint32_t *synthesized; /* [synthesized_room] exits without a record, index: function id; NULL: none */
	size_t synthesized_room;
	const struct xp_manifest_flight *flights;
	size_t flight_count;
	const struct xp_manifest_object *objects;
	size_t object_count;
	const struct xp_manifest_thread *threads; /* those known one by one */
	size_t thread_count;
	size_t thread_total; /* all that there were */
};

/* Code without a file. Samples in JIT code = named + unnamed. */
struct xp_manifest_jit {
	uint64_t functions; /* known */
	uint64_t refused;   /* for which there was no room */
	uint64_t named;	    /* samples whose function is known */
	uint64_t unnamed;
	const char *dump; /* file name; NULL: there is none */
	uint64_t dump_functions;
	uint64_t dump_lost; /* for which there was no room there */
};

struct xp_manifest_profile {
	pid_t pid; /* 0: all kernel threads */
	unsigned int image;
	const char *comm;
	const char *name; /* of the file */
	uint64_t samples;
	const uint64_t *stacks; /* [XP_UNWIND_ENDS]: how the walks of its user stacks ended */
	bool has_jit;
	struct xp_manifest_jit jit;
};

/* Samples seen = written + lost; those of idle CPUs are only counted. */
struct xp_manifest_samples {
	const char *event; /* NULL: there was no sampling, and the rest does not matter */
	uint64_t period_ns;
	uint64_t written;
	uint64_t lost;
	uint64_t idle;
	uint64_t missed; /* periods that brought no sample, see xp_sampler_periods() */
	uint64_t kernel; /* of those written, hit in the kernel */
	/* Times that the kernel had no room for side-band events, or a CPU came back; /proc was read again. */
	uint64_t sideband_lost;
	const char *call_graph; /* --call-graph */
	const uint64_t *stacks; /* [XP_UNWIND_ENDS], of all profiles; NULL: no walks, nor in the profiles */
	const struct xp_manifest_profile *profiles;
	size_t profile_count;
};

struct xp_manifest_file {
	const char *name; /* in the directory */
	const char *kind; /* "fdr", "side-elf", "gperftools", "jitdump", "perf.data" */
	uint64_t bytes;
};

struct xp_manifest {
	char *const *argv; /* NULL-terminated */
	uint64_t start_wall_ns;
	uint64_t duration_ns;
	struct xp_manifest_clock clock;

	const char *attach_method; /* "uprobe_multi", "perf_uprobe" */
	uint64_t attach_ns;
	uint64_t detach_ns;
	uint64_t stopped_ns; /* that targets stood still while their sleds were patched and put back, and the longest */
	uint64_t longest_stop_ns;

	const struct xp_forecast *forecast; /* NULL: none was made */
	struct xp_hit_cost hit_cost;	    /* as measured for it */
	double budget;			    /* share of the targets' CPU time; 0: there was none */
	double budget_spent;		    /* share that the tracing took, as far as it is known */
	uint64_t flight_bytes;		    /* of each process's flight recorder; 0: there was none */
	struct xp_counts counts;	    /* of all processes */
	uint64_t other_process;		    /* filtered: of no traced process */
	uint64_t missed;		    /* lost: the kernel did not run a program */
	const struct xp_bpf_counters *cpus; /* [cpu_count], lost in rings and more */
	size_t cpu_count;

	struct xp_manifest_samples samples;
	const struct xp_manifest_process *processes;
	size_t process_count;
	const struct xp_manifest_file *files;
	size_t file_count;
	const char *const *notices; /* sentences */
	size_t notice_count;
};

/*
 * Takes room for the file before others take the last of a disk; as much as there is. A descriptor for one of the two
 * below, or -errno.
 */
int xp_manifest_reserve(int dir_fd, uint64_t bytes);
void xp_manifest_release(int dir_fd, int reserved_fd);
/* Removes what a killed recording has left of its reserve. */
void xp_manifest_recover(int dir_fd);
/*
 * Writes the file into the directory; it appears when it is whole. reserved_fd, which it closes: of
 * xp_manifest_reserve(); negative: there is none. 0 or -errno; prints nothing.
 */
int xp_manifest_write(int dir_fd, int reserved_fd, const struct xp_manifest *manifest);

/* ns since 1970 as 2001-02-03T04:05:06.000000007Z. */
#define XP_ISO_TIME_BYTES 96
void xp_iso_time(char text[XP_ISO_TIME_BYTES], uint64_t wall_ns);

#endif
