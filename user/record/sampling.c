/* SPDX-License-Identifier: BSD-2-Clause */
#include "record/sampling.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/util.h"
#include "base/why.h"
#include "record/messages.h"
#include "target/target.h"

/* Per CPU: 1 MiB holds about 6000 mappings, more than a CPU makes between two reads. */
#define SIDEBAND_PAGES 256
/*
 * xprof reads all of /proc again only after this many times the duration of the last read. Otherwise a process with
 * tens of thousands of mappings, more than the side-band can report, would cause a read in every pass.
 */
#define REPAIR_PAUSE 10
/*
 * How long CPUs are sampled after the last reason for it. Their timers cost up to 18 us per period (on a nested guest),
 * even while the targets sleep. But if CPUs are not sampled, the first child of a target loses a millisecond, and up to
 * a period, of samples.
 */
#define QUIET_NS (10ull * XP_NS_PER_S)
/*
 * The timer of a thread's sampling event is started when the thread gets a CPU, and stopped when it leaves: 6 us on the
 * same guest, at 999 Hz. Two threads that only wake each other ran at a third of their speed. xprof samples CPUs
 * instead if the targets have more than this many time slices for each timer interrupt that the CPUs would have.
 */
#define SLICES_PER_INTERRUPT 5
#define SLICES_LOOK_NS XP_NS_PER_S
#define SLICES_LOOK_MIN_NS 10000000u

/* ---- setting up ---- */

/* Chooses the CPUs of --cpu, or all possible ones. */
static int choose_cpus(struct xp_sampling *sampling, const char *list, unsigned int count)
{
	struct xp_short_text shown;
	int err;

	sampling->cpus = malloc(count * sizeof(*sampling->cpus));
	if (!sampling->cpus)
		return -ENOMEM;
	sampling->cpu_count = count;
	memset(sampling->cpus, true, count * sizeof(*sampling->cpus));
	err = list ? xp_cpu_list_parse(list, sampling->cpus, count) : 0;
	if (err == -ERANGE)
		return xp_why_set(err, "--cpu %s: this machine has only CPUs 0-%u", xp_short_text(&shown, list),
				  count - 1);
	return err ? xp_why_set(err, "--cpu takes a list such as 0-3,7, not '%s'", list) : 0;
}

static void say_clamped(const struct xp_sampler *sampler, uint64_t wanted_hz)
{
	uint64_t hz = xp_sampler_clamped_hz(sampler);

	if (!xp_sampler_hardware(sampler) && hz == XP_SAMPLER_CPU_CLOCK_HZ_MAX)
		xp_warn("sampling at %" PRIu64 " Hz, the maximum of cpu-clock", hz);
	else
		xp_warn("sampling at %" PRIu64 " Hz, the limit of kernel.perf_event_max_sample_rate; raise it with "
			"`sudo sysctl kernel.perf_event_max_sample_rate=%" PRIu64 "`",
			hz, wanted_hz);
}

static void set_stack_size(void *arg, pid_t tid, const struct xp_stack_size *size)
{
	int err = xp_programs_set_stack(arg, tid, size);

	if (err)
		xp_debug("cannot set the stack size of thread %d: %s", tid, strerror(-err));
}

static struct xp_jits jit_options(struct xp_sampling *sampling)
{
	return (struct xp_jits){
		.clock = sampling->clock,
		.bytes_left = XP_JIT_BYTES_LEFT,
		.jvm_attach = sampling->options->jvm_attach,
		.with_dumps = true,
		.dump_bytes_left = XP_JIT_DUMP_OUT_ALL_BYTES_MAX,
		.dir_fd = sampling->dir_fd,
		.start_tsc = sampling->targets->start_tsc,
		.watch = sampling->watch_jit,
		.arg = sampling->watch_arg,
	};
}

static int setup_perf(struct xp_sampling *sampling)
{
	const struct xp_sampler *sampler = sampling->sampler;
	uint64_t period_ns = xp_sampler_period_ns(sampler, sampling->clock->hz);
	struct xp_perf_out_options perf = {
		.dir_fd = sampling->dir_fd,
		.clock = sampling->clock,
		.processes = &sampling->samples.processes,
		.hardware = xp_sampler_hardware(sampler),
		.event = xp_sampler_event(sampler),
		.period = sampling->options->period,
		.compression = sampling->options->no_compression ? XP_PERF_OUT_NONE
			       : sampling->options->compress	 ? XP_PERF_OUT_ALL
								 : XP_PERF_OUT_LARGE,
		.switches = sampling->options->switch_events,
		.waits = sampling->options->off_cpu.given,
		.usdt = sampling->options->usdt.count,
		.describe = xp_programs_describe,
		.describe_arg = sampling->programs,
		.late_ns = 2 * XP_SAMPLES_WAIT_NS,
	};

	if (!perf.period)
		perf.period = perf.hardware ? xp_clock_ticks(sampling->clock, period_ns) : period_ns;
	return xp_perf_out_new(&sampling->samples.perf, &perf);
}

