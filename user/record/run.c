/* SPDX-License-Identifier: BSD-2-Clause */
/* The main loop of a recording: reads the records of all CPUs as they arrive, and does the housekeeping. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "base/util.h"
#include "base/why.h"
#include "budget/cost_watch.h"
#include "record/messages.h"
#include "record/progress.h"
#include "record/recording.h"
#include "trace/process_rings.h"

/*
 * Limits of the poll interval, which is shorter the fuller the rings are. A wake-up per record would cost microseconds.
 */
#define POLL_MIN_NS (1 * NS_PER_MS)
#define POLL_MAX_NS (20 * NS_PER_MS)
/* The longest poll interval, when it loses nothing: see may_sleep_long(). */
#define POLL_LONG_NS (100 * NS_PER_MS)
#define NS_PER_MS 1000000ull
/*
 * A thread fills its call ring in 0.3 ms. xprof polls when the fullest call ring is expected to reach this fill level,
 * in percent. A thread whose ring is full wakes xprof.
 */
#define CALL_RING_FILL 50
#define TIMER_SLACK_NS 5000 /* 50 000 by default */
#define HOUSEKEEPING_NS XP_NS_PER_S
/*
 * Calls that were read from call rings exist only in xprof: if the target pauses, write them to disk after this time.
 */
#define PAUSE_FLUSH_NS (250 * NS_PER_MS)
/* Warn if recording uses more than this part of the target's CPU time in a second. */
#define COST_SHARE 0.25
/* Two ^C within this time end xprof, too, if the command has not exited. */
#define COMMAND_INT_NS (5 * XP_NS_PER_S)
/*
 * Priority of the thread that reads the rings. It runs rarely and briefly, but must not wait behind the target's
 * threads when it is due. At equal priority, 3 of 15 runs with 4 threads at full speed on 2 busy CPUs overflowed a
 * ring; at this priority, none of 12 did.
 */
#define READER_NICE (-15)

/* Event sources of the epoll set. */
enum source {
	SOURCE_SIGNAL,
	SOURCE_RING,
};

/* Without --rotate, a full disk ends the recording. */
static int forgive(const struct xp_recording *recording, int err)
{
	return err && recording->options->rotate.given ? xp_rotation_forgives(err) : err;
}

static int sink(void *arg, const struct xp_arrival *arrival)
{
	struct xp_recording *recording = arg;
	int err = forgive(recording, xp_arrivals_take(recording, arrival));

	/* A stored refusal (a binary without sleds) does not explain a later error. */
	if (!err)
		xp_why_clear();
	return err;
}

static bool is_ignored(int number)
{
	struct sigaction action;

	return !sigaction(number, NULL, &action) && action.sa_handler == SIG_IGN;
}

int xp_run_block_signals(const struct xp_options *options)
{
	sigset_t signals, unread;

	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGCHLD);
	if (options->rotate.given || !is_ignored(SIGHUP)) /* nohup(1) */
		sigaddset(&signals, SIGHUP);
	if (options->flight_bytes)
		sigaddset(&signals, SIGUSR2);
	if (sigprocmask(SIG_BLOCK, &signals, NULL))
		return -errno;
	/*
	 * Failed writes are detected by EPIPE and EFBIG. The signals are blocked, not ignored: the command would
	 * inherit that.
	 */
	sigemptyset(&unread);
	sigaddset(&unread, SIGPIPE);
	sigaddset(&unread, SIGXFSZ);
	/* SIGQUIT of the terminal reaches the command, too. The command exits, and the recording ends. */
	if (options->child_argv)
		sigaddset(&unread, SIGQUIT);
	if (sigprocmask(SIG_BLOCK, &unread, NULL))
		return -errno;
	/* Until the command runs, ^C is for xprof, too. */
	xp_interrupt_init(true, !options->rotate.given);
	return signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int read_sideband(const struct xp_recording *recording)
{
	return recording->sampling.sideband ? xp_sideband_read(recording->sampling.sideband, recording->clock) : 0;
}

/* Returns the fill level of the fullest ring buffer in percent, or -errno. */
static int read_rings(struct xp_recording *recording, uint64_t mark)
{
	return read_sideband(recording) ?: xp_merge_pass(recording->bpf.merge, mark, sink, recording);
}

/*
 * Makes a pass over all ring buffers, the side-band and the call rings. Returns the fill level of the fullest ring
 * buffer in percent, and in *calls_fill that of the fullest call ring, or -errno.
 */
