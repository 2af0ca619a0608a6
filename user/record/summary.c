/* SPDX-License-Identifier: BSD-2-Clause */
/* The messages at the end of a recording. */
#include <inttypes.h>
#include <signal.h>
#include <string.h>

#include "store/sym_dir.h"
#include "record/calls_text.h"
#include "record/recording.h"

/* Ignore missed periods if there are few or fewer than one in this many: both ends of a recording cut a period. */
#define MISSED_WORTH_TELLING 30
#define MISSED_FEW 10

void xp_recording_totals(const struct xp_recording *recording, struct xp_totals *totals)
{
	const struct xp_perf_out_counts written = xp_perf_out_counts(recording->sampling.samples.perf);
	struct xp_off_cpu_totals waits;

	memset(totals, 0, sizeof(*totals));
	for (const struct xp_process *process = recording->targets.processes.first; process; process = process->next) {
		xp_counts_add(&totals->counts, &process->sums.counts);
		totals->threads += process->sums.thread_count;
		totals->processes++;
	}
	for (size_t i = 0; i < recording->targets.processes.threads.count; i++) {
		const struct xp_thread *thread = recording->targets.processes.threads.entries[i].pointer;

		xp_counts_add(&totals->counts, &thread->counts);
		totals->threads += thread->first == thread;
	}
	totals->lost_ring = xp_bpf_side_lost(&recording->bpf, 0, XP_EVENT_GO_EXIT) + recording->bpf.missed;
	totals->samples_lost = xp_bpf_side_lost(&recording->bpf, XP_EVENT_SAMPLE, XP_EVENT_SAMPLE);
	totals->usdt = written.usdt;
	totals->usdt_lost = xp_bpf_side_lost(&recording->bpf, XP_EVENT_USDT, XP_EVENT_USDT) +
			    recording->sampling.samples.usdt - totals->usdt;
	totals->switches_lost = xp_bpf_side_lost(&recording->bpf, XP_EVENT_SWITCH, XP_EVENT_SWITCH);
	for (unsigned int cpu = 0; cpu < recording->bpf.programs.cpus; cpu++)
		totals->idle += recording->bpf.counters[cpu].idle;
	xp_off_cpu_totals(&recording->off_cpu, &waits);
	totals->waits_lost = waits.lost;
	totals->samples = written.samples;
	totals->samples_lost += recording->sampling.samples.samples - totals->samples;
	if (recording->sampling.sampler)
		totals->missed = xp_sampler_periods(recording->sampling.sampler);
	totals->missed -= XP_MIN(totals->missed, totals->samples + totals->samples_lost + totals->idle);
	totals->lost = totals->lost_ring + totals->counts.unstored;
	totals->filtered = xp_counts_filtered(&totals->counts) + recording->targets.other_process;
	totals->seen = totals->counts.seen + recording->targets.other_process + totals->lost_ring;
}

uint64_t xp_summary_duration_ns(const struct xp_recording *recording)
{
	return xp_clock_ns(recording->clock, recording->targets.processes.stop_tsc - recording->targets.run_tsc);
}

bool xp_summary_has_other_version(const struct xp_recording *recording, const struct xp_process *process)
{
	return process->log.name[0] && process->log.version != recording->options->fdr_version;
}

/* Prints the llvm-xray command for a log. Names come from the side ELF, or from the program's file in sym/. */
static void print_account(const struct xp_recording *recording, const struct xp_process *process, const char *log_name)
{
	const struct xp_sym_files *sym = recording->sampling.samples.sym_files;
	const struct xp_object *program = process->functions.main_object;
	const char *names = sym && program ? xp_sym_binary_name(xp_sym_files_stored(sym, program->fd)) : NULL;
	const char *dir = recording->outdir.path;
	struct xp_shell_path log, map;

	xp_shell_path(&log, "%s/%s", dir, log_name);
	if (process->log.side_name[0])
		xp_shell_path(&map, "%s/%s", dir, process->log.side_name);
	else if (names)
		xp_shell_path(&map, "%s/" XP_SYM_DIR_NAME "/%s", dir, names);
	else
		xp_shell_path(&map, "%s", process->exe);
	xp_put_line(stderr, "    llvm-xray account %s -instr_map=%s", log.text, map.text);
}

