/* SPDX-License-Identifier: BSD-2-Clause */
/* What sampling needs, set up before any target is touched: events, side-band, profiles, perf.data. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "record/recording.h"
#include "base/util.h"

/* Of each CPU: 1 MiB holds about 6000 mappings, more than a CPU makes between two looks. */
#define SIDEBAND_PAGES 256
/* Each takes tens of milliseconds to attach; of further processes new JIT code is looked for every second. */
#define JIT_WATCHES_MAX 32

/* The CPUs of --all: those of --cpu, or all that there may be. */
static int choose_cpus(struct xp_recording *rec)
{
	const char *list = rec->options->cpus;
	struct xp_short_text shown;
	int err;

	if (!rec->options->all)
		return 0;
	rec->cpus = malloc(rec->programs.cpus * sizeof(*rec->cpus));
	if (!rec->cpus)
		return -ENOMEM;
	memset(rec->cpus, true, rec->programs.cpus * sizeof(*rec->cpus));
	err = list ? xp_cpu_list_parse(list, rec->cpus, rec->programs.cpus) : 0;
	if (err == -ERANGE)
		snprintf(rec->why, sizeof(rec->why), "--cpu %s: this machine has only CPUs 0-%u",
			 xp_short_text(&shown, list), rec->programs.cpus - 1);
	else if (err)
		snprintf(rec->why, sizeof(rec->why), "--cpu takes a list such as 0-3,7, not '%s'", list);
	return err;
}

static void say_clamped(const struct xp_recording *rec)
{
	uint64_t hz = xp_sampler_clamped_hz(rec->sampler);

	if (!xp_sampler_hardware(rec->sampler) && hz == XP_SAMPLER_CPU_CLOCK_HZ_MAX)
		xp_warn("sampling at %" PRIu64 " Hz, the most that cpu-clock bears", hz);
	else
		xp_warn("sampling at %" PRIu64
			" Hz, the most that kernel.perf_event_max_sample_rate allows; `sudo sysctl "
			"kernel.perf_event_max_sample_rate=%" PRIu64 "` raises it",
			hz, rec->options->hz);
}

static void set_stack_size(void *arg, pid_t tid, const struct xp_stack_size *size)
{
	struct xp_recording *rec = arg;
	int err = xp_programs_set_stack(&rec->programs, tid, size);

	if (err)
		xp_debug("cannot set the stack size of thread %d: %s", tid, strerror(-err));
}

/* A JIT compiler's call of an empty function, when its code changed, wakes the reader. */
static void watch_jit(void *arg, pid_t pid, int fd, uint64_t offset)
{
	struct xp_recording *rec = arg;
	const struct xp_uprobe probe = { .offset = offset };
	int err;

	if (!rec->attach || rec->jit_watches == JIT_WATCHES_MAX)
		return;
	rec->jit_watches++;
	err = xp_attach_uprobes(rec->attach, xp_programs_jit_fd(&rec->programs), fd, pid, &probe, 1);
	if (err)
		xp_debug("process %d: cannot be told of new JIT code: %s", pid, strerror(-err));
}

int xp_setup_samples(struct xp_recording *rec)
{
	const struct xp_stacks_options stacks = {
		.by_frame_pointer = rec->options->call_graph == XP_CALL_GRAPH_AUTO,
		.set_size = set_stack_size,
		.arg = rec,
	};
	bool with_snapshots = xp_setup_stacks(rec->options->call_graph) == XP_STACKS_SNAPSHOT;
	struct xp_sampler_options sampler = {
		.program_fd = xp_programs_sample_fd(&rec->programs),
		.hz = rec->options->period ? 0 : rec->options->hz,
		.period = rec->options->period,
		.children = rec->options->follow,
	};
	int err = choose_cpus(rec);

	if (!err)
		err = xp_sampler_new(&rec->sampler, &sampler, rec->why, sizeof(rec->why));
	if (!err)
		err = xp_sideband_open(&rec->sideband, SIDEBAND_PAGES);
	rec->samples.dir_fd = rec->outdir.fd;
	rec->samples.describe = xp_programs_describe;
	rec->samples.describe_arg = &rec->programs;
	rec->samples.jit.jits = (struct xp_jits){
		.clock = rec->clock,
		.bytes_left = XP_JIT_BYTES_LEFT,
		.jvm_attach = rec->options->jvm_attach,
		.with_dumps = !rec->options->no_perf_data,
		.dump_bytes_left = XP_JIT_DUMP_OUT_ALL_BYTES_MAX,
		.to_the_letter = rec->options->jitdump_version == 2,
		.dir_fd = rec->outdir.fd,
		.start_tsc = rec->start_tsc,
		.watch = watch_jit,
		.arg = rec,
	};
	if (!err)
		err = xp_samples_init(&rec->samples, with_snapshots ? &stacks : NULL);
	if (err)
		return err;
	if (!xp_sampler_hardware(rec->sampler))
		xp_info("no hardware counters here: sampling by cpu-clock, which cannot see code that runs with "
			"interrupts off");
	if (xp_sampler_clamped_hz(rec->sampler))
		say_clamped(rec);
	return 0;
}

int xp_setup_perf(struct xp_recording *rec)
{
	const struct xp_options *options = rec->options;
	uint64_t tsc_hz = xp_clock_hz(rec->clock), period_ns = xp_sampler_period_ns(rec->sampler, tsc_hz);
	struct xp_perf_out_options perf = {
		.dir_fd = rec->outdir.fd,
		.clock = rec->clock,
		.tasks = &rec->samples.tasks,
		.hardware = xp_sampler_hardware(rec->sampler),
		.event = xp_sampler_event(rec->sampler),
		.period = options->period ? options->period : period_ns,
		.uncompressed = options->no_compression,
		.late_ns = 2 * XP_SAMPLES_WAIT_NS,
	};

	if (perf.hardware && !options->period)
		perf.period = xp_clock_ticks(rec->clock, period_ns);
	return xp_perf_out_new(&rec->samples.perf, &perf);
}
