/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit.h"

#include "base/file_name.h"
#include "base/util.h"
#include "budget/throttle_work.h"
#include "format/manifest_reader.h"
#include "record/manifest.h"
#include "record/manifest_json.h"
#include "record/recording.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jansson.h>

/* An empty object needs 240 bytes of memory. */
#define MANY_OBJECTS 2000000

static char place[32];
static int dir_fd;

static int set_up(void **state)
{
	(void)state;
	strcpy(place, "/tmp/xprof-manifest-XXXXXX");
	if (!mkdtemp(place))
		return -1;
	dir_fd = open(place, O_RDONLY | O_DIRECTORY);
	return dir_fd < 0;
}

static int tear_down(void **state)
{
	(void)state;
	unlinkat(dir_fd, XP_MANIFEST_NAME, 0);
	close(dir_fd);
	/* Removes the files, and fails the test if others remain. */
	return rmdir(place);
}

static json_t *read_back(void)
{
	int fd = openat(dir_fd, XP_MANIFEST_NAME, O_RDONLY);
	json_error_t error;
	json_t *json;

	assert_true(fd >= 0);
	json = json_loadfd(fd, JSON_REJECT_DUPLICATES, &error);
	close(fd);
	if (!json)
		fail_msg("line %d: %s", error.line, error.text);
	return json;
}

/* Returns the value at a path such as "processes.0.comm". */
static json_t *at(json_t *json, const char *path)
{
	char copy[128], *rest = copy, *step;

	snprintf(copy, sizeof(copy), "%s", path);
	while ((step = strsep(&rest, ".")))
		json = json_is_array(json) ? json_array_get(json, atoi(step)) : json_object_get(json, step);
	if (!json)
		fail_msg("no %s", path);
	return json;
}

static json_int_t number(json_t *json, const char *path)
{
	assert_true(json_is_integer(at(json, path)));
	return json_integer_value(at(json, path));
}

static const char *text(json_t *json, const char *path)
{
	assert_true(json_is_string(at(json, path)));
	return json_string_value(at(json, path));
}

static char *const argv_two[] = { "xprof", "record\n\xff\xc3\xa9", NULL };
static const struct xp_totals no_totals;

#define START_TSC (1ull << 62)
/* A tick of this clock is a nanosecond. */
static struct xp_clock ns_clock = {
	.hz = 1000000000,
	.error_ns = 130,
	.real = { .tsc = START_TSC, .ns = 1700000000123456789 },
	.constant_tsc = true,
};
static const struct xp_options default_options;

/* Recorded from 0.75 s on, for 2.5 s. */
static struct xp_recording minimal(void)
{
	struct xp_recording recording = {
		.options = &default_options,
		.clock = &ns_clock,
		.outdir.fd = dir_fd,
		.plan.multi = true,
		.targets.run_tsc = START_TSC + 750000000,
		.targets.probes = { .attach_ns = 12500000, .stopped_ns = 7500000, .longest_stop_ns = 5000000 },
	};

	recording.targets.processes.start_tsc = START_TSC;
	recording.targets.processes.stop_tsc = recording.targets.run_tsc + 2500000000;
	return recording;
}

static json_t *written(const struct xp_recording *recording, const struct xp_totals *totals)
{
	assert_int_equal(xp_manifest_write(recording, totals, argv_two, -1), 0);
	return read_back();
}

