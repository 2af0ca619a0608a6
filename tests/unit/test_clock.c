/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/clock.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <linux/bpf.h>

#include <cmocka.h>

/* ---- arithmetic ---- */

static void intersection_narrows(void **state)
{
	struct xp_clock_interval base = { 100, 200 };

	(void)state;
	assert_int_equal(xp_clock_intersect(&base, (struct xp_clock_interval){ 90, 150 }), 0);
	assert_int_equal(base.low, 100);
	assert_int_equal(base.high, 150);
	assert_int_equal(xp_clock_intersect(&base, (struct xp_clock_interval){ 140, 400 }), 0);
	assert_int_equal(base.low, 140);
	assert_int_equal(base.high, 150);
	assert_int_equal(xp_clock_intersect(&base, (struct xp_clock_interval){ 150, 150 }), 0);
	assert_int_equal(base.low, 150);
	assert_int_equal(base.high, 150);
}

static void intersection_of_strangers_fails(void **state)
{
	struct xp_clock_interval base = { 100, 200 };

	(void)state;
	assert_int_equal(xp_clock_intersect(&base, (struct xp_clock_interval){ 201, 300 }), -ERANGE);
	assert_int_equal(xp_clock_intersect(&base, (struct xp_clock_interval){ 0, 99 }), -ERANGE);
	assert_int_equal(base.low, 100);
	assert_int_equal(base.high, 200);
}

/* A counter may have counted more than the TSC shows: the TSC can be reset, so a base is then "negative". */
static void intersection_wraps(void **state)
{
	struct xp_clock_interval base = xp_clock_bracket(1000, 1010, 1030);

	(void)state;
	assert_true(base.low == UINT64_MAX - 9 && base.high == 20);
	assert_int_equal(xp_clock_intersect(&base, (struct xp_clock_interval){ UINT64_MAX - 4, 30 }), 0);
	assert_true(base.low == UINT64_MAX - 4 && base.high == 20);
	assert_int_equal(xp_clock_intersect(&base, (struct xp_clock_interval){ 21, 22 }), -ERANGE);
}

static void frequencies(void **state)
{
	(void)state;
	assert_int_equal(xp_clock_frequency(2600000000, 1000000000), 2600000000);
	assert_int_equal(xp_clock_frequency(26000001, 10000000), 2600000100);
	assert_int_equal(xp_clock_frequency(2, 3), 666666667);
	assert_int_equal(xp_clock_frequency(UINT64_MAX, 1000000000), UINT64_MAX);
	assert_int_equal(xp_clock_frequency(UINT64_MAX, 999999999), 0);
	assert_int_equal(xp_clock_frequency(1, 0), 0);
	/* clocks_calc_mult_shift() of 2 GHz: ns = ticks * 2^30 >> 31. */
	assert_int_equal(xp_clock_frequency_perf(1u << 30, 31), 2000000000);
	assert_int_equal(xp_clock_frequency_perf(0, 31), 0);
	assert_int_equal(xp_clock_frequency_perf(1, 64), 0);
}

static void cpuinfo_flags(void **state)
{
	const char *both = "processor\t: 0\nflags\t\t: fpu constant_tsc nonstop_tsc\nbugs\t: x\n"
			   "processor\t: 1\nflags\t\t: nonstop_tsc constant_tsc\n";
	const char *one = "flags\t: fpu constant_tsc\nflags\t: fpu\n";

	(void)state;
	assert_true(xp_clock_cpuinfo_has(both, "constant_tsc"));
	assert_true(xp_clock_cpuinfo_has(both, "nonstop_tsc"));
	assert_false(xp_clock_cpuinfo_has(both, "fpu"));
	assert_false(xp_clock_cpuinfo_has(both, "x"));
	assert_false(xp_clock_cpuinfo_has(one, "constant_tsc"));
	assert_false(xp_clock_cpuinfo_has("flags : not_constant_tsc constant_tsc2\n", "constant_tsc"));
	assert_false(xp_clock_cpuinfo_has("flags_of: constant_tsc\n", "constant_tsc"));
	assert_true(xp_clock_cpuinfo_has("flags: constant_tsc", "constant_tsc"));
	assert_false(xp_clock_cpuinfo_has("", "constant_tsc"));
}

