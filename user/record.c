/* SPDX-License-Identifier: BSD-2-Clause */
#include "record.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "preflight.h"
#include "progress.h"
#include "util.h"

/* The reader polls: a wake-up per record costs microseconds. Within these bounds it looks oftener as rings fill. */
#define POLL_MIN_MS 1
#define POLL_MAX_MS 20
#define SCAN_TRIES 5
#define SCAN_PAUSE_US 2000
#define HOUSEKEEPING_NS XP_NS_PER_S

/* Events of the epoll set. */
enum source {
	SOURCE_SIGNAL,
	SOURCE_RING,
};

/* A process may be gone before it could be looked at. Of those that nothing was known of, only --exec wants any. */
static int adopt(struct xp_recording *rec, const struct xp_rec *record, uint64_t tsc)
{
	struct xp_process *process = xp_processes_find(&rec->processes, record->pid);
	int err = -ENOENT;

	if (!process && !rec->options->exec_path)
		return -ENOENT;
	if (!process)
		err = xp_follow_add(rec, &process, record->pid, tsc);
	return err ? xp_follow_adopt(rec, record, "unknown", tsc) : 0;
}

static int take(struct xp_recording *rec, const struct xp_rec *record, size_t size, unsigned int cpu, uint64_t tsc)
{
	enum xp_rec_kind kind = xp_rec_kind(record);
	int err;

	if (kind >= XP_REC_EXEC)
		return xp_follow_task(rec, record, size, tsc);
	if (kind == XP_REC_ENTRY_ARGS && size < sizeof(struct xp_rec_args))
		return -EBADMSG;
	err = xp_processes_record(&rec->processes, record, cpu, tsc);
	if (err == -ENOENT) {
		err = adopt(rec, record, tsc);
		if (!err)
			err = xp_processes_record(&rec->processes, record, cpu, tsc);
	}
	if (err == -ENOENT) {
		rec->other_process++;
		return 0;
	}
	return err;
}

static int sink(void *arg, const struct xp_rec *record, size_t size, unsigned int cpu, uint64_t tsc)
{
	struct xp_recording *rec = arg;
	int err = take(rec, record, size, cpu, tsc);

	rec->by_ktime += record->time >> 63;
	/* What was refused on the way (an object without sleds) does not explain a later error. */
	if (!err)
		rec->why[0] = 0;
	return err;
}

/* SIGINT of the terminal is the command's, when there is one: xprof ends when it does. */
static int block_signals(const struct xp_recording *rec)
{
	sigset_t signals, writes;

	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGHUP);
	sigaddset(&signals, SIGCHLD);
	if (sigprocmask(SIG_BLOCK, &signals, NULL))
		return -errno;
	if (rec->options->child_argv)
		sigdelset(&signals, SIGINT);
	/* Failed writes are heard of by EPIPE and EFBIG. Blocked, not ignored: that the command would inherit. */
	sigemptyset(&writes);
	sigaddset(&writes, SIGPIPE);
	sigaddset(&writes, SIGXFSZ);
	if (sigprocmask(SIG_BLOCK, &writes, NULL))
		return -errno;
	return signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* From here on a second signal ends xprof at once; the spools stay for `xprof recover`. */
static void unblock_signals(void)
{
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGHUP);
	sigprocmask(SIG_UNBLOCK, &signals, NULL);
}

static int watch(int epoll_fd, int fd, enum source source, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.u32 = source };

	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

static int open_epoll(const struct xp_recording *rec, int signal_fd)
{
	int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	int err;

	if (epoll_fd < 0)
		return -errno;
	err = watch(epoll_fd, signal_fd, SOURCE_SIGNAL, EPOLLIN);
	/* Edge-triggered: a ring that holds records is readable all the time, only a wake-up from BPF is an edge. */
	for (unsigned int cpu = 0; cpu < rec->rings->count && !err; cpu++)
		err = watch(epoll_fd, rec->rings->rings[cpu].map_fd, SOURCE_RING, EPOLLIN | EPOLLET);
	if (err) {
		close(epoll_fd);
		return err;
	}
	return epoll_fd;
}

