/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A JIT compiler of one function, which counts down. Runs the function for this many seconds of CPU time from an
 * anonymous page, and describes it in the way that the first argument names, correctly or not. With `late`, compiles
 * another function at SIGUSR1, and counts the seconds from then on. Usage: jit WAY SECONDS
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../../unit/symfile.h"

/* push rbp; mov rbp, rsp; mov ecx, edi; 1: dec ecx; jnz 1b; pop rbp; ret */
static const uint8_t code[] = { 0x55, 0x48, 0x89, 0xe5, 0x89, 0xf9, 0xff, 0xc9, 0x75, 0xfc, 0x5d, 0xc3 };

struct jit_code_entry {
	struct jit_code_entry *next_entry;
	struct jit_code_entry *prev_entry;
	const char *symfile_addr;
	uint64_t symfile_size;
};

struct {
	uint32_t version;
	uint32_t action_flag;
	struct jit_code_entry *relevant_entry;
	struct jit_code_entry *first_entry;
} __jit_debug_descriptor = { .version = 1 };

__attribute__((noinline)) void __jit_debug_register_code(void)
{
	__asm__ volatile("" ::: "memory");
}

static char path[64];
static FILE *map;
static uint8_t *page;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void open_map(const char *name)
{
	unlink(name);
	map = fopen(name, "we");
	if (!map)
		fail(name);
	setbuf(map, NULL);
}

static void tell(uint8_t *at, const char *name)
{
	fprintf(map, "%lx %zx %s\n", (unsigned long)at, sizeof(code), name);
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void work(uint8_t *at, double seconds)
{
	void (*function)(unsigned int count) = (void (*)(unsigned int))(uintptr_t)at;
	double end = now() + seconds;

	while (now() < end)
		function(2000000);
}

static volatile sig_atomic_t told;

static void be_told(int number)
{
	(void)number;
	told = 1;
}

static void work_until_told(uint8_t *at)
{
	while (!told)
		work(at, 0.01);
}

/* The map exists, but with wrong content, or is not a regular file. */
static void hostile_map(const char *way)
{
	char other[80];

	snprintf(other, sizeof(other), "%s.other", path);
	open_map(strcmp(way, "symlink") && strcmp(way, "hardlink") ? path : other);
	tell(page, "lie");
	if (!strcmp(way, "fifo") && (unlink(path) || mkfifo(path, 0666)))
		fail("mkfifo");
	if (!strcmp(way, "symlink") && symlink(other, path))
		fail("symlink");
	if (!strcmp(way, "hardlink") && link(other, path))
		fail("link");
	if (!strcmp(way, "foreign") && chown(path, 12345, 12345))
		fail("chown");
	if (!strcmp(way, "huge") && truncate(path, 1ll << 42))
		fail("truncate");
}

/* A list in memory whose page faults the process never handles: a reader waits forever. */
static void trap(void)
{
	uint8_t *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uffdio_register area = { .range = { (uintptr_t)memory, 4096 }, .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct uffdio_api api = { .api = UFFD_API };
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);

	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &area))
		fail("userfaultfd");
	__jit_debug_descriptor.first_entry = (struct jit_code_entry *)memory;
}

/* Lists without an end, which change while they are read, and entries with invalid pointers. */
static struct jit_code_entry entries[1000];

static void *shuffle(void *arg)
{
	(void)arg;
	for (unsigned int i = 0;; i++) {
		struct jit_code_entry *entry = &entries[i % 1000], *next = &entries[(i + 1) % 1000];

		entry->next_entry = next;
		next->prev_entry = i % 7 ? entry : NULL;
		entry->symfile_addr = i % 3 ? (const char *)page : (const char *)(uintptr_t)i;
		entry->symfile_size = i % 5 ? 4096 : UINT64_MAX - i;
		__jit_debug_descriptor.first_entry = &entries[i % 11];
		__jit_debug_descriptor.relevant_entry = next;
		__jit_debug_descriptor.action_flag = i % 2 + 1;
		if (i % 100000 == 0)
			__jit_debug_register_code();
	}
	return NULL;
}

/*
 * Correct, but short-lived: each function, all at one address, lives for a tenth of a second, and so does its
 * description. The list is as in GDB's manual.
 */
static void change_list(uint32_t action, struct jit_code_entry *entry)
{
	__jit_debug_descriptor.first_entry = action == 1 ? entry : NULL;
	__jit_debug_descriptor.relevant_entry = entry;
	__jit_debug_descriptor.action_flag = action;
	__jit_debug_register_code();
}

static void work_briefly(double seconds)
{
	double end = now() + seconds;

	for (int i = 0; now() < end; i++) {
		struct symfile *file = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		char name[16];

		if (file == MAP_FAILED)
			fail("mmap");
		snprintf(name, sizeof(name), "brief_%d", i);
		symfile_init(file, (uintptr_t)page, sizeof(code));
		symfile_add(file, name, 0, sizeof(code));
		entries[0] = (struct jit_code_entry){ NULL, NULL, (const char *)file, sizeof(*file) };
		change_list(1, &entries[0]);
		work(page, 0.1);
		change_list(2, &entries[0]);
		munmap(file, 4096);
	}
}

static int run(const char *way, double seconds)
{
	pthread_t thread;

	if (!strcmp(way, "named")) {
		open_map(path);
		tell(page, "count_down");
		work(page, seconds);
	} else if (!strcmp(way, "late")) {
		/* Compiled while the recording runs. */
		open_map(path);
		work_until_told(page);
		memcpy(page + 2048, code, sizeof(code));
		tell(page + 2048, "newcomer");
		work(page + 2048, seconds);
	} else if (!strcmp(way, "control")) {
		open_map(path);
		tell(page, "\033]0;title\007\033[31mred\r<script>");
		work(page, seconds);
	} else if (!strcmp(way, "brief")) {
		work_briefly(seconds);
	} else if (!strcmp(way, "list")) {
		if (pthread_create(&thread, NULL, shuffle, NULL))
			fail("pthread_create");
		work(page, seconds);
	} else if (!strcmp(way, "trap")) {
		trap();
		work(page, seconds);
	} else if (!strcmp(way, "none")) {
		work(page, seconds);
	} else {
		hostile_map(way);
		work(page, seconds);
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		fail("mmap");
	memcpy(page, code, sizeof(code));
	if (signal(SIGUSR1, be_told) == SIG_ERR)
		fail("signal");
	puts("ready");
	fflush(stdout);
	return run(argv[1], atof(argv[2]));
}