static void record_times(void **state)
{
	struct xp_clock_cpu cpus[2] = { { .base = 1000 }, { .base = (uint64_t)-50 } };
	struct xp_clock clock = {
		.cpus = cpus,
		.cpu_count = 2,
		.hz = 3000000000,
		.mono_hz = 3000000000,
		.mono = { .tsc = 900000000000, .ns = 200000000000 },
		.real = { .tsc = 900000000000, .ns = 1700000000000000000 },
	};

	(void)state;
	assert_int_equal(xp_clock_tsc(&clock, 0, 5), 1005);
	assert_int_equal(xp_clock_tsc(&clock, 1, 80), 30);
	assert_int_equal(xp_clock_tsc(&clock, 0, XP_TIME_KTIME | 200000000000), 900000000000);
	assert_int_equal(xp_clock_tsc(&clock, 9, XP_TIME_KTIME | 200000000007), 900000000021);
	/* Also before the pair. */
	assert_int_equal(xp_clock_tsc(&clock, 0, XP_TIME_KTIME | 199999999993), 899999999979);
	/* 100 years of ns: the product does not fit into 64 bits. */
	assert_int_equal(xp_clock_tsc(&clock, 0, XP_TIME_KTIME | (200000000000 + 3155760000000000000)),
			 900000000000 + 9467280000000000000u);
	assert_int_equal(xp_clock_wall_ns(&clock, 900000000003), 1700000000000000001);
	assert_int_equal(xp_clock_wall_ns(&clock, 899999999997), 1699999999999999999);
	assert_int_equal(xp_clock_ns(&clock, 3000000000), 1000000000);
	assert_int_equal(xp_clock_ns(&clock, UINT64_MAX), 6148914691236517205);
	assert_int_equal(xp_clock_ticks(&clock, 5000), 15000);
	assert_int_equal(xp_clock_ticks(&clock, UINT64_MAX), UINT64_MAX);
	assert_string_equal(xp_clock_source(&clock), "ktime");
	assert_int_equal(xp_clock_counter_fd(&clock, -1), -1);
	assert_int_equal(xp_clock_counter_fd(&clock, 2), -1);
}

/* ---- on this machine ---- */

static struct xp_clock *open_or_skip(void)
{
	struct xp_clock *clock = NULL;

	if (geteuid()) {
		print_message("skipped: the counters of all CPUs need root\n");
		skip();
	}
	assert_int_equal(xp_clock_open(&clock), 0);
	if (strcmp(xp_clock_source(clock), "msr/tsc")) {
		xp_clock_free(clock);
		print_message("skipped: this machine has no msr PMU\n");
		skip();
	}
	return clock;
}

static void visit(int cpu)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
}

/* Returns how far tsc is outside [before, after]. */
static uint64_t off_by(uint64_t before, uint64_t tsc, uint64_t after)
{
	return tsc < before ? before - tsc : tsc > after ? tsc - after : 0;
}

/*
 * measure() stores in off[cpu] the error of that CPU. If another process opens such a counter meanwhile, ours loses
 * ticks: the bound from the start is then invalid, the bound at the end is valid.
 */
static void right_unless_disturbed(void (*measure)(struct xp_clock *clock, uint64_t *off))
{
	bool right = false;

	for (int try = 0; try < 20 && !right; try++) {
		struct xp_clock *clock = open_or_skip();
		uint64_t *off = calloc(clock->cpu_count, sizeof(*off));

		assert_non_null(off);
		measure(clock, off);
		right = true;
		for (unsigned int i = 0; i < clock->cpu_count; i++)
			right &= off[i] <= clock->cpus[i].error_tsc;
		assert_int_equal(xp_clock_verify(clock), 0);
		for (unsigned int i = 0; i < clock->cpu_count; i++)
			assert_true(off[i] <= clock->cpus[i].error_tsc);
		free(off);
		xp_clock_free(clock);
	}
	assert_true(right);
}

/* After the calibration, on each CPU: a counter read between two rdtsc lies between them. */
static void measure_reads(struct xp_clock *clock, uint64_t *off)
{
	cpu_set_t all;

	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	usleep(100000);
	for (unsigned int i = 0; i < clock->cpu_count; i++) {
		uint64_t error = clock->cpus[i].error_tsc;

		if (!clock->cpus[i].calibrated)
			continue;
		assert_int_not_equal(error, 0);
		assert_true(xp_clock_ns(clock, error) < 100000);
		visit(i);
		for (int round = 0; round < 1000; round++) {
			uint64_t before, count = 0, after;

			before = xp_clock_now_tsc();
			assert_int_equal(read(xp_clock_counter_fd(clock, i), &count, sizeof(count)), sizeof(count));
			after = xp_clock_now_tsc();
			off[i] = XP_MAX(off[i], off_by(before, xp_clock_tsc(clock, i, count), after));
		}
	}
	assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
}

static uint64_t ktime_now(void)
{
	struct timespec now;

	assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &now), 0);
	return (uint64_t)now.tv_sec * XP_NS_PER_S + (uint64_t)now.tv_nsec;
}

/*
 * A record that is stamped after a mark is not older, also if the clock's frequency is wrong by what NTP may slew. Near
 * a mark, times are exact.
 */