#define SIZE_TEXT_BYTES 32

/* Formats a size; a small log must not appear as 0.0 MB. */
static const char *size_text(char to[SIZE_TEXT_BYTES], uint64_t bytes)
{
	if (bytes < 100000)
		snprintf(to, SIZE_TEXT_BYTES, "%.1f KB", (double)bytes / 1e3);
	else
		snprintf(to, SIZE_TEXT_BYTES, "%.1f MB", (double)bytes / 1e6);
	return to;
}

/* Prints the log with the most records, and the commands for it. */
static void print_logs(const struct xp_recording *recording)
{
	const struct xp_process *most = NULL;
	const char *dir = recording->outdir.path;
	char others[64] = "", size[SIZE_TEXT_BYTES];
	size_t count = 0;

	for (const struct xp_process *process = recording->targets.processes.first; process; process = process->next) {
		count += process->log.name[0] != 0;
		if (process->log.name[0] && (!most || process->sums.counts.written > most->sums.counts.written))
			most = process;
	}
	if (!most)
		return;
	if (count > 1)
		snprintf(others, sizeof(others), ", the one of %zu logs with the most records", count);
	xp_put_line(stderr, "  %s/%s  %s%s%s", dir, most->log.name, size_text(size, most->log.bytes),
		    xp_summary_has_other_version(recording, most) ? ", version 5: it has typed events" : "", others);
	print_account(recording, most, most->log.name);
}

/* Prints the gperftools profile with the most samples, or waits, and the command for it. */
static void print_profile(const struct xp_recording *recording, bool waits)
{
	const struct xp_sampled_processes *processes = &recording->sampling.samples.processes;
	const char *dir = recording->outdir.path;
	const struct xp_image *most = NULL;
	struct xp_shell_path path;
	char name[XP_FILE_PROFILE_BYTES];
	uint64_t count = 0;

	for (size_t i = 0; i < processes->image_count; i++) {
		const struct xp_image *image = processes->images[i];
		uint64_t its_count = waits ? image->waits : image->samples;

		if (its_count > count || (!most && !waits)) {
			most = image;
			count = its_count;
		}
	}
	if (!most || !xp_sampling_has_file(&recording->sampling))
		return;
	xp_sampled_profile_name(name, most, waits ? XP_WAIT_PROFILE_SUFFIX : XP_PROFILE_SUFFIX);
	xp_put_line(stderr, "  %s/%s  %" PRIu64 " %s%s", dir, name, count, waits ? "wait" : "sample",
		    xp_plural_s(count));
	xp_put_line(stderr, "    go tool pprof -top %s", xp_shell_path(&path, "%s/%s", dir, name));
}

/* Prints the next commands to type: xprof's own, which read all files of a recording. */
static void print_next(const struct xp_recording *recording, const struct xp_totals *totals)
{
	const char *dir = recording->outdir.path;
	uint64_t waits = recording->sampling.samples.waits;
	struct xp_shell_path path;
	bool has_calls = false;

	for (const struct xp_process *process = recording->targets.processes.first; process; process = process->next)
		has_calls |= process->log.name[0] != 0;
	if (!has_calls && !totals->samples && !waits && !totals->usdt)
		return;
	xp_shell_path(&path, "%s", dir);
	if (strcmp(dir, XP_RECORDING_DEFAULT) == 0) /* which these commands read by default */
		path.text[0] = 0;
	xp_put_line(stderr, "  next:");
	xp_put_line(stderr, "    xprof report %-12s  # tables of functions", path.text);
	if (has_calls || totals->samples || waits)
		xp_put_line(stderr, "    xprof view %-14s  # a page in the browser", path.text);
	if (has_calls && waits)
		xp_put_line(stderr, "    xprof explain %-11s  # why the slowest calls were slow", path.text);
}

