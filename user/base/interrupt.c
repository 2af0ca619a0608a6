// SPDX-License-Identifier: BSD-2-Clause
#include "base/interrupt.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"

#define STATUS_BYTES 4096

/* /proc/PID/status of xprof. All tasks of xprof read its pending signals from this file. */
static int status_fd = -1;
static uint64_t ending_signals;
static uint64_t deadline_ns;

/* The effect of a second signal, or of a later one. */
enum further {
	FURTHER_WAITS, /* ends xprof as soon as that is allowed */
	FURTHER_ABORTS,
	FURTHER_TELLS,
};

/* Signals that arrive after the end of the recording. */
static struct {
	pthread_mutex_t lock; /* protects all */
	enum further further;
	uint64_t counted_ns; /* CLOCK_MONOTONIC of the last signal that counts; 0: none */
	int taken;	     /* the second signal; 0: none. Also read without the lock. */
} after = { .lock = PTHREAD_MUTEX_INITIALIZER };

static uint64_t bit(int number)
{
	return 1ull << (number - 1);
}

void xp_interrupt_init(bool with_sigint, bool with_sighup)
{
	ending_signals = bit(SIGTERM) | (with_sighup ? bit(SIGHUP) : 0) | (with_sigint ? bit(SIGINT) : 0);
	deadline_ns = 0;
	if (status_fd < 0)
		status_fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
}

void xp_interrupt_leave(void)
{
	if (status_fd >= 0)
		close(status_fd);
	status_fd = -1;
	after.taken = 0;
	deadline_ns = 0;
}

void xp_interrupt_set_deadline(uint64_t at_ns)
{
	__atomic_store_n(&deadline_ns, at_ns, __ATOMIC_RELAXED);
}

static bool has_timed_out(void)
{
	uint64_t at_ns = __atomic_load_n(&deadline_ns, __ATOMIC_RELAXED);

	return at_ns && xp_now_ns() >= at_ns;
}

/* Ends xprof as the default action of the signal would. */
static void die_of(int number)
{
	sigset_t one;

	sigemptyset(&one);
	sigaddset(&one, number);
	signal(number, SIG_DFL);
	pthread_sigmask(SIG_UNBLOCK, &one, NULL);
	raise(number);
}

static void take(int number)
{
	uint64_t now_ns = xp_now_ns();
	bool is_first;

	pthread_mutex_lock(&after.lock);
	is_first = !after.counted_ns && after.further != FURTHER_TELLS;
	if (!after.counted_ns || now_ns - after.counted_ns >= XP_INTERRUPT_APART_NS) {
		after.counted_ns = now_ns;
		if (!is_first)
			__atomic_store_n(&after.taken, number, __ATOMIC_RELAXED);
	}
	if (after.taken && after.further == FURTHER_ABORTS)
		die_of(after.taken);
	pthread_mutex_unlock(&after.lock);
}

static void *watch(void *unused)
{
	sigset_t signals;
	int number;

	(void)unused;
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	if (ending_signals & bit(SIGHUP))
		sigaddset(&signals, SIGHUP);
	for (;;)
		if (!sigwait(&signals, &number))
			take(number);
	return NULL;
}

void xp_interrupt_watch(uint64_t asked_ns)
{
	pthread_t thread;

	after.counted_ns = asked_ns;
	if (pthread_create(&thread, NULL, watch, NULL))
		xp_debug("a second signal cannot abort xprof: no thread can be created");
	else
		pthread_detach(thread);
}

static void set_further(enum further further)
{
	pthread_mutex_lock(&after.lock);
	after.further = further;
	if (after.taken && further == FURTHER_ABORTS)
		die_of(after.taken);
	pthread_mutex_unlock(&after.lock);
}

void xp_interrupt_abort_by_next(void)
{
	set_further(FURTHER_ABORTS);
}

void xp_interrupt_tell_next(void)
{
	set_further(FURTHER_TELLS);
}

static uint64_t field(const char *text, const char *name)
{
	const char *line = strstr(text, name);

	return line ? strtoull(line + strlen(name), NULL, 16) : 0;
}

bool xp_interrupted(void)
{
	char text[STATUS_BYTES];
	ssize_t n;

	if (status_fd < 0)
		return false;
	if (has_timed_out() || __atomic_load_n(&after.taken, __ATOMIC_RELAXED))
		return true;
	/* The file of a process that is dead and reaped reads as empty or fails. */
	n = pread(status_fd, text, sizeof(text) - 1, 0);
	if (n <= 0)
		return true;
	text[n] = 0;
	if (strstr(text, "\nState:\tZ") || strstr(text, "\nState:\tX"))
		return true;
	return (field(text, "\nSigPnd:") | field(text, "\nShdPnd:")) & (ending_signals | bit(SIGKILL));
}
