/* SPDX-License-Identifier: BSD-2-Clause */
/* The main loop of a recording: reads the records of all CPUs as they arrive, and does the housekeeping. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "base/util.h"
#include "kernel/event_check.h"
#include "record/progress.h"
#include "record/recording.h"

/*
 * The reader polls, since a wake-up per record would cost microseconds. The fuller the rings, the more often it polls,
 * within these limits.
 */
#define POLL_MIN_MS 1
#define POLL_MAX_MS 20
/* For use when this loses nothing, see may_sleep_long(). */
#define POLL_LONG_MS 100
#define HOUSEKEEPING_NS XP_NS_PER_S
/*
 * All of /proc is read again only after this many times the duration of the last read. Otherwise a process with tens of
 * thousands of mappings, which makes more of them than the side-band can report, would cause a read in every pass.
 */
#define REPAIR_PAUSE 10
/*
 * The reader runs rarely and briefly, but when it is due, it must not queue behind the target's threads. At equal
 * priority, 3 of 15 runs with 4 threads at full speed on 2 busy CPUs overflowed a ring; at this priority, none of 12
 * did.
 */
#define READER_NICE (-15)

/* Event sources of the epoll set. */
enum source {
	SOURCE_SIGNAL,
	SOURCE_RING,
};

/*
 * A process may be gone before it could be scanned. Unknown processes matter only with --exec, and with --follow if the
 * record of a fork was lost, since the programs of --follow record only followed processes.
 */
static int adopt(struct xp_recording *recording, const struct xp_event *record, uint64_t tsc)
{
	struct xp_process *process = xp_processes_find(&recording->processes, record->pid);

	if (!process && !recording->options->exec_path && !recording->options->follow)
		return -ENOENT;
	/* The PID may have been reused by a process that is not ours. */
	if (!process && (recording->options->exec_path || xp_programs_is_target(&recording->programs, record->pid)))
		xp_follow_add(recording, &process, record->pid, tsc);
	/* Needed even if the process was there: it may have unloaded the object of the record. */
	return xp_follow_adopt(recording, record, "unknown", tsc);
}

static int take_event(struct xp_recording *recording, const struct xp_sideband_event *event)
{
	struct xp_sampled_processes *tasks = &recording->samples.tasks;
	struct xp_perf_out *perf = recording->samples.perf;
	int err;

	if (perf)
		xp_perf_out_before(perf, event, xp_sampled_processes_space(tasks, event->pid));
	err = xp_sampled_processes_event(tasks, event);
	if (perf && !err)
		xp_perf_out_event(perf, event, xp_sampled_processes_space(tasks, event->pid));
	return err;
}

/* Handles what happened to processes before this TSC. */
static int take_sideband(struct xp_recording *recording, uint64_t tsc)
{
	const struct xp_sideband_event *event;
	int err = 0;

	while (!err && (event = xp_sideband_next(recording->sideband, tsc)))
		err = take_event(recording, event);
	return err;
}

static int take(struct xp_recording *recording, const struct xp_event *record, size_t size, unsigned int cpu,
		uint64_t tsc)
{
	enum xp_event_kind kind = xp_event_kind(record);
	int err = xp_event_check(record, size);

	if (!err && recording->sideband)
		err = take_sideband(recording, tsc);
	if (err)
		return err;
	if (kind == XP_EVENT_SAMPLE)
		return tsc > recording->processes.stop_tsc
			   ? 0
			   : xp_samples_record(&recording->samples, record, size, cpu, tsc);
	if (kind == XP_EVENT_JIT)
		return xp_samples_jit_told(&recording->samples, (pid_t)record->pid, tsc);
	if (kind >= XP_EVENT_EXEC)
		return xp_follow_task(recording, record, tsc);
	err = xp_processes_record(&recording->processes, record, cpu, tsc);
	if (err == -ENOENT) {
		err = adopt(recording, record, tsc);
		if (!err)
			err = xp_processes_record(&recording->processes, record, cpu, tsc);
	}
	if (err == -ENOENT) {
		recording->other_process++;
		return 0;
	}
	return err;
}

