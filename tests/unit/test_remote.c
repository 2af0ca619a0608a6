/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * System calls that a stopped process executes for xprof. If any process dies or interferes, at any moment, the target
 * continues with its registers, its signal mask and its system calls. The tracer dies before and after each of its
 * requests and each of its writes in turn.
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The tracer's requests, and the one at which it dies: 2n before, 2n + 1 after the nth. */
static int steps;
static int dies_at = -1;

static void step(void)
{
	if (steps++ == dies_at)
		kill(getpid(), SIGKILL);
}

static long dying_ptrace(int request, pid_t pid, uintptr_t address, uintptr_t data)
{
	long result;
	int error;

	step();
	result = syscall(SYS_ptrace, request, pid, address, data);
	error = errno;
	step();
	errno = error;
	return result;
}

/* The behaviour of writes to /proc/TID/mem. */
static enum { WORKS, REFUSED, HANGS } file;

static ssize_t dying_pwrite(int fd, const void *from, size_t size, off_t at)
{
	ssize_t n = -1;

	if (file == HANGS)
		pause();
	step();
	if (file == WORKS)
		n = pwrite(fd, from, size, at);
	else
		errno = EIO;
	step();
	return n;
}

/* Like glibc's ptrace(): a request that reads a word returns it. */
static long word_ptrace(int request, pid_t pid, uintptr_t address, uintptr_t data)
{
	long word = 0;

	if (request != PTRACE_PEEKTEXT)
		return dying_ptrace(request, pid, address, data);
	errno = 0;
	return dying_ptrace(request, pid, address, (uintptr_t)&word) < 0 ? -1 : word;
}

#include "target/remote.h"
#undef XP_REMOTE_WRITE_S
#define XP_REMOTE_WRITE_S 1
#define ptrace(request, pid, address, data) word_ptrace((int)(request), (pid), (uintptr_t)(address), (uintptr_t)(data))
#define pwrite dying_pwrite
#include "../../user/target/remote.c"
#include "../../user/target/remote_call.c"
#include "../../user/target/remote_thread.c"
#undef ptrace
#undef pwrite

#define STEPS_MAX 2000

/* Memory shared by the target and the test. */
struct shared {
	atomic_int runs; /* the target can be stopped now */
	atomic_int stop;
	int pad[2];
	uint8_t pattern[8][32];
};

_Static_assert(offsetof(struct shared, stop) == 4 && offsetof(struct shared, pattern) == 16, "as in check_registers()");

static struct shared *shared;

/* Never executed. */
__attribute__((noinline, used, aligned(4096))) static void scratch(void)
{
	__asm__ volatile(".skip 8192, 0x90");
}

static uint64_t scratch_address(void)
{
	return (uintptr_t)scratch + 32;
}

/* ---- targets ---- */

/*
 * long check_registers(struct shared *): sets registers, reports that it runs, and compares them until `stop` is set.
 * Returns 0 if they kept their values. Uses only the red zone of the stack, whose last word is compared too.
 */
long check_registers(struct shared *with);
__asm__(".text\n"
	"check_registers:\n"
	"push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15\n"
	"mov %rdi,%rsi\n"
	"vmovdqu 16(%rsi),%ymm0; vmovdqu 48(%rsi),%ymm1; vmovdqu 80(%rsi),%ymm2\n"
	"vmovdqu 112(%rsi),%ymm13; vmovdqu 144(%rsi),%ymm14; vmovdqu 176(%rsi),%ymm15\n"
	"mov $0x1111,%ebx; mov $0x2222,%r8d; mov $0x3333,%r9d; mov $0x4444,%r10d; mov $0x5555,%r11d\n"
	"mov $0x6666,%r12d; mov $0x7777,%r13d; mov $0x8888,%r14d; mov $0x9999,%r15d\n"
	"mov $0xaaaa,%edi; mov $0xbbbb,%ecx; mov $0xcccc,%edx; mov $0xdddd,%ebp\n"
	"movq $0x1234567,-128(%rsp)\n"
	"movl $1,(%rsi)\n"
	"1: mov $1,%eax\n"
	"cmp $0x1111,%rbx; jne 2f; cmp $0x2222,%r8; jne 2f; cmp $0x3333,%r9; jne 2f\n"
	"cmp $0x4444,%r10; jne 2f; cmp $0x5555,%r11; jne 2f; cmp $0x6666,%r12; jne 2f\n"
	"cmp $0x7777,%r13; jne 2f; cmp $0x8888,%r14; jne 2f; cmp $0x9999,%r15; jne 2f\n"
	"cmp $0xaaaa,%rdi; jne 2f; cmp $0xbbbb,%rcx; jne 2f; cmp $0xcccc,%rdx; jne 2f\n"
	"cmp $0xdddd,%rbp; jne 2f; cmpq $0x1234567,-128(%rsp); jne 2f\n"
	"vpcmpeqb 16(%rsi),%ymm0,%ymm7; vpcmpeqb 48(%rsi),%ymm1,%ymm6; vpand %ymm6,%ymm7,%ymm7\n"
	"vpcmpeqb 80(%rsi),%ymm2,%ymm6; vpand %ymm6,%ymm7,%ymm7\n"
	"vpcmpeqb 112(%rsi),%ymm13,%ymm6; vpand %ymm6,%ymm7,%ymm7\n"
	"vpcmpeqb 144(%rsi),%ymm14,%ymm6; vpand %ymm6,%ymm7,%ymm7\n"
	"vpcmpeqb 176(%rsi),%ymm15,%ymm6; vpand %ymm6,%ymm7,%ymm7\n"
	"vpmovmskb %ymm7,%eax; not %eax; test %eax,%eax; jne 2f\n"
	"cmpl $0,4(%rsi); je 1b\n"
	"2: vzeroupper\n"
	"pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx\n"
	"ret\n");