static bool any_live(const struct xp_recording *rec)
{
	for (const struct xp_process *process = rec->processes.first; process; process = process->next)
		if (process->live)
			return true;
	return false;
}

static void read_losses(struct xp_recording *rec)
{
	rec->missed = xp_programs_missed(&rec->programs);
	if (xp_programs_counters(&rec->programs, rec->lost))
		xp_debug("cannot read the BPF side's counters");
}

static int housekeeping(struct xp_recording *rec, struct xp_progress *progress)
{
	struct xp_totals totals;
	int err = 0;

	if (xp_clock_update(rec->clock) > 0)
		err = xp_programs_set_clock(&rec->programs, rec->clock);
	xp_follow_check(rec);
	/* What a crash of xprof may cost: about a second. */
	if (!err)
		err = xp_processes_flush(&rec->processes);
	read_losses(rec);
	xp_recording_totals(rec, &totals);
	xp_progress_show(progress, totals.seen, totals.lost);
	return err;
}

/* How long to sleep after a pass that found the fullest ring `fill` percent full. */
static int next_poll_ms(int poll_ms, int fill)
{
	if (fill > 20)
		return XP_MAX(poll_ms / 2, POLL_MIN_MS);
	if (fill < 5)
		return XP_MIN(poll_ms * 2, POLL_MAX_MS);
	return poll_ms;
}

/* Until a signal, the end of the time, the end of all targets, or an error. */
static int run(struct xp_recording *rec, int signal_fd)
{
	uint64_t begin = rec->run_tsc = xp_clock_now_tsc();
	uint64_t end =
	    rec->options->duration_ns ? begin + xp_clock_ticks(rec->clock, rec->options->duration_ns) : UINT64_MAX;
	uint64_t next_housekeeping = begin;
	struct xp_progress progress;
	int epoll_fd = open_epoll(rec, signal_fd);
	int poll_ms = POLL_MAX_MS;
	int err = 0;

	if (epoll_fd < 0)
		return epoll_fd;
	xp_progress_begin(&progress);
	for (;;) {
		uint64_t now = xp_clock_now_tsc();
		struct epoll_event event;
		int fill;

		if (now >= end)
			break;
		if (now >= next_housekeeping) {
			err = housekeeping(rec, &progress);
			next_housekeeping = now + xp_clock_ticks(rec->clock, HOUSEKEEPING_NS);
		}
		fill = err ? err : xp_merge_pass(rec->merge, sink, rec);
		if (fill < 0) {
			err = fill;
			break;
		}
		if (!rec->options->exec_path && !any_live(rec))
			break;
		poll_ms = next_poll_ms(poll_ms, fill);
		if (end != UINT64_MAX)
			poll_ms = XP_MIN(poll_ms, (int)XP_MIN(xp_clock_ns(rec->clock, end - now) / 1000000 + 1, 1000u));
		if (epoll_wait(epoll_fd, &event, 1, poll_ms) == 1 && event.data.u32 == SOURCE_SIGNAL) {
			struct signalfd_siginfo info;

			if (read(signal_fd, &info, sizeof(info)) == sizeof(info) && info.ssi_signo != SIGCHLD)
				break;
		}
	}
	xp_progress_end(&progress);
	close(epoll_fd);
	return err;
}