static int sink(void *arg, const struct xp_event *record, size_t size, unsigned int cpu, uint64_t tsc)
{
	struct xp_recording *recording = arg;
	int err = take(recording, record, size, cpu, tsc);

	recording->by_ktime += record->time >> 63;
	/* A refusal on the way (an object without sleds) does not explain a later error. */
	if (!err)
		recording->why[0] = 0;
	return err;
}

/* If there is a command, SIGINT from the terminal is for the command, and xprof ends when the command does. */
int xp_run_block_signals(const struct xp_recording *recording)
{
	sigset_t signals, writes;

	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGHUP);
	sigaddset(&signals, SIGCHLD);
	if (recording->options->flight_bytes)
		sigaddset(&signals, SIGUSR2);
	if (sigprocmask(SIG_BLOCK, &signals, NULL))
		return -errno;
	if (recording->options->child_argv)
		sigdelset(&signals, SIGINT);
	/*
	 * Failed writes are detected by EPIPE and EFBIG. The signals are blocked, not ignored: the command would
	 * inherit that.
	 */
	sigemptyset(&writes);
	sigaddset(&writes, SIGPIPE);
	sigaddset(&writes, SIGXFSZ);
	if (sigprocmask(SIG_BLOCK, &writes, NULL))
		return -errno;
	/* Until the command runs, ^C is for both. */
	xp_interrupt_init(true);
	return signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

void xp_run_unblock_signals(void)
{
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGHUP);
	sigprocmask(SIG_UNBLOCK, &signals, NULL);
}

/* Makes a pass over all ring buffers and the side-band. Returns the fill of the fullest ring in percent, or -errno. */
static int pass(struct xp_recording *recording)
{
	/* While this thread holds the command that was started, no other thread can stop it. */
	struct xp_throttle *throttle = recording->launch.traced ? NULL : recording->throttle;
	uint64_t mark = xp_clock_now_tsc();
	int err, fill;

	if (throttle)
		xp_throttle_mark(throttle, mark);
	err = recording->sideband ? xp_sideband_read(recording->sideband, recording->clock) : 0;
	fill = err ? err : xp_merge_pass(recording->merge, mark, sink, recording);
	if (fill >= 0 && recording->sideband)
		err = take_sideband(recording, xp_merge_done_tsc(recording->merge));
	if (fill >= 0 && !err && recording->sampler)
		err = xp_samples_settle(&recording->samples);
	if (fill >= 0 && !err && throttle)
		xp_throttle_run(throttle, xp_merge_done_tsc(recording->merge));
	return err ? err : fill;
}

int xp_run_drain(struct xp_recording *recording)
{
	int err = recording->sideband ? xp_sideband_read(recording->sideband, recording->clock) : 0;

	return err ? err : xp_merge_drain(recording->merge, sink, recording);
}

static void say_flight(void *arg, const struct xp_process *process, const struct xp_flight_log *log)
{
	const struct xp_recording *recording = arg;
	char cause[64] = "";

	if (log->error) {
		xp_error("the newest %" PRIu64 " records of process %d (%s) cannot be written to %s/%s: %s",
			 log->records, process->pid, process->comm, recording->outdir.path, log->name,
			 strerror(-log->error));
		return;
	}
	if (log->cause == XP_FLIGHT_KILLED)
		snprintf(cause, sizeof(cause), ", which was killed by signal %d (%s)", log->signal,
			 sigabbrev_np(log->signal) ?: "?");
	else if (log->cause == XP_FLIGHT_GONE)
		snprintf(cause, sizeof(cause), ", which has vanished");
	xp_info("%s/%s: the newest %" PRIu64 " records, over %.3f s, of process %d (%s)%s", recording->outdir.path,
		log->name, log->records,
		log->at_tsc > log->first_tsc ? xp_clock_ns(recording->clock, log->at_tsc - log->first_tsc) / 1e9 : 0,
		process->pid, process->comm, cause);
}

int xp_run_collect_flights(struct xp_recording *recording, bool wait)
{
	return xp_processes_collect_flights(&recording->processes, wait, say_flight, recording);
}

static int watch(int epoll_fd, int fd, enum source source, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.u32 = source };

	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

