/* SPDX-License-Identifier: BSD-2-Clause */
/* The state of processes after a loss of side-band events, from /proc of a real process. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

#include "arrivals.h"
#include "base/util.h"
#include "sample/samples.h"

static const struct xp_clock clock_of_test = { .hz = 1000000000, .mono_hz = 1000000000 };

struct world {
	struct xp_samples samples;
	pid_t child;
	int go; /* the child executes another program when this is closed */
};

/* A child that runs this program until the test lets it execute `sleep`. */
static int setup(void **state)
{
	struct world *world = calloc(1, sizeof(*world));
	int pipes[2];
	char byte;
	const struct xp_perf_out_options perf = {
		.dir_fd = -1,
		.clock = &clock_of_test,
		.processes = &world->samples.processes,
	};

	world->samples.dir_fd = -1;
	world->samples.shared_fd = -1;
	assert_int_equal(xp_samples_init(&world->samples, NULL), 0);
	assert_int_equal(xp_perf_out_new(&world->samples.perf, &perf), 0); /* has no directory to write to */
	assert_int_equal(pipe(pipes), 0);
	world->child = fork();
	assert_true(world->child >= 0);
	if (!world->child) {
		close(pipes[1]);
		if (!read(pipes[0], &byte, 1))
			execlp("sleep", "sleep", "100", NULL);
		_exit(1);
	}
	close(pipes[0]);
	world->go = pipes[1];
	*state = world;
	return 0;
}

static int teardown(void **state)
{
	struct world *world = *state;

	kill(world->child, SIGKILL);
	waitpid(world->child, NULL, 0);
	xp_perf_out_free(world->samples.perf);
	xp_samples_free(&world->samples);
	free(world);
	return 0;
}

/* Returns whether a file of the child in /proc has this content. */
static bool says(const struct world *world, const char *file_name, const char *text)
{
	char path[64], line[4096];
	bool found = false;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/%s", world->child, file_name);
	file = fopen(path, "r");
	assert_non_null(file);
	while (!found && fgets(line, sizeof(line), file))
		found = strstr(line, text);
	fclose(file);
	return found;
}

/* The new program gets its name before it is mapped. */
static void execute(struct world *world)
{
	close(world->go);
	while (!says(world, "comm", "sleep\n") || !says(world, "maps", "sleep\n"))
		usleep(1000);
}

/* A sample in the kernel, which needs no other data. */
static void add_sample(struct world *world)
{
	struct {
		struct xp_event_sample head;
		uint64_t frame;
	} sample = {
		.head.head = { .pid = world->child, .tid = world->child, .word = xp_event_word(0, XP_EVENT_SAMPLE) },
		.head.kernel_frames = 1,
		.frame = 0xffffffff81000000,
	};

	assert_int_equal(xp_samples_record(&world->samples, ARRIVAL(sample, 0)), 0);
}

static const struct xp_sampled_process *process_of(const struct world *world)
{
	const struct xp_sampled_process *process = xp_sampled_processes_find(&world->samples.processes, world->child);

	assert_non_null(process);
	return process;
}

static bool maps(const struct xp_sampled_process *process, const char *part)
{
	for (size_t i = 0; i < process->space->count; i++)
		if (strstr(process->space->vmas[i].file->path, part))
			return true;
	return false;
}

TEST_WITH(test_lost_exec, setup, teardown)
{
	struct world *world = *state;
	const struct xp_sampled_process *process;

	assert_int_equal(xp_sampled_processes_scan(&world->samples.processes, world->child), 0);
	add_sample(world);
	assert_true(maps(process_of(world), "test_samples_repair"));
	execute(world);
	assert_int_equal(xp_sampled_processes_repair(&world->samples.processes, 1), 0);
	add_sample(world);
	process = process_of(world);
	assert_string_equal(process->comm, "sleep");
	assert_int_equal(process->image_number, 2);
	assert_true(maps(process, "sleep"));
	assert_false(maps(process, "test_samples_repair"));
	assert_int_equal(process->image->samples, 1);
	assert_int_equal(world->samples.processes.image_count, 2);
	assert_int_equal(world->samples.processes.images[0]->number, 1);
	assert_int_equal(world->samples.processes.images[0]->samples, 1);
	assert_memory_equal(world->samples.processes.images[0]->comm, "test_samples_re", 16);
}

