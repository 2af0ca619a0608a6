/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * manifest.json: what was recorded and how, and what is missing. The caller fills in the structures below, keeps
 * ownership of their pointers, and calls xp_manifest_write(). Strings may contain anything; they are cleaned here
 * (xp_clean_text).
 *
 * In the file, names end in their unit, times are ISO 8601 in UTC, and build IDs are hexadecimal. For totals, processes
 * and threads, seen = written + filtered.total + lost.total + overwritten (the last only with a flight recorder).
 * Numbers are integers below 2^63 (JSON readers that store them as doubles are exact up to 2^53).
 */
#ifndef XPROF_RECORD_MANIFEST_H
#define XPROF_RECORD_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "budget/probe_cost.h"
#include "trace/thread.h"
#include "unwind/unwind.h"
#include "xprof/event.h"

/* Further threads of a process are only counted. */
#define XP_MANIFEST_THREADS_MAX 1000

struct xp_manifest_clock {
	const char *source; /* xp_clock_source() */
	uint64_t hz;
	uint64_t start_tsc;
	uint64_t error_bound_ns;
	uint64_t ktime_error_ns; /* of records timed by CLOCK_MONOTONIC */
	bool constant_tsc;
	bool nonstop_tsc;
	uint64_t records_by_ktime; /* records timed by CLOCK_MONOTONIC instead of the TSC */
};

/* A function that the budget took out of the recording. */
struct xp_manifest_taken_out {
	uint32_t id;	     /* in the object, from 1 */
	const char *name;    /* NULL: unknown */
	unsigned int times;  /* how often it was taken out */
	uint64_t out_ns;     /* total time */
	uint64_t counted_ns; /* part of out_ns in which its calls were counted */
	uint64_t calls;	     /* number of counted calls */
};

struct xp_manifest_object {
	const char *path;
	const uint8_t *build_id;
	size_t build_id_bytes; /* 0: none */
	size_t functions;
	const char *sled_mode; /* "probe", "patch" or "memory" */
	size_t sleds_attached;
	size_t sleds_patched;	  /* refused: the bytes differ from those of an unpatched sled */
	size_t sleds_unreadable;  /* refused: the memory could not be read */
	size_t sleds_overwritten; /* patched by XRay's runtime during the recording */
	uint32_t first_id;	  /* of its functions in the process's log */
	const struct xp_manifest_taken_out *taken_out;
	size_t taken_out_count;
};

struct xp_manifest_thread {
	pid_t tid;
	const char *name;
	struct xp_counts counts;
};

#define XP_MANIFEST_CALLS_MAX 4
#define XP_MANIFEST_CALLERS_MAX 4

/* A thread that was in calls at the end of a flight recorder's log. */
struct xp_manifest_calls {
	pid_t tid;
	size_t count;
	uint32_t ids[XP_MANIFEST_CALLS_MAX];	  /* of functions in the log, the innermost call first */
	const char *names[XP_MANIFEST_CALLS_MAX]; /* their symbols; NULL: unknown */
};

/* A call that took longer than its trigger allows, which made the flight recorder write the log. */
struct xp_manifest_slow_call {
	const char *trigger;	     /* as given; NULL: none */
	struct xp_manifest_calls in; /* the call and its callers */
	uint64_t start_ns;	     /* since the start of the recording */
	uint64_t took_ns;
	uint64_t further; /* such calls in the same log */
};

/* --trigger. calls = logs + shared + beyond + beyond_share. */
struct xp_manifest_trigger {
	const char *text;
	uint64_t calls;	       /* that took longer */
	uint64_t logs;	       /* that were asked for because of them */
	uint64_t shared;       /* calls that are in the log of an earlier one */
	uint64_t beyond;       /* calls for which no log was asked for: --trigger-limit */
	uint64_t beyond_share; /* the same: the share of their process was used up */
};

#define XP_MANIFEST_TRIGGERS_MAX 64

struct xp_manifest_triggers {
	struct xp_manifest_trigger list[XP_MANIFEST_TRIGGERS_MAX];
	size_t count;
	uint64_t limit; /* logs a minute */
};

/* A log written by a flight recorder. */
struct xp_manifest_flight {
	const char *log_name;
	const char *cause;	      /* "asked", "killed", "gone", "end" or "trigger" */
	int signal;		      /* the signal that killed the process; 0: none */
	int error;		      /* -errno: it could not be written, so its records are lost */
	uint64_t from_ns;	      /* of the oldest record, since the start of the recording */
	uint64_t to_ns;		      /* when the log was requested */
	uint64_t records;	      /* number of records in the log */
	uint64_t synthesized_entries; /* for calls that had begun before */
	uint64_t synthesized_exits;
	struct xp_manifest_calls callers[XP_MANIFEST_CALLERS_MAX];
	size_t caller_count; /* of these */
	struct xp_manifest_slow_call slow;
};

struct xp_manifest_process {
	pid_t pid;
	unsigned int image; /* 1, increased by each exec */
	const char *comm;
	const char *exe;
	uint64_t start_ns;     /* since the start of the recording */
	const char *log_name;  /* NULL or "": none */
	int error;	       /* -errno: part of the log is missing; 0: complete */
	uint64_t without_ring; /* through the kernel: calls of threads without a call ring, or with a full one */
	uint64_t full_ring;
	const char *probed_why;	 /* why sleds are probed instead of patched; NULL: none are */
	const char *patched_why; /* why calls of patched sleds are not recorded in memory; NULL: they are */
	struct xp_counts counts;
	const uint32_t *synthesized; /* [synthesized_room] exits without a record, indexed by function ID; NULL: none */
	size_t synthesized_room;
	const struct xp_manifest_flight *flights;
	size_t flight_count;
	const struct xp_manifest_object *objects;
	size_t object_count;
	const struct xp_manifest_thread *threads; /* those known individually */
	size_t thread_count;
	size_t thread_total; /* number of all threads */
};