static void marks_are_in_order(void **state)
{
	struct xp_clock *clock = open_or_skip();
	uint64_t error_ticks = xp_clock_ticks(clock, 2000);
	unsigned int far = 0;

	(void)state;
	clock->mono_hz += clock->mono_hz / 2000;
	for (int round = 0; round < 200; round++) {
		uint64_t first = ktime_now(), mark = xp_clock_mark(clock), second = ktime_now();
		uint64_t now = xp_clock_now_tsc(), tsc = xp_clock_tsc_of_ktime(clock, second);

		assert_true(mark <= now);
		assert_true(tsc >= mark);
		far += tsc > now || now - tsc > error_ticks || xp_clock_tsc_of_ktime(clock, first) > mark + error_ticks;
		usleep(1000);
	}
	/* Somebody else may have had the CPU between the two readings. */
	assert_true(far < 50);
	xp_clock_free(clock);
}

static void bases_are_right(void **state)
{
	(void)state;
	right_unless_disturbed(measure_reads);
}

/* return (u32)bpf_perf_event_read(map, cpu); as a program that can run on any chosen CPU. */
static int load_reader(int map_fd)
{
	const struct bpf_insn code[] = {
		{ .code = BPF_LD | BPF_DW | BPF_IMM, .dst_reg = 1, .src_reg = BPF_PSEUDO_MAP_FD, .imm = map_fd },
		{ 0 },
		{ .code = BPF_ALU | BPF_MOV | BPF_K, .dst_reg = 2, .imm = -1 }, /* BPF_F_CURRENT_CPU */
		{ .code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_perf_event_read },
		{ .code = BPF_JMP | BPF_EXIT },
	};

	return bpf_prog_load(BPF_PROG_TYPE_RAW_TRACEPOINT, "read_tsc", "GPL", code, sizeof(code) / sizeof(code[0]),
			     NULL);
}

/* A test run returns only the low 32 bits: the error is the distance to the nearer end. */
static uint64_t off_by_low_bits(uint64_t before, uint32_t tsc, uint64_t after)
{
	uint64_t since = tsc - (uint32_t)before;

	return since <= after - before ? 0 : XP_MIN(since - (after - before), (1ull << 32) - since);
}

static void measure_bpf(struct xp_clock *clock, uint64_t *off)
{
	int map_fd, prog_fd;

	map_fd = bpf_map_create(BPF_MAP_TYPE_PERF_EVENT_ARRAY, "tsc", 4, 4, clock->cpu_count, NULL);
	assert_true(map_fd >= 0);
	prog_fd = load_reader(map_fd);
	assert_true(prog_fd >= 0);
	for (unsigned int i = 0; i < clock->cpu_count; i++) {
		int fd = xp_clock_counter_fd(clock, i);
		LIBBPF_OPTS(bpf_test_run_opts, run, .flags = BPF_F_TEST_RUN_ON_CPU, .cpu = i);

		if (fd < 0)
			continue;
		assert_int_equal(bpf_map_update_elem(map_fd, &i, &fd, BPF_ANY), 0);
		for (int round = 0; round < 100; round++) {
			uint64_t before, after;
			uint32_t tsc;

			before = xp_clock_now_tsc();
			assert_int_equal(bpf_prog_test_run_opts(prog_fd, &run), 0);
			after = xp_clock_now_tsc();
			tsc = run.retval + (uint32_t)clock->cpus[i].base;
			off[i] = XP_MAX(off[i], off_by_low_bits(before, tsc, after));
		}
	}
	close(prog_fd);
	close(map_fd);
}

/* The bases apply to what BPF programs read. */
static void bpf_reads_the_same(void **state)
{
	(void)state;
	right_unless_disturbed(measure_bpf);
}

static void ktime_agrees(void **state)
{
	struct xp_clock *clock = open_or_skip();

	(void)state;
	for (int round = 0; round < 4; round++) {
		struct timespec now;
		uint64_t before, after, tsc, slack;

		usleep(150000);
		/* 1 if clocks of other processes made a counter of this one lose much. */
		assert_true(xp_clock_update(clock) >= 0);
		before = xp_clock_now_tsc();
		clock_gettime(CLOCK_MONOTONIC, &now);
		after = xp_clock_now_tsc();
		slack = xp_clock_ticks(clock, clock->ktime_error_ns + 1000);
		tsc = xp_clock_tsc(clock, 0, XP_TIME_KTIME | (now.tv_sec * XP_NS_PER_S + now.tv_nsec));
		assert_true(tsc >= before - slack && tsc <= after + slack);
		clock_gettime(CLOCK_REALTIME, &now);
		tsc = xp_clock_now_tsc();
		assert_true(xp_clock_wall_ns(clock, tsc) - (now.tv_sec * XP_NS_PER_S + now.tv_nsec) + 10000000 <
			    20000000);
	}
	assert_true(clock->ktime_error_ns < 1000000);
	xp_clock_free(clock);
}

