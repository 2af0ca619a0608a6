// SPDX-License-Identifier: BSD-2-Clause
/*
 * victim THREADS PAUSE_US PROGRESS: works until it is killed and checks its results against those of the same functions
 * without sleds. Writes "rounds wrong" to the file PROGRESS, always at the same place. With -DPATCH and XRay's runtime,
 * SIGUSR1 makes the runtime patch the sleds and SIGUSR2 restore them; with the word "patched" after PROGRESS, the
 * runtime patches them immediately.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define UNTRACED __attribute__((xray_never_instrument, noinline))
#define TRACED __attribute__((noinline))

#define FUNCTIONS(name, attribute)                                                                                     \
	attribute static unsigned long name##_leaf(unsigned long a, unsigned long b, unsigned long c)                  \
	{                                                                                                              \
		return (a ^ b << 7) + c * 31;                                                                          \
	}                                                                                                              \
	attribute static double name##_real(double x)                                                                  \
	{                                                                                                              \
		return x * 0.5 + 3;                                                                                    \
	}                                                                                                              \
	attribute static unsigned long name##_tree(unsigned long n)                                                    \
	{                                                                                                              \
		if (n < 2)                                                                                             \
			return name##_leaf(n, n + 1, n + 2);                                                           \
		return name##_tree(n - 1) + name##_tree(n - 2) + (unsigned long)name##_real((double)n);                \
	}                                                                                                              \
	attribute static unsigned long name##_last(unsigned long n)                                                    \
	{                                                                                                              \
		return name##_tree(n & 7);                                                                             \
	}

FUNCTIONS(traced, TRACED)
FUNCTIONS(plain, UNTRACED)

static unsigned long rounds, wrong;
static useconds_t pause_us;

UNTRACED static void *work(void *arg)
{
	for (unsigned long n = (unsigned long)arg;; n++) {
		if (traced_last(n) != plain_last(n))
			__atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
		__atomic_fetch_add(&rounds, 1, __ATOMIC_RELAXED);
		if (pause_us)
			usleep(pause_us);
	}
	return NULL;
}

#ifdef PATCH
extern int __xray_set_handler(void (*)(int, int));
extern int __xray_patch(void);
extern int __xray_unpatch(void);

static unsigned long handled;

UNTRACED static void handler(int id, int kind)
{
	(void)id;
	(void)kind;
	__atomic_fetch_add(&handled, 1, __ATOMIC_RELAXED);
}

UNTRACED static void patch(void)
{
	__xray_set_handler(handler);
	if (__xray_patch() != 1)
		exit(4);
}

UNTRACED static void on_signal(int number)
{
	if (number == SIGUSR1)
		patch();
	else
		__xray_unpatch();
}

UNTRACED static void prepare(const char *word)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

	sigaction(SIGUSR1, &action, NULL);
	sigaction(SIGUSR2, &action, NULL);
	if (word && !strcmp(word, "patched"))
		patch();
}
#else
UNTRACED static void prepare(const char *word)
{
	(void)word;
}
#endif

UNTRACED int main(int argc, char **argv)
{
	pthread_t thread;
	char text[64];
	int fd;

	if (argc < 4)
		return 2;
	pause_us = (useconds_t)atoi(argv[2]);
	fd = open(argv[3], O_WRONLY | O_CREAT, 0644);
	if (fd < 0)
		return 2;
	prepare(argv[4]);
	for (long i = 0; i < atoi(argv[1]); i++)
		if (pthread_create(&thread, NULL, work, (void *)i))
			return 2;
	for (;;) {
		int n = snprintf(text, sizeof(text), "%-20lu %-20lu\n", __atomic_load_n(&rounds, __ATOMIC_RELAXED),
				 __atomic_load_n(&wrong, __ATOMIC_RELAXED));

		if (pwrite(fd, text, (size_t)n, 0) != n)
			return 2;
		usleep(5000);
	}
}