static int in_user_code(void)
{
	return check_registers(shared) ? 1 : 0;
}

/* Waits in a system call that is restarted; it gets data when `stop` is set. */
static int pipe_ends[2];

static int in_read(void)
{
	char byte = 0;

	shared->runs = 1;
	return read(pipe_ends[0], &byte, 1) == 1 && byte == 'x' ? 0 : 2;
}

/* Waits in a system call that returns EINTR on any stop. */
static int in_poll(void)
{
	struct pollfd wait = { pipe_ends[0], POLLIN, 0 };

	shared->runs = 1;
	return poll(&wait, 1, 30000) == 1 ? 0 : 3;
}

static pthread_t others[2];

static void *other(void *unused)
{
	(void)unused;
	while (!shared->stop)
		usleep(1000);
	return NULL;
}

static int with_threads(void)
{
	for (int i = 0; i < 2; i++)
		pthread_create(&others[i], NULL, other, NULL);
	return in_user_code();
}

static char alternate_stack[16384];

static void handler(int number)
{
	(void)number;
}

/* State that must be unchanged at the end. */
static void begin_target(void)
{
	const stack_t stack = { .ss_sp = alternate_stack, .ss_size = sizeof(alternate_stack) };
	sigset_t mask;

	sigaltstack(&stack, NULL);
	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR1);
	sigprocmask(SIG_SETMASK, &mask, NULL);
	signal(SIGSEGV, handler);
	/* Rounding to zero, for SSE's control register. */
	__builtin_ia32_ldmxcsr(0x7f80);
}

static int end_target(void)
{
	struct sigaction action;
	sigset_t mask;
	stack_t stack;

	if (__builtin_ia32_stmxcsr() != 0x7f80)
		return 10;
	if (sigaltstack(NULL, &stack) || stack.ss_sp != alternate_stack || stack.ss_flags)
		return 11;
	sigprocmask(SIG_SETMASK, NULL, &mask);
	for (int number = 1; number < 32; number++)
		if (sigismember(&mask, number) != (number == SIGUSR1))
			return 12;
	if (sigaction(SIGSEGV, NULL, &action) || action.sa_handler != handler)
		return 13;
	return 0;
}

static pid_t start_target(int (*work)(void))
{
	pid_t pid;

	shared->runs = shared->stop = 0;
	assert_int_equal(pipe(pipe_ends), 0);
	pid = fork();
	if (!pid) {
		int bad;

		alarm(20);
		begin_target();
		bad = work();
		_exit(bad ? bad : end_target());
	}
	while (!shared->runs)
		usleep(100);
	usleep(1000);
	return pid;
}