static int pass(struct xp_recording *recording, uint64_t mark, int *calls_fill)
{
	/* While this thread traces the started command, no other thread can stop the command. */
	struct xp_throttle *throttle =
	    recording->targets.command.launch.traced ? NULL : recording->targets.probes.throttle;
	int err = 0, fill;

	if (throttle)
		xp_throttle_mark(throttle, mark);
	xp_sampling_choose(&recording->sampling);
	fill = read_rings(recording, mark);
	if (fill >= 0 && recording->plan.memory) {
		*calls_fill =
		    xp_processes_take_calls(&recording->targets.processes, xp_merge_done_tsc(recording->bpf.merge));
		err = forgive(recording, XP_MIN(*calls_fill, 0));
	}
	if (fill >= 0 && !err)
		err = xp_sampling_apply_sideband(&recording->sampling, xp_merge_done_tsc(recording->bpf.merge));
	if (fill >= 0 && !err && recording->sampling.sampler)
		err = xp_samples_settle(&recording->sampling.samples);
	if (fill >= 0 && !err && throttle)
		xp_throttle_run(throttle, xp_merge_done_tsc(recording->bpf.merge));
	return err ? err : fill;
}

int xp_run_make_room(struct xp_recording *recording)
{
	int fill = read_rings(recording, xp_clock_mark(recording->clock));

	return XP_MIN(fill, 0) ?: xp_samples_settle(&recording->sampling.samples);
}

int xp_run_drain(struct xp_recording *recording)
{
	return read_sideband(recording) ?: xp_merge_drain(recording->bpf.merge, sink, recording);
}

int xp_run_collect_flights(struct xp_recording *recording, bool wait)
{
	return xp_processes_collect_flights(&recording->targets.processes, wait, xp_announce_flight, recording);
}

static int watch(int epoll_fd, int fd, enum source source, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.u32 = source };

	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

static int open_epoll(const struct xp_bpf_side *bpf, int signal_fd)
{
	int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	int err;

	if (epoll_fd < 0)
		return -errno;
	err = watch(epoll_fd, signal_fd, SOURCE_SIGNAL, EPOLLIN);
	/* Edge-triggered: a ring with records is always readable, but only a wake-up from BPF is an edge. */
	for (unsigned int cpu = 0; cpu < bpf->rings->count && !err; cpu++)
		err = watch(epoll_fd, bpf->rings->rings[cpu].map_fd, SOURCE_RING, EPOLLIN | EPOLLET);
	if (err) {
		close(epoll_fd);
		return err;
	}
	return epoll_fd;
}

/* Returns whether all targets have exited, or a dry run has its result. */
static bool ended(const struct xp_recording *recording)
{
	if (recording->options->dry_run && recording->targets.forecast.made)
		return true;
	if (recording->options->all || recording->options->exec_path)
		return false;
	if (recording->options->tid)
		return !xp_target_start_time(recording->options->tid);
	return !recording->targets.processes.first_live;
}

/* The data of one xp_run(): its descriptors, clock and deadlines, and pending work. */
struct loop {
	struct xp_recording *recording;
	int epoll_fd;
	uint64_t end_tsc; /* -d; UINT64_MAX: until stopped */
	uint64_t next_housekeeping_tsc;
	uint64_t poll_ns;
	uint64_t pass_tsc;	    /* when the last pass began */
	uint64_t pass_interval_tsc; /* time between the last two passes */
	int calls_fill;		    /* fill level of the fullest call ring at the last pass, in percent */
	uint64_t flushed_tsc;	    /* when calls were last written to disk */
	bool unflushed;		    /* calls were read from call rings since */
	bool flights_asked;	    /* requested by SIGUSR2, not written yet */
	uint64_t command_int_ns;    /* when the last SIGINT for the command arrived; 0: none */
	uint64_t asked_ns;	    /* when a signal ended the recording; 0: none */
	struct xp_cost_watch cost;
	bool cost_told;
	uint64_t tasks_lost; /* lost events of execs, loaded binaries and the like for which repair() has made up */
	struct xp_progress progress;
};

