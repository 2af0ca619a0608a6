// SPDX-License-Identifier: BSD-2-Clause
/*
 * Fuzzes the reader of the rings, and the processing of records of calls: the input has the bytes in the rings and the
 * positions of the producers. The logs of processes and threads must be valid, with each record accounted for.
 */
#include <errno.h>
#include <string.h>

#include "fuzz.h"

#include "event/kinds.h"
#include "export/logs.h"
#include "kernel/merge.h"
#include "trace/flight_writer.h"
#include "trace/process.h"
#include "trace/process_flight.h"

#include "scratch.h"

#define CPUS 2
#define RING_BYTES 4096
#define FUNCTIONS 3
#define PIDS 4
#define FLIGHT_BYTES (64u << 10) /* three chunks */
#define FIRST_PID 0x40000000u	 /* above the kernel's PID_MAX_LIMIT: no such process exists */

/* The input: this struct, then the bytes of the rings. */
struct head {
	uint16_t position[CPUS]; /* positions of the consumers */
	uint16_t bytes[CPUS];
	uint8_t beyond[CPUS]; /* 0xff: the producer claims more than the ring can hold */
	uint8_t flags;
	uint8_t pad;
};
enum { IS_V5 = 1, HAS_MINIMUM = 2, HAS_BUDGET = 4, IS_FLIGHT = 8 };

struct world {
	struct xp_clock clock;
	struct xp_processes processes;
	struct xp_flight_writer writer;
	struct xp_object object;
	char path[16];
	struct xp_sled_table table;
	struct xp_function functions[FUNCTIONS];
	struct xp_function_budget budget[FUNCTIONS + 1];
};

static struct xp_process *process_of(struct world *world, pid_t pid, uint64_t tsc)
{
	const struct xp_target_info info = { .comm = "program", .exe = "/bin/program", .start_time = 1 };
	struct xp_process *process = xp_processes_find(&world->processes, pid);
	struct xp_sled_result sleds = { 0 };

	if (process)
		return process;
	CHECK(!xp_processes_add(&world->processes, &process, pid, &info, tsc));
	CHECK(!xp_functions_add(&process->functions, &world->object, &sleds));
	return process;
}

static int take(struct world *world, const struct xp_arrival *arrival)
{
	const struct xp_event *event = arrival->event;
	struct xp_process *process;

	if (xp_event_check(arrival))
		return 0;
	process = process_of(world, (pid_t)event->pid, arrival->tsc);
	switch (xp_event_kind(event)) {
	case XP_EVENT_EXIT_PROCESS:
		process->signal = ((const struct xp_event_task *)event)->exit_code & 0x7f;
		return xp_process_end(process);
	case XP_EVENT_EXEC:
		return xp_process_end(process);
	case XP_EVENT_EXIT_THREAD:
		return xp_processes_end_thread(&world->processes, (pid_t)event->tid);
	case XP_EVENT_LINK_MAP:
		return world->processes.writer ? xp_processes_write_flights(&world->processes) : 0;
	default:
		return xp_kinds[xp_event_kind(event)].of_program ? xp_processes_record(&world->processes, arrival) : 0;
	}
}

/* Allocated with the exact size: the sanitizer detects reads beyond. */
static int sink(void *arg, const struct xp_arrival *arrival)
{
	struct xp_event *copy = malloc(arrival->size);
	struct xp_arrival copied = *arrival;
	int err;

	CHECK(copy && arrival->size >= sizeof(*copy));
	memcpy(copy, arrival->event, arrival->size);
	copy->pid = FIRST_PID + copy->pid % PIDS;
	copy->tid = FIRST_PID + copy->tid % (2 * PIDS);
	copy->word = xp_event_word(xp_event_fn(copy) % (2 * FUNCTIONS + 2), xp_event_kind(copy));
	copied.event = copy;
	err = take(arg, &copied);
	CHECK(!err || err == -ENOENT);
	free(copy);
	return 0;
}

static void check_flight(void *arg, const struct xp_process *process, const struct xp_flight_log *log)
{
	(void)process;
	CHECK(!log->error);
	scratch_check(((struct world *)arg)->processes.dir_fd, log->name);
}

static int make_log(int dir_fd, const char *spool_name, struct xp_spool_result *result)
{
	return xp_fdr_make(dir_fd, spool_name, 0, NULL, result);
}

