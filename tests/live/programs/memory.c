// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
/*
 * Cases in which it is hard to find out which thread's calls are in which ring: WAY COUNT, see main(). Prints the
 * number of calls.
 */
#include <linux/io_uring.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "go.h"

#define THREADS 4

static long calls_of_work, calls_of_inner, calls_of_handler, calls_of_child, calls_of_outer;
static volatile long sink;

TRACED static void inner(long n)
{
	sink += n;
}

TRACED static void work(long n)
{
	inner(n);
	sink--;
}

TRACED static void child(void)
{
	sink++;
}

TRACED static void handler(int number)
{
	sink += number;
	__atomic_fetch_add(&calls_of_handler, 1, __ATOMIC_RELAXED);
}

UNTRACED static void *work_often(void *count)
{
	for (long i = 0; i < (long)count; i++)
		work(i);
	__atomic_fetch_add(&calls_of_work, (long)count, __ATOMIC_RELAXED);
	__atomic_fetch_add(&calls_of_inner, (long)count, __ATOMIC_RELAXED);
	return NULL;
}

static int go_argc;
static char **go_argv;

/* Calls, and waits in the middle of a call. */
TRACED static void outer(long count)
{
	work_often((void *)count);
	wait_for_go(go_argc, go_argv);
	calls_of_outer++;
}

/* All threads at full speed: rings become full repeatedly. */
UNTRACED static void fast(long count)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, work_often, (void *)count);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

/* Threads one after the other, which have the same fs base, and several at a time. */
UNTRACED static void threads(long count)
{
	for (long i = 0; i < count; i++) {
		pthread_t one, other;

		pthread_create(&one, NULL, work_often, (void *)3);
		if (i % 3 == 0)
			pthread_create(&other, NULL, work_often, (void *)2);
		pthread_join(one, NULL);
		if (i % 3 == 0)
			pthread_join(other, NULL);
	}
}

UNTRACED static void signals(long count)
{
	const struct itimerval interval = { { 0, 200 }, { 0, 200 } };

	signal(SIGALRM, handler);
	setitimer(ITIMER_REAL, &interval, NULL);
	work_often((void *)count);
	setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL);
}

/* The child has the memory and the fs base of its parent, which waits. */
UNTRACED static void vforks(long count)
{
	for (long i = 0; i < count; i++) {
		pid_t pid;

		work_often((void *)2);
		pid = vfork();
		if (!pid) {
			child();
			if (i % 2)
				execl("/bin/true", "true", (char *)NULL);
			_exit(0);
		}
		waitpid(pid, NULL, 0);
		__atomic_fetch_add(&calls_of_child, 1, __ATOMIC_RELAXED);
	}
}

UNTRACED static void forks(long count)
{
	for (long i = 0; i < count; i++) {
		pid_t pid = fork();

		work_often((void *)2);
		if (!pid)
			_exit(0);
		waitpid(pid, NULL, 0);
	}
}

UNTRACED static int without_tls(void *done)
{
	for (int i = 0; i < 1000; i++)
		inner(i);
	__atomic_fetch_add(&calls_of_inner, 1000, __ATOMIC_RELAXED);
	__atomic_store_n((int *)done, 1, __ATOMIC_RELEASE);
	syscall(SYS_exit, 0);
	return 0;
}

/* A thread with the fs base of its creator, which runs at the same time. */
UNTRACED static void shared(long count)
{
	const int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
	char *stack = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (long i = 0; i < count; i++) {
		int done = 0;

		if (clone(without_tls, stack + 65536, flags, &done) < 0)
			exit(1);
		while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE))
			work_often((void *)1);
		usleep(1000);
	}
}

/* The kernel creates two threads in the process, for reads of an empty pipe. */
UNTRACED static void begin_to_read(void)
{
	struct io_uring_params params = { 0 };
	static char bytes[2];
	int ring = (int)syscall(SYS_io_uring_setup, 2, &params), pipes[2];
	unsigned int *queue, *tail;
	struct io_uring_sqe *entries;
	char *memory;

	if (ring < 0 || pipe(pipes))
		exit(77);
	memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
	entries = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
	queue = (unsigned int *)(memory + params.sq_off.array);
	tail = (unsigned int *)(memory + params.sq_off.tail);
	for (unsigned int i = 0; i < 2; i++) {
		entries[i] = (struct io_uring_sqe){ .opcode = IORING_OP_READ,
						    .flags = IOSQE_ASYNC,
						    .fd = pipes[0],
						    .addr = (unsigned long)&bytes[i],
						    .len = 1 };
		queue[i] = i;
	}
	__atomic_store_n(tail, 2, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, ring, 2, 0, 0, NULL, 0) != 2)
		exit(77);
}

/* Some threads before it waits, which exist when xprof attaches, and some after it. */
UNTRACED static void kernel_threads(long count)
{
	begin_to_read();
	wait_for_go(go_argc, go_argv);
	begin_to_read();
	work_often((void *)count);
}

/* Returns the address of the memory with the rings; 0: none. */
UNTRACED static char *find_rings(size_t *bytes)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512], *found = NULL;
	unsigned long start, end;

	while (maps && !found && fgets(line, sizeof(line), maps))
		if (strstr(line, " rw-s ") && strstr(line, "memfd:xprof") &&
		    sscanf(line, "%lx-%lx", &start, &end) == 2) {
			found = (char *)start;
			*bytes = end - start;
		}
	if (maps)
		fclose(maps);
	return found;
}