static int loop_open(struct loop *loop, struct xp_recording *recording, int signal_fd)
{
	const struct xp_options *options = recording->options;
	uint64_t duration_ns = options->dry_run ? 2 * XP_COST_LOOK_MAX_NS : options->duration_ns;
	uint64_t begin = xp_clock_now_tsc();

	recording->targets.run_tsc = recording->targets.processes.begin_tsc ?: begin;
	if (options->all)
		recording->targets.run_tsc = recording->sampling.cpus_tsc;
	*loop = (struct loop){
		.recording = recording,
		.epoll_fd = open_epoll(&recording->bpf, signal_fd),
		.end_tsc = duration_ns ? begin + xp_clock_ticks(recording->clock, duration_ns) : UINT64_MAX,
		.next_housekeeping_tsc = begin,
		.poll_ns = POLL_MAX_NS,
		.pass_tsc = begin,
	};
	xp_rotation_begin(&recording->rotation, recording->clock, begin);
	recording->own_nice = getpriority(PRIO_PROCESS, 0);
	if (loop->epoll_fd < 0)
		return loop->epoll_fd;
	xp_interrupt_init(!recording->options->child_argv, !recording->options->rotate.given);
	if (duration_ns)
		xp_interrupt_set_deadline(xp_now_ns() + duration_ns);
	if (setpriority(PRIO_PROCESS, 0, READER_NICE))
		xp_debug("cannot raise the reader's priority: %s", strerror(errno));
	if (recording->plan.memory && prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS, 0, 0, 0))
		xp_debug("cannot set the timer slack: %s", strerror(errno));
	xp_progress_begin(&loop->progress);
	return 0;
}

static void loop_close(struct loop *loop)
{
	xp_progress_end(&loop->progress);
	close(loop->epoll_fd);
	xp_interrupt_set_deadline(0);
}

/* Scans for the changes that lost events of execs, loaded binaries and the like would have reported. */
static int repair(struct loop *loop)
{
	uint64_t lost = xp_bpf_side_lost(&loop->recording->bpf, XP_EVENT_EXEC, XP_EVENT_LINK_MAP);

	if (lost == loop->tasks_lost)
		return 0;
	loop->tasks_lost = lost;
	return xp_follow_rescan(&loop->recording->targets);
}

static bool look_at_cost(struct loop *loop, struct xp_cost_seen *seen)
{
	struct xp_recording *recording = loop->recording;
	struct xp_totals totals;

	xp_recording_totals(recording, &totals);
	return xp_cost_watch_look(&loop->cost, seen, &recording->targets.processes,
				  &recording->targets.forecast.probe_cost, totals.counts.in_memory);
}

/*
 * Call this after each pass: makes the forecast once, from the calls of the first moments. Omits the calls that the
 * first pass has read, because they began while sleds were being attached.
 */
static void make_forecast(struct loop *loop)
{
	struct xp_recording *recording = loop->recording;
	struct xp_forecast *forecast = &recording->targets.forecast;

	if (forecast->made || recording->targets.probes.throttle || !forecast->probe_cost.entry_ns ||
	    xp_now_ns() - loop->cost.look_ns < XP_COST_LOOK_NS)
		return;
	forecast->made = look_at_cost(loop, &forecast->seen);
	if (forecast->made && !recording->options->dry_run)
		xp_announce_forecast(recording);
}

/* Warns if a target that was idle at first now has many calls. With a budget, throttling handles that. */
static void watch_cost(struct loop *loop)
{
	struct xp_cost_seen seen;

	if (loop->cost_told || !loop->recording->targets.forecast.made)
		return;
	loop->cost_told = look_at_cost(loop, &seen) && seen.share > COST_SHARE;
	if (loop->cost_told)
		xp_announce_cost(loop->recording, &seen);
}

static int flush(struct loop *loop)
{
	loop->unflushed = false;
	loop->flushed_tsc = xp_clock_now_tsc();
	return forgive(loop->recording, xp_processes_flush(&loop->recording->targets.processes));
}

/* Writes calls to disk if the target pauses; call this after a pass. A flight recorder keeps its calls in memory. */
static int flush_in_pause(struct loop *loop)
{
	const struct xp_recording *recording = loop->recording;

	loop->unflushed |= loop->calls_fill > 0;
	if (loop->calls_fill || !loop->unflushed || recording->options->flight_bytes ||
	    loop->pass_tsc - loop->flushed_tsc < xp_clock_ticks(recording->clock, PAUSE_FLUSH_NS))
		return 0;
	return flush(loop);
}