TEST_WITH(head_is_written, set_up, tear_down)
{
	static const struct xp_options version_3 = { .fdr_version = 3 };
	struct xp_process process = { .comm = "", .exe = (char *)"", .log = { .name = "a.fdr", .version = 5 } };
	struct xp_recording recording = minimal();
	json_t *json;

	recording.options = &version_3;
	recording.targets.processes.first = &process;
	json = written(&recording, &no_totals);
	assert_int_equal(number(json, "manifest_version"), 1);
	assert_string_equal(text(json, "xprof_version"), XPROF_VERSION);
	assert_int_equal(json_array_size(at(json, "command")), 2);
	assert_string_equal(text(json, "command.1"), "record??\xc3\xa9");
	assert_string_equal(text(json, "started"), "2023-11-14T22:13:20.123456789Z");
	assert_true(json_real_value(at(json, "attached_after_s")) == 0.75);
	assert_true(json_real_value(at(json, "duration_s")) == 2.5);
	assert_string_equal(text(json, "kernel.machine"), "x86_64");
	assert_int_equal(number(json, "clock.hz"), 1000000000);
	assert_int_equal(number(json, "clock.start_tsc"), 1ll << 62);
	assert_int_equal(number(json, "clock.error_ns"), 130);
	assert_true(json_is_true(at(json, "clock.constant_tsc")));
	assert_true(json_is_false(at(json, "clock.nonstop_tsc")));
	assert_string_equal(text(json, "attach.method"), "uprobe_multi");
	assert_true(json_real_value(at(json, "attach.stopped_ms")) == 7.5);
	assert_true(json_real_value(at(json, "attach.longest_stop_ms")) == 5);
	assert_true(json_real_value(at(json, "attach.attach_ms")) == 12.5);
	assert_non_null(strstr(text(json, "notices.0"), "have version 5"));
	assert_null(json_object_get(json, "budget"));
	assert_null(json_object_get(json, "forecast"));
	assert_null(json_object_get(json, "samples"));
	assert_null(json_object_get(json, "waits"));
	json_decref(json);
}

TEST_WITH(totals_add_up, set_up, tear_down)
{
	struct xp_bpf_counters cpus[3] = {
		[1] = { .lost = { [XP_EVENT_ENTRY] = 5, [XP_EVENT_EXIT] = 2, [XP_EVENT_FORK] = 1 },
			.truncated = { [XP_EVENT_CUSTOM] = 4 } },
		[2] = { .faulted = { [XP_EVENT_TYPED] = 6 }, .not_taken = 9 },
	};
	struct xp_recording recording = minimal();
	struct xp_totals totals = { .counts = { .seen = 100, .written = 80, .unstored = 5, .synthesized = 8 } };
	json_t *json;

	recording.bpf.counters = cpus;
	recording.bpf.programs.cpus = 3;
	recording.bpf.missed = 10;
	recording.targets.other_process = 20;
	totals.counts.filtered[XP_FILTER_UNMATCHED_EXIT] = 14;
	totals.counts.filtered[XP_FILTER_MIN_DURATION] = 1;
	json = written(&recording, &totals);
	assert_int_equal(number(json, "totals.seen"), 137);
	assert_int_equal(number(json, "totals.written"), 80);
	assert_int_equal(number(json, "totals.filtered.total"), 35);
	assert_int_equal(number(json, "totals.filtered.unmatched_exit"), 14);
	assert_int_equal(number(json, "totals.filtered.min_duration"), 1);
	assert_int_equal(number(json, "totals.filtered.other_process"), 20);
	assert_int_equal(number(json, "totals.lost.total"), 22);
	assert_int_equal(number(json, "totals.lost.ring"), 7);
	assert_int_equal(number(json, "totals.lost.missed"), 10);
	assert_int_equal(number(json, "totals.lost.unstored"), 5);
	assert_int_equal(number(json, "totals.seen"), number(json, "totals.written") +
							  number(json, "totals.filtered.total") +
							  number(json, "totals.lost.total"));
	assert_int_equal(json_array_size(at(json, "totals.lost.cpus")), 1);
	assert_int_equal(json_object_size(at(json, "totals.lost.cpus.0")), 4);
	assert_int_equal(number(json, "totals.lost.cpus.0.cpu"), 1);
	assert_int_equal(number(json, "totals.lost.cpus.0.entry"), 5);
	assert_int_equal(number(json, "totals.lost.cpus.0.exit"), 2);
	assert_int_equal(number(json, "totals.lost.cpus.0.fork"), 1);
	assert_int_equal(number(json, "totals.truncated"), 4);
	assert_int_equal(number(json, "totals.faulted"), 6);
	assert_int_equal(number(json, "totals.not_taken"), 9);
	assert_int_equal(number(json, "totals.synthesized_exits"), 8);
	json_decref(json);
}

