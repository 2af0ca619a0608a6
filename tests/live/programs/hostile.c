/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A target that attacks xprof during the recording and checks its own results: exits with 0 at SIGTERM, with 1 if a
 * result was wrong. Usage: hostile MODE [FILE]. It prints its PID.
 *
 * swap FILE: a helper that shares its files replaces each memfd of xprof with an O_PATH descriptor of FILE.
 * loop: a helper replaces the code of the calls that xprof makes it execute with an endless loop.
 * calm: no attack.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define FDS_MAX 10 /* the process uses the lowest free descriptors */

static volatile sig_atomic_t ended;

#define NO_SLED __attribute__((xray_never_instrument, noinline))

__attribute__((noinline)) int twice(int value)
{
	__asm__ volatile("");
	return 2 * value;
}

__attribute__((noinline)) int sum(int count)
{
	int total = 0;

	for (int i = 0; i < count; i++)
		total += twice(i);
	return total;
}

NO_SLED static void end(int number)
{
	(void)number;
	ended = 1;
}

NO_SLED static int work(void)
{
	signal(SIGTERM, end);
	while (!ended) {
		if (sum(10) != 90)
			return 1;
		usleep(500);
	}
	return 0;
}

NO_SLED static void swap(int bait)
{
	char path[64], name[64];

	for (;;)
		for (int fd = 3; fd < FDS_MAX; fd++) {
			ssize_t n;

			snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
			n = readlink(path, name, sizeof(name) - 1);
			name[n > 0 ? n : 0] = 0;
			if (!strncmp(name, "/memfd:xprof", 12))
				dup2(bait, fd);
		}
}

/* Replaces a syscall instruction, after the first two bytes of a sled. */
NO_SLED static void loop(pid_t target)
{
	static const uint8_t code[] = { 0x0f, 0x05 }, endless[] = { 0xeb, 0xfe };
	const uintptr_t sleds[] = { (uintptr_t)twice, (uintptr_t)sum };
	char path[64];
	int memory;

	snprintf(path, sizeof(path), "/proc/%d/mem", target);
	memory = open(path, O_RDWR);
	for (;;)
		for (size_t i = 0; i < sizeof(sleds) / sizeof(*sleds); i++) {
			uint8_t now[sizeof(code)];

			if (pread(memory, now, sizeof(now), (off_t)(sleds[i] + 2)) != sizeof(now))
				_exit(0);
			if (!memcmp(now, code, sizeof(now)) &&
			    pwrite(memory, endless, sizeof(endless), (off_t)(sleds[i] + 2)) != sizeof(endless))
				_exit(0);
		}
}

NO_SLED int main(int argc, char **argv)
{
	int bait = argc > 2 ? open(argv[2], O_PATH) : -1;
	pid_t helper = 0;

	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	prctl(PR_SET_DUMPABLE, 1);
	if (argc < 2 || (!strcmp(argv[1], "swap") && bait < 0))
		return 2;
	printf("%d\n", (int)getpid());
	fflush(stdout);
	if (!strcmp(argv[1], "swap"))
		helper = (pid_t)syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
	else if (!strcmp(argv[1], "loop"))
		helper = fork();
	if (!helper && strcmp(argv[1], "calm")) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (bait >= 0)
			swap(bait);
		loop(getppid());
	}
	return work();
}
