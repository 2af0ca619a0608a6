/* SPDX-License-Identifier: BSD-2-Clause */
/* The loop of a recording: takes the records of all CPUs as they come and keeps house. */
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
#include "record/progress.h"
#include "kernel/event_check.h"
#include "record/recording.h"
#include "base/util.h"

/* The reader polls: a wake-up per record costs microseconds. Within these bounds it looks oftener as rings fill. */
#define POLL_MIN_MS 1
#define POLL_MAX_MS 20
/* Where nothing is lost by it, see may_sleep_long(). */
#define POLL_LONG_MS 100
#define HOUSEKEEPING_NS XP_NS_PER_S
/*
 * Times what reading all of /proc took, before it is read again: a process that has tens of thousands of mappings, and
 * makes more of them than the side-band can tell, would have it read at every turn.
 */
#define REPAIR_PAUSE 10
/*
 * The reader runs rarely and briefly, but when it is due it must not queue behind the target's own threads: at equal
 * priority, 3 of 15 runs of 4 threads at full speed on 2 busy CPUs overflowed a ring; at this one, none of 12 did.
 */
#define READER_NICE (-15)

/* Events of the epoll set. */
enum source {
	SOURCE_SIGNAL,
	SOURCE_RING,
};

/*
 * A process may be gone before it could be looked at. Of those that nothing was known of, only --exec wants any, and
 * --follow, when the record of a fork was lost: its programs record those that are followed alone.
 */
static int adopt(struct xp_recording *rec, const struct xp_rec *record, uint64_t tsc)
{
	struct xp_process *process = xp_processes_find(&rec->processes, record->pid);

	if (!process && !rec->options->exec_path && !rec->options->follow)
		return -ENOENT;
	/* By now the number may be that of a process that is none of ours. */
	if (!process && (rec->options->exec_path || xp_programs_is_target(&rec->programs, record->pid)))
		xp_follow_add(rec, &process, record->pid, tsc);
	/* Also when it was there: it may have unloaded by then what the record is of. */
	return xp_follow_adopt(rec, record, "unknown", tsc);
}

static int take_event(struct xp_recording *rec, const struct xp_sideband_event *event)
{
	struct xp_tasks *tasks = &rec->samples.tasks;
	struct xp_perf_out *perf = rec->samples.perf;
	int err;

	if (perf)
		xp_perf_out_before(perf, event, xp_tasks_space(tasks, event->pid));
	err = xp_tasks_event(tasks, event);
	if (perf && !err)
		xp_perf_out_event(perf, event, xp_tasks_space(tasks, event->pid));
	return err;
}

/* What happened to processes before this TSC. */
static int take_sideband(struct xp_recording *rec, uint64_t tsc)
{
	const struct xp_sideband_event *event;
	int err = 0;

	while (!err && (event = xp_sideband_next(rec->sideband, tsc)))
		err = take_event(rec, event);
	return err;
}