TEST_WITH(flights_and_budget, set_up, tear_down)
{
	struct xp_function functions[5] = { [2].name = "hot", [4].name = "f" };
	struct xp_sled_table table = { .functions = functions, .function_count = XP_ARRAY_SIZE(functions) };
	struct xp_object object = { .path = (char *)"/bin/a", .table = &table };
	struct xp_range range = { .object = &object, .function_count = XP_ARRAY_SIZE(functions) };
	struct xp_throttled taken_out[XP_ARRAY_SIZE(functions)] = {
		[2] = { .object = &object,
			.function_id = 3,
			.times = 2,
			.out_ticks = 1500000000,
			.counted_ticks = 500000000,
			.counted = 7 },
		[3] = { .object = &object, .function_id = 4, .times = 1, .out_ticks = 9000000000 },
	};
	struct xp_throttle_member member = { .object = &object };
	static struct xp_throttle throttle = { .cpu_sum_ns = 16, .tracing_sum_ns = 1 };
	struct xp_flight_log flight = {
		.name = "a.42.flight1.fdr",
		.cause = XP_FLIGHT_KILLED,
		.signal = 11,
		.error = -ENOSPC,
		.first_tsc = START_TSC + 250000000,
		.at_tsc = START_TSC + 500000000,
		.records = 9,
		.entries = 2,
		.exits = 1,
		.threads = { { { 44, 1, { 1 } } }, .count = XP_FLIGHT_THREADS_MAX + 1 },
		.slow = { .calls = 2,
			  .in = { 43, 1, { 5 } },
			  .begin_tsc = START_TSC + 250000000,
			  .end_tsc = START_TSC + 375000000,
			  .delay_ticks = 62500000 },
	};
	struct xp_process process = {
		.pid = 42,
		.comm = "a",
		.exe = (char *)"/bin/a",
		.sums.counts = { .seen = 10, .written = 4, .overwritten = 6 },
		.functions = { .ranges = &range, .range_count = 1 },
		.flights = { .logs = &flight, .count = 1 },
	};
	struct xp_trigger trigger = { "f>1ms", .calls = 4, .logs = 2, .shared = 1, .beyond = 1 };
	const struct xp_options options = { .max_overhead = 0.125,
					    .flight_bytes = 1 << 20,
					    .off_cpu = { .given = true } };
	const struct xp_totals totals = { .counts = process.sums.counts };
	struct xp_recording recording = minimal();
	json_t *json;

	throttle.all = taken_out;
	throttle.members = &member;
	throttle.member_count = 1;
	recording.options = &options;
	recording.targets.probes.throttle = &throttle;
	recording.targets.forecast = (struct xp_forecast){
		.probe_cost = { .exit_ns = 900, .stub_ns = 200, .count_ns = 9 },
		.made = true,
		.seen = { .calls_per_s = 2.5, .cores = 0.5, .share = 0.25 },
	};
	recording.targets.processes.first = &process;
	recording.targets.processes.triggers = (struct xp_triggers){ .list = &trigger, .count = 1, .limit = 6 };
	json = written(&recording, &totals);
	assert_int_equal(number(json, "totals.overwritten"), 6);
	assert_int_equal(number(json, "processes.0.overwritten"), 6);
	assert_int_equal(number(json, "flight_bytes"), 1 << 20);
	assert_string_equal(text(json, "processes.0.flights.0.log"), "a.42.flight1.fdr");
	assert_string_equal(text(json, "processes.0.flights.0.cause"), "killed");
	assert_string_equal(text(json, "processes.0.flights.0.error"), "No space left on device");
	assert_int_equal(number(json, "processes.0.flights.0.signal"), 11);
	assert_int_equal(number(json, "processes.0.flights.0.records"), 9);
	assert_int_equal(number(json, "processes.0.flights.0.synthesized_entries"), 2);
	assert_int_equal(number(json, "processes.0.flights.0.synthesized_exits"), 1);
	assert_true(json_real_value(at(json, "processes.0.flights.0.from_s")) == 0.25);
	assert_true(json_real_value(at(json, "processes.0.flights.0.to_s")) == 0.5);
	assert_string_equal(text(json, "processes.0.flights.0.slow_call.trigger"), "f>1ms");
	assert_int_equal(number(json, "processes.0.flights.0.slow_call.tid"), 43);
	assert_string_equal(text(json, "processes.0.flights.0.slow_call.calls.0.name"), "f");
	assert_true(json_real_value(at(json, "processes.0.flights.0.slow_call.start_s")) == 0.25);
	assert_true(json_real_value(at(json, "processes.0.flights.0.slow_call.duration_s")) == 0.125);
	assert_true(json_real_value(at(json, "processes.0.flights.0.slow_call.runnable_s")) == 0.0625);
	assert_int_equal(number(json, "processes.0.flights.0.slow_call.further_calls"), 1);
	assert_int_equal(json_array_size(at(json, "processes.0.flights.0.open_calls")), XP_FLIGHT_THREADS_MAX);
	assert_int_equal(number(json, "processes.0.flights.0.open_calls.0.tid"), 44);
	assert_int_equal(number(json, "processes.0.flights.0.open_calls.0.calls.0.id"), 1);
	assert_null(json_object_get(at(json, "processes.0.flights.0.open_calls.0.calls.0"), "name"));
	assert_string_equal(text(json, "triggers.0.trigger"), "f>1ms");
	assert_int_equal(number(json, "triggers.0.calls"), 4);
	assert_int_equal(number(json, "triggers.0.logs"), 2);
	assert_int_equal(number(json, "triggers.0.in_an_earlier_log"), 1);
	assert_int_equal(number(json, "triggers.0.beyond_limit"), 1);
	assert_int_equal(number(json, "trigger_limit"), 6);
	assert_true(json_real_value(at(json, "forecast.cost_share")) == 0.25);
	assert_int_equal(number(json, "forecast.hit_ns.exit"), 900);
	assert_int_equal(number(json, "forecast.hit_ns.patched"), 200);
	assert_int_equal(number(json, "forecast.hit_ns.counted"), 9);
	assert_true(json_real_value(at(json, "budget.share")) == 0.125);
	assert_true(json_real_value(at(json, "budget.spent")) == 0.0625);
	assert_int_equal(number(json, "processes.0.objects.0.taken_out.0.id"), 3);
	assert_string_equal(text(json, "processes.0.objects.0.taken_out.0.name"), "hot");
	assert_int_equal(number(json, "processes.0.objects.0.taken_out.0.times"), 2);
	assert_int_equal(number(json, "processes.0.objects.0.taken_out.0.calls_counted"), 7);
	assert_true(json_real_value(at(json, "processes.0.objects.0.taken_out.0.out_s")) == 1.5);
	assert_int_equal(json_array_size(at(json, "processes.0.objects.0.taken_out")), 2);
	/* At most the duration of the recording. */
	assert_true(json_real_value(at(json, "processes.0.objects.0.taken_out.1.out_s")) == 2.5);
	/* "Not counted" differs from "not called". */
	assert_null(json_object_get(at(json, "processes.0.objects.0.taken_out.1"), "calls_counted"));
	assert_null(json_object_get(at(json, "processes.0.objects.0.taken_out.1"), "name"));
	json_decref(json);
}