static void finish(struct world *world)
{
	struct xp_processes *processes = &world->processes;

	for (struct xp_process *process = processes->first; process; process = process->next)
		CHECK(!xp_process_finish(process));
	CHECK(!xp_processes_collect_flights(processes, true, check_flight, world));
	for (struct xp_process *process = processes->first; process; process = process->next) {
		const struct xp_counts *counts = &process->sums.counts;

		CHECK(counts->seen == counts->written + xp_counts_filtered(counts) + counts->overwritten);
		CHECK(!counts->unstored && (processes->writer || !counts->overwritten));
		if (!processes->writer)
			scratch_check(processes->dir_fd, process->log.name);
	}
	xp_processes_free(processes);
}

static void begin(struct world *world, const struct head *head, int dir_fd)
{
	world->clock = (struct xp_clock){
		.hz = 1000000000,
		.mono_hz = 1000000000,
		.constant_tsc = true,
		.nonstop_tsc = true,
	};
	world->processes = (struct xp_processes){
		.clock = &world->clock,
		.dir_fd = dir_fd,
		.make_log = make_log,
		.fdr_version = head->flags & IS_V5 ? 5 : 1,
		.min_ticks = head->flags & HAS_MINIMUM ? 100 : 0,
	};
	xp_processes_init(&world->processes);
	if (head->flags & IS_FLIGHT) {
		xp_flight_writer_init(&world->writer, dir_fd, make_log);
		world->processes.writer = &world->writer;
		world->processes.flight_bytes = FLIGHT_BYTES;
	}
	world->table = (struct xp_sled_table){ .functions = world->functions, .function_count = FUNCTIONS };
	snprintf(world->path, sizeof(world->path), "/bin/program");
	world->object = (struct xp_object){ .table = &world->table, .path = world->path, .fd = -1 };
	if (!(head->flags & HAS_BUDGET))
		return;
	world->object.budget = world->budget;
	for (int id = 0; id <= FUNCTIONS; id++)
		world->budget[id] = (struct xp_function_budget){ .out_tsc = UINT64_MAX };
	world->budget[FUNCTIONS].out_tsc = 1000;
}

/* The kernel maps the data twice in a row. */
static void fill(uint8_t *ring, uint64_t position, const uint8_t *data, size_t size)
{
	for (size_t i = 0; i < size; i++)
		ring[(position + i) % RING_BYTES] = ring[(position + i) % RING_BYTES + RING_BYTES] = data[i];
}

static void read_rings(struct world *world, const struct head *head, const uint8_t *data, size_t size)
{
	uint64_t consumer[CPUS], producer[CPUS];
	struct xp_ring ring[CPUS];
	struct xp_rings rings = { ring, CPUS };
	struct xp_merge *merge;

	for (int cpu = 0; cpu < CPUS; cpu++) {
		size_t bytes = XP_MIN(XP_MIN((size_t)head->bytes[cpu], size), (size_t)RING_BYTES);

		consumer[cpu] = head->position[cpu] & ~7u;
		producer[cpu] = consumer[cpu] + bytes;
		ring[cpu] = (struct xp_ring){
			.map_fd = -1,
			.data = calloc(2, RING_BYTES),
			.mask = RING_BYTES - 1,
			.consumer = &consumer[cpu],
			.producer = &producer[cpu],
			.position = consumer[cpu],
			.published = consumer[cpu],
		};
		CHECK(ring[cpu].data);
		fill(ring[cpu].data, consumer[cpu], data, bytes);
		if (head->beyond[cpu] == 0xff)
			producer[cpu] += 1u << 20;
		data += bytes;
		size -= bytes;
	}
	CHECK(!xp_merge_new(&merge, &rings, &world->clock));
	for (int pass = 0; pass < 2; pass++) {
		int err = xp_merge_pass(merge, UINT64_MAX, sink, world);

		CHECK(err >= 0 || err == -EBADMSG);
	}
	xp_merge_free(merge);
	for (int cpu = 0; cpu < CPUS; cpu++) {
		CHECK(ring[cpu].position <= producer[cpu] && consumer[cpu] == ring[cpu].position);
		free(ring[cpu].data);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct world world;
	struct scratch scratch;
	struct head head;

	if (size < sizeof(head))
		return -1;
	memcpy(&head, data, sizeof(head));
	scratch = scratch_make();
	begin(&world, &head, scratch.fd);
	read_rings(&world, &head, data + sizeof(head), size - sizeof(head));
	finish(&world);
	scratch_remove(&scratch);
	return 0;
}
