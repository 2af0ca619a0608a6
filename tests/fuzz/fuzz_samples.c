// SPDX-License-Identifier: BSD-2-Clause
/*
 * Fuzzes the path of samples, waits and side-band records into a perf.data and into the profiles made from it, which
 * must be valid for their readers. The input is a sequence of steps: records of the rings, and side-band events with
 * strings that any process can choose. The kernel's names are part of the input, too.
 */
#include <dirent.h>
#include <string.h>

#include "fuzz.h"

#include "event/kinds.h"
#include "export/profiles.h"
#include "sample/samples.h"
#include "sample/waits.h"

#include "scratch.h"

#define PIDS 4
#define FIRST_PID 0x40000000 /* above the kernel's PID_MAX_LIMIT: no such process exists */
#define STEPS_MAX 64
#define ADDRESSES (1ull << 56) /* with five levels of page tables */

/* A step: its kind, and the bytes that follow it. */
struct step {
	uint8_t what; /* enum xp_sideband_kind; higher numbers: a sample */
	uint8_t pid;
	uint8_t tid;
	uint8_t ppid;
	uint16_t bytes;
	uint16_t time;
};

/* The fields before a mapping's path. */
struct mapping {
	uint64_t start;
	uint64_t length;
	uint64_t file_offset;
	uint32_t dev;
	uint32_t inode;
};

struct input {
	const uint8_t *data;
	size_t size;
};

static bool take_bytes(struct input *input, void *to, size_t bytes)
{
	if (input->size < bytes)
		return false;
	memcpy(to, input->data, bytes);
	input->data += bytes;
	input->size -= bytes;
	return true;
}

static pid_t pid_of(uint8_t number)
{
	return FIRST_PID + number % PIDS;
}

/* One of the five kinds from XP_EVENT_SAMPLE on. */
static void take(struct xp_waits *waits, const struct xp_arrival *arrival)
{
	switch (xp_event_kind(arrival->event)) {
	case XP_EVENT_SWITCH:
		xp_perf_out_switch(waits->samples->perf, arrival);
		break;
	case XP_EVENT_WAIT_BEGIN:
		CHECK(!xp_waits_begin(waits, arrival));
		break;
	case XP_EVENT_WAIT:
		CHECK(!xp_waits_end(waits, arrival));
		break;
	case XP_EVENT_WAIT_SUM:
		CHECK(!xp_waits_sum(waits, arrival));
		break;
	default:
		CHECK(!xp_samples_record(waits->samples, arrival));
	}
}

static void add_sample(struct xp_waits *waits, const struct step *step, const uint8_t *data)
{
	struct xp_event *event = malloc(step->bytes); /* exact size: the sanitizer detects reads beyond */
	const struct xp_arrival arrival = { .event = event, .size = step->bytes, .cpu = step->tid, .tsc = step->time };

	CHECK(event || !step->bytes);
	if (step->bytes >= sizeof(*event)) {
		memcpy(event, data, step->bytes);
		event->pid = (uint32_t)pid_of(step->pid);
		event->tid = (uint32_t)pid_of(step->tid);
		event->word = xp_event_word(event->word, XP_EVENT_SAMPLE + (event->word >> XP_FN_BITS) % 5);
		if (!xp_event_check(&arrival))
			take(waits, &arrival);
	}
	free(event);
}

static void add_event(struct xp_samples *samples, const struct step *step, struct input input)
{
	struct xp_sideband_event event = {
		.tsc = step->time,
		.kind = step->what,
		.pid = pid_of(step->pid),
		.tid = pid_of(step->tid),
		.ppid = pid_of(step->ppid),
	};
	struct mapping mapping = { 0 };

	if (event.kind == XP_SIDEBAND_MMAP && !take_bytes(&input, &mapping, sizeof(mapping)))
		return;
	/* Page-aligned addresses that a process can map, as the kernel reports them. */
	event.start = mapping.start % ADDRESSES & ~4095ull;
	event.length = mapping.length % (ADDRESSES - event.start) & ~4095ull;
	event.file_offset = mapping.file_offset & ~4095ull;
	event.dev = mapping.dev;
	event.inode = mapping.inode;
	event.text = strndup((const char *)input.data, input.size);
	CHECK(event.text);
	xp_perf_out_before(samples->perf, &event, xp_sampled_processes_space(&samples->processes, event.pid));
	CHECK(!xp_sampled_processes_event(&samples->processes, &event));
	xp_perf_out_event(samples->perf, &event, xp_sampled_processes_space(&samples->processes, event.pid));
	free(event.text);
}

static void add_steps(struct xp_waits *waits, struct input *input)
{
	for (int i = 0; i < STEPS_MAX; i++) {
		struct step step;

		if (!take_bytes(input, &step, sizeof(step)))
			return;
		step.bytes = (uint16_t)XP_MIN((size_t)step.bytes, input->size);
		if (step.what > XP_SIDEBAND_EXIT)
			add_sample(waits, &step, input->data);
		else
			add_event(waits->samples, &step, (struct input){ input->data, step.bytes });
		input->data += step.bytes;
		input->size -= step.bytes;
	}
}

/* Returns the rest of the input, line by line. */
static int describe(void *arg, const uint64_t *addresses, size_t count, char (*texts)[XP_KSYM_TEXT_BYTES])
{
	struct input *input = arg;

	(void)addresses;
	for (size_t i = 0; i < count; i++) {
		size_t bytes = XP_MIN(input->size, (size_t)XP_KSYM_TEXT_BYTES);
		const uint8_t *end = bytes ? memchr(input->data, '\n', bytes) : NULL;

		memset(texts[i], 0, XP_KSYM_TEXT_BYTES);
		if (end)
			bytes = (size_t)(end - input->data);
		take_bytes(input, texts[i], bytes);
		if (end)
			take_bytes(input, &(char){ 0 }, 1);
	}
	return 0;
}

static void check_files(const char *path, int dir_fd)
{
	DIR *dir = opendir(path);
	struct dirent *entry;

	CHECK(dir);
	while ((entry = readdir(dir)))
		if (entry->d_type == DT_REG)
			scratch_check(dir_fd, entry->d_name);
	closedir(dir);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct xp_samples samples; /* static because it is large */
	struct xp_waits waits = { .samples = &samples };
	struct scratch scratch;
	struct input input = { data, size };
	struct xp_clock clock = { .hz = 1000000000, .mono_hz = 1000000000 };
	struct xp_perf_out_options options = {
		.clock = &clock,
		.processes = &samples.processes,
		.event = "cpu-clock",
		.period = 1000,
		.compression = (enum xp_perf_out_compression)(size % (XP_PERF_OUT_NONE + 1)),
		.switches = size / 8 % 2,
		.waits = true,
	};

	xp_log_level = XP_LOG_QUIET;
	scratch = scratch_make();
	memset(&samples, 0, sizeof(samples));
	samples.dir_fd = options.dir_fd = scratch.fd;
	samples.describe = describe;
	samples.describe_arg = &input;
	CHECK(!xp_samples_init(&samples, NULL) && !xp_perf_out_new(&samples.perf, &options));
	add_steps(&waits, &input);
	CHECK(!xp_samples_refresh(&samples));
	CHECK(!xp_samples_drain(&samples));
	CHECK(!xp_perf_out_finish(samples.perf));
	CHECK(!xp_samples_store_names(&samples));
	CHECK(!xp_export_profiles(scratch.path));
	xp_perf_out_free(samples.perf);
	xp_waits_free(&waits);
	xp_samples_free(&samples);
	check_files(scratch.path, scratch.fd);
	scratch_remove(&scratch);
	return 0;
}
