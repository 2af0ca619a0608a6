/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The perf.data file of a recording: its samples, and for each sampled process what perf needs to name its code. The
 * first sample of a process adds the process to the file: xprof writes its name and all its mappings as they are at
 * that time, and then writes each change that the side-band reports. So the file stays small on a machine with many
 * processes, and xprof looks at a binary only when code of its process runs.
 *
 * JIT memory is handled differently. It is written for all processes, at the time it is mapped, and only the parts that
 * were not mapped before. JIT compilers switch the protection of their memory all the time. Each time the kernel
 * reports the whole resulting mapping, and perf puts a later mapping over the code that `perf inject --jit` has put
 * there.
 *
 * No error here stops a recording. An error ends the file, its records up to there stay readable, and
 * xp_perf_out_finish() returns the error. The file always has disk space reserved for its next records and its end.
 * When the disk is full the file ends and gives that space back to the other files of the recording.
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

/* Which samples are compressed. Only perf and xprof read a file with such. */
enum xp_perf_out_compression {
	XP_PERF_OUT_LARGE, /* those after the first XP_PERF_OUT_PLAIN_BYTES */
	XP_PERF_OUT_ALL,
	XP_PERF_OUT_NONE,
};

/* About 90 000 samples 30 calls deep: 7 minutes of two busy CPUs at 99 Hz, 9 s at 5 kHz. */
#define XP_PERF_OUT_PLAIN_BYTES (32u << 20)

struct xp_perf_out_options {
	int dir_fd; /* owned by the caller */
	const struct xp_clock *clock;
	const struct xp_sampled_processes *processes; /* read when the first record is written */
	bool hardware;				      /* cycles; otherwise cpu-clock */
	const char *event;
	uint64_t period; /* of each sample: cycles or ns */
	enum xp_perf_out_compression compression;
	bool waits;		    /* there will be samples that are waits */
	bool usdt;		    /* there will be hits of USDT probes */
	bool switches;		    /* there will be xp_perf_out_switch() */
	xp_ksym_describe *describe; /* names BPF programs; NULL: they have no names */
	void *describe_arg;
	uint64_t late_ns; /* a sample may arrive this much later than others with greater TSCs */
};

struct xp_perf_out;

/* The first record creates the file. Returns 0 or -ENOMEM. */
int xp_perf_out_new(struct xp_perf_out **out, const struct xp_perf_out_options *options);
void xp_perf_out_free(struct xp_perf_out *out);

/*
 * A sample has left the merge, possibly without its frames yet: writes the current state of its process and thread.
 * space: of the process.
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
/* Takes a switch of threads. */
void xp_perf_out_switch(struct xp_perf_out *out, const struct xp_arrival *arrival);
/*
 * A side-band event. Call these before and after the event changes the address space of its process. NULL: nothing is
 * known of it.
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

/* Ends the file. Returns 0 or the first error; no record was written after it. */
int xp_perf_out_finish(struct xp_perf_out *out);
/* Returns the number of samples, waits and hits of USDT probes in the file. After an error of write(2), a few of them
 * may be missing. */
uint64_t xp_perf_out_samples(const struct xp_perf_out *out);
uint64_t xp_perf_out_waits(const struct xp_perf_out *out);
uint64_t xp_perf_out_usdt(const struct xp_perf_out *out);
/* Why the file has ended before xp_perf_out_finish(): -errno; 0: it has not. */
int xp_perf_out_error(const struct xp_perf_out *out);
/* The size of the ended file. */
uint64_t xp_perf_out_bytes(const struct xp_perf_out *out);
/* Whether only perf and xprof read it. */
bool xp_perf_out_is_compressed(const struct xp_perf_out *out);

#endif