/* Events of other processes were lost; then, no events were lost. */
TEST_WITH(test_same_program, setup, teardown)
{
	struct world *world = *state;

	assert_int_equal(xp_sampled_processes_scan(&world->samples.processes, world->child), 0);
	add_sample(world);
	assert_int_equal(xp_sampled_processes_repair(&world->samples.processes, 1), 0);
	add_sample(world);
	assert_int_equal(world->samples.processes.image_count, 1);
	assert_int_equal(process_of(world)->image_number, 1);
	assert_int_equal(process_of(world)->image->samples, 2);
	execute(world);
	assert_int_equal(xp_sampled_processes_repair(&world->samples.processes, 1), 0);
	assert_string_equal(process_of(world)->comm, "test_samples_re");
}

static void end_child(struct world *world, bool is_told)
{
	const struct xp_sideband_event end = { .kind = XP_SIDEBAND_EXIT, .pid = world->child, .tid = world->child };

	kill(world->child, SIGKILL);
	assert_int_equal(waitpid(world->child, NULL, 0), world->child);
	if (is_told)
		assert_int_equal(xp_sampled_processes_event(&world->samples.processes, &end), 0);
	else
		assert_int_equal(xp_sampled_processes_repair(&world->samples.processes, 1), 0);
}

/* Its image is kept, its mappings are not. The image is removed after its last samples can have arrived. */
static void check_forgotten(struct world *world, bool is_told)
{
	const struct xp_sampled_process *process;

	assert_int_equal(xp_sampled_processes_scan(&world->samples.processes, world->child), 0);
	add_sample(world);
	process = process_of(world);
	xp_sampled_processes_forget_gone(&world->samples.processes);
	xp_sampled_processes_forget_gone(&world->samples.processes);
	assert_true(maps(process, "test_samples_repair"));
	end_child(world, is_told);
	xp_sampled_processes_forget_gone(&world->samples.processes);
	assert_true(maps(process, "test_samples_repair"));
	xp_sampled_processes_forget_gone(&world->samples.processes);
	assert_int_equal(process->space->count, 0);
	add_sample(world);
	assert_int_equal(world->samples.processes.image_count, 2); /* the next process with this PID is another one */
	assert_int_equal(world->samples.processes.images[0]->samples, 1);
}

TEST_WITH(test_end, setup, teardown)
{
	check_forgotten(*state, true);
}

TEST_WITH(test_lost_end, setup, teardown)
{
	check_forgotten(*state, false);
}

/* Each of many processes is found under its name until it is removed. */
TEST(test_many)
{
	enum { COUNT = 20000, STEP = 211 };
	struct xp_sampled_processes processes = { 0 };

	for (int i = 1; i <= COUNT; i++) {
		struct xp_sideband_event event = { .kind = XP_SIDEBAND_COMM, .pid = i * STEP, .tid = i * STEP };
		char name[16];

		snprintf(name, sizeof(name), "p%d", i);
		event.text = name;
		assert_int_equal(xp_sampled_processes_event(&processes, &event), 0);
	}
	assert_int_equal(processes.by_pid.count, COUNT);
	for (int i = 1; i <= COUNT; i++) {
		const struct xp_sideband_event exit = { .kind = XP_SIDEBAND_EXIT, .pid = i * STEP, .tid = i * STEP };
		const struct xp_sampled_process *process = xp_sampled_processes_find(&processes, i * STEP);

		assert_non_null(process);
		assert_int_equal(atoi(process->comm + 1), i);
		assert_int_equal(xp_sampled_processes_event(&processes, &exit), 0);
		assert_null(xp_sampled_processes_find(&processes, i * STEP));
	}
	assert_int_equal(processes.by_pid.count, 0);
	xp_sampled_processes_free(&processes);
}
