/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sampling events: perf events that run the BPF program `sample` on overflow. A per-thread event follows the thread
 * across CPUs. The events of a process are inherited by the threads that its threads create; with `children`, events
 * are also inherited by new processes. A per-CPU event samples whatever runs on the CPU.
 */
#ifndef XPROF_KERNEL_ATTACH_SAMPLES_H
#define XPROF_KERNEL_ATTACH_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * The highest frequency of cpu-clock. The kernel accepts a period of 10 us, but a sample costs several us: with 10 us,
 * a program made no progress for seconds, and two thirds of the samples were lost. With 20 us on the same guest, the
 * program ran 1 % longer and no sample was lost.
 */
#define XP_SAMPLER_CPU_CLOCK_HZ_MAX 50000ull

struct xp_sampler_options {
	int program_fd;
	uint64_t hz;	 /* samples per second; 0: use period; UINT64_MAX: the kernel's maximum */
	uint64_t period; /* events (cycles, or ns of cpu-clock) between samples */
	bool children;	 /* also sample the processes that sampled threads create */
	/* For the program, in the events of CPUs, which then sample no idle task; 0: none */
	uint64_t cpu_cookie;
};

struct xp_sampler;

/*
 * Chooses the event: cycles if there is a PMU, otherwise cpu-clock. Clamps the frequency to
 * kernel.perf_event_max_sample_rate. Returns 0 or -errno with a sentence (why.h): -EACCES if perf_event_paranoid or
 * lockdown forbids sampling, -EOPNOTSUPP if there is no such event.
 */
int xp_sampler_new(struct xp_sampler **sampler, const struct xp_sampler_options *options);
/* Closes all events. */
void xp_sampler_free(struct xp_sampler *sampler);

/*
 * Starts to sample all threads of a process. Returns 0 or -errno: -ESRCH if the process has ended, -EMFILE if it has
 * too many threads.
 */
int xp_sampler_add_process(struct xp_sampler *sampler, pid_t pid);
int xp_sampler_add_thread(struct xp_sampler *sampler, pid_t tid);
/*
 * Samples the CPUs in cpus[0..count) that are online and not yet sampled. Call it again to add CPUs that come online.
 */
int xp_sampler_add_cpus(struct xp_sampler *sampler, const bool *cpus, size_t count);
/* Undoes xp_sampler_add_cpus(). */
void xp_sampler_drop_cpus(struct xp_sampler *sampler);
/* Undoes xp_sampler_add_process() and xp_sampler_add_thread(). */
void xp_sampler_drop_threads(struct xp_sampler *sampler);
/* Stops all events. No sample arrives after this call. */
void xp_sampler_stop(struct xp_sampler *sampler);

/* "cycles" or "cpu-clock". */
const char *xp_sampler_event(const struct xp_sampler *sampler);
bool xp_sampler_hardware(const struct xp_sampler *sampler);
/* Returns the CPU time that a sample represents, in ns. tsc_hz is used to convert cycles to time. */
uint64_t xp_sampler_period_ns(const struct xp_sampler *sampler, uint64_t tsc_hz);
/*
 * Valid after xp_sampler_stop(): the number of periods that the sampled threads ran, by the counts of the events. 0 if
 * the kernel varies the period (cycles at a frequency), if threads were dropped, and for CPUs, whose counts continue
 * while the CPU idles without a tick.
 *
 * The number exceeds that of the samples where the kernel merged several periods into one sample (interrupts were off,
 * or a hypervisor had descheduled the CPU), where the kernel skipped the program because another one was running on the
 * CPU (bpf_prog_active, kernel/events/core.c; before Linux 6.0 also a program on a sled), and where threads ended
 * within a period.
 */
uint64_t xp_sampler_periods(const struct xp_sampler *sampler);
/* Begins a new part of the recording: the events continue to count, so the number of periods is unknown from now on. */
void xp_sampler_begin_part(struct xp_sampler *sampler);
/* Returns the limit (of the kernel, or of cpu-clock) to which the requested frequency was lowered; 0 if it was not. */
uint64_t xp_sampler_clamped_hz(const struct xp_sampler *sampler);

/* The last values of an event; zeroed: none yet. */
struct xp_perf_event_look {
	uint64_t enabled_ns;
	uint64_t lost; /* records lost for lack of space, with PERF_FORMAT_LOST (Linux 6.0) */
};

/*
 * Returns whether the event of a CPU is still enabled. When a CPU goes offline, its events are disabled permanently,
 * even when the CPU returns (perf_event_exit_cpu(), kernel/events/core.c). Other signs are not reliable: the machine
 * may have been suspended in between. fd: an enabled event with read_format PERF_FORMAT_TOTAL_TIME_ENABLED, with or
 * without PERF_FORMAT_LOST.
 */
bool xp_perf_event_lives(int fd, struct xp_perf_event_look *look);

#endif