static int take(struct xp_recording *rec, const struct xp_rec *record, size_t size, unsigned int cpu, uint64_t tsc)
{
	enum xp_rec_kind kind = xp_rec_kind(record);
	int err = xp_rec_check(record, size);

	if (!err && rec->sideband)
		err = take_sideband(rec, tsc);
	if (err)
		return err;
	if (kind == XP_REC_SAMPLE)
		return tsc > rec->processes.stop_tsc ? 0 : xp_samples_record(&rec->samples, record, size, cpu, tsc);
	if (kind == XP_REC_JIT)
		return xp_samples_jit_told(&rec->samples, (pid_t)record->pid, tsc);
	if (kind >= XP_REC_EXEC)
		return xp_follow_task(rec, record, tsc);
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
int xp_run_block_signals(const struct xp_recording *rec)
{
	sigset_t signals, writes;

	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGHUP);
	sigaddset(&signals, SIGCHLD);
	if (rec->options->flight_bytes)
		sigaddset(&signals, SIGUSR2);
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

/* One pass over all rings and the side-band: the fill of the fullest ring, or a negative errno. */
static int pass(struct xp_recording *rec)
{
	/* While the command that was started is held by this thread, no other can stop it. */
	struct xp_throttle *throttle = rec->launch.traced ? NULL : rec->throttle;
	uint64_t mark = xp_clock_now_tsc();
	int err, fill;

	if (throttle)
		xp_throttle_mark(throttle, mark);
	err = rec->sideband ? xp_sideband_read(rec->sideband, rec->clock) : 0;
	fill = err ? err : xp_merge_pass(rec->merge, mark, sink, rec);
	if (fill >= 0 && rec->sideband)
		err = take_sideband(rec, xp_merge_done_tsc(rec->merge));
	if (fill >= 0 && !err && rec->sampler)
		err = xp_samples_settle(&rec->samples);
	if (fill >= 0 && !err && throttle)
		xp_throttle_run(throttle, xp_merge_done_tsc(rec->merge));
	return err ? err : fill;
}

int xp_run_drain(struct xp_recording *rec)
{
	int err = rec->sideband ? xp_sideband_read(rec->sideband, rec->clock) : 0;

	return err ? err : xp_merge_drain(rec->merge, sink, rec);
}

static void say_flight(void *arg, const struct xp_process *process, const struct xp_flight_log *log)
{
	const struct xp_recording *rec = arg;
	char cause[64] = "";

	if (log->error) {
		xp_error("the newest %" PRIu64 " records of process %d (%s) cannot be written to %s/%s: %s",
			 log->records, process->pid, process->comm, rec->outdir.path, log->name, strerror(-log->error));
		return;
	}
	if (log->cause == XP_FLIGHT_KILLED)
		snprintf(cause, sizeof(cause), ", which was killed by signal %d (%s)", log->signal,
			 sigabbrev_np(log->signal) ?: "?");
	else if (log->cause == XP_FLIGHT_GONE)
		snprintf(cause, sizeof(cause), ", which has vanished");
	xp_info("%s/%s: the newest %" PRIu64 " records, over %.3f s, of process %d (%s)%s", rec->outdir.path, log->name,
		log->records,
		log->at_tsc > log->first_tsc ? xp_clock_ns(rec->clock, log->at_tsc - log->first_tsc) / 1e9 : 0,
		process->pid, process->comm, cause);
}

int xp_run_collect_flights(struct xp_recording *rec, bool wait)
{
	return xp_processes_collect_flights(&rec->processes, wait, say_flight, rec);
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

/* Whether all targets are gone. */
static bool ended(const struct xp_recording *rec)
{
	if (rec->options->all || rec->options->exec_path)
		return false;
	if (rec->options->tid)
		return !xp_target_start_time(rec->options->tid);
	return !rec->processes.first_live;
}

void xp_run_read_losses(struct xp_recording *rec)
{
	rec->missed = xp_programs_missed(&rec->programs);
	if (xp_programs_counters(&rec->programs, rec->lost))
		xp_debug("cannot read the BPF side's counters");
}

/* Records of execs, loaded objects and so on that found no room: what they would have told is looked for. */
static int repair(struct xp_recording *rec)
{
	uint64_t lost = 0;

	for (unsigned int cpu = 0; cpu < rec->programs.cpus; cpu++)
		for (int kind = XP_REC_EXEC; kind <= XP_REC_LINK_MAP; kind++)
			lost += rec->lost[cpu].lost[kind];
	if (lost == rec->tasks_lost)
		return 0;
	rec->tasks_lost = lost;
	return xp_follow_rescan(rec);
}

/*
 * Events of the side-band were lost: what they would have told is read from /proc. Behind a pass: an older fork or exec
 * that was still to be taken would undo what is found there.
 */
static int repair_samples(struct xp_recording *rec)
{
	uint64_t lost = xp_sideband_lost(rec->sideband), begin_tsc = xp_clock_now_tsc();
	int err;

	if (lost == rec->samples.tasks.lost_seen || begin_tsc < rec->next_repair_tsc)
		return 0;
	if (rec->samples.perf)
		xp_perf_out_forget(rec->samples.perf);
	err = xp_tasks_repair(&rec->samples.tasks, lost);
	rec->next_repair_tsc = begin_tsc + REPAIR_PAUSE * (xp_clock_now_tsc() - begin_tsc);
	return err;
}

static int housekeeping(struct xp_recording *rec, struct xp_progress *progress)
{
	struct xp_totals totals;
	int err = 0;

	if (xp_clock_update(rec->clock) > 0)
		err = xp_programs_set_clock(&rec->programs, rec->clock);
	xp_follow_check(rec);
	if (!err && rec->sideband)
		err = xp_sideband_add_cpus(rec->sideband);
	if (!err && rec->cpus)
		err = xp_sampler_add_cpus(rec->sampler, rec->cpus, rec->programs.cpus);
	if (!err && rec->sampler)
		err = xp_samples_refresh(&rec->samples);
	if (!err && rec->sampler)
		xp_samples_rest(&rec->samples);
	/* What a crash of xprof may cost: about a second. */
	if (!err)
		err = xp_processes_flush(&rec->processes);
	if (rec->samples.perf)
		xp_perf_out_flush(rec->samples.perf);
	xp_run_read_losses(rec);
	if (!err)
		err = repair(rec);
	xp_recording_totals(rec, &totals);
	xp_progress_show(progress, totals.seen + totals.samples, totals.lost + totals.samples_lost);
	return err;
}

/*
 * A wake-up costs more than the few samples that came since the last one. Samples of a process that was there before
 * can wait: they wake the reader when they fill a ring, as does what happens to the process, if it is followed as one.
 * Calls do not; of a new process little can be found out when it has ended; JIT code may be replaced, and unwind tables
 * are waited for.
 */
static bool may_sleep_long(const struct xp_recording *rec)
{
	const struct xp_options *options = rec->options;
	const struct xp_tasks *tasks = &rec->samples.tasks;

	if (!rec->sampler || options->all || options->tid || options->follow || options->child_argv ||
	    rec->attached_count || rec->samples.waiting.count)
		return false;
	for (size_t i = 0; i < tasks->image_count; i++)
		if (tasks->images[i]->jit)
			return false;
	return true;
}

/* How long to sleep after a pass that found the fullest ring `fill` percent full. */
static int next_poll_ms(const struct xp_recording *rec, int poll_ms, int fill)
{
	int max_ms = may_sleep_long(rec) ? POLL_LONG_MS : POLL_MAX_MS;

	if (fill > 20)
		poll_ms = XP_MAX(poll_ms / 2, POLL_MIN_MS);
	else if (fill < 5)
		poll_ms *= 2;
	return XP_MIN(poll_ms, max_ms);
}

/* Whether it is one that ends the recording. */
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

/* After a pass, which has brought what happened before the signal. Without memory for it the recording goes on. */
static void write_flights(struct xp_recording *rec, bool *flights_asked)
{
	int err = xp_processes_write_flights(&rec->processes);

	*flights_asked = false;
	if (err)
		xp_error("the newest records cannot be written: %s; send SIGUSR2 again", strerror(-err));
}

int xp_run(struct xp_recording *rec, int signal_fd)
{
	uint64_t begin = rec->run_tsc = xp_clock_now_tsc();
	uint64_t end =
	    rec->options->duration_ns ? begin + xp_clock_ticks(rec->clock, rec->options->duration_ns) : UINT64_MAX;
	uint64_t next_housekeeping = begin;
	struct xp_progress progress;
	int epoll_fd = open_epoll(rec, signal_fd);
	bool flights_asked = false;
	int poll_ms = POLL_MAX_MS;
	int err = 0;

	if (epoll_fd < 0)
		return epoll_fd;
	xp_interrupt_init(!rec->options->child_argv);
	if (rec->options->duration_ns)
		xp_interrupt_set_deadline(xp_now_ns() + rec->options->duration_ns);
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
			err = housekeeping(rec, &progress);
			next_housekeeping = now + xp_clock_ticks(rec->clock, HOUSEKEEPING_NS);
		}
		if (!err && rec->launch.traced)
			err = xp_follow_launch_event(rec);
		if (!err)
			err = xp_run_collect_flights(rec, false);
		fill = err ? err : pass(rec);
		err = XP_MIN(fill, 0);
		if (!err && is_due && rec->sideband)
			err = repair_samples(rec);
		if (err)
			break;
		if (flights_asked)
			write_flights(rec, &flights_asked);
		if (ended(rec))
			break;
		poll_ms = next_poll_ms(rec, poll_ms, fill);
		if (end != UINT64_MAX)
			poll_ms = XP_MIN(poll_ms, (int)XP_MIN(xp_clock_ns(rec->clock, end - now) / 1000000 + 1, 1000u));
		if (epoll_wait(epoll_fd, &event, 1, poll_ms) == 1 && event.data.u32 == SOURCE_SIGNAL &&
		    take_signal(signal_fd, &flights_asked))
			break;
	}
	xp_progress_end(&progress);
	close(epoll_fd);
	xp_interrupt_set_deadline(0);
	/* What was being attached meanwhile has heard of the end first. */
	return err == -ECANCELED ? 0 : err;
}