UNTRACED static void *take_pages_away(void *until)
{
	size_t bytes = 0;
	char *rings = find_rings(&bytes);

	while (rings && !__atomic_load_n((int *)until, __ATOMIC_RELAXED))
		madvise(rings, bytes, MADV_REMOVE);
	return NULL;
}

/* Makes calls while two threads keep freeing the pages of the rings. */
UNTRACED static void steal(long count)
{
	pthread_t thieves[2];
	int end = 0;

	for (int i = 0; i < 2; i++)
		pthread_create(&thieves[i], NULL, take_pages_away, &end);
	for (long i = 0; i < count; i++) {
		work_often((void *)10);
		usleep(100);
	}
	__atomic_store_n(&end, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < 2; i++)
		pthread_join(thieves[i], NULL);
}

/* Makes calls, overwrites the memory at a signal, and makes calls at the next signal. */
UNTRACED static void scribble(long count)
{
	unsigned long value = 88172645463325252;
	size_t bytes = 0;
	char *rings;

	work_often((void *)count);
	wait_for_go(go_argc, go_argv);
	rings = find_rings(&bytes);
	for (size_t i = 0; rings && i + 8 <= bytes && i < 4 << 20; i += 8) { /* the slots, and enough of the rings */
		value ^= value << 13;
		value ^= value >> 7;
		value ^= value << 17;
		*(unsigned long *)(rings + i) = value;
	}
	wait_for_go(go_argc, go_argv);
	calls_of_work = calls_of_inner = 0;
	work_often((void *)count);
}

/* Writes forged headers, records and keys to their usual places. */
__attribute__((target("fsgsbase"))) UNTRACED static void *forge(void *unused)
{
	const size_t block = 4096 + 16 * 16384, used = 64 * block, tables = (256 + 8) * block;
	unsigned long value = 88172645463325252 ^ (unsigned long)getpid(), *word;
	size_t bytes = 0;
	char *rings = find_rings(&bytes);

	for (long i = 0; rings; i++) {
		value ^= value << 13;
		value ^= value >> 7;
		value ^= value << 17;
		word = (unsigned long *)(rings + (i % 3 ? value % used / block * block : tables));
		if (i % 3 == 0)
			word[value % (bytes - tables) / 8] = __builtin_ia32_rdfsbase64() << 8 | (value >> 32) % 256;
		else if (i % 3 == 1)
			word[(value >> 40) % 6] = value & 64 ? value : value >> 44;
		else {
			word += 512 + (value >> 40) % 16384 * 2;
			word[0] = __builtin_ia32_rdtsc() << 12;
			word[1] = value & 256 ? value : value << 32 | (value >> 32) % 3 << 24 | (value >> 36) % 8;
		}
	}
	return unused;
}

/*
 * Makes calls without privileges and overwrites its rings meanwhile, as do its children. Exits only after the rings are
 * unmapped.
 */
UNTRACED static void forge_all(long count)
{
	pthread_t forger;

	if (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
		return;
	for (int i = 0; i < 3 && fork(); i++)
		;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pthread_create(&forger, NULL, forge, NULL);
	for (;;)
		work_often((void *)count);
}

/* Each call has another fs base. Uses no TLS meanwhile. Waits at the end. */
__attribute__((target("fsgsbase"))) UNTRACED static void flood(long count)
{
	const unsigned long fs_base = __builtin_ia32_rdfsbase64();

	for (long i = 0; i < count; i++) {
		__builtin_ia32_wrfsbase64(fs_base + 4096 * (unsigned long)(1 + i % 200));
		work(i);
	}
	__builtin_ia32_wrfsbase64(fs_base);
	calls_of_work += count;
	calls_of_inner += count;
	wait_for_go(go_argc, go_argv);
}

/* Then the stub's rdtsc kills the thread. */
UNTRACED static void forbid_tsc(long count)
{
	work_often((void *)count);
	prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
	work_often((void *)1);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(long count);
	} ways[] = { { "fast", fast },
		     { "threads", threads },
		     { "signals", signals },
		     { "vfork", vforks },
		     { "fork", forks },
		     { "shared", shared },
		     { "steal", steal },
		     { "scribble", scribble },
		     { "forge", forge_all },
		     { "flood", flood },
		     { "forbid_tsc", forbid_tsc },
		     { "kernel_threads", kernel_threads } };
	long count;

	if (argc < 4)
		return 2;
	wait_for_go(argc, argv);
	count = atol(argv[3]);
	go_argc = argc;
	go_argv = argv;
	for (unsigned int i = 0; i < sizeof(ways) / sizeof(*ways); i++)
		if (!strcmp(argv[2], ways[i].name))
			ways[i].run(count);
	if (!strcmp(argv[2], "twice")) {
		work_often((void *)count);
		calls_of_work = calls_of_inner = 0;
		wait_for_go(argc, argv);
		work_often((void *)count);
	}
	for (int round = 0; !strcmp(argv[2], "rounds") && round < 3; round++) {
		outer(count);
		wait_for_go(argc, argv);
	}
	if (!strcmp(argv[2], "kill")) {
		work_often((void *)count);
		kill(getpid(), SIGKILL);
	}
	PRINT_COUNT(work);
	PRINT_COUNT(inner);
	PRINT_COUNT(handler);
	PRINT_COUNT(child);
	PRINT_COUNT(outer);
	return 0;
}
