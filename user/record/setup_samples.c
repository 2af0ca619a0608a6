/* SPDX-License-Identifier: BSD-2-Clause */
/* Sets up sampling without touching a target: events, side-band, profiles, perf.data. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/util.h"
#include "record/recording.h"

/* Per CPU: 1 MiB holds about 6000 mappings, more than a CPU makes between two reads. */
#define SIDEBAND_PAGES 256
/* Each takes tens of milliseconds to attach. For further processes, xprof looks for new JIT code every second. */
#define JIT_WATCHES_MAX 32

/* The CPUs of --all: those of --cpu, or all possible ones. */
static int choose_cpus(struct xp_recording *recording)
{
	const char *list = recording->options->cpus;
	struct xp_short_text shown;
	int err;

	if (!recording->options->all)
		return 0;
	recording->cpus = malloc(recording->programs.cpus * sizeof(*recording->cpus));
	if (!recording->cpus)
		return -ENOMEM;
	memset(recording->cpus, true, recording->programs.cpus * sizeof(*recording->cpus));
	err = list ? xp_cpu_list_parse(list, recording->cpus, recording->programs.cpus) : 0;
	if (err == -ERANGE)
		snprintf(recording->why, sizeof(recording->why), "--cpu %s: this machine has only CPUs 0-%u",
			 xp_short_text(&shown, list), recording->programs.cpus - 1);
	else if (err)
		snprintf(recording->why, sizeof(recording->why), "--cpu takes a list such as 0-3,7, not '%s'", list);
	return err;
}

static void say_clamped(const struct xp_recording *recording)
{
	uint64_t hz = xp_sampler_clamped_hz(recording->sampler);

	if (!xp_sampler_hardware(recording->sampler) && hz == XP_SAMPLER_CPU_CLOCK_HZ_MAX)
		xp_warn("sampling at %" PRIu64 " Hz, the most that cpu-clock bears", hz);
	else
		xp_warn("sampling at %" PRIu64
			" Hz, the most that kernel.perf_event_max_sample_rate allows; `sudo sysctl "
			"kernel.perf_event_max_sample_rate=%" PRIu64 "` raises it",
			hz, recording->options->hz);
}

static void set_stack_size(void *arg, pid_t tid, const struct xp_stack_size *size)
{
	struct xp_recording *recording = arg;
	int err = xp_programs_set_stack(&recording->programs, tid, size);

	if (err)
		xp_debug("cannot set the stack size of thread %d: %s", tid, strerror(-err));
}

/* JIT compilers call an empty function when their code has changed; the probe on it wakes the reader. */
static void watch_jit(void *arg, pid_t pid, int fd, uint64_t offset)
{
	struct xp_recording *recording = arg;
	const struct xp_uprobe probe = { .offset = offset };
	int err;

	if (!recording->attach || recording->jit_watches == JIT_WATCHES_MAX)
		return;
	recording->jit_watches++;
	err = xp_attach_uprobes(recording->attach, xp_programs_jit_fd(&recording->programs), fd, pid, &probe, 1);
	if (err)
		xp_debug("process %d: cannot watch for new JIT code: %s", pid, strerror(-err));
}

int xp_setup_samples(struct xp_recording *recording)
{
	const struct xp_stacks_options stacks = {
		.by_frame_pointer = recording->options->call_graph == XP_CALL_GRAPH_AUTO,
		.set_size = set_stack_size,
		.arg = recording,
	};
	bool with_snapshots = xp_setup_stacks(recording->options->call_graph) == XP_STACKS_DUMP;
	struct xp_sampler_options sampler = {
		.program_fd = xp_programs_sample_fd(&recording->programs),
		.hz = recording->options->period ? 0 : recording->options->hz,
		.period = recording->options->period,
		.children = recording->options->follow,
	};
	int err = choose_cpus(recording);

	if (!err)
		err = xp_sampler_new(&recording->sampler, &sampler, recording->why, sizeof(recording->why));
	if (!err)
		err = xp_sideband_open(&recording->sideband, SIDEBAND_PAGES);
	recording->samples.dir_fd = recording->outdir.fd;
	recording->samples.describe = xp_programs_describe;
	recording->samples.describe_arg = &recording->programs;
	recording->samples.jit.jits = (struct xp_jits){
		.clock = recording->clock,
		.bytes_left = XP_JIT_BYTES_LEFT,
		.jvm_attach = recording->options->jvm_attach,
		.with_dumps = !recording->options->no_perf_data,
		.dump_bytes_left = XP_JIT_DUMP_OUT_ALL_BYTES_MAX,
		.to_the_letter = recording->options->jitdump_version == 2,
		.dir_fd = recording->outdir.fd,
		.start_tsc = recording->start_tsc,
		.watch = watch_jit,
		.arg = recording,
	};
	if (!err)
		err = xp_samples_init(&recording->samples, with_snapshots ? &stacks : NULL);
	if (err)
		return err;
	if (!xp_sampler_hardware(recording->sampler))
		xp_info("no hardware counters here: sampling by cpu-clock, which cannot see code that runs with "
			"interrupts off");
	if (xp_sampler_clamped_hz(recording->sampler))
		say_clamped(recording);
	return 0;
}

int xp_setup_perf(struct xp_recording *recording)
{
	const struct xp_options *options = recording->options;
	uint64_t tsc_hz = xp_clock_hz(recording->clock), period_ns = xp_sampler_period_ns(recording->sampler, tsc_hz);
	struct xp_perf_out_options perf = {
		.dir_fd = recording->outdir.fd,
		.clock = recording->clock,
		.tasks = &recording->samples.tasks,
		.hardware = xp_sampler_hardware(recording->sampler),
		.event = xp_sampler_event(recording->sampler),
		.period = options->period ? options->period : period_ns,
		.uncompressed = options->no_compression,
		.late_ns = 2 * XP_SAMPLES_WAIT_NS,
	};

	if (perf.hardware && !options->period)
		perf.period = xp_clock_ticks(recording->clock, period_ns);
	return xp_perf_out_new(&recording->samples.perf, &perf);
}