/* Counters that other processes open make ours lose ticks; the bound includes any number of them. */
static void bound_covers_lost_ticks(void **state)
{
	struct xp_clock *clock = open_or_skip(), *others[5];
	uint64_t before, after, tsc, error, count = 0;
	cpu_set_t all;

	(void)state;
	for (int i = 0; i < 5; i++)
		assert_int_equal(xp_clock_open(&others[i]), 0);
	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	visit(0);
	before = xp_clock_now_tsc();
	assert_int_equal(read(xp_clock_counter_fd(clock, 0), &count, sizeof(count)), sizeof(count));
	after = xp_clock_now_tsc();
	assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
	assert_int_equal(xp_clock_verify(clock), 0);
	error = clock->cpus[0].error_tsc;
	tsc = xp_clock_tsc(clock, 0, count);
	assert_true(tsc >= before - error && tsc <= after + error);
	for (int i = 0; i < 5; i++)
		xp_clock_free(others[i]);
	xp_clock_free(clock);
}

/* At the end nothing is left to stamp: a counter that has lost much only widens the bound. */
static void verify_keeps_a_late_counter(void **state)
{
	struct xp_clock *clock = open_or_skip();
	uint64_t lost = clock->hz / 10, error = clock->cpus[0].error_tsc;

	(void)state;
	clock->cpus[0].base -= lost;
	assert_int_equal(xp_clock_verify(clock), 0);
	assert_true(xp_clock_counter_fd(clock, 0) >= 0);
	assert_true(clock->cpus[0].error_tsc >= lost - error && clock->cpus[0].error_tsc < lost + clock->hz / 100);
	xp_clock_free(clock);
}

/* During the recording it is given up, but the records stamped before are off by what it has lost. */
static void update_gives_up_a_late_counter(void **state)
{
	struct xp_clock *clock = open_or_skip();
	uint64_t lost = clock->hz / 10, error = clock->cpus[0].error_tsc;
	int given_up = 0;

	(void)state;
	clock->cpus[0].base -= lost;
	/* A look that takes as long as the counter is behind finds no error. */
	for (int try = 0; try < 20 && !given_up; try++)
		given_up = xp_clock_update(clock);
	assert_int_equal(given_up, 1);
	assert_int_equal(xp_clock_counter_fd(clock, 0), -1);
	assert_true(clock->cpus[0].error_tsc >= lost - error && clock->cpus[0].error_tsc < lost + clock->hz / 100);
	xp_clock_free(clock);
}

/* Stamps from before it stopped are right, so the bound is not widened. */
static void verify_gives_up_a_still_counter(void **state)
{
	struct xp_clock *clock = open_or_skip();
	uint64_t error = clock->cpus[0].error_tsc;

	(void)state;
	assert_int_equal(ioctl(xp_clock_counter_fd(clock, 0), PERF_EVENT_IOC_DISABLE), 0);
	usleep(10000);
	assert_int_equal(xp_clock_verify(clock), 0);
	assert_int_equal(xp_clock_counter_fd(clock, 0), -1);
	assert_int_equal(clock->cpus[0].error_tsc, error);
	xp_clock_free(clock);
}

/* As after a CPU was offline: the counter stops, and is given up once. */
static void stopped_counter_is_given_up(void **state)
{
	struct xp_clock *clock = open_or_skip();
	uint64_t base = clock->cpus[0].base;

	(void)state;
	clock->cpus[0].base -= clock->hz; /* looks the same as a count that is a second behind */
	assert_int_equal(xp_clock_update(clock), 1);
	assert_int_equal(xp_clock_counter_fd(clock, 0), -1);
	assert_int_equal(clock->cpus[0].base, base - clock->hz);
	assert_int_equal(xp_clock_update(clock), 0);
	xp_clock_free(clock);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(intersection_narrows),
		cmocka_unit_test(intersection_of_strangers_fails),
		cmocka_unit_test(intersection_wraps),
		cmocka_unit_test(frequencies),
		cmocka_unit_test(cpuinfo_flags),
		cmocka_unit_test(record_times),
		cmocka_unit_test(marks_are_in_order),
		cmocka_unit_test(bases_are_right),
		cmocka_unit_test(bpf_reads_the_same),
		cmocka_unit_test(ktime_agrees),
		cmocka_unit_test(bound_covers_lost_ticks),
		cmocka_unit_test(verify_keeps_a_late_counter),
		cmocka_unit_test(update_gives_up_a_late_counter),
		cmocka_unit_test(verify_gives_up_a_still_counter),
		cmocka_unit_test(stopped_counter_is_given_up),
	};

	return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}