int xp_sampling_setup(struct xp_sampling *sampling)
{
	const struct xp_options *options = sampling->options;
	const struct xp_stacks_options stacks = {
		.by_frame_pointer = options->call_graph == XP_CALL_GRAPH_AUTO,
		.set_size = set_stack_size,
		.arg = sampling->programs,
	};
	const struct xp_sampler_options sampler = {
		.program_fd = sampling->programs->fds.sample,
		.hz = options->period ? 0 : options->hz,
		.period = options->period,
		.children = options->follow,
		.cpu_cookie = options->all ? 0 : XP_SAMPLE_COOKIE_CPU,
	};
	int err = choose_cpus(sampling, options->cpus, sampling->programs->cpus);

	sampling->samples_cpus = options->all;
	if (!err)
		err = xp_sampler_new(&sampling->sampler, &sampler);
	if (!err)
		err = xp_sideband_open(&sampling->sideband, SIDEBAND_PAGES);
	sampling->samples.dir_fd = sampling->dir_fd;
	sampling->samples.shared_fd = sampling->shared_fd;
	/* Waits have no fixed rate. */
	sampling->samples.waiting.bytes_max = xp_pending_samples_limit(
	    options->period || options->off_cpu.given ? 0 : options->hz, sampling->programs->cpus);
	sampling->samples.describe = xp_programs_describe;
	sampling->samples.describe_arg = sampling->programs;
	sampling->samples.jits = jit_options(sampling);
	if (!err)
		err = xp_samples_init(&sampling->samples, xp_plan_stacks(options) == XP_STACKS_DUMP ? &stacks : NULL);
	if (err)
		return err;
	if (!xp_sampler_hardware(sampling->sampler))
		xp_info("no hardware counters: sampling by cpu-clock, which cannot see code that runs with interrupts "
			"disabled");
	if (xp_sampler_clamped_hz(sampling->sampler))
		say_clamped(sampling->sampler, options->hz);
	xp_sampling_choose(sampling);
	return setup_perf(sampling);
}

void xp_sampling_free(struct xp_sampling *sampling)
{
	xp_sampler_free(sampling->sampler);
	xp_sideband_free(sampling->sideband);
	xp_samples_free(&sampling->samples);
	xp_perf_out_free(sampling->samples.perf);
	free(sampling->cpus);
}

int xp_sampling_begin_part(struct xp_sampling *sampling, int dir_fd, uint64_t tsc)
{
	const struct xp_pid_list *pids = &sampling->options->pids;
	int err;

	sampling->dir_fd = dir_fd;
	if (!sampling->sampler)
		return 0;
	sampling->switches = 0;
	xp_sampler_begin_part(sampling->sampler);
	err = xp_samples_begin_part(&sampling->samples, dir_fd, tsc);
	for (size_t i = 0; i < pids->count && !err; i++)
		if (xp_sampled_processes_find(&sampling->samples.processes, pids->pids[i]))
			err = xp_sampled_processes_expect(&sampling->samples.processes, pids->pids[i]);
	xp_perf_out_free(sampling->samples.perf);
	sampling->samples.perf = NULL;
	return err ? err : setup_perf(sampling);
}

/* ---- attaching ---- */

int xp_sampling_add_process(struct xp_sampling *sampling, pid_t pid)
{
	int err = xp_sampled_processes_expect(&sampling->samples.processes, pid);

	if (!err && !sampling->samples_cpus)
		err = xp_sampler_add_process(sampling->sampler, pid);
	if (err == -ESRCH)
		return xp_why_set(err, "process %d ended while it was being attached", pid);
	if (err == -EMFILE)
		return xp_why_set(err,
				  "process %d has more threads than xprof may open files; raise `ulimit -n`, or sample "
				  "all with -a",
				  pid);
	return err;
}

/* Samples the CPUs that are online and not sampled yet, if CPUs are to be sampled. */
static int add_cpus(struct xp_sampling *sampling)
{
	if (!sampling->samples_cpus)
		return 0;
	sampling->cpus_tsc = xp_clock_now_tsc();
	return xp_sampler_add_cpus(sampling->sampler, sampling->cpus, sampling->cpu_count);
}