/* Sums up the contents of all jitdumps. */
static struct xp_jit_dump_out_counts count_jitdumps(const struct xp_recording *recording)
{
	struct xp_jit_dump_out_counts all = { 0 };

	for (size_t i = 0; i < recording->sampling.samples.processes.image_count; i++) {
		const struct xp_image *image = recording->sampling.samples.processes.images[i];
		struct xp_jit_dump_out_counts dump = { 0 };

		if (!image->jit || !xp_jit_dump(image->jit, &dump))
			continue;
		all.functions += dump.functions;
		all.functions_lost += dump.functions_lost;
		all.bytes += dump.bytes;
	}
	return all;
}

static void print_perf(const struct xp_recording *recording)
{
	const struct xp_jit_dump_out_counts jit = count_jitdumps(recording);
	const struct xp_perf_out *perf = recording->sampling.samples.perf;
	const struct xp_perf_out_counts written = xp_perf_out_counts(perf);
	const char *dir = recording->outdir.path, *name = XP_PERF_DATA_NAME;
	struct xp_shell_path path, injected;
	char waits[48] = "", usdt[48] = "", size[SIZE_TEXT_BYTES];
	uint64_t wait_count = recording->sampling.samples.waits, hits = written.usdt;

	if (jit.functions_lost)
		xp_warn("%" PRIu64 " function%s not in the jitdumps: too large, or the jitdump or the disk was full",
			jit.functions_lost, xp_plural_s_are(jit.functions_lost));
	if (jit.bytes)
		xp_put_line(stderr, "  %s/jit-*.dump  %" PRIu64 " function%s, %s", dir, jit.functions,
			    xp_plural_s(jit.functions), size_text(size, jit.bytes));
	if (!perf || !(written.samples + wait_count + hits))
		return;
	if (recording->off_cpu.on)
		snprintf(waits, sizeof(waits), ", %" PRIu64 " wait%s", wait_count, xp_plural_s(wait_count));
	if (recording->options->usdt.count)
		snprintf(usdt, sizeof(usdt), ", %" PRIu64 " hit%s of USDT probes", hits, xp_plural_s(hits));
	xp_put_line(stderr, "  %s/%s  %" PRIu64 " sample%s%s%s, %s%s", dir, name, written.samples,
		    xp_plural_s(written.samples), waits, usdt, size_text(size, written.bytes),
		    xp_perf_out_is_compressed(perf) && !recording->options->compress
			? ", compressed: only perf reads it (others: --no-compression)"
			: "");
	xp_shell_path(&path, "%s/%s", dir, name);
	if (jit.bytes) {
		xp_shell_path(&injected, "%s/perf.jit.data", dir);
		xp_put_line(stderr, "    perf inject --jit -i %s -o %s", path.text, injected.text);
		path = injected;
	}
	xp_put_line(stderr, "    perf report -i %s", path.text);
	if (hits)
		xp_put_line(stderr, "    perf script -F comm,tid,time,event,bpf-output -i %s", path.text);
}

/* A log of a killed process, or of a slow call, is preferred; otherwise the newest log. */
static bool is_more_wanted(const struct xp_flight_log *log, const struct xp_flight_log *than)
{
	if ((log->cause == XP_FLIGHT_KILLED) != (than->cause == XP_FLIGHT_KILLED))
		return log->cause == XP_FLIGHT_KILLED;
	if ((log->cause == XP_FLIGHT_TRIGGER) != (than->cause == XP_FLIGHT_TRIGGER))
		return log->cause == XP_FLIGHT_TRIGGER;
	return log->at_tsc >= than->at_tsc;
}

