// SPDX-License-Identifier: BSD-2-Clause
#include "hit_cost.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "attach.h"
#include "target.h"
#include "util.h"

#define BATCHES 9
#define ENTRIES 100 /* of a batch */
#define EXITS 10
_Static_assert(BATCHES *(ENTRIES + EXITS) * 32 <= XP_HIT_COST_RING_BYTES, "no record is lost");

/* A function with an entry and an exit sled as clang makes them, and no body. */
extern const uint8_t xp_hit_cost_entry[], xp_hit_cost_exit[];
void xp_hit_cost_function(void);
__asm__(".pushsection .text, \"ax\", @progbits\n"
	".balign 16\n"
	"xp_hit_cost_function:\n"
	"xp_hit_cost_entry:\n"
	"	.byte 0xeb, 0x09, 0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x02, 0x00, 0x00\n"
	"xp_hit_cost_exit:\n"
	"	.byte 0xc3, 0x2e, 0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x02, 0x00, 0x00\n"
	".popsection\n");

static uint64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * XP_NS_PER_S + (uint64_t)now.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* CPU time of a call, the median of some batches. */
static uint64_t measure_call(unsigned int calls)
{
	uint64_t ns[BATCHES];

	for (int batch = 0; batch < BATCHES; batch++) {
		uint64_t begin = cpu_ns();

		for (unsigned int i = 0; i < calls; i++)
			xp_hit_cost_function();
		ns[batch] = (cpu_ns() - begin) / calls;
	}
	qsort(ns, BATCHES, sizeof(ns[0]), compare);
	return ns[BATCHES / 2];
}

/* Measures as many calls as it is told, again and again. Nothing here may wait for the parent's locks. */
static void __attribute__((noreturn)) child(int fd)
{
	unsigned int calls;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (read(fd, &calls, sizeof(calls)) == sizeof(calls)) {
		uint64_t ns = measure_call(calls);

		if (write(fd, &ns, sizeof(ns)) != sizeof(ns))
			break;
	}
	_exit(0);
}

struct bench {
	const struct xp_programs *programs;
	struct xp_attach *attach;
	int fd; /* to the child */
	int exe_fd;
	pid_t child;
};

static int file_offset(pid_t pid, const uint8_t *address, uint64_t *offset)
{
	struct xp_mappings mappings;
	int err = xp_mappings_read(&mappings, pid);

	if (err)
		return err;
	err = -ENOENT;
	for (size_t i = 0; i < mappings.count; i++) {
		const struct xp_mapping *mapping = &mappings.list[i];

		if ((uintptr_t)address < mapping->start || (uintptr_t)address >= mapping->end)
			continue;
		*offset = (uintptr_t)address - mapping->start + mapping->file_offset;
		err = 0;
	}
	xp_mappings_free(&mappings);
	return err;
}

static int measure_sled(struct bench *bench, enum xp_rec_kind kind, unsigned int calls, uint64_t *ns)
{
	struct xp_uprobe probe = { 0 };
	int err = file_offset(bench->child, kind == XP_REC_ENTRY ? xp_hit_cost_entry : xp_hit_cost_exit, &probe.offset);

	if (!err)
		err = xp_attach_uprobes(bench->attach, xp_programs_sled_fd(bench->programs, kind, false), bench->exe_fd,
					bench->child, &probe, 1);
	if (err)
		return err;
	if (write(bench->fd, &calls, sizeof(calls)) != sizeof(calls) || read(bench->fd, ns, sizeof(*ns)) != sizeof(*ns))
		err = -EIO;
	xp_attach_detach_all(bench->attach);
	return err;
}

static int measure(struct bench *bench, struct xp_hit_cost *cost)
{
	int err = measure_sled(bench, XP_REC_ENTRY, ENTRIES, &cost->entry_ns);

	return err ? err : measure_sled(bench, XP_REC_EXIT, EXITS, &cost->exit_ns);
}

int xp_hit_cost_measure(struct xp_hit_cost *cost, const struct xp_programs *programs, bool multi)
{
	struct bench bench = { .programs = programs };
	int pair[2], err;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	bench.fd = pair[0];
	bench.child = fork();
	if (!bench.child) {
		close(pair[0]);
		child(pair[1]);
	}
	close(pair[1]);
	bench.exe_fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	err = bench.child < 0 || bench.exe_fd < 0 ? -errno : xp_attach_new(&bench.attach, multi);
	if (!err)
		err = measure(&bench, cost);
	xp_attach_free(bench.attach);
	close(bench.fd);
	if (bench.exe_fd >= 0)
		close(bench.exe_fd);
	if (bench.child > 0) {
		kill(bench.child, SIGKILL);
		while (waitpid(bench.child, NULL, 0) < 0 && errno == EINTR)
			;
	}
	return err;
}
