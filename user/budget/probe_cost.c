// SPDX-License-Identifier: BSD-2-Clause
#include "budget/probe_cost.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arch/x86_64/stub.h"
#include "base/child.h"
#include "base/util.h"
#include "kernel/attach.h"
#include "target/target.h"

#define BATCHES 9
#define PAUSE_US 500
#define ENTRIES 100 /* per batch */
#define EXITS 10
#define STUB_HITS 100
#define COUNTS 2000 /* per batch of calls that are only counted, or recorded in memory */
/* With the header of the ring. */
#define RECORD_BYTES (sizeof(struct xp_event_call) + 8)
#define ARGS_RECORD_BYTES (sizeof(struct xp_event_args) + 8)
_Static_assert(BATCHES *((ENTRIES + EXITS + 2 * STUB_HITS) * RECORD_BYTES + STUB_HITS * ARGS_RECORD_BYTES) <=
		   XP_PROBE_COST_RING_BYTES,
	       "no record is lost");

/*
 * Test functions without a body: each has an entry and an exit sled as clang emits them, and a probe on one sled. One
 * function does what a patched sled does. All take the same arguments.
 */
#define SLEDS(name)                                                                                                    \
	".pushsection .text, \"ax\", @progbits\n"                                                                      \
	".balign 16\n" name ":\n"                                                                                      \
	"	.byte 0xeb, 0x09, 0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x02, 0x00, 0x00\n"                                    \
	"	.byte 0xc3, 0x2e, 0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x02, 0x00, 0x00\n"                                    \
	".popsection\n"
#define EXIT_SLED 11 /* offset from the entry sled */
void xp_probe_cost_entry(const uint8_t *slot, uint32_t word);
void xp_probe_cost_exit(const uint8_t *slot, uint32_t word);
void xp_probe_cost_slot(const uint8_t *slot, uint32_t word);
__asm__(SLEDS("xp_probe_cost_entry"));
__asm__(SLEDS("xp_probe_cost_exit"));
__asm__(".pushsection .text, \"ax\", @progbits\n"
	"xp_probe_cost_slot:\n"
	"	mov %esi,%r10d\n"
	"	jmp *%rdi\n"
	".popsection\n");

/* A request to the child: what to call, and how often. */
struct request {
	void (*function)(const uint8_t *slot, uint32_t word);
	uint32_t slot; /* offset in the stub */
	unsigned int calls;
	enum xp_event_kind kind;
};

/* Returns the CPU time of a call: the median of several batches. */
static uint64_t measure_call(const struct request *request, const uint8_t *stub)
{
	uint32_t word = xp_event_word(0, request->kind);
	uint64_t ns[BATCHES];

	for (int batch = 0; batch < BATCHES; batch++) {
		uint64_t begin;

		/* Spreads the batches over some time: a short disturbance then affects only few of them. */
		usleep(PAUSE_US);
		begin = xp_thread_cpu_ns();
		for (unsigned int i = 0; i < request->calls; i++)
			request->function(stub + request->slot, word);
		ns[batch] = (xp_thread_cpu_ns() - begin) / request->calls;
	}
	qsort(ns, BATCHES, sizeof(ns[0]), xp_compare_u64);
	return ns[BATCHES / 2];
}

/* Creates a ring for this thread that is never full and never read. */
static void begin_ring(uint8_t *stub)
{
	struct xp_call_header *header = (void *)(stub + XP_STUB_RINGS + XP_CALL_BLOCK_BYTES);
	uint64_t *table = (void *)(stub + XP_STUB_RINGS + XP_CALL_TABLES);
	uint64_t fs_base;

	/* The C library keeps the fs base there (System V ABI, x86-64 supplement: thread-local storage). */
	__asm__("mov %%fs:0, %0" : "=r"(fs_base));
	/* As in a target, no page is touched for the first time when a call is recorded. */
	memset(header, 0, XP_CALL_BLOCK_BYTES);
	header->mask = XP_CALL_RING_RECORDS - 1;
	header->limit = UINT64_MAX;
	table[XP_CALL_ENTRY_OF(fs_base)] = XP_CALL_KEY(fs_base, 1);
}

/* Serves requests in a loop. Must not wait for a lock that the parent may have held at the fork. */
static int serve(void *arg)
{
	const bool *has_stub = arg;
	uint8_t *stub = *has_stub ? xp_stub_map(XP_CHILD_FDS) : NULL;
	struct request request;

	if (stub)
		begin_ring(stub);
	while ((stub || !*has_stub) && read(XP_CHILD_CHANNEL, &request, sizeof(request)) == sizeof(request)) {
		uint64_t ns = measure_call(&request, stub);

		if (write(XP_CHILD_CHANNEL, &ns, sizeof(ns)) != sizeof(ns))
			break;
	}
	return 0;
}

