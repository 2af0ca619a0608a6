// SPDX-License-Identifier: BSD-2-Clause
/*
 * Threads that wait in known ways: waits SECONDS. Each makes only one kind of wait, in its own function, and measures
 * it by the clock. When all have exited, the program prints a line for each thread:
 *
 *   NAME TID WAITED_NS SWITCHES RUN_DELAY_NS LIFE_NS BIRTH_NS DEATH_NS
 *
 * WAITED_NS is the time in its function. SWITCHES and RUN_DELAY_NS are the kernel's account of the thread
 * (/proc/thread-self/status and schedstat). A thread cannot measure how long it waits for a CPU between its creation
 * and its first reading of the clock (included in LIFE_NS), and between its last reading and its exit (not included):
 * BIRTH_NS and DEATH_NS are upper limits of these times. "hanging" never ends: it waits for a lock that its holder
 * still holds when the process exits.
 *
 * waits SECONDS FILE: other threads. "faulting" waits for pages of that file, which it makes. "urgent" waits for a lock
 * whose holder, "modest", gets no CPU, because "hog" uses it: priorities are inverted. If there are no real-time
 * priorities, these threads do nothing, and print nothing.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HERE __attribute__((noinline))

/* On a busy machine, each thread continues until it has waited this often for each second. */
#define ROUNDS_A_SECOND 40
#define ROUND_NS 2000000
#define INVERSIONS 8

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, kept = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t mail = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t mailed = PTHREAD_COND_INITIALIZER;
static int letters, ends[2];
static atomic_bool is_over;
static uint64_t until_ns;
static double rounds_min;

/* A measured thread. */
static struct account {
	const char *name; /* NULL: it prints nothing */
	pid_t tid;
	uint64_t waited_ns;
	uint64_t switches;
	uint64_t run_delay_ns;
	uint64_t born_ns, begun_ns, ended_ns; /* when */
} accounts[6];

static uint64_t now_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static int is_time_left(void)
{
	return now_ns(CLOCK_MONOTONIC) < until_ns;
}

static void doze(unsigned int us)
{
	const struct timespec time = { us / 1000000, us % 1000000 * 1000 };

	nanosleep(&time, NULL);
}

static HERE void wait_asleep(void)
{
	doze(7000);
	__asm__ volatile("");
}

static HERE void wait_for_lock(void)
{
	pthread_mutex_lock(&lock);
	__asm__ volatile("");
}

static HERE void wait_for_pipe(void)
{
	char byte;

	if (read(ends[0], &byte, 1) != 1)
		abort();
	__asm__ volatile("");
}

static HERE void wait_for_mail(void)
{
	pthread_mutex_lock(&mail);
	while (!letters)
		pthread_cond_wait(&mailed, &mail);
	letters--;
	pthread_mutex_unlock(&mail);
}

/* The parent of vfork() cannot be interrupted: state D. */
static HERE void wait_for_child(void)
{
	pid_t child = vfork();

	if (!child) {
		doze(20000);
		_exit(0);
	}
	__asm__ volatile("" ::"r"(child));
	waitpid(child, NULL, 0);
}

static HERE void wait_for_cpu(void)
{
	uint64_t wall_ns = now_ns(CLOCK_MONOTONIC);

	while (now_ns(CLOCK_MONOTONIC) - wall_ns < 20000000)
		;
}

/* ---- threads ---- */

static uint64_t look(const char *file, const char *key)
{
	char path[64], line[256];
	uint64_t value = 0;
	FILE *stream;

	snprintf(path, sizeof(path), "/proc/thread-self/%s", file);
	stream = fopen(path, "r");
	while (stream && fgets(line, sizeof(line), stream)) {
		if (!key)
			sscanf(line, "%*u %lu", &value);
		else if (!strncmp(line, key, strlen(key)))
			value += strtoull(line + strlen(key), NULL, 10);
	}
	if (stream)
		fclose(stream);
	return value;
}

static void begin(const char *name)
{
	pthread_setname_np(pthread_self(), name);
}

static void measure(struct account *account)
{
	account->begun_ns = now_ns(CLOCK_MONOTONIC);
}

static void end(struct account *account, const char *name, uint64_t waited_ns)
{
	account->ended_ns = now_ns(CLOCK_MONOTONIC);
	account->tid = gettid();
	account->waited_ns = waited_ns;
	account->switches = look("status", "voluntary_ctxt_switches:") + look("status", "nonvoluntary_ctxt_switches:");
	account->run_delay_ns = look("schedstat", NULL);
	account->name = name;
}