/* Prints one log of the flight recorders and the calls at its end; the others are in the directory. */
static void print_flights(const struct xp_recording *recording)
{
	const struct xp_flight_log *log = NULL;
	const struct xp_process *whose = NULL;
	char calls[XP_FLIGHT_TEXT_BYTES], killed[64] = "", others[48] = "", size[SIZE_TEXT_BYTES];
	const char *before = "";
	size_t count = 0;

	for (const struct xp_process *process = recording->targets.processes.first; process; process = process->next)
		for (size_t i = 0; i < process->flights.count; i++) {
			const struct xp_flight_log *other = &process->flights.logs[i];

			if (other->error)
				continue;
			count++;
			if (log && !is_more_wanted(other, log))
				continue;
			log = other;
			whose = process;
		}
	if (!log)
		return;
	if (count > 1)
		snprintf(others, sizeof(others), ", one of %zu logs", count);
	if (log->cause == XP_FLIGHT_KILLED)
		snprintf(killed, sizeof(killed), ", killed by SIG%s", sigabbrev_np(log->signal) ?: "?");
	xp_flight_text(calls, sizeof(calls), whose, log);
	if (calls[0] && !killed[0])
		before = log->cause == XP_FLIGHT_TRIGGER ? ", " : ", ends";
	size_text(size, log->bytes);
	xp_put_line(stderr, "  %s/%s  %s%s%s%s%s", recording->outdir.path, log->name, size, others, killed, before,
		    calls);
	print_account(recording, whose, log->name);
}

/* Prints how many user stacks lack their outer frames, and why. */
static void print_stacks(const struct xp_recording *recording)
{
	uint64_t ends[XP_UNWIND_ENDS];
	char text[XP_UNWIND_ENDS_TEXT_BYTES];

	xp_samples_stacks(&recording->sampling.samples, ends);
	if (!xp_unwind_ends_text(text, ends))
		return;
	if (xp_unwind_ends_lack_many(ends))
		xp_warn("%s", text);
	else
		xp_info("%s", text);
}

#define REASONS_BYTES 512

static void add_reason(char to[REASONS_BYTES], uint64_t count, const char *text)
{
	size_t used = strlen(to);

	if (count)
		snprintf(to + used, REASONS_BYTES - used, "%s%" PRIu64 " %s", used ? " + " : "", count, text);
}

/* Prints the counts of waits, and how threads spent their time. */
static void print_waits(const struct xp_off_cpu *off_cpu)
{
	struct xp_off_cpu_totals totals;
	char reasons[REASONS_BYTES] = "";
	double running;

	xp_off_cpu_totals(off_cpu, &totals);
	running = totals.span_ns - totals.blocked_ns - totals.runnable_ns;
	xp_info("%" PRIu64 " wait%s seen = %" PRIu64 " written + %" PRIu64 " filtered + %" PRIu64 " lost", totals.seen,
		xp_plural_s(totals.seen), totals.written, totals.too_short + totals.skipped, totals.lost);
	add_reason(reasons, totals.too_short, "shorter than the minimum");
	add_reason(reasons, totals.skipped, "not sampled, which the written waits represent");
	if (reasons[0])
		xp_info("  %" PRIu64 " filtered = %s", totals.too_short + totals.skipped, reasons);
	if (totals.missed)
		xp_info("  %" PRIu64 " more were not reported by the kernel; the times below include them",
			totals.missed);
	if (totals.span_ns > 0)
		xp_info("%zu thread%s: %.1f %% of the time running, %.1f %% runnable, %.1f %% blocked", totals.threads,
			xp_plural_s(totals.threads), 100 * running / totals.span_ns,
			100 * totals.runnable_ns / totals.span_ns, 100 * totals.blocked_ns / totals.span_ns);
}

