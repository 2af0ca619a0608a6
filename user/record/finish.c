/* SPDX-License-Identifier: BSD-2-Clause */
/* The end of a recording: detaches everything, reads the remaining events, and writes the files. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/command_line.h"
#include "base/interrupt.h"
#include "base/util.h"
#include "record/manifest.h"
#include "record/messages.h"
#include "record/recording.h"

/* Counts sleds on which XRay's runtime has overwritten our probes: they record no more events. */
static void check_overwritten(struct xp_targets *targets)
{
	for (struct xp_process *process = targets->processes.first; process; process = process->next) {
		/* The counts are not those of a program that the process has executed since. */
		if (!process->live || process->attaching.inherits_from ||
		    process->attaching.execs != xp_programs_execs(targets->programs, process->pid))
			continue;
		for (size_t i = 0; i < process->functions.range_count; i++) {
			struct xp_range *range = &process->functions.ranges[i];

			range->overwritten =
			    range->sleds.mode == XP_SLEDS_PATCHED
				? xp_patch_overwritten(targets->probes.patch, range->object, process->pid)
				: xp_sleds_overwritten(range->object, process->pid);
			range->overwritten -= XP_MIN(range->overwritten, range->sleds.patched);
			if (range->overwritten)
				xp_warn("%s: XRay's runtime patched %zu sled%s in process %d during the recording; "
					"events are missing from then on",
					range->object->path, range->overwritten, xp_plural_s(range->overwritten),
					process->pid);
		}
	}
}

/* Fill level in percent at which a ring is read during the end. */
#define ROOM_FILL 25

struct taking {
	struct xp_recording *recording;
	int err;
};

/* Does not delay a second signal, which aborts xprof: records that find no space then are lost. */
static void make_room(void *arg)
{
	struct taking *taking = arg;

	if (!taking->err && xp_merge_fill(taking->recording->bpf.merge) >= ROOM_FILL && !xp_interrupted())
		taking->err = xp_run_make_room(taking->recording);
}

int xp_finish_stop(struct xp_recording *recording)
{
	struct taking taking = { .recording = recording };
	uint64_t begin = xp_clock_now_tsc();

	/* From here on, lost events are outside of the recording, like records: see `outside`. */
	recording->targets.processes.stop_tsc = begin;
	xp_off_cpu_stop(&recording->off_cpu, make_room, &taking);
	recording->targets.probes.stopped = true;
	xp_bpf_side_read_losses(&recording->bpf);
	xp_follow_release(&recording->targets);
	if (recording->targets.probes.throttle)
		xp_throttle_stop(recording->targets.probes.throttle);
	check_overwritten(&recording->targets);
	if (recording->targets.probes.patch) {
		xp_patch_restore(recording->targets.probes.patch);
		recording->targets.probes.stopped_ns =
		    xp_patch_stopped_ns(recording->targets.probes.patch, &recording->targets.probes.longest_stop_ns);
	}
	recording->targets.probes.detach_ns = xp_clock_ns(recording->clock, xp_clock_now_tsc() - begin);
	return taking.err;
}

int xp_finish_detach(struct xp_recording *recording)
{
	uint64_t begin = xp_clock_now_tsc();
	int err;

	if (recording->sampling.sampler)
		xp_sampler_stop(recording->sampling.sampler);
	xp_programs_detach_switches(&recording->bpf.programs);
	if (recording->targets.probes.throttle)
		xp_throttle_end(recording->targets.probes.throttle);
	xp_attach_detach_all(recording->targets.probes.attach);
	xp_interrupt_abort_by_next();
	recording->targets.probes.detach_ns += xp_clock_ns(recording->clock, xp_clock_now_tsc() - begin);
	err = xp_run_drain(recording);
	if (recording->targets.probes.patch)
		xp_patch_clear(recording->targets.probes.patch);
	/* Nothing can be lost any more, so lower the priority: the target need not wait until the files are written. */
	if (setpriority(PRIO_PROCESS, 0, recording->own_nice))
		xp_debug("xprof keeps the reader's priority: %s", strerror(errno));
	/* Before logs are finished: calls of functions that were just throttled must not get invented exits. */
	if (recording->targets.probes.throttle)
		xp_throttle_drained(recording->targets.probes.throttle);
	return err;
}

/* Passes all records in the flight recorders to the writer, and waits for it. */
static int finish_flights(struct xp_recording *recording)
{
	int err = 0;

	if (!recording->options->flight_bytes)
		return 0;
	for (struct xp_process *process = recording->targets.processes.first; process; process = process->next)
		err = xp_process_finish(process) ?: err;
	return xp_run_collect_flights(recording, true) ?: err;
}