/* Everything that does not touch the target yet. */
static int prepare(struct xp_recording *rec, const struct xp_preflight *preflight)
{
	const struct xp_options *options = rec->options;
	struct xp_programs_options programs = {
		.only_targets = options->follow && !options->exec_path,
		.follow_children = options->follow,
		.exec_inode = options->exec_path ? rec->exec_file.st_ino : 0,
		.args = options->args ? options->args : 1,
	};
	int err;

	rec->all_processes = options->follow || options->exec_path;
	rec->multi =
	    options->uprobes == XP_UPROBES_AUTO ? preflight->has_uprobe_multi : options->uprobes == XP_UPROBES_MULTI;
	rec->objects.patterns = options->functions.texts;
	rec->objects.pattern_count = options->functions.count;
	rec->start_tsc = xp_clock_now_tsc();
	rec->processes.clock = rec->clock;
	rec->processes.dir_fd = rec->outdir.fd;
	rec->processes.fdr_version = options->fdr_version;
	rec->processes.start_tsc = rec->start_tsc;
	rec->processes.min_ticks = xp_clock_ticks(rec->clock, options->min_duration_ns);
	err = xp_processes_init(&rec->processes);
	if (err || options->dry_run)
		return err;

	programs.uprobe_multi = rec->multi;
	err = xp_programs_open(&rec->programs, &programs);
	if (!err)
		err = xp_rings_open(&rec->rings, xp_programs_rings_fd(&rec->programs), options->buffer_bytes);
	if (!err)
		err = xp_programs_set_clock(&rec->programs, rec->clock);
	if (!err)
		err = xp_merge_new(&rec->merge, rec->rings, rec->clock);
	if (!err)
		err = xp_attach_new(&rec->attach, rec->multi);
	if (!err)
		err = xp_programs_attach_tasks(&rec->programs);
	rec->lost = calloc(rec->programs.cpus, sizeof(*rec->lost));
	if (!err && !rec->lost)
		err = -ENOMEM;
	if (err)
		snprintf(rec->why, sizeof(rec->why),
			 "cannot set up the BPF side: %s; `xprof doctor` tells what is "
			 "missing, -v shows the kernel's messages",
			 strerror(-err));
	return err;
}

static int attach_targets(struct xp_recording *rec)
{
	const struct xp_options *options = rec->options;
	struct xp_process *process;
	int err = 0;

	for (size_t i = 0; i < options->pids.count && !err; i++) {
		err = xp_follow_add(rec, &process, options->pids.pids[i], xp_clock_now_tsc());
		/* It may be in the middle of an exec, with nothing mapped yet. */
		for (int tries = 0; tries < SCAN_TRIES && !err && !process->range_count; tries++) {
			usleep(SCAN_PAUSE_US);
			err = xp_follow_scan(rec, process);
		}
	}
	if (options->exec_path && !err)
		err = xp_follow_exec_file(rec);
	if (options->child_argv && !err) {
		err = xp_launch_start(&rec->launch, options->child_argv, rec->why, sizeof(rec->why));
		if (!err)
			err = xp_follow_launch(rec);
	}
	return err;
}

/* Whether there is anything to record. With --exec, processes may come later; a command may execute another. */
static int check_attached(struct xp_recording *rec)
{
	size_t attached = 0, refused = 0, objects = 0;
	const struct xp_process *first = rec->processes.first;

	for (size_t i = 0; i < rec->attached_count; i++) {
		objects++;
		attached += rec->attached[i].sleds.attached;
		refused += rec->attached[i].sleds.patched + rec->attached[i].sleds.unreadable;
	}
	if (attached || rec->options->exec_path || (rec->options->child_argv && !objects))
		return 0;
	if (refused) {
		snprintf(rec->why, sizeof(rec->why), "no sled is left to attach: all are patched already; see above");
		return -EBUSY;
	}
	if (objects && rec->options->functions.count) {
		snprintf(rec->why, sizeof(rec->why),
			 "no instrumented function matches --functions; `xprof list %d` "
			 "shows their names",
			 first->pid);
		return -ENOENT;
	}
	snprintf(rec->why, sizeof(rec->why),
		 "process %d (%s) has no XRay sleds. Build it with `clang -fxray-instrument` (and "
		 "-fxray-instruction-threshold=1 for short functions too); without sleds it can still be sampled, "
		 "with `perf record -g -p %d`",
		 first->pid, first->comm, first->pid);
	return -ENOENT;
}

/* XRay's runtime may have patched sleds under our probes: then their events have stopped. */
static void check_overwritten(struct xp_recording *rec)
{
	for (struct xp_process *process = rec->processes.first; process; process = process->next) {
		for (size_t i = 0; i < process->range_count && process->live; i++) {
			struct xp_range *range = &process->ranges[i];

			range->overwritten = xp_sleds_overwritten(range->object, process->pid);
			range->overwritten -= XP_MIN(range->overwritten, range->sleds.patched);
			if (range->overwritten)
				xp_warn("%s: XRay's runtime patched %zu sleds in process %d during the recording; "
					"their events are missing from then on",
					range->object->path, range->overwritten, process->pid);
		}
	}
}