static void print_samples(const struct xp_recording *recording, const struct xp_totals *totals)
{
	uint64_t seen = totals->samples + totals->samples_lost;
	size_t profiles =
	    xp_sampling_has_file(&recording->sampling) ? recording->sampling.samples.processes.image_count : 0;

	xp_info("%.1f s: %" PRIu64 " sample%s seen = %" PRIu64 " written + %" PRIu64 " lost; %zu profile%s",
		xp_summary_duration_ns(recording) / 1e9, seen, xp_plural_s(seen), totals->samples, totals->samples_lost,
		profiles, xp_plural_s(profiles));
	if (totals->missed > XP_MAX((seen + totals->missed) / MISSED_WORTH_TELLING, (uint64_t)MISSED_FEW))
		xp_warn("%" PRIu64
			" period%s of the threads' CPU time without a sample: interrupts were off, a hypervisor "
			"had the CPU, or threads lived for less than a period",
			totals->missed, xp_plural_s(totals->missed));
	if (!seen && !recording->off_cpu.on)
		xp_info("no samples: the threads used little CPU time; --off-cpu records where threads wait");
	if (recording->options->switch_events)
		xp_info("%" PRIu64 " switch%s of threads seen = %" PRIu64 " written + %" PRIu64 " lost",
			recording->sampling.switches + totals->switches_lost,
			xp_plural_es(recording->sampling.switches + totals->switches_lost),
			recording->sampling.switches, totals->switches_lost);
	if (recording->sampling.samples.stacks)
		print_stacks(recording);
}

/* Prints the calls that could not be recorded in memory and went through the kernel. */
static void print_fallen(const struct xp_recording *recording, const struct xp_totals *totals)
{
	uint64_t no_ring = 0, full = 0;

	for (const struct xp_process *process = recording->targets.processes.first; process; process = process->next) {
		no_ring += process->fallen.no_ring;
		full += process->fallen.full;
	}
	if (no_ring + full)
		xp_info("  %" PRIu64 " of %" PRIu64 " events were recorded through the kernel: %" PRIu64
			" of threads without a call ring, %" PRIu64 " with a full one",
			no_ring + full, totals->counts.in_memory + no_ring + full, no_ring, full);
}

/* Prints why events are not in the logs. */
static void print_filtered(const struct xp_recording *recording, const struct xp_totals *totals)
{
	static const char *const texts[XP_FILTERS] = {
		[XP_FILTER_UNMATCHED_EXIT] = "exits without an entry",
		[XP_FILTER_MIN_DURATION] = "of calls shorter than --min-duration",
		[XP_FILTER_TOO_DEEP] = "of too deep calls",
		[XP_FILTER_OUTSIDE] = "while sleds were attached or detached",
	};
	char reasons[REASONS_BYTES] = "";

	for (int i = 0; i < XP_FILTERS; i++)
		add_reason(reasons, totals->counts.filtered[i], texts[i]);
	add_reason(reasons, recording->targets.other_process, "of other processes");
	if (reasons[0])
		xp_info("  %" PRIu64 " filtered = %s", totals->filtered, reasons);
}

static void print_figures(const struct xp_recording *recording, const struct xp_totals *totals)
{
	double seconds = xp_summary_duration_ns(recording) / 1e9;
	char overwritten[48] = "";

	if (recording->options->flight_bytes)
		snprintf(overwritten, sizeof(overwritten), " + %" PRIu64 " overwritten", totals->counts.overwritten);
	if (recording->targets.probes.any_attached || totals->seen || !recording->sampling.sampler)
		xp_info("%.1f s, %zu process%s, %zu thread%s: %" PRIu64 " event%s seen = %" PRIu64 " written + %" PRIu64
			" filtered + %" PRIu64 " lost%s",
			seconds, totals->processes, xp_plural_es(totals->processes), totals->threads,
			xp_plural_s(totals->threads), totals->seen, xp_plural_s(totals->seen), totals->counts.written,
			totals->filtered, totals->lost, overwritten);
	print_filtered(recording, totals);
	print_fallen(recording, totals);
	if (recording->sampling.sampler)
		print_samples(recording, totals);
	if (recording->options->usdt.count)
		xp_info("%" PRIu64 " hit%s of USDT probes seen = %" PRIu64 " written + %" PRIu64 " lost",
			totals->usdt + totals->usdt_lost, xp_plural_s(totals->usdt + totals->usdt_lost), totals->usdt,
			totals->usdt_lost);
	if (recording->off_cpu.on)
		print_waits(&recording->off_cpu);
}