/* Reads the existing mappings of the sampled processes; the side-band reports later ones. */
static int scan(struct xp_sampling *sampling, pid_t command)
{
	const struct xp_options *options = sampling->options;
	struct xp_sampled_processes *sampled = &sampling->samples.processes;
	int err = 0;

	if (options->all)
		return xp_sampled_processes_scan_all(sampled);
	for (size_t i = 0; i < options->pids.count && !err; i++)
		err = xp_sampled_processes_scan(sampled, options->pids.pids[i]);
	if (command && !err)
		err = xp_sampled_processes_scan(sampled, command);
	if (options->tid && !err)
		err = xp_sampled_processes_scan(sampled, xp_target_process(options->tid));
	return err;
}

int xp_sampling_attach(struct xp_sampling *sampling, pid_t command)
{
	const struct xp_options *options = sampling->options;
	int err = 0;

	if (!sampling->sampler)
		return 0;
	if (options->tid)
		err = xp_sampler_add_thread(sampling->sampler, options->tid);
	if (options->all && !err)
		err = add_cpus(sampling);
	/* Samples wait in the rings meanwhile; from now on the side-band reports what happens. */
	return err ? err : scan(sampling, command);
}

size_t xp_sampling_cpus(const struct xp_sampling *sampling)
{
	size_t count = 0;

	for (unsigned int cpu = 0; cpu < sampling->cpu_count; cpu++)
		count += sampling->cpus[cpu] && xp_cpu_online(cpu);
	return count;
}

static int sample_cpus(struct xp_sampling *sampling)
{
	int err;

	sampling->samples_cpus = true;
	err = add_cpus(sampling);
	if (err) {
		sampling->samples_cpus = false;
		xp_sampler_drop_cpus(sampling->sampler);
		return err;
	}
	xp_debug("sampling the CPUs on which the targets run");
	xp_programs_sample_cpus(sampling->programs, true);
	xp_sampler_drop_threads(sampling->sampler);
	return 0;
}

static int sample_threads(struct xp_sampling *sampling)
{
	int err = 0;

	for (const struct xp_process *process = sampling->targets->first_live; process && !err;
	     process = process->next_live) {
		err = xp_sampler_add_process(sampling->sampler, process->pid);
		err = err == -ESRCH ? 0 : err;
	}
	if (err) { /* too many files: keep sampling CPUs */
		xp_sampler_drop_threads(sampling->sampler);
		return err;
	}
	xp_debug("sampling the threads of the targets");
	xp_programs_sample_cpus(sampling->programs, false);
	xp_sampler_drop_cpus(sampling->sampler);
	sampling->samples_cpus = false;
	return 0;
}

/* Reads how many time slices the targets had. Returns whether there were many. */
static bool slice_often(struct xp_sampling *sampling, uint64_t now_tsc)
{
	const struct xp_pid_list *pids = &sampling->options->pids;
	uint64_t slices = 0, before = sampling->slices, since_ns, period_ns;

	since_ns = xp_clock_ns(sampling->clock, now_tsc - sampling->slices_tsc);
	for (size_t i = 0; i < pids->count; i++)
		slices += xp_time_slices(pids->pids[i]);
	sampling->slices = slices;
	sampling->slices_tsc = now_tsc;
	if (!before || slices < before || !sampling->sampler || xp_sampler_hardware(sampling->sampler))
		return false;
	period_ns = xp_sampler_period_ns(sampling->sampler, sampling->clock->hz);
	return (double)(slices - before) * (double)period_ns >
	       (double)SLICES_PER_INTERRUPT * (double)sysconf(_SC_NPROCESSORS_ONLN) * (double)since_ns;
}

void xp_sampling_look(struct xp_sampling *sampling)
{
	if (xp_plan_chooses_events(sampling->plan, sampling->options))
		slice_often(sampling, xp_clock_now_tsc());
}

/* Returns whether there is a reason to sample the CPUs. */
static bool has_reason(struct xp_sampling *sampling, uint64_t now_tsc)
{
	uint32_t births = xp_programs_births(sampling->programs);
	/* A command may have its first child before births can be compared. */
	bool reason = births != sampling->births || (!sampling->quiet_tsc && sampling->options->follow);
	uint64_t look_ns = sampling->quiet_tsc ? SLICES_LOOK_NS : SLICES_LOOK_MIN_NS;

	sampling->births = births;
	if (now_tsc - sampling->slices_tsc >= xp_clock_ticks(sampling->clock, look_ns))
		reason |= slice_often(sampling, now_tsc);
	return reason;
}