struct bench {
	const struct xp_probe_cost_options *options;
	struct xp_attach *attach;
	int exe_fd;
	int stub_fd;
	struct xp_child child;
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

static int attach_sled(const struct bench *bench, int program_fd, const void *sled)
{
	uint64_t offset;
	int err = file_offset(bench->child.pid, sled, &offset);

	return err ? err : xp_attach_own_uprobe(bench->attach, program_fd, bench->exe_fd, bench->child.pid, offset);
}

static int attach_stub(const struct bench *bench, enum xp_stub_slot slot)
{
	return xp_attach_own_uprobe(bench->attach, bench->options->programs->fds.stub[slot], bench->stub_fd,
				    bench->child.pid, xp_stub_probe(slot));
}

/* Attaches all probes first and detaches them together: each detach waits for an RCU grace period of the kernel. */
static int attach_all(const struct bench *bench)
{
	const struct xp_programs *programs = bench->options->programs;
	const uint8_t *exit_sled = (const uint8_t *)(uintptr_t)xp_probe_cost_exit + EXIT_SLED;
	int err = attach_sled(bench, xp_programs_sled_fd(programs, XP_EVENT_ENTRY, false),
			      (const void *)(uintptr_t)xp_probe_cost_entry);

	if (!err)
		err = attach_sled(bench, xp_programs_sled_fd(programs, XP_EVENT_EXIT, false), exit_sled);
	if (!err && bench->options->stub)
		err = attach_stub(bench, XP_STUB_CALL);
	if (!err && bench->options->stub && bench->options->args)
		err = attach_stub(bench, XP_STUB_ARGS);
	return err;
}

static int measure(struct bench *bench, struct xp_probe_cost *cost)
{
	const struct xp_probe_cost_options *options = bench->options;
	const uint32_t memory = options->memory ? xp_stub_memory_entry(options->rdpid) : 0;
	const struct {
		bool wanted;
		uint64_t *ns;
		struct request request;
	} rows[] = {
		{ true, &cost->entry_ns, { xp_probe_cost_entry, 0, ENTRIES, XP_EVENT_ENTRY } },
		{ true, &cost->exit_ns, { xp_probe_cost_exit, 0, EXITS, XP_EVENT_ENTRY } },
		{ options->stub,
		  &cost->stub_ns,
		  { xp_probe_cost_slot, xp_stub_entry(XP_STUB_CALL), STUB_HITS, XP_EVENT_ENTRY } },
		{ options->stub, &cost->count_ns, { xp_probe_cost_slot, XP_STUB_COUNT, COUNTS, XP_EVENT_NONE } },
		{ options->memory, &cost->memory_ns, { xp_probe_cost_slot, memory, COUNTS, XP_EVENT_ENTRY } },
		{ options->stub && options->args,
		  &cost->args_ns,
		  { xp_probe_cost_slot, xp_stub_entry(XP_STUB_ARGS), STUB_HITS, XP_EVENT_ENTRY } },
	};
	int err = attach_all(bench);

	for (size_t i = 0; i < XP_ARRAY_SIZE(rows) && !err; i++) {
		if (!rows[i].wanted)
			continue;
		if (write(bench->child.fd, &rows[i].request, sizeof(rows[i].request)) != sizeof(rows[i].request) ||
		    read(bench->child.fd, rows[i].ns, sizeof(*rows[i].ns)) != sizeof(*rows[i].ns))
			err = -EIO;
		/* A cost that is too small to measure must not be 0, which means unknown. */
		*rows[i].ns = XP_MAX(*rows[i].ns, 1u);
	}
	return err;
}

static void close_bench(struct bench *bench)
{
	xp_attach_free(bench->attach);
	if (bench->exe_fd >= 0)
		close(bench->exe_fd);
	if (bench->stub_fd >= 0)
		close(bench->stub_fd);
	if (bench->child.pid)
		xp_child_kill(&bench->child, -1);
}

static int start_child(struct bench *bench, bool has_stub)
{
	const struct xp_child_options options = {
		.channel = XP_CHILD_SOCKET,
		.fds = { bench->stub_fd },
		.fd_count = has_stub ? 1 : 0,
	};

	return xp_child_start(&bench->child, &options, serve, &has_stub);
}

int xp_probe_cost_measure(struct xp_probe_cost *cost, const struct xp_probe_cost_options *options)
{
	struct bench bench = { .options = options, .exe_fd = -1, .stub_fd = -1 };
	int err;

	if (options->stub)
		bench.stub_fd = xp_stub_open();
	err = options->stub && bench.stub_fd < 0 ? bench.stub_fd : start_child(&bench, options->stub);
	if (!err) {
		bench.exe_fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
		err = bench.exe_fd < 0 ? -errno : xp_attach_new(&bench.attach, options->multi);
	}
	if (!err)
		err = measure(&bench, cost);
	close_bench(&bench);
	return err;
}

double xp_probe_cost_call_ns(const struct xp_probe_cost *cost, enum xp_call_way way)
{
	switch (way) {
	case XP_CALLS_CHILD:
		return 2 * (double)cost->stub_ns +
		       (double)(cost->args_ns ? cost->args_ns - XP_MIN(cost->stub_ns, cost->args_ns) : 0);
	case XP_CALLS_STUB:
		/* With arguments, replaces the cost of all calls; their exits are in memory if possible. */
		if (cost->args_ns)
			return (double)(cost->args_ns + (cost->memory_ns ?: cost->stub_ns));
		return 2 * (double)cost->stub_ns;
	case XP_CALLS_MEMORY:
		return (double)((cost->args_ns ?: cost->memory_ns) + cost->memory_ns);
	default:
		return (double)(cost->entry_ns + cost->exit_ns);
	}
}
