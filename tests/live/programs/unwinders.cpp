// SPDX-License-Identifier: BSD-2-Clause
/*
 * Functions without sleds whose frames are unwound in the process. For each line on stdin: exceptions pass through
 * them, signal handlers call backtrace(3) in them, and a thread is canceled in them. Then prints how often each was
 * called, and "good", or what went wrong.
 */
#include <cstdio>
#include <cstring>
#include <execinfo.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <unistd.h>

#define API extern "C" __attribute__((noinline))
#define LOOPS 200
#define PLAIN_LOOPS 1000 /* a call ring has 8192 records */
#define FRAMES_MAX 64

enum { THROWER, THROUGH, CATCHER, RAISER, OUTER, INNER, PLAIN, BLOCKED, CANCELED, COUNT };
static const char *const names[COUNT] = { "thrower", "through", "catcher", "raiser",  "outer",
					  "inner",   "plain",	"blocked", "canceled" };
static unsigned long counts[COUNT], cleaned, unwound;
static const char *error;
static void *return_address;
static volatile int sink;
static sem_t started;
static pthread_t main_thread;
static volatile bool interrupts;
static volatile unsigned long handled;

struct cleaner {
	~cleaner()
	{
		cleaned++;
	}
};

API int thrower(int n)
{
	counts[THROWER]++;
	if (n % 2)
		throw n;
	return n;
}

API int through(int n)
{
	cleaner here;

	counts[THROUGH]++;
	return thrower(n) + sink;
}

API int catcher(int n)
{
	counts[CATCHER]++;
	try {
		return through(n);
	} catch (int thrown) {
		return -thrown;
	}
}

static void handle(int)
{
	void *frames[FRAMES_MAX];
	int count = backtrace(frames, FRAMES_MAX);

	for (int i = 0; i < count; i++)
		unwound += frames[i] == return_address;
}

/* At any instruction, also one that was moved. */
static void handle_any(int)
{
	void *frames[FRAMES_MAX];

	if (backtrace(frames, FRAMES_MAX) < 1)
		error = "backtrace() does not see the handler";
	handled = handled + 1;
}

static void *interrupt(void *)
{
	for (unsigned long sent = handled; interrupts; sent++) {
		pthread_kill(main_thread, SIGUSR2);
		while (handled == sent && interrupts)
			sched_yield();
		for (unsigned long i = 0; i < sent % 64; i++)
			__asm__ volatile("pause");
	}
	return nullptr;
}

/* The signal comes in raise(), so the stack below it is whole. */
API int raiser(int n)
{
	counts[RAISER]++;
	raise(SIGUSR1);
	return n + sink;
}

API int outer(int n)
{
	counts[OUTER]++;
	return_address = __builtin_return_address(0);
	return raiser(n) + sink;
}

API int inner(int n)
{
	counts[INNER]++;
	return n + sink;
}

API int plain(int n)
{
	counts[PLAIN]++;
	return inner(n) + sink;
}

API int blocked(int n)
{
	cleaner here;

	counts[BLOCKED]++;
	sem_post(&started);
	pause();
	return n + sink;
}

API int canceled(int n)
{
	counts[CANCELED]++;
	return blocked(n) + sink;
}

/* Without exceptions: libgcc itself crashes if a handler unwinds _Unwind_Resume(). */
static void be_interrupted()
{
	pthread_t interrupter;

	interrupts = true;
	pthread_create(&interrupter, nullptr, interrupt, nullptr);
	for (int i = 0; i < PLAIN_LOOPS; i++)
		plain(i);
	interrupts = false;
	pthread_join(interrupter, nullptr);
}

static void *run_thread(void *)
{
	canceled(1);
	return nullptr;
}

static void cancel_thread()
{
	pthread_t thread;
	void *result;

	pthread_create(&thread, nullptr, run_thread, nullptr);
	sem_wait(&started);
	pthread_cancel(thread);
	pthread_join(thread, &result);
	if (result != PTHREAD_CANCELED)
		error = "a thread was not canceled";
}

int main()
{
	char line[16];

	main_thread = pthread_self();
	sem_init(&started, 0, 0);
	signal(SIGUSR1, handle);
	signal(SIGUSR2, handle_any);
	puts("ready");
	for (fflush(stdout); fgets(line, sizeof(line), stdin); fflush(stdout)) {
		cleaned = unwound = 0;
		memset(counts, 0, sizeof(counts));
		be_interrupted();
		for (int i = 0; i < LOOPS; i++) {
			if (catcher(i) != (i % 2 ? -i : i))
				error = "an exception was not caught";
			outer(i);
			cancel_thread();
		}
		if (cleaned != 2 * LOOPS)
			error = "destructors did not run";
		if (unwound != LOOPS)
			error = "backtrace() lacks callers";
		for (int i = 0; i < COUNT; i++)
			printf("calls %s %lu\n", names[i], counts[i]);
		puts(error ? error : "good");
	}
	return 0;
}