void xp_sampling_choose(struct xp_sampling *sampling)
{
	uint64_t now_tsc = xp_clock_now_tsc();
	int err = 0;

	if (!sampling->sampler || !xp_plan_chooses_events(sampling->plan, sampling->options))
		return;
	if (has_reason(sampling, now_tsc)) {
		sampling->quiet_tsc = now_tsc + xp_clock_ticks(sampling->clock, QUIET_NS);
		if (!sampling->samples_cpus)
			err = sample_cpus(sampling);
	} else if (sampling->samples_cpus && now_tsc >= sampling->quiet_tsc) {
		sampling->quiet_tsc = now_tsc + xp_clock_ticks(sampling->clock, QUIET_NS);
		err = sample_threads(sampling);
	} else if (!sampling->quiet_tsc) {
		sampling->quiet_tsc = now_tsc;
	}
	if (err)
		xp_debug("the sampling events cannot be changed: %s", strerror(-err));
}

/* ---- while it runs ---- */

static int apply_event(struct xp_samples *samples, const struct xp_sideband_event *event)
{
	struct xp_perf_out *perf = samples->perf;
	int err;

	if (perf)
		xp_perf_out_before(perf, event, xp_sampled_processes_space(&samples->processes, event->pid));
	err = xp_sampled_processes_event(&samples->processes, event);
	if (perf && !err)
		xp_perf_out_event(perf, event, xp_sampled_processes_space(&samples->processes, event->pid));
	return err;
}

int xp_sampling_apply_sideband(struct xp_sampling *sampling, uint64_t tsc)
{
	const struct xp_sideband_event *event;
	int err = 0;

	while (!err && sampling->sideband && (event = xp_sideband_next(sampling->sideband, tsc)))
		err = apply_event(&sampling->samples, event);
	return err;
}

int xp_sampling_switch(struct xp_sampling *sampling, const struct xp_arrival *arrival)
{

	if (arrival->tsc > sampling->targets->stop_tsc || arrival->cpu >= sampling->cpu_count ||
	    !sampling->cpus[arrival->cpu])
		return 0;
	sampling->switches++;
	xp_perf_out_switch(sampling->samples.perf, arrival);
	return 0;
}

int xp_sampling_repair(struct xp_sampling *sampling)
{
	struct xp_samples *samples = &sampling->samples;
	uint64_t begin_tsc = xp_clock_now_tsc(), lost;
	int err;

	if (!sampling->sideband || begin_tsc < sampling->next_repair_tsc)
		return 0;
	lost = xp_sideband_lost(sampling->sideband);
	if (lost == samples->processes.lost_seen)
		return 0;
	xp_perf_out_forget(samples->perf);
	err = xp_sampled_processes_repair(&samples->processes, lost);
	xp_debug("the side-band has lost %" PRIu64 " records so far: /proc was read again", lost);
	sampling->next_repair_tsc = begin_tsc + REPAIR_PAUSE * (xp_clock_now_tsc() - begin_tsc);
	return err;
}

int xp_sampling_tend(struct xp_sampling *sampling)
{
	int err;

	if (!sampling->sampler)
		return 0;
	err = xp_sideband_add_cpus(sampling->sideband);
	if (!err)
		err = add_cpus(sampling);
	if (!err)
		err = xp_samples_refresh(&sampling->samples);
	xp_perf_out_flush(sampling->samples.perf);
	return err;
}

/* ---- the files ---- */

static int finish_perf(const struct xp_samples *samples)
{
	int err = xp_perf_out_finish(samples->perf);

	if (err)
		xp_error(XP_PERF_DATA_NAME " has %" PRIu64 " of %" PRIu64 " sample%s: %s%s",
			 xp_perf_out_counts(samples->perf).samples, samples->samples, xp_plural_s(samples->samples),
			 strerror(-err), xp_failure_remedy(err));
	return err;
}

bool xp_sampling_has_file(const struct xp_sampling *sampling)
{
	return xp_perf_out_counts(sampling->samples.perf).bytes;
}

int xp_sampling_finish(struct xp_sampling *sampling)
{
	struct xp_samples *samples = &sampling->samples;
	int err, perf_err;

	if (!sampling->sampler)
		return 0;
	err = xp_samples_drain(samples);
	if (err)
		xp_error("the samples are not complete: %s%s", strerror(-err), xp_failure_remedy(err));
	/* Finish perf.data before the names are written, because that frees space. */
	perf_err = finish_perf(samples);
	err = xp_samples_store_names(samples) ?: err;
	return perf_err ?: err;
}
