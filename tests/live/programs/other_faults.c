// SPDX-License-Identifier: BSD-2-Clause
/*
 * A server whose slow requests have three other causes than those of slow_server.c, 8 of each:
 *  - planner has the lowest priority, and holds a lock while busy has its CPU: a priority inversion;
 *  - the pipe to the log is full, and drain() reads from it late;
 *  - a child process takes long.
 */
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "go.h"
#include "fault_threads.h"

#define REQUESTS 400
#define FAULT_MS 15
#define PIPE_BYTES 4096

static pthread_mutex_t plan_lock = PTHREAD_MUTEX_INITIALIZER;
static int wake[2], records[2], plan_wanted, plan_begun, is_busy, busy_runs, is_over;

UNTRACED static void put(int fd, size_t bytes)
{
	static const char zeros[PIPE_BYTES];

	if (write(fd, zeros, bytes) != (ssize_t)bytes)
		abort();
}

TRACED static void drain(void)
{
	char block[PIPE_BYTES];

	sleep_ms(FAULT_MS);
	if (read(records[0], block, sizeof(block)) + read(records[0], block, sizeof(block)) != 2 * sizeof(block))
		abort();
	__asm__ volatile("");
}

UNTRACED static void *reader(void *arg)
{
	char byte;

	while (read(wake[0], &byte, 1) == 1)
		drain();
	return arg;
}

/* Three tenths of a millisecond of CPU time, with pauses (see fault_threads.h). */
TRACED static void make_plan(void)
{
	starve();
	__asm__ volatile("");
}

UNTRACED static void *planner(void *arg)
{
	id_t own = (id_t)syscall(SYS_gettid);

	pin(0);
	while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED)) {
		sleep_ms(1);
		if (!__atomic_exchange_n(&plan_wanted, 0, __ATOMIC_RELAXED))
			continue;
		pthread_mutex_lock(&plan_lock);
		__atomic_store_n(&is_busy, 1, __ATOMIC_RELAXED);
		while (!__atomic_load_n(&busy_runs, __ATOMIC_RELAXED))
			sleep_ms(1);
		__atomic_store_n(&plan_begun, 1, __ATOMIC_RELAXED);
		/* Last: with this priority, the thread may have no CPU at once. */
		setpriority(PRIO_PROCESS, own, 19);
		make_plan();
		pthread_mutex_unlock(&plan_lock);
		__atomic_store_n(&is_busy, 0, __ATOMIC_RELAXED);
		setpriority(PRIO_PROCESS, own, 0);
	}
	return arg;
}

UNTRACED static void *busy(void *arg)
{
	pin(0);
	while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED)) {
		__atomic_store_n(&busy_runs, __atomic_load_n(&is_busy, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
		if (!__atomic_load_n(&is_busy, __ATOMIC_RELAXED))
			sleep_ms(1);
	}
	return arg;
}

TRACED static void read_plan(void)
{
	__atomic_store_n(&plan_begun, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&plan_wanted, 1, __ATOMIC_RELAXED);
	while (!__atomic_load_n(&plan_begun, __ATOMIC_RELAXED))
		sleep_ms(1);
	pthread_mutex_lock(&plan_lock);
	pthread_mutex_unlock(&plan_lock);
	__asm__ volatile("");
}

TRACED static void append_log(void)
{
	put(wake[1], 1);
	put(records[1], PIPE_BYTES);
	put(records[1], PIPE_BYTES);
	__asm__ volatile("");
}

TRACED static void run_helper(void)
{
	pid_t child = fork();

	if (!child) {
		sleep_ms(FAULT_MS);
		_exit(0);
	}
	waitpid(child, NULL, 0);
	__asm__ volatile("");
}

TRACED static void handle_request(int request)
{
	if (request % 50 == 20)
		read_plan();
	if (request % 50 == 30)
		append_log();
	if (request % 50 == 40)
		run_helper();
}

UNTRACED static void *worker(void *arg)
{
	for (int i = 0; i < REQUESTS; i++) {
		handle_request(i);
		sleep_ms(1);
	}
	return arg;
}

UNTRACED int main(int argc, char **argv)
{
	pthread_t threads[3];

	if (pipe(wake) || pipe(records) || fcntl(records[1], F_SETPIPE_SZ, PIPE_BYTES) < 0)
		return 1;
	wait_for_go(argc, argv);
	threads[0] = start(planner, "planner");
	threads[1] = start(busy, "busy");
	start(reader, "reader");
	threads[2] = start(worker, "worker");
	pthread_join(threads[2], NULL);
	is_over = 1;
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	puts("done");
	fflush(stdout);
	wait_for_go(argc, argv);
	return 0;
}
