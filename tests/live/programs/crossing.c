// SPDX-License-Identifier: BSD-2-Clause
/*
 * Eight busy threads on fewer CPUs, so the kernel preempts them in BPF programs: crossing ROUNDS. Each thread has its
 * own function, custom events and typed events. Each round N of thread T is one call own_T(T, N, N+T, N-T, N*T,
 * ~N), one custom event and one typed event of type 0x1000+T, both with the payload "T:N" and spaces up to a size that
 * depends on the round. Prints the calls of each function.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRACED __attribute__((noinline, xray_always_instrument))
#define UNTRACED __attribute__((xray_never_instrument, noinline))

#define THREADS 8

static volatile long sink;
static long rounds, calls[THREADS];
static pthread_barrier_t begin;

#define OWN(thread)                                                                                                    \
	TRACED static void own_##thread(long t, long n, long sum, long difference, long product, long inverse)         \
	{                                                                                                              \
		sink = t + n + sum + difference + product + inverse;                                                   \
		calls[thread]++;                                                                                       \
	}                                                                                                              \
	TRACED static void custom_##thread(const char *payload, size_t size)                                           \
	{                                                                                                              \
		__xray_customevent(payload, size);                                                                     \
	}                                                                                                              \
	TRACED static void typed_##thread(const char *payload, size_t size)                                            \
	{                                                                                                              \
		__xray_typedevent(0x1000 + thread, payload, size);                                                     \
	}
OWN(0)
OWN(1)
OWN(2)
OWN(3)
OWN(4)
OWN(5)
OWN(6)
OWN(7)

static void (*const own[])(long, long, long, long, long, long) = { own_0, own_1, own_2, own_3,
								   own_4, own_5, own_6, own_7 };
static void (*const custom[])(const char *, size_t) = { custom_0, custom_1, custom_2, custom_3,
							custom_4, custom_5, custom_6, custom_7 };
static void (*const typed[])(const char *, size_t) = { typed_0, typed_1, typed_2, typed_3,
						       typed_4, typed_5, typed_6, typed_7 };

UNTRACED static void *work(void *arg)
{
	/* With 600, there is a size for each kind of record (room_of() in bpf/sled.bpf.c). */
	static const size_t sizes[] = { 16, 100 };
	long t = (long)arg;
	char payload[604];
	size_t size;

	pthread_barrier_wait(&begin);
	for (long n = 0; n < rounds; n++) {
		snprintf(payload, sizeof(payload), "%ld:%-600ld", t, n);
		own[t](t, n, n + t, n - t, n * t, ~n);
		size = n % 64 ? sizes[n % 2] : 600;
		custom[t](payload, size);
		typed[t](payload, size);
	}
	return NULL;
}

UNTRACED int main(int argc, char **argv)
{
	pthread_t threads[THREADS];

	rounds = argc > 1 ? atol(argv[1]) : 1000;
	pthread_barrier_init(&begin, NULL, THREADS);
	for (long t = 0; t < THREADS; t++)
		if (pthread_create(&threads[t], NULL, work, (void *)t))
			return 1;
	for (int t = 0; t < THREADS; t++) {
		pthread_join(threads[t], NULL);
		printf("calls own_%d %ld\n", t, calls[t]);
	}
	return 0;
}