/* Prints when a budget was exceeded, or why. */
static void explain_excess(const struct xp_recording *recording)
{
	const struct xp_throttle *throttle = recording->targets.probes.throttle;
	double share = recording->options->max_overhead, first, rest = xp_throttle_settled(throttle, &first);
	double excess = 100 * xp_throttle_spent(throttle);

	if (xp_throttle_spent(throttle) <= 1.2 * share)
		return;
	if (xp_throttle_stuck(throttle))
		xp_warn(
		    "the budget of %.3g %% was exceeded: functions could not be throttled in all processes (see above)",
		    100 * share);
	else if (rest < 0)
		xp_warn("the budget of %.3g %% was exceeded (%.1f %%): the recording ended before the functions that "
			"are called "
			"most were throttled; record for longer, or fewer functions with --functions",
			100 * share, excess);
	else if (rest <= share)
		xp_warn("the budget of %.3g %% was exceeded in the first %g s (%.1f %%), before the functions that are "
			"called "
			"most were throttled; after that it was kept (%.1f %%)",
			100 * share, XP_THROTTLE_FIRST_NS / 1e9, 100 * first, 100 * rest);
	else if (xp_throttle_stopped(throttle) > share / 2)
		xp_warn(
		    "the budget of %.3g %% was exceeded: to throttle functions, the target was stopped for %.1f %% of "
		    "its time; record fewer functions with --functions",
		    100 * share, 100 * xp_throttle_stopped(throttle));
	else
		xp_warn("the budget of %.3g %% was exceeded: other functions were called most before they could be "
			"throttled; "
			"record fewer functions with --functions",
			100 * share);
}

/* Prints the call modes, unless all calls were in memory. With --call-mode auto, earlier messages give the reasons. */
static void print_modes(const struct xp_recording *recording)
{
	size_t memory = 0, patched = 0, probed = 0;

	for (const struct xp_process *process = recording->targets.processes.first; process; process = process->next) {
		bool in_memory = process->functions.range_count, by_patches = in_memory;

		for (size_t i = 0; i < process->functions.range_count; i++) {
			const struct xp_sled_result *sleds = &process->functions.ranges[i].sleds;

			in_memory &= sleds->memory;
			by_patches &= sleds->mode == XP_SLEDS_PATCHED;
		}
		memory += in_memory;
		patched += by_patches && !in_memory;
		probed += process->functions.range_count && !by_patches;
	}
	if (recording->plan.memory && patched + probed &&
	    (memory || recording->options->call_mode == XP_CALL_MODE_OPTION_MEMORY))
		xp_info("calls recorded in memory: of %zu processes; by patched sleds: of %zu; by probes: of %zu",
			memory, patched, probed);
}

/* Prints how many functions are omitted because they would need probes. */
static void print_unpatchable(const struct xp_recording *recording)
{
	size_t count = 0;

	for (const struct xp_object *object = recording->targets.objects.first; object; object = object->next)
		count += object->unpatchable;
	if (count)
		xp_info(
		    "budget: %zu function%s with conditional tail exits %s not recorded, because they require probes",
		    count, xp_plural_s(count), count == 1 ? "was" : "were");
}