static int housekeeping(struct loop *loop)
{
	struct xp_recording *recording = loop->recording;
	struct xp_totals totals;
	int err;

	xp_clock_update(recording->clock);
	xp_follow_check(&recording->targets);
	xp_follow_release_stubs(&recording->targets);
	err = xp_sampling_tend(&recording->sampling);
	if (!err)
		err = xp_off_cpu_tend(&recording->off_cpu);
	/* At most a second of records is lost if xprof crashes. */
	if (!err)
		err = flush(loop);
	xp_bpf_side_read_losses(&recording->bpf);
	if (!err)
		err = repair(loop);
	if (xp_outdir_is_full(&recording->outdir))
		loop->end_tsc = 0;
	xp_rotation_tend(recording);
	xp_recording_totals(recording, &totals);
	watch_cost(loop);
	xp_progress_show(&loop->progress, totals.seen + totals.samples, totals.lost + totals.samples_lost);
	return err;
}

/*
 * Returns whether xprof may sleep long: a wake-up costs more than the few samples since the last one.
 *
 * Samples of processes that existed before can wait: they wake xprof when they fill a ring, as do events of processes
 * that are followed as a whole. Calls do not wake xprof. New processes cannot wait, because xprof can learn little
 * about a process that has exited; nor can JIT code, which may be replaced, and samples that wait for unwind tables.
 */
static bool may_sleep_long(const struct xp_recording *recording)
{
	const struct xp_options *options = recording->options;
	const struct xp_samples *samples = &recording->sampling.samples;

	if (!recording->sampling.sampler || options->all || options->tid || options->follow || options->child_argv ||
	    recording->targets.probes.attached_count || samples->waiting.count)
		return false;
	for (size_t i = 0; i < samples->processes.image_count; i++)
		if (samples->processes.images[i]->jit)
			return false;
	return true;
}

/* Returns the time until the fullest call ring should be CALL_RING_FILL percent full; UINT64_MAX: it was empty. */
static uint64_t calls_poll_ns(const struct loop *loop, uint64_t now)
{
	const struct xp_clock *clock = loop->recording->clock;
	uint64_t interval_ns = xp_clock_ns(clock, loop->pass_interval_tsc), since_ns, fills_ns;

	if (!loop->calls_fill)
		return UINT64_MAX;
	if (loop->calls_fill >= 100) /* unknown how fast it was filled */
		return 0;
	fills_ns = XP_MIN(interval_ns * CALL_RING_FILL / (uint64_t)loop->calls_fill, 2 * interval_ns);
	since_ns = xp_clock_ns(clock, now - loop->pass_tsc);
	return fills_ns > since_ns ? fills_ns - since_ns : 0;
}

/* Returns how long to sleep after a pass that found the fullest ring buffer `fill` percent full. */
static uint64_t next_poll_ns(struct loop *loop, int fill)
{
	uint64_t max_ns = may_sleep_long(loop->recording) ? POLL_LONG_NS : POLL_MAX_NS, now, poll_ns, due_tsc;

	if (fill > 20)
		loop->poll_ns = XP_MAX(loop->poll_ns / 2, POLL_MIN_NS);
	else if (fill < 5)
		loop->poll_ns = 2 * loop->poll_ns;
	loop->poll_ns = XP_MIN(loop->poll_ns, max_ns);
	now = xp_clock_now_tsc();
	poll_ns = XP_MIN(loop->poll_ns, calls_poll_ns(loop, now));
	due_tsc = XP_MIN(loop->end_tsc, loop->recording->rotation.next_tsc);
	if (due_tsc > now && due_tsc != UINT64_MAX)
		poll_ns = XP_MIN(poll_ns, xp_clock_ns(loop->recording->clock, due_tsc - now) + NS_PER_MS);
	return now < loop->end_tsc ? poll_ns : 0;
}

/* Waits for a signal or a ring, at most this long. Returns whether there was an event. */
static bool wait_for_event(const struct loop *loop, struct epoll_event *event, uint64_t ns)
{
	const struct timespec timeout = { (time_t)(ns / XP_NS_PER_S), (long)(ns % XP_NS_PER_S) };

	return epoll_pwait2(loop->epoll_fd, event, 1, &timeout, NULL) == 1;
}

/*
 * Returns whether a SIGINT is for the command. The terminal's ^C is for the command, which may handle it: an
 * interpreter continues after each. But if a second one follows soon, the user wants to end the recording, too.
 */
static bool is_for_command(struct loop *loop, uint64_t now_ns)
{
	uint64_t since_ns = now_ns - loop->command_int_ns;

	if (!loop->recording->options->child_argv)
		return false;
	if (loop->command_int_ns && since_ns >= XP_INTERRUPT_APART_NS && since_ns <= COMMAND_INT_NS)
		return false;
	if (!loop->command_int_ns || since_ns >= XP_INTERRUPT_APART_NS)
		loop->command_int_ns = now_ns;
	return true;
}