static int detach(struct xp_recording *rec)
{
	uint64_t begin = xp_clock_now_tsc();

	/* What is lost from here on belongs to the recording no more than what is recorded: see `outside`. */
	rec->processes.stop_tsc = begin;
	read_losses(rec);
	xp_attach_detach_all(rec->attach);
	rec->detach_ns = xp_clock_ns(rec->clock, xp_clock_now_tsc() - begin);
	return xp_merge_drain(rec->merge, sink, rec);
}

static const char *storage_remedy(int err)
{
	switch (err) {
	case -ENOSPC:
	case -EDQUOT:
		return "; make room there or give another -o";
	case -EFBIG:
		return "; raise `ulimit -f` or give another -o";
	default:
		return "";
	}
}

/* Makes the files of every image that had sleds; goes on after an error, so that the others are kept. */
static int finish(struct xp_recording *rec)
{
	int first = 0;

	xp_clock_update(rec->clock);
	for (struct xp_process *process = rec->processes.first; process; process = process->next) {
		int err;

		if (!process->range_count)
			continue;
		err = xp_process_finish(process);
		if (err && process->spool)
			xp_error("the log of process %d (%s) cannot be made: %s; when that is remedied, run "
				 "`xprof recover %s`",
				 process->pid, process->comm, strerror(-err), rec->outdir.path);
		else if (err)
			xp_error("the log of process %d (%s) is not complete: %s%s", process->pid, process->comm,
				 strerror(-err), storage_remedy(err));
		first = first ?: err;
	}
	return first;
}

static void close_recording(struct xp_recording *rec)
{
	xp_attach_free(rec->attach);
	xp_merge_free(rec->merge);
	xp_programs_close(&rec->programs);
	xp_rings_free(rec->rings);
	xp_processes_free(&rec->processes);
	xp_objects_free(&rec->objects);
	xp_clock_free(rec->clock);
	free(rec->attached);
	free(rec->linkers);
	free(rec->lost);
}

static int exit_code_of(int err)
{
	switch (err) {
	case -EPERM:
	case -EACCES:
	case -EOPNOTSUPP:
	case -EMFILE:
		return XP_EXIT_ENVIRONMENT;
	default:
		return XP_EXIT_FAILED;
	}
}

/* Says once what failed: rec->why where a sentence was left, the errno otherwise. */
static int report(struct xp_recording *rec, int err, const char *doing)
{
	if (rec->why[0])
		xp_error("%s", rec->why);
	else
		xp_error("%s: %s%s", doing, strerror(-err), storage_remedy(err));
	return exit_code_of(err);
}

static void print_dry_run(const struct xp_recording *rec)
{
	for (const struct xp_process *process = rec->processes.first; process; process = process->next) {
		printf("process %d (%s)\n", process->pid, process->comm);
		for (size_t i = 0; i < process->range_count; i++) {
			const struct xp_range *range = &process->ranges[i];
			const struct xp_object *object = range->object;

			printf("  %s: %zu functions, %zu sleds, %zu to attach, %zu refused\n", object->path,
			       object->table->function_count, object->table->sled_count, range->sleds.attached,
			       range->sleds.patched + range->sleds.unreadable);
		}
	}
}

static void say_recording(const struct xp_recording *rec)
{
	size_t sleds = 0;

	for (size_t i = 0; i < rec->attached_count; i++)
		sleds += rec->attached[i].sleds.attached;
	if (rec->processes.first && !rec->processes.first->next)
		xp_info("recording process %d (%s): %zu sleds; %s", rec->processes.first->pid,
			rec->processes.first->comm, sleds, rec->options->child_argv ? "ends when it does" : "^C stops");
	else
		xp_info("recording: %zu sleds; ^C stops", sleds);
}

