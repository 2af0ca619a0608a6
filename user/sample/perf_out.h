/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The perf.data file of a recording: its samples, and the data that perf requires to name the code of each sampled
 * process. The first sample of a process adds the process to the file: xprof writes its name and all its current
 * mappings. After that, xprof writes each change that the side-band reports. So the file stays small on a machine with
 * many processes, and xprof reads a binary only if one of its processes runs.
 *
 * JIT memory is handled differently. It is written for all processes, when it is mapped, and only the parts that were
 * not mapped before. JIT compilers frequently change the protection of their memory. At each change, the kernel reports
 * the whole resulting mapping. In perf, such a mapping would hide the code that `perf inject --jit` has inserted there.
 *
 * An error here does not stop the recording. It ends the file; its earlier records remain readable, and
 * xp_perf_out_finish() returns the error. Disk space for the next records and the end of the file is always reserved.
 * If the disk becomes full, the file ends, and the reserved space is available to the other files of the recording.
 */
#ifndef XPROF_SAMPLE_PERF_OUT_H
#define XPROF_SAMPLE_PERF_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "event/arrival.h"
#include "format/wait_record.h"
#include "kernel/sideband.h"
#include "sample/sampled_process.h"
#include "store/ksym.h"
#include "target/address_space.h"
#include "unwind/unwind.h"

/* Which samples are compressed. Only perf and xprof can read compressed samples. */
enum xp_perf_out_compression {
	XP_PERF_OUT_LARGE, /* samples after the first XP_PERF_OUT_PLAIN_BYTES */
	XP_PERF_OUT_ALL,
	XP_PERF_OUT_NONE,
};

/* Size of about 90 000 samples with 30 frames: 7 minutes of two busy CPUs at 99 Hz, or 9 s at 5 kHz. */
#define XP_PERF_OUT_PLAIN_BYTES (32u << 20)

struct xp_perf_out_options {
	int dir_fd; /* owned by the caller */
	const struct xp_clock *clock;
	const struct xp_sampled_processes *processes; /* read when the first record is written */
	bool hardware;				      /* true: cycles; false: cpu-clock */
	const char *event;
	uint64_t period; /* period of each sample in cycles or ns */
	enum xp_perf_out_compression compression;
	bool waits;		    /* there will be samples that are waits */
	bool usdt;		    /* there will be hits of USDT probes */
	bool switches;		    /* there will be xp_perf_out_switch() */
	xp_ksym_describe *describe; /* names BPF programs; NULL: they have no names */
	void *describe_arg;
	uint64_t late_ns; /* maximum delay of a sample: samples with greater TSCs may arrive up to this much earlier */
};

struct xp_perf_out;

/* Creates the output. The first record creates the file. Returns 0 or -ENOMEM. */
int xp_perf_out_new(struct xp_perf_out **out, const struct xp_perf_out_options *options);
void xp_perf_out_free(struct xp_perf_out *out);

/*
 * Call this when a sample leaves the merge. Its frames may still be unknown. Writes the current state of its process
 * and thread. space: address space of the process.
 */
void xp_perf_out_seen(struct xp_perf_out *out, const struct xp_event_sample *record, uint64_t tsc, unsigned int cpu,
		      const struct xp_address_space *space);
/*
 * Writes a sample after xp_perf_out_seen(). frames: the kernel frames as in record, then the user frames; count >= 1.
 */
struct xp_perf_out_sampled {
	const struct xp_event_sample *record;
	uint64_t tsc;
	unsigned int cpu;
	const struct xp_wait_record *wait; /* NULL: it is no wait */
	const char *usdt;		   /* NULL: it is no USDT probe */
};
void xp_perf_out_sample(struct xp_perf_out *out, const struct xp_perf_out_sampled *sampled,
			const struct xp_frame *frames, size_t count);
/* Writes a context switch. */
void xp_perf_out_switch(struct xp_perf_out *out, const struct xp_arrival *arrival);
/*
 * Writes a side-band event. Call one of these before and one after the event changes the address space of its process.
 * NULL: the address space is unknown.
 */
void xp_perf_out_before(struct xp_perf_out *out, const struct xp_sideband_event *event,
			const struct xp_address_space *before);
void xp_perf_out_event(struct xp_perf_out *out, const struct xp_sideband_event *event,
		       const struct xp_address_space *behind);
/* Call this after events were lost: mappings and names in the file may be wrong, so they are written again. */
void xp_perf_out_forget(struct xp_perf_out *out);
/* Writes the records so far, in case xprof is killed. Call it every second. */
void xp_perf_out_flush(struct xp_perf_out *out);
/* Makes `perf inject --jit` read this jitdump. path is absolute and ends in /jit-NUMBER.dump. */
void xp_perf_out_jit(struct xp_perf_out *out, const char *path);

/* Completes the file. Returns 0 or the first error, after which no record was written. */
int xp_perf_out_finish(struct xp_perf_out *out);
/* What the file has. After an error of write(2), a few records may be missing. */
struct xp_perf_out_counts {
	uint64_t samples;
	uint64_t waits;
	uint64_t usdt;	/* hits of USDT probes */
	uint64_t bytes; /* of the completed file */
	int err;	/* the first error, after which no record was written */
};
/* out NULL: all are 0. */
struct xp_perf_out_counts xp_perf_out_counts(const struct xp_perf_out *out);
/* Returns whether the file has compressed samples, which only perf and xprof can read. */
bool xp_perf_out_is_compressed(const struct xp_perf_out *out);

#endif