/* Stores the names of the binaries with calls. Binaries with samples are stored with perf.data. */
static int store_binaries(struct xp_recording *recording)
{
	struct xp_sym_files **sym = &recording->sampling.samples.sym_files;
	const struct xp_sym_binary *binary;
	int err = *sym ? 0 : xp_sym_files_new(sym, recording->outdir.fd, recording->rotation.shared_fd);

	for (struct xp_process *process = recording->targets.processes.first; !err && process;
	     process = process->next) {
		if (!process->log.name[0] && !process->flights.count)
			continue;
		for (size_t i = 0; !err && i < process->functions.range_count; i++) {
			const struct xp_object *object = process->functions.ranges[i].object;

			err = xp_sym_files_store(*sym, object->fd, object->path, &binary);
		}
	}
	return err;
}

static int make_files(struct xp_recording *recording)
{
	int first, err;

	xp_clock_update(recording->clock);
	first = finish_flights(recording);
	for (struct xp_process *process = recording->targets.processes.first; process; process = process->next) {
		struct xp_shell_path dir;

		if (!process->functions.range_count)
			continue;
		err = xp_process_finish(process);
		if (err && process->log.spool_name[0] && !process->log.name[0] && !recording->options->flight_bytes)
			xp_error("cannot write the log of process %d (%s): %s; remove the cause, then run `xprof "
				 "recover %s`",
				 process->pid, process->comm, strerror(-err),
				 xp_shell_path(&dir, "%s", recording->outdir.path));
		else if (err)
			xp_error("the log of process %d (%s) is incomplete: %s%s", process->pid, process->comm,
				 strerror(-err), xp_failure_remedy(err));
		first = first ?: err;
	}
	err = store_binaries(recording);
	first = first ?: err;
	err = xp_sampling_finish(&recording->sampling);
	first = first ?: err;
	err = xp_side_lines_add(&recording->targets);
	return first ?: err;
}

static int write_manifest(const struct xp_recording *recording, const struct xp_totals *totals, int reserved_fd)
{
	char **argv = xp_command_line_read();
	int err = -ENOMEM;

	if (argv)
		err = xp_manifest_write(recording, totals, argv, reserved_fd);
	else
		xp_manifest_release(recording->outdir.fd, reserved_fd);
	free(argv);
	return err;
}

/* --strict */
static int refuse_losses(const struct xp_totals *totals)
{
	if (!(totals->lost + totals->samples_lost + totals->switches_lost + totals->waits_lost + totals->usdt_lost))
		return XP_EXIT_OK;
	xp_error("lost (--strict): %" PRIu64 " event%s, %" PRIu64 " sample%s, %" PRIu64 " switch%s and %" PRIu64
		 " wait%s of threads",
		 totals->lost + totals->usdt_lost, xp_plural_s(totals->lost + totals->usdt_lost), totals->samples_lost,
		 xp_plural_s(totals->samples_lost), totals->switches_lost, xp_plural_es(totals->switches_lost),
		 totals->waits_lost, xp_plural_s(totals->waits_lost));
	return XP_EXIT_LOST;
}

int xp_finish_store(struct xp_recording *recording, int code)
{
	struct xp_totals totals;
	int reserved_fd = xp_manifest_reserve(recording->outdir.fd, xp_manifest_bytes(recording));
	int err = make_files(recording);

	if (err && code == XP_EXIT_OK)
		code = xp_failure_exit_code(err);
	xp_recording_totals(recording, &totals);
	err = write_manifest(recording, &totals, reserved_fd);
	if (err) {
		xp_error("cannot write manifest.json: %s%s", strerror(-err), xp_failure_remedy(err));
		code = code == XP_EXIT_OK ? XP_EXIT_FAILED : code;
	}
	if (recording->options->rotate.given)
		xp_summary_print_part(recording, &totals);
	else
		xp_summary_print(recording, &totals);
	return code == XP_EXIT_OK && recording->options->strict ? refuse_losses(&totals) : code;
}

void xp_finish_kill(struct xp_recording *recording)
{
	struct xp_launch *launch = &recording->targets.command.launch;

	if (!launch->pid || launch->ended)
		return;
	kill(launch->pid, SIGKILL);
	xp_launch_wait(launch);
}

int xp_finish_command(struct xp_recording *recording, int code)
{
	struct xp_launch *launch = &recording->targets.command.launch;

	if (!launch->pid)
		return code;
	xp_launch_poll(launch);
	if (!launch->ended)
		xp_info("the recording is complete; waiting for %s to end", recording->options->child_argv[0]);
	xp_launch_wait(launch);
	return (code == XP_EXIT_OK && launch->ended) || launch->not_executed ? xp_launch_exit_code(launch) : code;
}