/* Reads all signals that have arrived. Sets loop->asked_ns if one of them ends the recording. */
static void take_signals(struct loop *loop, int signal_fd)
{
	struct signalfd_siginfo info;
	uint64_t now_ns = xp_now_ns();

	while (read(signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGUSR2)
			loop->flights_asked = true;
		else if (info.ssi_signo == SIGHUP && loop->recording->options->rotate.given)
			loop->recording->rotation.is_asked = true;
		else if (info.ssi_signo != SIGCHLD && (info.ssi_signo != SIGINT || !is_for_command(loop, now_ns)))
			loop->asked_ns = now_ns;
	}
}

/* Call this after a pass, which reads all events from before the signal. Errors do not end the recording. */
static void write_flights(struct loop *loop)
{
	struct xp_recording *recording = loop->recording;
	int err = xp_processes_write_flights(&recording->targets.processes);

	loop->flights_asked = false;
	if (err)
		xp_error("cannot write the newest calls: %s; send SIGUSR2 again", strerror(-err));
}

/* Writes logs of the calls that took longer than their trigger. */
static void write_triggered(const struct loop *loop)
{
	struct xp_processes *processes = &loop->recording->targets.processes;
	int err = processes->triggers.waiting ? xp_processes_write_triggered(processes) : 0;

	if (err)
		xp_error("cannot write the log of a slow call: %s", strerror(-err));
}

/* Begins the next part if it is due. Earlier counts do not belong to the next part. */
static int rotate(struct loop *loop, uint64_t done_tsc)
{
	int began = xp_rotate(loop->recording, done_tsc);

	if (began > 0) {
		loop->tasks_lost = 0;
		loop->cost.in_memory = 0;
	}
	return XP_MIN(began, 0);
}

/* Makes a pass and all work that is due. Returns the fill level of the fullest ring buffer in percent, or -errno. */
static int turn(struct loop *loop, uint64_t now)
{
	struct xp_recording *recording = loop->recording;
	bool is_due = now >= loop->next_housekeeping_tsc;
	int fill, err = 0;

	if (is_due) {
		err = housekeeping(loop);
		loop->next_housekeeping_tsc = now + xp_clock_ticks(recording->clock, HOUSEKEEPING_NS);
	}
	if (!err && recording->targets.command.launch.traced)
		err = xp_follow_launch_event(&recording->targets);
	if (!err)
		err = xp_run_collect_flights(recording, false);
	if (err)
		return err;
	now = xp_clock_mark(recording->clock);
	loop->pass_interval_tsc = now - loop->pass_tsc;
	loop->pass_tsc = now;
	fill = pass(recording, now, &loop->calls_fill);
	if (fill >= 0)
		make_forecast(loop);
	err = fill < 0 ? 0 : flush_in_pause(loop);
	if (fill >= 0 && !err && is_due)
		err = xp_sampling_repair(&recording->sampling);
	if (fill >= 0 && !err && loop->flights_asked)
		write_flights(loop);
	if (fill >= 0 && !err)
		write_triggered(loop);
	if (fill >= 0 && !err && recording->options->rotate.given && xp_merge_done_tsc(recording->bpf.merge) == now)
		err = rotate(loop, now);
	return err ? err : fill;
}

int xp_run(struct xp_recording *recording, int signal_fd)
{
	struct loop loop;
	uint64_t now;
	int err = loop_open(&loop, recording, signal_fd);

	if (err)
		return err;
	while (!loop.asked_ns && (now = xp_clock_now_tsc()) < loop.end_tsc) {
		int fill = turn(&loop, now);
		struct epoll_event event;

		err = XP_MIN(fill, 0);
		if (err || ended(recording))
			break;
		if (wait_for_event(&loop, &event, next_poll_ns(&loop, fill)) && event.data.u32 == SOURCE_SIGNAL)
			take_signals(&loop, signal_fd);
	}
	/* If something else ended the recording, a signal that came to end it must not count as the second signal. */
	take_signals(&loop, signal_fd);
	loop_close(&loop);
	xp_interrupt_watch(loop.asked_ns);
	/* An operation that was attaching something noticed the signal first. */
	return err == -ECANCELED ? 0 : err;
}
