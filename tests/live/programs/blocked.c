// SPDX-License-Identifier: BSD-2-Clause
/*
 * blocked PROGRESS: threads that wait in many kinds of system calls, forever or for SLEEP_S. Each call is made once. No
 * call may return because of a recording: a call that returns is reported in PROGRESS, with its error. Another thread
 * calls a traced function in a loop. SIGUSR1 ends the loop; then the program reports in "slept" whether calls with a
 * timeout took that long.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define UNTRACED __attribute__((xray_never_instrument, noinline))
#define TRACED __attribute__((noinline))
#define SLEEP_S 3
#define LONG_S 1000

static int progress_fd;
static volatile int slept;

TRACED static long leaf(long n)
{
	__asm__ volatile("");
	return n + 1;
}

UNTRACED static long wait_read(void)
{
	int ends[2];
	char byte;

	return pipe(ends) ? -1 : read(ends[0], &byte, 1);
}

UNTRACED static long wait_futex(void)
{
	static int word;

	return syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
}

UNTRACED static long wait_futex_time(void)
{
	static int word;
	struct timespec time = { LONG_S, 0 };

	return syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &time, NULL, 0);
}

UNTRACED static long wait_condition(void)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;

	pthread_mutex_lock(&mutex);
	return pthread_cond_wait(&condition, &mutex);
}

UNTRACED static int listener(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	/* Bound without a name: the kernel chooses a name. */
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address.sun_family)) || listen(fd, 1))
		return -1;
	return fd;
}

UNTRACED static long wait_accept(void)
{
	return accept(listener(), NULL, NULL);
}

UNTRACED static long wait_receive_time(void)
{
	struct timeval time = { LONG_S, 0 };
	int ends[2];
	char byte;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) ||
	    setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time)))
		return -1;
	return recv(ends[0], &byte, 1, 0);
}

UNTRACED static long wait_poll(void)
{
	struct pollfd fd = { listener(), POLLIN, 0 };

	return poll(&fd, 1, -1);
}

UNTRACED static long wait_poll_time(void)
{
	struct pollfd fd = { listener(), POLLIN, 0 };

	return poll(&fd, 1, LONG_S * 1000);
}

UNTRACED static long wait_select(void)
{
	int fd = listener();
	fd_set set;

	FD_ZERO(&set);
	FD_SET(fd, &set);
	return select(fd + 1, &set, NULL, NULL, NULL);
}

UNTRACED static long wait_epoll(void)
{
	struct epoll_event event = { .events = EPOLLIN };
	int fd = epoll_create1(0);

	epoll_ctl(fd, EPOLL_CTL_ADD, listener(), &event);
	return epoll_wait(fd, &event, 1, -1);
}

UNTRACED static long wait_signal(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	return sigwaitinfo(&set, NULL);
}

UNTRACED static long wait_suspend(void)
{
	sigset_t set;

	sigfillset(&set);
	return sigsuspend(&set);
}

UNTRACED static long wait_semaphore(void)
{
	int id = semget(IPC_PRIVATE, 1, 0600);
	struct sembuf down = { 0, -1, 0 };
	long result;

	result = semop(id, &down, 1);
	return result;
}

UNTRACED static long wait_event(void)
{
	uint64_t value;

	return read(eventfd(0, 0), &value, sizeof(value));
}

UNTRACED static long wait_child(void)
{
	int ends[2];
	char byte;
	pid_t pid;

	if (pipe(ends))
		return -1;
	pid = fork();
	if (!pid) {
		close(ends[1]);
		/* Runs until its parent has exited. */
		if (read(ends[0], &byte, 1) <= 0)
			_exit(0);
	}
	return waitpid(pid, NULL, 0);
}

UNTRACED static long sleep_whole(clockid_t clock)
{
	struct timespec time = { SLEEP_S, 0 }, begin, end;
	long result;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	result = clock_nanosleep(clock, 0, &time, NULL);
	clock_gettime(CLOCK_MONOTONIC, &end);
	if (result || (end.tv_sec - begin.tv_sec) * 1000 + (end.tv_nsec - begin.tv_nsec) / 1000000 < SLEEP_S * 1000)
		return result;
	__atomic_fetch_add(&slept, 1, __ATOMIC_RELAXED);
	for (;;)
		pause();
}

UNTRACED static long wait_nanosleep(void)
{
	return sleep_whole(CLOCK_REALTIME);
}

UNTRACED static long wait_clock_nanosleep(void)
{
	return sleep_whole(CLOCK_MONOTONIC);
}

static const struct way {
	const char *name;
	long (*wait)(void);
} ways[] = {
	{ "read", wait_read },
	{ "futex", wait_futex },
	{ "futex with a time", wait_futex_time },
	{ "condition", wait_condition },
	{ "accept", wait_accept },
	{ "recv with a time", wait_receive_time },
	{ "poll", wait_poll },
	{ "poll with a time", wait_poll_time },
	{ "select", wait_select },
	{ "epoll_wait", wait_epoll },
	{ "sigwaitinfo", wait_signal },
	{ "sigsuspend", wait_suspend },
	{ "semop", wait_semaphore },
	{ "eventfd", wait_event },
	{ "waitpid", wait_child },
	{ "nanosleep", wait_nanosleep },
	{ "clock_nanosleep", wait_clock_nanosleep },
};
#define WAYS (sizeof(ways) / sizeof(ways[0]))

UNTRACED static void *thread(void *arg)
{
	const struct way *way = arg;
	char text[128];
	long result;
	int n;

	errno = 0;
	result = way->wait();
	n = snprintf(text, sizeof(text), "%s returned %ld: %s\n", way->name, result, strerror(errno));
	if (write(progress_fd, text, (size_t)n) != n)
		abort();
	for (;;)
		pause();
	return NULL;
}

UNTRACED static void *work(void *arg)
{
	for (long n = 0;; n++)
		if (leaf(n) != n + 1)
			abort();
	return arg;
}

UNTRACED int main(int argc, char **argv)
{
	pthread_t started;
	sigset_t set;
	int number;

	if (argc < 2)
		return 2;
	/* The kernel removes the semaphore with the process. */
	if (unshare(CLONE_NEWIPC))
		return 2;
	progress_fd = open(argv[1], O_WRONLY | O_CREAT | O_APPEND, 0644);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	for (size_t i = 0; i < WAYS; i++)
		if (pthread_create(&started, NULL, thread, (void *)&ways[i]))
			return 2;
	if (pthread_create(&started, NULL, work, NULL))
		return 2;
	usleep(100000);
	puts("ready");
	fflush(stdout);
	sigdelset(&set, SIGUSR2);
	sigwait(&set, &number);
	printf("slept %d\n", slept);
	return 0;
}