/* From the first probe to the last file. Sets *stored when there is something to keep in the output directory. */
static int record_all(struct xp_recording *rec, int signal_fd, bool *stored)
{
	struct xp_totals totals;
	int code = XP_EXIT_OK;
	int err = attach_targets(rec);

	if (!err)
		err = check_attached(rec);
	if (err)
		return report(rec, err, "cannot attach");
	if (rec->options->dry_run) {
		print_dry_run(rec);
		return XP_EXIT_OK;
	}
	say_recording(rec);
	rec->why[0] = 0;
	*stored = true;
	err = run(rec, signal_fd);
	if (err)
		code = report(rec, err, "the recording was cut short");
	unblock_signals();
	check_overwritten(rec);
	err = detach(rec);
	if (err && code == XP_EXIT_OK)
		code = report(rec, err, "the last records could not be read");
	err = finish(rec);
	if (err && code == XP_EXIT_OK)
		code = exit_code_of(err);
	xp_recording_totals(rec, &totals);
	err = xp_summary_manifest(rec, &totals);
	if (err) {
		xp_error("cannot write manifest.json: %s%s", strerror(-err), storage_remedy(err));
		code = code == XP_EXIT_OK ? XP_EXIT_FAILED : code;
	}
	xp_summary_print(rec, &totals);
	if (code == XP_EXIT_OK && totals.lost && rec->options->strict) {
		xp_error("%llu events were lost (--strict)", (unsigned long long)totals.lost);
		code = XP_EXIT_LOST;
	}
	return code;
}

/* The command that xprof started: killed when the recording never began, waited for otherwise. */
static int end_launch(struct xp_recording *rec, int code, bool recorded)
{
	if (!rec->launch.pid || rec->launch.ended)
		goto out;
	if (!recorded)
		kill(rec->launch.pid, SIGKILL);
	else
		xp_launch_poll(&rec->launch);
	if (recorded && !rec->launch.ended)
		xp_info("the recording is over; waiting for %s to end", rec->options->child_argv[0]);
	xp_launch_wait(&rec->launch);
out:
	if (code == XP_EXIT_OK && rec->launch.ended)
		return xp_launch_exit_code(&rec->launch);
	return code;
}

static int record_in(struct xp_recording *rec, const struct xp_preflight *preflight)
{
	bool stored = false;
	int signal_fd = block_signals(rec);
	int err, code;

	if (signal_fd < 0)
		return report(rec, signal_fd, "signalfd");
	err = prepare(rec, preflight);
	code = err ? report(rec, err, "cannot set up") : record_all(rec, signal_fd, &stored);
	code = end_launch(rec, code, stored);
	close_recording(rec);
	close(signal_fd);
	if (!rec->options->dry_run && xp_outdir_close(&rec->outdir, stored) && code == XP_EXIT_OK)
		code = XP_EXIT_FAILED;
	return code;
}

int xp_record(const struct xp_options *options)
{
	struct xp_recording rec = { .options = options, .outdir.fd = -1 };
	struct xp_preflight preflight;
	int code, err;

	xp_preflight_run(&preflight);
	code = xp_preflight_require(&preflight);
	if (code != XP_EXIT_OK)
		return code;
	if (options->exec_path && stat(options->exec_path, &rec.exec_file)) {
		snprintf(rec.why, sizeof(rec.why), "--exec %s: %s", options->exec_path, strerror(errno));
		return report(&rec, -errno, "--exec");
	}
	/* Targets that cannot be traced are refused before anything is written. */
	for (size_t i = 0; i < options->pids.count; i++) {
		struct xp_target_info info;

		err = xp_target_check(options->pids.pids[i], &info, rec.why, sizeof(rec.why));
		if (err)
			return report(&rec, err, "cannot trace");
	}
	err = xp_clock_open(&rec.clock);
	if (err)
		return report(&rec, err, "cannot set up the clock");
	if (!options->dry_run) {
		err = xp_outdir_open(&rec.outdir, options->output_dir, rec.why, sizeof(rec.why));
		if (err) {
			xp_clock_free(rec.clock);
			return report(&rec, err, "cannot make the output directory");
		}
	}
	return record_in(&rec, &preflight);
}