TEST_WITH(processes_and_files, set_up, tear_down)
{
	struct xp_sled_table table = { .function_count = 12, .build_id = { 0x01, 0xab, 0xff }, .build_id_bytes = 3 };
	struct xp_object object = { .path = (char *)"/bin/\x1b[31mx", .table = &table };
	struct xp_range range = {
		.object = &object,
		.sleds = { .mode = XP_SLEDS_PATCHED, .attached = 30, .patched = 2, .unreadable = 1 },
		.overwritten = 3,
	};
	uint32_t synthesized[] = { 0, 0, 7, 0, 1 };
	struct xp_thread_summary thread = { .tid = 43, .name = "w", .counts = { .seen = 9, .written = 9 } };
	struct xp_process second = { .pid = 44, .image = 1, .comm = "", .exe = (char *)"", .log.error = -ENOSPC };
	struct xp_process first = {
		.next = &second,
		.pid = 42,
		.image = 2,
		.comm = "a",
		.exe = (char *)"/bin/a",
		.begin_tsc = START_TSC + 500000000,
		.log = { .name = "a.42.fdr", .bytes = 4096, .side_name = "none.so" },
		.functions = { .ranges = &range, .range_count = 1 },
		.sums = { .counts = { .seen = UINT64_MAX },
			  .synthesized = synthesized,
			  .synthesized_room = XP_ARRAY_SIZE(synthesized),
			  .summaries = &thread,
			  .summary_count = 1,
			  .thread_count = 5 },
	};
	struct xp_recording recording = minimal();
	json_t *json;

	recording.targets.processes.first = &first;
	json = written(&recording, &no_totals);
	assert_int_equal(number(json, "processes.0.pid"), 42);
	assert_int_equal(number(json, "processes.0.image"), 2);
	assert_string_equal(text(json, "processes.0.log"), "a.42.fdr");
	assert_true(json_real_value(at(json, "processes.0.start_s")) == 0.5);
	/* JSON readers have signed integers. */
	assert_int_equal(number(json, "processes.0.seen"), INT64_MAX);
	assert_string_equal(text(json, "processes.0.objects.0.path"), "/bin/?[31mx");
	assert_string_equal(text(json, "processes.0.objects.0.build_id"), "01abff");
	assert_int_equal(number(json, "processes.0.objects.0.functions"), 12);
	assert_int_equal(number(json, "processes.0.objects.0.first_id"), 1);
	assert_int_equal(number(json, "processes.0.objects.0.sleds_attached"), 30);
	assert_string_equal(text(json, "processes.0.objects.0.call_mode"), "patch");
	assert_int_equal(number(json, "processes.0.objects.0.sleds_refused.patched"), 2);
	assert_int_equal(number(json, "processes.0.objects.0.sleds_refused.unreadable"), 1);
	assert_int_equal(number(json, "processes.0.objects.0.sleds_overwritten"), 3);
	assert_int_equal(json_array_size(at(json, "processes.0.synthesized_by_function")), 2);
	assert_int_equal(number(json, "processes.0.synthesized_by_function.0.id"), 2);
	assert_int_equal(number(json, "processes.0.synthesized_by_function.0.exits"), 7);
	assert_int_equal(number(json, "processes.0.synthesized_by_function.1.id"), 4);
	assert_int_equal(number(json, "processes.0.threads.0.tid"), 43);
	assert_string_equal(text(json, "processes.0.threads.0.name"), "w");
	assert_int_equal(number(json, "processes.0.threads.0.written"), 9);
	assert_int_equal(number(json, "processes.0.thread_count"), 5);
	assert_int_equal(number(json, "processes.0.threads_omitted"), 4);
	assert_null(json_object_get(at(json, "processes.0"), "error"));
	assert_string_equal(text(json, "processes.1.error"), "No space left on device");
	assert_null(json_object_get(at(json, "processes.1"), "log"));
	assert_string_equal(text(json, "files.0.name"), "a.42.fdr");
	assert_string_equal(text(json, "files.0.kind"), "fdr");
	assert_int_equal(number(json, "files.0.bytes"), 4096);
	assert_string_equal(text(json, "files.1.kind"), "side-elf");
	assert_int_equal(json_array_size(at(json, "files")), 2);
	assert_null(json_object_get(at(json, "processes.0.objects.0"), "taken_out"));
	json_decref(json);
}

