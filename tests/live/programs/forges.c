// SPDX-License-Identifier: BSD-2-Clause
/*
 * A target without privileges that forges data of xprof in a process: copies of the stub, from a file. It checks its
 * results: exits with 0 at SIGTERM, with 1 if a result was wrong. Usage, as root, whose rights it drops:
 * forges FILE COUNT [locked|jumps].
 *
 * It maps one copy of the stub COUNT times, each time with sparse call rings after it. With "locked", the copy is also
 * locked, by a process that has exited and passed its descriptor to another process. With "jumps", it maps files like
 * those that xprof makes for functions without sleds, with two million jumps, each in another page.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define NO_SLED __attribute__((xray_never_instrument, noinline))
#define PAGE 4096ul
#define TABLE 0xa000ul  /* XP_STUB_RINGS */
#define RINGS (69ul << 20) /* XP_CALL_RINGS_BYTES */
#define NOBODY 65534
#define FILES 8
#define JUMPS (256ul << 10)
#define FRAME 56 /* .eh_frame, between the mapped part and the list of jumps: user/sled/trampolines.c */

static volatile sig_atomic_t ended;

__attribute__((noinline)) int twice(int value)
{
	__asm__ volatile("");
	return 2 * value;
}

NO_SLED static void end(int number)
{
	(void)number;
	ended = 1;
}

NO_SLED static void need(int condition, const char *what)
{
	if (condition)
		return;
	perror(what);
	exit(2);
}

NO_SLED static void lock(int file)
{
	char path[64];
	int locked;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	locked = open(path, O_RDONLY);
	if (fork() == 0)
		_exit(flock(locked, LOCK_EX) != 0);
	wait(NULL);
	if (fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	close(locked);
}

NO_SLED static int sealed(const void *bytes, size_t size, size_t file_bytes, int seals)
{
	int file = memfd_create("xprof", MFD_ALLOW_SEALING);

	need(file >= 0 && write(file, bytes, size) == (ssize_t)size && !ftruncate(file, (off_t)file_bytes) &&
		 !fcntl(file, F_ADD_SEALS, seals),
	     "memfd");
	return file;
}

NO_SLED static void map(int copy, int rings, int count)
{
	for (int i = 0; i < count; i++) {
		char *at = mmap(NULL, TABLE + RINGS, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		need(at != MAP_FAILED, "room");
		need(mmap(at, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, copy, 0) != MAP_FAILED, "copy");
		need(mmap(at + TABLE, RINGS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, rings, 0) != MAP_FAILED,
		     "rings");
	}
}

struct jump {
	unsigned long address;
	unsigned char kind, bytes[7];
};

NO_SLED static void map_jumps(int seals)
{
	const size_t bytes = 2 * PAGE + FRAME + 32 + JUMPS * sizeof(struct jump);
	char *file = calloc(1, bytes), *header = file + 2 * PAGE + FRAME;
	struct jump *jumps = (struct jump *)(header + 32);

	need(!!file, "memory");
	strcpy(header, "xprof jumps 1\n");
	memcpy(header + 16, (unsigned long[]){ 2 * PAGE, JUMPS }, 16);
	for (int i = 0; i < FILES; i++) {
		for (size_t k = 0; k < JUMPS; k++)
			jumps[k] = (struct jump){ (1 + i * JUMPS + k) * PAGE, 100, { 0xe9 } };
		need(mmap(NULL, 2 * PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, sealed(file, bytes, bytes, seals), 0) !=
			 MAP_FAILED,
		     "jumps");
	}
	free(file);
}

NO_SLED int main(int argc, char **argv)
{
	const int fixed = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	char stub[PAGE];
	int file = argc > 2 ? open(argv[1], O_RDONLY) : -1, copy;

	need(read(file, stub, sizeof(stub)) == sizeof(stub), "stub");
	need(!setresgid(NOBODY, NOBODY, NOBODY) && !setresuid(NOBODY, NOBODY, NOBODY), "nobody");
	prctl(PR_SET_DUMPABLE, 1);
	signal(SIGTERM, end);
	copy = sealed(stub, sizeof(stub), sizeof(stub), F_SEAL_WRITE | fixed);
	map(copy, sealed("", 0, RINGS, fixed), atoi(argv[2]));
	if (argc > 3 && !strcmp(argv[3], "jumps"))
		map_jumps(F_SEAL_WRITE | fixed);
	else if (argc > 3)
		lock(copy);
	printf("%d\n", (int)getpid());
	fflush(stdout);
	while (!ended) {
		if (twice(21) != 42)
			return 1;
		usleep(500);
	}
	return 0;
}