/* Waits until all threads have exited, and prints their measurements. */
static void print_accounts(const pthread_t *threads, int count)
{
	uint64_t dead_ns[6] = { 0 }, begin_ns = now_ns(CLOCK_MONOTONIC);

	if (begin_ns < until_ns)
		doze((until_ns - begin_ns) / 1000);
	for (int left = count; left; doze(2000))
		for (int i = 0; i < count; i++)
			if (!dead_ns[i] && !pthread_tryjoin_np(threads[i], NULL)) {
				dead_ns[i] = now_ns(CLOCK_MONOTONIC);
				left--;
			}
	for (int i = 0; i < count; i++) {
		const struct account *of = &accounts[i];

		if (of->name)
			printf("%s %d %lu %lu %lu %lu %lu %lu\n", of->name, of->tid, of->waited_ns, of->switches,
			       of->run_delay_ns, of->ended_ns - of->born_ns, of->begun_ns - of->born_ns,
			       dead_ns[i] - of->ended_ns);
	}
}

/* Waits repeatedly, and calls `after` in between. */
static void repeat(const char *name, struct account *account, void (*wait)(void), void (*after)(void))
{
	uint64_t waited_ns = 0;

	measure(account);
	begin(name);
	for (int rounds = 0; is_time_left() || rounds < rounds_min;) {
		uint64_t from_ns = now_ns(CLOCK_MONOTONIC), round_ns;

		wait();
		round_ns = now_ns(CLOCK_MONOTONIC) - from_ns;
		waited_ns += round_ns;
		rounds += round_ns > ROUND_NS;
		if (after)
			after();
	}
	end(account, name, waited_ns);
}

static void give_lock(void)
{
	pthread_mutex_unlock(&lock);
	doze(1000);
}

static void *sleeper(void *arg)
{
	repeat("sleeper", arg, wait_asleep, NULL);
	return arg;
}

static void *taker(void *arg)
{
	doze(1000); /* the holder locks first */
	repeat("taker", arg, wait_for_lock, give_lock);
	return arg;
}

static void *holder(void *arg)
{
	begin("holder");
	while (!is_over) {
		pthread_mutex_lock(&lock);
		doze(12000);
		pthread_mutex_unlock(&lock);
		doze(3000);
	}
	return arg;
}

static void *reader(void *arg)
{
	repeat("reader", arg, wait_for_pipe, NULL);
	return arg;
}

static void *writer(void *arg)
{
	begin("writer");
	while (!is_over) {
		doze(5000);
		if (write(ends[1], "", 1) != 1)
			abort();
	}
	return arg;
}

static void *addressee(void *arg)
{
	repeat("addressee", arg, wait_for_mail, NULL);
	return arg;
}

static void *mailer(void *arg)
{
	begin("mailer");
	while (!is_over) {
		doze(9000);
		pthread_mutex_lock(&mail);
		letters++;
		pthread_cond_signal(&mailed);
		pthread_mutex_unlock(&mail);
	}
	return arg;
}

static void *parent(void *arg)
{
	repeat("parent", arg, wait_for_child, NULL);
	return arg;
}

static void pin(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(sysconf(_SC_NPROCESSORS_ONLN) - 1, &set);
	pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

/* All time in which the thread does not run is a wait. */
static void *starved(void *arg)
{
	uint64_t begun_ns = now_ns(CLOCK_MONOTONIC), ran_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);

	measure(arg);
	begin("starved");
	pin();
	while (is_time_left())
		wait_for_cpu();
	ran_ns = now_ns(CLOCK_THREAD_CPUTIME_ID) - ran_ns;
	end(arg, "starved", now_ns(CLOCK_MONOTONIC) - begun_ns - ran_ns);
	return arg;
}

static void *neighbour(void *arg)
{
	begin("neighbour");
	pin();
	while (!is_over)
		;
	return arg;
}

static void *hanging(void *arg)
{
	begin("hanging");
	pthread_mutex_lock(&kept);
	return arg;
}

/* ---- with FILE ---- */

#define PAGE 4096
#define STRIDE (16 * PAGE)
#define FAULTS 1024

static const volatile char *mapped;
static sem_t is_locked, is_wanted;

static const volatile char *map_file(const char *path)
{
	static char page[STRIDE];
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	void *map;

	for (int i = 0; i < FAULTS; i++)
		if (fd < 0 || write(fd, page, sizeof(page)) != sizeof(page))
			return NULL;
	/* Only clean pages can be dropped. */
	if (fsync(fd) || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED))
		return NULL;
	map = mmap(NULL, (size_t)FAULTS * STRIDE, PROT_READ, MAP_SHARED, fd, 0);
	return map == MAP_FAILED || madvise(map, (size_t)FAULTS * STRIDE, MADV_RANDOM) ? NULL : map;
}