TEST_WITH(threads_are_capped, set_up, tear_down)
{
	static struct xp_thread_summary threads[XP_MANIFEST_THREADS_MAX + 1];
	struct xp_process process = { .comm = "", .exe = (char *)"" };
	struct xp_recording recording = minimal();
	json_t *json;

	process.sums.summaries = threads;
	process.sums.summary_count = XP_ARRAY_SIZE(threads);
	process.sums.thread_count = 5000;
	recording.targets.processes.first = &process;
	json = written(&recording, &no_totals);
	assert_int_equal(json_array_size(at(json, "processes.0.threads")), XP_MANIFEST_THREADS_MAX);
	assert_int_equal(number(json, "processes.0.threads_omitted"), 5000 - XP_MANIFEST_THREADS_MAX);
	json_decref(json);
}

TEST_WITH(stale_leftover_is_replaced, set_up, tear_down)
{
	struct xp_recording recording = minimal();
	struct stat st;

	/* A link at this name must not redirect the write. */
	assert_int_equal(symlinkat("target", dir_fd, XP_MANIFEST_NAME ".part"), 0);
	assert_int_equal(xp_manifest_write(&recording, &no_totals, argv_two, -1), 0);
	assert_int_equal(xp_manifest_write(&recording, &no_totals, argv_two, -1), 0);
	assert_int_equal(fstatat(dir_fd, XP_MANIFEST_NAME, &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_true(S_ISREG(st.st_mode));
}

/* RLIMIT_FSIZE acts as a full disk: an error, no incomplete file, and no temporary file. */
TEST_WITH(write_error_leaves_nothing, set_up, tear_down)
{
	struct xp_recording recording = minimal();
	int status;
	pid_t child;

	child = fork();
	if (!child) {
		struct rlimit limit = { 100, 100 };

		signal(SIGXFSZ, SIG_IGN);
		setrlimit(RLIMIT_FSIZE, &limit);
		_exit(xp_manifest_write(&recording, &no_totals, argv_two, -1) == -EFBIG ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(faccessat(dir_fd, XP_MANIFEST_NAME, F_OK, 0), -1);
	recording.outdir.fd = -1;
	assert_int_equal(xp_manifest_write(&recording, &no_totals, argv_two, -1), -EBADF);
}

/* The reserve file of a running recording is skipped, that of a killed recording is removed. */
TEST_WITH(reserve_is_recovered, set_up, tear_down)
{
	int fd = xp_manifest_reserve(dir_fd, 1);

	assert_true(fd >= 0);
	xp_manifest_recover(dir_fd);
	assert_int_equal(faccessat(dir_fd, XP_MANIFEST_NAME ".part", F_OK, 0), 0);
	close(fd);
	xp_manifest_recover(dir_fd);
	assert_int_equal(faccessat(dir_fd, XP_MANIFEST_NAME ".part", F_OK, 0), -1);
	xp_manifest_recover(dir_fd);
}

TEST_WITH(reserved_room_is_used, set_up, tear_down)
{
	struct xp_recording recording = minimal();
	int fd = xp_manifest_reserve(dir_fd, 100000);
	struct stat st;

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, 100000);
	assert_int_equal(xp_manifest_write(&recording, &no_totals, argv_two, fd), 0);
	json_decref(read_back());
	assert_int_equal(fstatat(dir_fd, XP_MANIFEST_NAME, &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_true(st.st_size < 10000);
	fd = xp_manifest_reserve(dir_fd, 1);
	xp_manifest_release(dir_fd, fd);
	xp_manifest_release(dir_fd, -1);
}

static int load(const char *text, off_t bytes)
{
	int fd = openat(dir_fd, XP_MANIFEST_NAME, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	FILE *file = fdopen(fd, "w");
	json_t *json;
	int err;

	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fflush(file), 0);
	if (bytes)
		assert_int_equal(ftruncate(fd, bytes), 0);
	fclose(file);
	err = xp_manifest_load(&json, dir_fd, XP_MANIFEST_NAME);
	assert_int_equal(!json, err != 0);
	json_decref(json);
	return err;
}

/* Sizes in the file and in memory are limited. The error differs from that of a damaged file. */
TEST_WITH(limits_of_reading, set_up, tear_down)
{
	assert_int_equal(load("{}", 0), 0);
	assert_int_equal(load("{", 0), -EBADMSG);
	assert_int_equal(load("[[", XP_MANIFEST_BYTES_MAX), -EBADMSG);
	assert_int_equal(load("[[", (off_t)XP_MANIFEST_BYTES_MAX + 1), -EFBIG);
}

/* 80 times the size of the file. */
TEST_WITH(memory_of_reading, set_up, tear_down)
{
	char *text = malloc(MANY_OBJECTS * 3 + 1);

	assert_non_null(text);
	for (size_t i = 0; i < MANY_OBJECTS; i++)
		memcpy(text + 3 * i, i ? ",{}" : "[{}", 3);
	text[3 * MANY_OBJECTS] = 0;
	assert_int_equal(load(text, 0), -ENOMEM);
	free(text);
}

TEST(iso_times)
{
	char buf[XP_ISO_TIME_BYTES];

	xp_iso_time(buf, 0);
	assert_string_equal(buf, "1970-01-01T00:00:00.000000000Z");
	xp_iso_time(buf, 951782400000000007);
	assert_string_equal(buf, "2000-02-29T00:00:00.000000007Z");
	xp_iso_time(buf, UINT64_MAX);
	assert_string_equal(buf, "2554-07-21T23:34:33.709551615Z");
}
