// SPDX-License-Identifier: BSD-2-Clause
/*
 * holder FILE: works until it is killed. At SIGUSR1, one thread reads a page of FILE, which it has mapped, and another
 * one maps memory. If the file system answers the first read of the page with an error and never answers the second one
 * (served.c, SIGUSR2), the kernel holds the lock of the mappings from then on.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define UNTRACED __attribute__((xray_never_instrument, noinline))

static const volatile char *page;

__attribute__((noinline)) static void tick(void)
{
	__asm__ volatile("");
}

UNTRACED static void *read_page(void *arg)
{
	(void)*page;
	return arg;
}

UNTRACED static void *map_something(void *arg)
{
	mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return arg;
}

UNTRACED static void *hold(void *arg)
{
	pthread_t reader;
	const sigset_t *wanted = arg;
	int number;

	sigwait(wanted, &number);
	pthread_create(&reader, NULL, read_page, NULL);
	usleep(300000);
	map_something(NULL);
	return NULL;
}

UNTRACED int main(int argc, char **argv)
{
	sigset_t wanted;
	pthread_t holder;
	int fd = argc > 1 ? open(argv[1], O_RDONLY) : -1;

	page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
	if (page == MAP_FAILED)
		return 1;
	madvise((void *)page, 4096, MADV_RANDOM);
	sigemptyset(&wanted);
	sigaddset(&wanted, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &wanted, NULL);
	pthread_create(&holder, NULL, hold, &wanted);
	puts("ready");
	fflush(stdout);
	for (;;) {
		for (int i = 0; i < 100000; i++)
			tick();
		usleep(1000);
	}
}