/* Code without a file. Samples in JIT code = named + unnamed. */
struct xp_manifest_jit {
	uint64_t functions; /* known functions */
	uint64_t refused;   /* functions refused for lack of room */
	uint64_t named;	    /* samples in a known function */
	uint64_t unnamed;
	const char *dump; /* file name; NULL: none */
	uint64_t dump_functions;
	uint64_t dump_lost; /* functions that did not fit in the file */
};

struct xp_manifest_profile {
	pid_t pid; /* 0: all kernel threads */
	unsigned int image;
	const char *comm;
	const char *cgroup; /* NULL: unknown */
	const char *name;   /* file name */
	uint64_t samples;
	const uint64_t *stacks; /* [XP_UNWIND_ENDS]: how the walks of its user stacks ended */
	bool has_jit;
	struct xp_manifest_jit jit;
};

/* Samples seen = written + lost; samples of idle CPUs are only counted. */
struct xp_manifest_samples {
	const char *event; /* NULL: no sampling, and the other members are ignored */
	uint64_t period_ns;
	uint64_t written;
	uint64_t lost;
	uint64_t idle;
	uint64_t switches; /* of threads, seen = written + lost */
	uint64_t switches_lost;
	uint64_t missed; /* periods without a sample, see xp_sampler_periods() */
	uint64_t kernel; /* written samples in the kernel */
	size_t cpus;	 /* CPUs that were sampled whatever ran on them; 0: only targets were */
	/* How often the kernel had no room for side-band events, or a CPU came back; /proc was then read again. */
	uint64_t sideband_lost;
	const char *call_graph; /* --call-graph */
	const uint64_t *stacks; /* [XP_UNWIND_ENDS], sum of all profiles; NULL: no walks, nor in the profiles */
	const struct xp_manifest_profile *profiles;
	size_t profile_count;
};

struct xp_manifest_file {
	const char *name; /* in the directory */
	const char *kind; /* "fdr", "side-elf", "gperftools", "jitdump" or "perf.data" */
	uint64_t bytes;
};

/* --max-overhead, as shares of the targets' CPU time. All 0: no budget. */
struct xp_manifest_budget {
	double share;
	double spent;	/* by tracing, as far as known */
	double stopped; /* the part of that from stops for changes */
};

struct xp_off_cpu;

/* How sleds were attached. */
struct xp_manifest_attach {
	const char *method; /* "uprobe_multi" or "perf_uprobe" */
	uint64_t attach_ns;
	uint64_t detach_ns;
	/* How long targets were stopped to patch and restore sleds, in total; then the longest stop. */
	uint64_t stopped_ns;
	uint64_t longest_stop_ns;
};

struct xp_manifest {
	char *const *argv; /* NULL-terminated */
	uint64_t start_wall_ns;
	uint64_t attached_after_ns; /* from the start until all was attached: then the duration begins */
	uint64_t duration_ns;
	struct xp_manifest_clock clock;

	struct xp_manifest_attach attach;

	const struct xp_forecast *forecast; /* NULL: none was made */
	struct xp_probe_cost probe_cost;    /* as measured for the forecast */
	struct xp_manifest_budget budget;
	uint64_t flight_bytes; /* per process; 0: no flight recorder */
	struct xp_manifest_triggers triggers;
	struct xp_counts counts;	    /* sum of all processes */
	uint64_t other_process;		    /* filtered: from processes that are not traced */
	uint64_t missed;		    /* lost: the kernel skipped a BPF program */
	const struct xp_bpf_counters *cpus; /* [cpu_count], events lost in ring buffers and more */
	size_t cpu_count;

	struct xp_manifest_samples samples;
	const struct xp_off_cpu *off_cpu; /* NULL: no waits were recorded */
	const struct xp_manifest_process *processes;
	size_t process_count;
	const struct xp_manifest_file *files;
	size_t file_count;
	const char *const *notices; /* sentences */
	size_t notice_count;
};

/*
 * Reserves room for the file before other files fill the disk, or as much as there is. Returns a descriptor for
 * xp_manifest_write() or xp_manifest_release(), or -errno.
 */
int xp_manifest_reserve(int dir_fd, uint64_t bytes);
void xp_manifest_release(int dir_fd, int reserved_fd);
/* Removes the reserve that a killed recording left behind. */
void xp_manifest_recover(int dir_fd);
/*
 * Writes the file into the directory; it appears only when complete. reserved_fd: from xp_manifest_reserve(), closed
 * here; negative: none. Returns 0 or -errno; prints nothing.
 */
int xp_manifest_write(int dir_fd, int reserved_fd, const struct xp_manifest *manifest);

/* Formats ns since 1970 as 2001-02-03T04:05:06.000000007Z. */
#define XP_ISO_TIME_BYTES 96
void xp_iso_time(char text[XP_ISO_TIME_BYTES], uint64_t wall_ns);

#endif