/* Prints the function that was throttled for the longest time, and how many functions were throttled. */
static void print_budget(const struct xp_recording *recording)
{
	const struct xp_throttled *all, *most = NULL;
	size_t out = 0;
	char text[512] = "no function was throttled";
	struct xp_short_text name;

	if (!recording->targets.probes.throttle)
		return;
	for (const struct xp_object *object = recording->targets.objects.first; object; object = object->next) {
		all = xp_throttle_functions(recording->targets.probes.throttle, object);
		for (size_t i = 0; all && i < object->table->function_count; i++) {
			out += all[i].times > 0;
			if (all[i].times && (!most || all[i].out_ticks > most->out_ticks))
				most = &all[i];
		}
	}
	if (most)
		snprintf(text, sizeof(text), "%zu function%s throttled, %s for %.1f s%s", out,
			 out == 1 ? " was" : "s were", xp_object_function_text(&name, most->object, most->function_id),
			 XP_MIN(xp_clock_ns(recording->clock, most->out_ticks), xp_summary_duration_ns(recording)) /
			     1e9,
			 out > 1 ? " (`xprof report` has all)" : "");
	explain_excess(recording);
	xp_info("budget %.3g %%: recording took about %.1f %% of the CPU time; %s",
		100 * recording->options->max_overhead, 100 * xp_throttle_spent(recording->targets.probes.throttle),
		text);
	print_unpatchable(recording);
}

static void print_triggers(const struct xp_recording *recording)
{
	const struct xp_triggers *triggers = &recording->targets.processes.triggers;
	struct xp_short_text text;
	char share[64];

	for (size_t i = 0; i < triggers->count; i++) {
		const struct xp_trigger *trigger = &triggers->list[i];

		snprintf(share, sizeof(share), ", %" PRIu64 " beyond the share of their process",
			 trigger->beyond_share);
		if (!trigger->beyond_share)
			share[0] = 0;
		xp_info("--trigger '%s': %" PRIu64 " call%s took longer: %" PRIu64 " log%s, %" PRIu64
			" in the log of an earlier one, %" PRIu64 " beyond %zu log%s a minute%s",
			xp_short_text(&text, trigger->text), trigger->calls, xp_plural_s(trigger->calls), trigger->logs,
			xp_plural_s(trigger->logs), trigger->shared, trigger->beyond, triggers->limit,
			xp_plural_s(triggers->limit), share);
	}
}

static void print_busy(const struct xp_recording *recording)
{
	if (recording->targets.probes.busy > 1)
		xp_warn("the sleds of %zu programs were not recorded: the kernel was busy and refused the probes; "
			"record again",
			recording->targets.probes.busy);
}

/* Suggests --functions if it would have recorded calls and nothing else was recorded. */
static void suggest_functions(const struct xp_recording *recording)
{
	const struct xp_options *options = recording->options;

	if (recording->plan.sleds && recording->plan.samples && !recording->targets.probes.any_attached &&
	    !options->functions.count && !recording->plan.all_processes)
		xp_info("no calls were recorded: no program with XRay sleds ran; --functions records selected "
			"functions of any program");
}

void xp_summary_print_part(const struct xp_recording *recording, const struct xp_totals *totals)
{
	uint64_t lost =
	    totals->lost + totals->samples_lost + totals->switches_lost + totals->waits_lost + totals->usdt_lost;

	xp_info("%s: %.1f s, %" PRIu64 " sample%s, %" PRIu64 " event%s, %" PRIu64 " lost", recording->outdir.path,
		xp_summary_duration_ns(recording) / 1e9, totals->samples, xp_plural_s(totals->samples),
		totals->counts.written, xp_plural_s(totals->counts.written), lost);
}

void xp_summary_print(const struct xp_recording *recording, const struct xp_totals *totals)
{
	if (xp_log_level < XP_LOG_NORMAL)
		return;
	print_figures(recording, totals);
	print_modes(recording);
	suggest_functions(recording);
	print_busy(recording);
	print_budget(recording);
	print_triggers(recording);
	print_next(recording, totals);
	print_logs(recording);
	print_flights(recording);
	print_profile(recording, false);
	print_profile(recording, true);
	print_perf(recording);
}