static int open_epoll(const struct xp_recording *recording, int signal_fd)
{
	int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	int err;

	if (epoll_fd < 0)
		return -errno;
	err = watch(epoll_fd, signal_fd, SOURCE_SIGNAL, EPOLLIN);
	/* Edge-triggered: a ring with records is always readable, but only a wake-up from BPF is an edge. */
	for (unsigned int cpu = 0; cpu < recording->rings->count && !err; cpu++)
		err = watch(epoll_fd, recording->rings->rings[cpu].map_fd, SOURCE_RING, EPOLLIN | EPOLLET);
	if (err) {
		close(epoll_fd);
		return err;
	}
	return epoll_fd;
}

/* Returns whether all targets are gone. */
static bool ended(const struct xp_recording *recording)
{
	if (recording->options->all || recording->options->exec_path)
		return false;
	if (recording->options->tid)
		return !xp_target_start_time(recording->options->tid);
	return !recording->processes.first_live;
}

void xp_run_read_losses(struct xp_recording *recording)
{
	recording->missed = xp_programs_missed(&recording->programs);
	if (xp_programs_counters(&recording->programs, recording->lost))
		xp_debug("cannot read the BPF side's counters");
}

/* Records of execs, loaded objects and the like were lost for lack of room: looks for what they would have reported. */
static int repair(struct xp_recording *recording)
{
	uint64_t lost = 0;

	for (unsigned int cpu = 0; cpu < recording->programs.cpus; cpu++)
		for (int kind = XP_EVENT_EXEC; kind <= XP_EVENT_LINK_MAP; kind++)
			lost += recording->lost[cpu].lost[kind];
	if (lost == recording->tasks_lost)
		return 0;
	recording->tasks_lost = lost;
	return xp_follow_rescan(recording);
}

/*
 * The side-band lost events: reads from /proc what they would have reported. This comes after a pass: an older fork or
 * exec that is still queued would undo the result.
 */
static int repair_samples(struct xp_recording *recording)
{
	uint64_t lost = xp_sideband_lost(recording->sideband), begin_tsc = xp_clock_now_tsc();
	int err;

	if (lost == recording->samples.tasks.lost_seen || begin_tsc < recording->next_repair_tsc)
		return 0;
	if (recording->samples.perf)
		xp_perf_out_forget(recording->samples.perf);
	err = xp_sampled_processes_repair(&recording->samples.tasks, lost);
	recording->next_repair_tsc = begin_tsc + REPAIR_PAUSE * (xp_clock_now_tsc() - begin_tsc);
	return err;
}

static int housekeeping(struct xp_recording *recording, struct xp_progress *progress)
{
	struct xp_totals totals;
	int err = 0;

	if (xp_clock_update(recording->clock) > 0)
		err = xp_programs_set_clock(&recording->programs, recording->clock);
	xp_follow_check(recording);
	if (!err && recording->sideband)
		err = xp_sideband_add_cpus(recording->sideband);
	if (!err && recording->cpus)
		err = xp_sampler_add_cpus(recording->sampler, recording->cpus, recording->programs.cpus);
	if (!err && recording->sampler)
		err = xp_samples_refresh(&recording->samples);
	if (!err && recording->sampler)
		xp_samples_rest(&recording->samples);
	/* A crash of xprof costs about a second of records. */
	if (!err)
		err = xp_processes_flush(&recording->processes);
	if (recording->samples.perf)
		xp_perf_out_flush(recording->samples.perf);
	xp_run_read_losses(recording);
	if (!err)
		err = repair(recording);
	xp_recording_totals(recording, &totals);
	xp_progress_show(progress, totals.seen + totals.samples, totals.lost + totals.samples_lost);
	return err;
}

/*
 * A wake-up costs more than the few samples since the last one. Samples of a process that was there before can wait:
 * they wake the reader when they fill a ring, as do events of the process, if it is followed as a whole. Calls do not
 * wake the reader. New processes cannot wait, since little can be learned about one that has ended; nor can JIT code,
 * which may be replaced, and samples that wait for unwind tables.
 */