static void end_well(pid_t pid)
{
	int status;

	shared->stop = 1;
	assert_int_equal(write(pipe_ends[1], "x", 1), 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	close(pipe_ends[0]);
	close(pipe_ends[1]);
	if (status)
		print_message("the target ended with status %#x, its tracer at step %d\n", status, dies_at);
	assert_int_equal(status, 0);
}

/* ---- tracers ---- */

/* Executes two calls, as for making a stub. Exits with 0 if both returned the right value. */
static void trace(pid_t target)
{
	const uint64_t none[6] = { 0 };
	char text[XP_REMOTE_TEXT_BYTES];
	struct xp_remote *remote;
	int64_t result = 0;
	uint64_t address;
	int bad = 1;

	if (xp_remote_stop(&remote, target, 5 * XP_NS_PER_S))
		_exit(2);
	if (!xp_remote_begin_calls(remote, scratch_address(), "a text", &address) &&
	    !xp_remote_syscall(remote, SYS_getpid, none, &result) && result == target &&
	    !xp_remote_syscall(remote, SYS_getppid, none, &result) && result == getppid() &&
	    !xp_remote_read(remote, address, text, sizeof(text)) && !strcmp(text, "a text"))
		bad = 0;
	xp_remote_release(remote);
	_exit(bad);
}

static int run_tracer(void (*tracer)(pid_t target), pid_t target)
{
	int status;
	pid_t pid;

	steps = 0;
	pid = fork();
	if (!pid)
		tracer(target);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Returns whether the code of a call remains: this is harmless, and allowed only if the tracer has died. */
static bool has_code(pid_t target)
{
	uint8_t now[XP_REMOTE_SCRATCH_BYTES];
	struct iovec here = { now, sizeof(now) }, there = { (void *)scratch_address(), sizeof(now) };

	assert_int_equal(process_vm_readv(target, &here, 1, &there, 1, 0), sizeof(now));
	return memcmp(now, (const void *)scratch_address(), sizeof(now)) != 0;
}

static void die_at_steps(int (*work)(void), int stride)
{
	int status = -1;

	for (dies_at = 0; dies_at < STEPS_MAX && status; dies_at += stride) {
		pid_t target = start_target(work);

		status = run_tracer(trace, target);
		assert_true(status == -1 || status == 0);
		if (!status)
			assert_false(has_code(target));
		end_well(target);
	}
	dies_at = -1;
	assert_int_equal(status, 0);
}

TEST(test_in_user_code)
{
	if (!__builtin_cpu_supports("avx2"))
		skip();
	die_at_steps(in_user_code, 1);
}

TEST(test_in_read)
{
	die_at_steps(in_read, 1);
}

/* The kernel does not allow writes through /proc/TID/mem. */
TEST(test_in_read_by_words)
{
	file = REFUSED;
	die_at_steps(in_read, 23);
	file = WORKS;
}

TEST(test_in_poll)
{
	die_at_steps(in_poll, 1);
}

TEST(test_with_threads)
{
	if (!__builtin_cpu_supports("avx2"))
		skip();
	die_at_steps(with_threads, 1);
}

/* ---- interference ---- */

enum trick {
	LOOP = 1,   /* other code instead of the call's */
	NOT_MAPPED, /* no code */
	OTHER_CALL,
	STOPPED,
};

static enum trick trick;

/* Between the start of the calls and the first call. */
static void play_trick(struct xp_remote *remote)
{
	static const uint8_t loop[] = { 0xeb, 0xfe };
	static const uint8_t other_call[] = { 0xb8, SYS_getuid, 0, 0, 0, 0x0f, 0x05 };
	uint64_t page = scratch_address() & ~4095ull;
	const uint64_t args[6] = { page, 4096, PROT_NONE };
	int64_t result;

	switch (trick) {
	case LOOP:
		xp_remote_write(remote, scratch_address(), loop, sizeof(loop));
		break;
	case OTHER_CALL:
		xp_remote_write(remote, scratch_address(), other_call, sizeof(other_call));
		break;
	case NOT_MAPPED:
		xp_remote_syscall(remote, SYS_mprotect, args, &result);
		break;
	case STOPPED:
		kill(remote->pid, SIGSTOP);
		break;
	}
}

static void trace_tricked(pid_t target)
{
	const uint64_t none[6] = { 0 };
	struct xp_remote *remote;
	int64_t result = 0;
	uint64_t address;
	int err;

	if (xp_remote_stop(&remote, target, 5 * XP_NS_PER_S))
		_exit(1);
	if (xp_remote_begin_calls(remote, scratch_address(), "a text", &address))
		_exit(2);
	play_trick(remote);
	err = xp_remote_syscall(remote, SYS_getpid, none, &result);
	/* No further call is executed after an error. */
	if (err && xp_remote_syscall(remote, SYS_getpid, none, &result) != err)
		_exit(3);
	xp_remote_release(remote);
	_exit(-err);
}

static void expect(enum trick played, int error)
{
	pid_t target = start_target(in_read);

	trick = played;
	assert_int_equal(run_tracer(trace_tricked, target), error);
	if (played == STOPPED) {
		int status;

		/* The target is stopped, as the other process wanted. */
		assert_int_equal(waitpid(target, &status, WUNTRACED), target);
		assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
		kill(target, SIGCONT);
	}
	end_well(target);
}

TEST(test_interference)
{
	expect(LOOP, ETIMEDOUT);
	expect(NOT_MAPPED, EPROTO);
	expect(OTHER_CALL, EPROTO);
	expect(STOPPED, 0);
}

/* ---- writing ---- */

#define PAGE 4096u
/* Protected memory between two pages that are not mapped. */
#define TEXT_BYTES (2 * PAGE)
static uint8_t *text_of_target;

static const struct {
	size_t from;
	size_t size;
} writes[] = {
	{ 0, 1 },
	{ 0, TEXT_BYTES },
	{ 1, 2 },
	{ 3, 8 },
	{ PAGE - 1, 2 },
	{ PAGE - 7, 4 },
	{ PAGE - 3, 3 },
	{ PAGE - 11, 20 },
	{ 5, 11 },
	{ TEXT_BYTES - 1, 1 },
	{ TEXT_BYTES - 9, 9 },
	{ 2, TEXT_BYTES - 3 },
};

static uint8_t byte_of(size_t write, size_t i)
{
	return (uint8_t)(i * 7 + write * 31 + 1);
}

/* Exits with 0 if each write changes exactly its bytes, and only as the kernel allows. */
static void trace_writes(pid_t target)
{
	static uint8_t expected[TEXT_BYTES], from[TEXT_BYTES], now[TEXT_BYTES];
	struct xp_remote *remote;

	if (xp_remote_stop(&remote, target, 5 * XP_NS_PER_S) || xp_remote_pokes(remote))
		_exit(1);
	for (size_t i = 0; i < XP_ARRAY_SIZE(writes); i++) {
		for (size_t k = 0; k < writes[i].size; k++)
			from[k] = expected[writes[i].from + k] = byte_of(i, k);
		if (xp_remote_write(remote, (uintptr_t)text_of_target + writes[i].from, from, writes[i].size) ||
		    xp_remote_read(remote, (uintptr_t)text_of_target, now, sizeof(now)) ||
		    memcmp(now, expected, sizeof(now)) || xp_remote_pokes(remote) != (file == REFUSED))
			_exit(10 + (int)i);
	}
	/* One page is missing. The page before it is not written, because later pages are written first. */
	if (xp_remote_write(remote, (uintptr_t)text_of_target + TEXT_BYTES - PAGE, from, 2 * PAGE) != -EIO ||
	    xp_remote_read(remote, (uintptr_t)text_of_target, now, sizeof(now)) || memcmp(now, expected, sizeof(now)) ||
	    xp_remote_pokes(remote) != (file == REFUSED))
		_exit(2);
	xp_remote_release(remote);
	_exit(0);
}

static void make_text(void)
{
	uint8_t *pages = mmap(NULL, TEXT_BYTES + 2 * PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(pages != MAP_FAILED);
	text_of_target = pages + PAGE;
	munmap(pages, PAGE);
	munmap(text_of_target + TEXT_BYTES, PAGE);
}

TEST(test_writes)
{
	make_text();
	for (file = WORKS; file <= REFUSED; file++) {
		pid_t target = start_target(in_read);

		assert_int_equal(run_tracer(trace_writes, target), 0);
		end_well(target);
	}
	file = WORKS;
	munmap(text_of_target, TEXT_BYTES);
}

static void trace_long_write(pid_t target)
{
	struct xp_remote *remote;
	uint8_t bytes[61];

	memset(bytes, 0x5a, sizeof(bytes));
	if (xp_remote_stop(&remote, target, 5 * XP_NS_PER_S))
		_exit(1);
	xp_remote_write(remote, (uintptr_t)text_of_target + 3, bytes, sizeof(bytes));
	xp_remote_release(remote);
	_exit(0);
}

/* A tracer that dies during a write leaves each aligned word old or new; it writes the last word first. */
TEST(test_dies_between_words)
{
	static const size_t from = 3, size = 61;
	uint8_t now[64];
	struct iovec here = { now, sizeof(now) }, there;
	unsigned int words = 0;

	make_text();
	file = REFUSED;
	for (dies_at = 0; dies_at < 60; dies_at++) {
		pid_t target = start_target(in_read);
		size_t old = 0;

		there = (struct iovec){ text_of_target, sizeof(now) };
		run_tracer(trace_long_write, target);
		assert_int_equal(process_vm_readv(target, &here, 1, &there, 1, 0), sizeof(now));
		end_well(target);
		while (old < sizeof(now) && !now[old])
			old++;
		words |= old < sizeof(now) ? 1u << old / 8 : 0;
		assert_true(old == sizeof(now) || old == from || old % 8 == 0 || old == from + size - 8);
		for (size_t i = old; i < sizeof(now); i++)
			assert_int_equal(now[i], 0x5a);
	}
	assert_int_equal(words, 0xff);
	dies_at = -1;
	file = WORKS;
	munmap(text_of_target, TEXT_BYTES);
}

/* Another task holds the lock of the target's mappings. */
TEST(test_write_has_a_deadline)
{
	pid_t target = start_target(in_read);

	file = HANGS;
	assert_int_equal(run_tracer(trace, target), -1);
	file = WORKS;
	end_well(target);
}

int unit_set_up(void **state)
{
	(void)state;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (size_t i = 0; i < sizeof(shared->pattern); i++)
		((uint8_t *)shared->pattern)[i] = (uint8_t)(i * 37 + 11);
	return shared == MAP_FAILED ? -1 : 0;
}