/* How long a thread is in a function without a CPU: the whole time between start() and stop(). */
struct stopwatch {
	uint64_t off_ns;
	uint64_t wall_ns;
	uint64_t cpu_ns;
};

static inline void start(struct stopwatch *watch)
{
	watch->wall_ns = now_ns(CLOCK_MONOTONIC);
	watch->cpu_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);
}

static inline void stop(struct stopwatch *watch)
{
	uint64_t cpu_ns = now_ns(CLOCK_THREAD_CPUTIME_ID) - watch->cpu_ns;

	watch->off_ns += now_ns(CLOCK_MONOTONIC) - watch->wall_ns - cpu_ns;
}

static HERE void wait_for_page(struct stopwatch *watch, int i)
{
	start(watch);
	mapped[(size_t)i * STRIDE];
	stop(watch);
}

static void *faulting(void *arg)
{
	struct stopwatch watch = { 0 };

	measure(arg);
	begin("faulting");
	for (int i = 0; mapped && i < FAULTS && is_time_left(); i++) {
		wait_for_page(&watch, i);
		doze(6000);
	}
	end(arg, "faulting", watch.off_ns);
	return arg;
}

static int is_urgent(int priority)
{
	const struct sched_param param = { .sched_priority = priority };

	pin();
	return !priority || !pthread_setschedparam(pthread_self(), SCHED_FIFO, &param);
}

static void burn(uint64_t cpu_ns)
{
	uint64_t begun_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);

	while (now_ns(CLOCK_THREAD_CPUTIME_ID) - begun_ns < cpu_ns)
		;
}

static HERE void wait_for_modest(struct stopwatch *watch)
{
	start(watch);
	pthread_mutex_lock(&lock);
	stop(watch);
}

static void *urgent(void *arg)
{
	struct stopwatch watch = { 0 };

	measure(arg);
	begin("urgent");
	if (!is_urgent(3)) {
		is_over = 1;
		return NULL;
	}
	for (int round = 0; is_time_left() || round < INVERSIONS; round++) {
		sem_wait(&is_locked);
		sem_post(&is_wanted);
		wait_for_modest(&watch);
		pthread_mutex_unlock(&lock);
	}
	is_over = 1;
	sem_post(&is_wanted);
	end(arg, "urgent", watch.off_ns);
	return arg;
}

static HERE void work_with_lock(struct stopwatch *watch)
{
	start(watch);
	sem_post(&is_locked); /* from then on, it gets no CPU */
	burn(4000000);
	stop(watch);
}

static void *modest(void *arg)
{
	struct stopwatch watch = { 0 };

	measure(arg);
	begin("modest");
	is_urgent(0);
	while (!is_over) {
		pthread_mutex_lock(&lock);
		work_with_lock(&watch);
		pthread_mutex_unlock(&lock);
	}
	sem_post(&is_locked);
	end(arg, "modest", watch.off_ns);
	return arg;
}

static void *hog(void *arg)
{
	begin("hog");
	while (is_urgent(2) && !is_over) {
		sem_wait(&is_wanted);
		burn(12000000);
	}
	return arg;
}

int main(int argc, char **argv)
{
	static void *(*const helpers[])(void *) = { holder, writer, mailer, neighbour, hanging };
	static void *(*const others[])(void *) = { faulting, urgent, modest };
	static void *(*const measured[])(void *) = { sleeper, taker, reader, addressee, parent, starved };
	pthread_t threads[6], thread;

	if (argc < 2)
		return 2;
	if (argc > 2)
		mapped = map_file(argv[2]);
	until_ns = now_ns(CLOCK_MONOTONIC) + (uint64_t)(1e9 * atof(argv[1]));
	rounds_min = ROUNDS_A_SECOND * atof(argv[1]);
	if (pipe(ends))
		return 1;
	if (argc > 2) {
		sem_init(&is_locked, 0, 0);
		sem_init(&is_wanted, 0, 0);
		pthread_create(&thread, NULL, hog, NULL);
		for (int i = 0; i < 3; i++) {
			accounts[i].born_ns = now_ns(CLOCK_MONOTONIC);
			pthread_create(&threads[i], NULL, others[i], &accounts[i]);
		}
		print_accounts(threads, 3);
		return 0;
	}
	pthread_mutex_lock(&kept);
	for (int i = 0; i < 5; i++)
		pthread_create(&thread, NULL, helpers[i], NULL);
	for (int i = 0; i < 6; i++) {
		accounts[i].born_ns = now_ns(CLOCK_MONOTONIC);
		pthread_create(&threads[i], NULL, measured[i], &accounts[i]);
	}
	print_accounts(threads, 6);
	is_over = 1;
	return 0;
}