static bool may_sleep_long(const struct xp_recording *recording)
{
	const struct xp_options *options = recording->options;
	const struct xp_sampled_processes *tasks = &recording->samples.tasks;

	if (!recording->sampler || options->all || options->tid || options->follow || options->child_argv ||
	    recording->attached_count || recording->samples.waiting.count)
		return false;
	for (size_t i = 0; i < tasks->image_count; i++)
		if (tasks->images[i]->jit)
			return false;
	return true;
}

/* How long to sleep after a pass that found the fullest ring `fill` percent full. */
static int next_poll_ms(const struct xp_recording *recording, int poll_ms, int fill)
{
	int max_ms = may_sleep_long(recording) ? POLL_LONG_MS : POLL_MAX_MS;

	if (fill > 20)
		poll_ms = XP_MAX(poll_ms / 2, POLL_MIN_MS);
	else if (fill < 5)
		poll_ms *= 2;
	return XP_MIN(poll_ms, max_ms);
}

/* Returns whether the signal ends the recording. */
static bool take_signal(int signal_fd, bool *flights_asked)
{
	struct signalfd_siginfo info;

	if (read(signal_fd, &info, sizeof(info)) != sizeof(info) || info.ssi_signo == SIGCHLD)
		return false;
	if (info.ssi_signo != SIGUSR2)
		return true;
	*flights_asked = true;
	return false;
}

/* To be called after a pass, which has read what happened before the signal. The recording goes on if out of memory. */
static void write_flights(struct xp_recording *recording, bool *flights_asked)
{
	int err = xp_processes_write_flights(&recording->processes);

	*flights_asked = false;
	if (err)
		xp_error("the newest records cannot be written: %s; send SIGUSR2 again", strerror(-err));
}

int xp_run(struct xp_recording *recording, int signal_fd)
{
	uint64_t begin = recording->run_tsc = xp_clock_now_tsc();
	uint64_t end = recording->options->duration_ns
			   ? begin + xp_clock_ticks(recording->clock, recording->options->duration_ns)
			   : UINT64_MAX;
	uint64_t next_housekeeping = begin;
	struct xp_progress progress;
	int epoll_fd = open_epoll(recording, signal_fd);
	bool flights_asked = false;
	int poll_ms = POLL_MAX_MS;
	int err = 0;

	if (epoll_fd < 0)
		return epoll_fd;
	xp_interrupt_init(!recording->options->child_argv);
	if (recording->options->duration_ns)
		xp_interrupt_set_deadline(xp_now_ns() + recording->options->duration_ns);
	if (setpriority(PRIO_PROCESS, 0, READER_NICE))
		xp_debug("cannot raise the reader's priority: %s", strerror(errno));
	xp_progress_begin(&progress);
	for (;;) {
		uint64_t now = xp_clock_now_tsc();
		bool is_due = now >= next_housekeeping;
		struct epoll_event event;
		int fill;

		if (now >= end)
			break;
		if (is_due) {
			err = housekeeping(recording, &progress);
			next_housekeeping = now + xp_clock_ticks(recording->clock, HOUSEKEEPING_NS);
		}
		if (!err && recording->launch.traced)
			err = xp_follow_launch_event(recording);
		if (!err)
			err = xp_run_collect_flights(recording, false);
		fill = err ? err : pass(recording);
		err = XP_MIN(fill, 0);
		if (!err && is_due && recording->sideband)
			err = repair_samples(recording);
		if (err)
			break;
		if (flights_asked)
			write_flights(recording, &flights_asked);
		if (ended(recording))
			break;
		poll_ms = next_poll_ms(recording, poll_ms, fill);
		if (end != UINT64_MAX)
			poll_ms =
			    XP_MIN(poll_ms, (int)XP_MIN(xp_clock_ns(recording->clock, end - now) / 1000000 + 1, 1000u));
		if (epoll_wait(epoll_fd, &event, 1, poll_ms) == 1 && event.data.u32 == SOURCE_SIGNAL &&
		    take_signal(signal_fd, &flights_asked))
			break;
	}
	xp_progress_end(&progress);
	close(epoll_fd);
	xp_interrupt_set_deadline(0);
	/* An operation that was attaching something noticed the end first. */
	return err == -ECANCELED ? 0 : err;
}
