/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sampling events: perf events whose overflow runs the BPF program `sample`. An event of a thread follows the thread
 * over all CPUs and is inherited by the threads (with children: also by the processes) that it makes; an event of a CPU
 * samples whatever runs there.
 */
#ifndef XPROF_ATTACH_SAMPLES_H
#define XPROF_ATTACH_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * The kernel takes a timer of 10 us. A sample costs some of these: at 10 us a program got no further for seconds and
 * two thirds of the samples were lost; at 20 us, on the same guest, it took 1 % longer and none was.
 */
#define XP_SAMPLER_CPU_CLOCK_HZ_MAX 50000ull

struct xp_sampler_options {
	int program_fd;
	uint64_t hz;	 /* samples a second; 0: use period. UINT64_MAX: as many as the kernel allows */
	uint64_t period; /* events (cycles, or ns of cpu-clock) between samples */
	bool children;	 /* of the threads that are sampled too */
};

struct xp_sampler;

/*
 * Chooses the event: cycles where there is a PMU, cpu-clock otherwise; clamps the frequency to
 * kernel.perf_event_max_sample_rate. Errors with a sentence in why: -EACCES perf_event_paranoid or lockdown forbids it,
 * -EOPNOTSUPP no such event.
 */
int xp_sampler_new(struct xp_sampler **sampler, const struct xp_sampler_options *options, char *why, size_t why_size);
/* Closes all events. */
void xp_sampler_free(struct xp_sampler *sampler);

/* All threads of a process. They are sampled from now on. -ESRCH: it is gone. -EMFILE: too many threads. */
int xp_sampler_add_process(struct xp_sampler *sampler, pid_t pid);
int xp_sampler_add_thread(struct xp_sampler *sampler, pid_t tid);
/* The CPUs of cpus[0..count) that are online and not yet sampled; to be called again for those that come online. */
int xp_sampler_add_cpus(struct xp_sampler *sampler, const bool *cpus, size_t count);
/* No sample comes any more. */
void xp_sampler_stop(struct xp_sampler *sampler);

/* "cycles" or "cpu-clock". */
const char *xp_sampler_event(const struct xp_sampler *sampler);
bool xp_sampler_hardware(const struct xp_sampler *sampler);
/* What a sample stands for, in ns of CPU time; tsc_hz turns cycles into time. */
uint64_t xp_sampler_period_ns(const struct xp_sampler *sampler, uint64_t tsc_hz);
/*
 * After xp_sampler_stop(): how many periods the sampled threads have run, by the events' own counts; 0 where the kernel
 * varies the period (cycles at a frequency), and for CPUs, whose counts go on while they idle without a tick. It is
 * more than the samples where the kernel made one of several periods (interrupts were off, a hypervisor had taken the
 * CPU), where it did not run the program because another one was running on the CPU (bpf_prog_active,
 * kernel/events/core.c; before Linux 6.0 also one on a sled), and where threads ended within a period.
 */
uint64_t xp_sampler_periods(const struct xp_sampler *sampler);
/* The frequency asked for was above this limit, the kernel's or that of cpu-clock, and was lowered to it; 0: it was
 * not. */
uint64_t xp_sampler_clamped_hz(const struct xp_sampler *sampler);

#endif
