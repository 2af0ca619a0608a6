/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/clock.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <bpf/libbpf.h>

#include "base/small_file.h"
#include "base/util.h"

#define MSR_PMU "/sys/bus/event_source/devices/msr"
#define MARK_TRIES 8
#define BRACKET_ROUNDS 256
#define BRACKET_ROUNDS_IN_VAIN 24   /* stop after this many rounds without progress */
#define MEASURE_NS_MIN 100000000ull /* shorter spans are too inaccurate: 100 ns in 100 ms are 1 ppm */
#define START_NS 20000000ull	    /* time that a start spends on a first estimate of the frequency, about 1 ppm */
#define CPUS_MAX 8192		    /* CONFIG_NR_CPUS_RANGE_END of x86-64 */

static uint64_t half(uint64_t value)
{
	return value / 2 + (value & 1);
}

/* ---- arithmetic ---- */

int xp_clock_intersect(struct xp_clock_interval *interval, struct xp_clock_interval other)
{
	/* Bases wrap, so ends are compared by the sign of their difference. */
	uint64_t low = (int64_t)(other.low - interval->low) > 0 ? other.low : interval->low;
	uint64_t high = (int64_t)(interval->high - other.high) > 0 ? other.high : interval->high;

	if ((int64_t)(high - low) < 0)
		return -ERANGE;
	interval->low = low;
	interval->high = high;
	return 0;
}

uint64_t xp_clock_frequency(uint64_t ticks, uint64_t ns)
{
	unsigned __int128 hz;

	if (!ns)
		return 0;
	hz = ((unsigned __int128)ticks * XP_NS_PER_S + ns / 2) / ns;
	return hz <= UINT64_MAX ? (uint64_t)hz : 0;
}

uint64_t xp_clock_frequency_perf(uint32_t time_mult, uint16_t time_shift)
{
	if (!time_mult || time_shift > 63)
		return 0;
	return (uint64_t)((((unsigned __int128)XP_NS_PER_S << time_shift) + time_mult / 2) / time_mult);
}

bool xp_clock_cpuinfo_has(const char *cpuinfo, const char *flag)
{
	size_t flag_length = strlen(flag);
	bool seen = false;

	for (const char *line = cpuinfo; *line; line += strcspn(line, "\n"), line += *line == '\n') {
		const char *end = line + strcspn(line, "\n");
		bool found = false;

		if (strncmp(line, "flags", 5) || !strchr(" \t:", line[5]))
			continue;
		for (const char *word = line; word < end; word += strcspn(word, " \t\n")) {
			word += strspn(word, " \t");
			found |= strcspn(word, " \t\n") == flag_length && !memcmp(word, flag, flag_length);
		}
		if (!found)
			return false;
		seen = true;
	}
	return seen;
}

static int sleep_ns(uint64_t ns)
{
	struct timespec span = { ns / XP_NS_PER_S, ns % XP_NS_PER_S };
	int err;

	do
		err = clock_nanosleep(CLOCK_MONOTONIC, 0, &span, &span);
	while (err == EINTR);
	return -err;
}

/* ---- counters ---- */

static int read_number(const char *path, const char *format, unsigned int *value)
{
	char text[64];
	ssize_t bytes = xp_small_file_read(text, sizeof(text), "%s", path);

	if (bytes < 0)
		return (int)bytes;
	return sscanf(text, format, value) == 1 ? 0 : -EINVAL;
}

static int event_numbers(unsigned int *type, unsigned int *config)
{
	int err = read_number(MSR_PMU "/type", "%u", type);

	return err ? err : read_number(MSR_PMU "/events/tsc", "event=%x", config);
}

/*
 * When an event is added to a CPU's context, the kernel stops and restarts other events (ctx_resched() in
 * kernel/events/core.c). Their counts miss the time in between, hundreds of ticks each time. The kernel does not
 * restart pinned events unless the new event is pinned too, which is rare: another xprof.
 */
static int counter_open(unsigned int type, unsigned int config, unsigned int cpu)
{
	struct perf_event_attr attr = {
		.type = type,
		.size = sizeof(attr),
		.config = config,
		.pinned = 1,
	};
	int fd = syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	return fd >= 0 ? fd : -errno;
}

static int counter_read(int fd, uint64_t *count)
{
	ssize_t n = read(fd, count, sizeof(*count));

	if (n < 0)
		return -errno;
	return n == sizeof(*count) ? 0 : -EIO;
}

int xp_clock_probe(void)
{
	unsigned int type, config;
	uint64_t count;
	int err = event_numbers(&type, &config);
	int fd = err ? err : counter_open(type, config, XP_MAX(sched_getcpu(), 0));

	if (fd < 0)
		return fd;
	err = counter_read(fd, &count);
	close(fd);
	return err;
}

/*
 * Determines the base of a counter from the CPU that the thread runs on. On the counter's own CPU a bracket is as wide
 * as a system call. From another CPU, when the thread may not run on the counter's, the bracket also includes the round
 * trip of an IPI.
 */
static int counter_calibrate(struct xp_clock_cpu *cpu)
{
	struct xp_clock_interval base = { 0 };
	uint64_t width = UINT64_MAX;

	for (int i = 0, in_vain = 0; i < BRACKET_ROUNDS && in_vain < BRACKET_ROUNDS_IN_VAIN; i++) {
		uint64_t before, count, after;
		int err;

		before = xp_clock_now_tsc();
		err = counter_read(cpu->fd, &count);
		after = xp_clock_now_tsc();
		if (!err && i)
			err = xp_clock_intersect(&base, xp_clock_bracket(before, count, after));
		else if (!err)
			base = xp_clock_bracket(before, count, after);
		if (err)
			return err;
		in_vain = base.high - base.low < width ? 0 : in_vain + 1;
		width = base.high - base.low;
	}
	cpu->base = base.low + (base.high - base.low) / 2;
	cpu->error_tsc = half(base.high - base.low);
	return 0;
}

/*
 * True if the counter still counts and agrees with the TSC of the current CPU. A counter stops permanently when its CPU
 * goes offline (perf_event_exit_cpu() removes it from its context). If a CPU's TSC is out of step with the others, or
 * its counter has lost many ticks, threads that migrate to it would appear out of order. The slack allows errors that
 * are too small to matter.
 */
static bool counter_alive(const struct xp_clock *clock, const struct xp_clock_cpu *cpu)
{
	struct xp_clock_interval bracket;
	uint64_t before, count, after, slack = cpu->error_tsc + clock->hz / 100000;

	before = xp_clock_now_tsc();
	if (counter_read(cpu->fd, &count))
		return false;
	after = xp_clock_now_tsc();
	bracket = xp_clock_bracket(before - slack, count, after + slack);
	return xp_clock_intersect(&bracket, (struct xp_clock_interval){ cpu->base, cpu->base }) == 0;
}

/*
 * The base grows by the ticks that the count has lost since it was calibrated, so the bound grows by the same amount. A
 * stopped counter yields no bound: its brackets do not intersect.
 */
static void counter_verify(struct xp_clock_cpu *cpu)
{
	struct xp_clock_cpu now = *cpu;
	uint64_t lost;

	/* The second try is for ticks that were lost during the first. */
	if (counter_calibrate(&now) && counter_calibrate(&now))
		return;
	lost = (int64_t)(now.base - cpu->base) > 0 ? now.base - cpu->base : 0;
	cpu->error_tsc = XP_MAX(cpu->error_tsc, lost + now.error_tsc);
}

static int counters_check(struct xp_clock *clock)
{
	int given_up = 0;

	for (unsigned int i = 0; i < clock->cpu_count; i++) {
		struct xp_clock_cpu *cpu = &clock->cpus[i];

		if (cpu->fd < 0 || counter_alive(clock, cpu))
			continue;
		/*
		 * If the counter still counts, the ticks that it lost are missing from the times of its past records.
		 */
		counter_verify(cpu);
		xp_debug("the TSC counter of CPU %u has stopped or lost ticks: its events are timed by CLOCK_MONOTONIC",
			 i);
		close(cpu->fd);
		cpu->fd = -1;
		given_up = 1;
	}
	return given_up;
}

static void counter_begin(struct xp_clock_cpu *cpu)
{
	if (!counter_calibrate(cpu))
		return;
	close(cpu->fd);
	cpu->fd = -1;
}

/*
 * Visits each counter on its own CPU. Where affinity does not allow that, brackets and therefore the bound are wider.
 */
static int counters_visit(struct xp_clock *clock, void (*visit)(struct xp_clock_cpu *cpu))
{
	size_t set_size = CPU_ALLOC_SIZE(CPUS_MAX);
	cpu_set_t *old = CPU_ALLOC(CPUS_MAX), *one = CPU_ALLOC(CPUS_MAX);
	int err = -ENOMEM;

	if (!old || !one)
		goto out;
	err = sched_getaffinity(0, set_size, old) ? -errno : 0;
	if (err)
		goto out;
	for (unsigned int i = 0; i < clock->cpu_count; i++) {
		if (clock->cpus[i].fd < 0)
			continue;
		CPU_ZERO_S(set_size, one);
		CPU_SET_S(i, set_size, one);
		sched_setaffinity(0, set_size, one);
		visit(&clock->cpus[i]);
	}
	if (sched_setaffinity(0, set_size, old))
		err = -errno;
out:
	CPU_FREE(old);
	CPU_FREE(one);
	return err;
}

/* A CPU without a counter is not an error: its events are timed by CLOCK_MONOTONIC. */
static int counters_open(struct xp_clock *clock)
{
	unsigned int type, config;

	if (event_numbers(&type, &config))
		return 0;
	for (unsigned int i = 0; i < clock->cpu_count; i++) {
		struct xp_clock_cpu *cpu = &clock->cpus[i];

		cpu->fd = counter_open(type, config, i);
		if (cpu->fd < 0) {
			xp_debug("no TSC counter on CPU %u: %s", i, strerror(-cpu->fd));
			cpu->fd = -1;
		}
	}
	return counters_visit(clock, counter_begin);
}

/* The kernel's frequency, from a counter's mmap page (linux/perf_event.h, cap_user_time). Returns 0 if it has none. */
static uint64_t kernel_frequency(const struct xp_clock *clock)
{
	size_t page_bytes = sysconf(_SC_PAGESIZE);
	uint64_t hz = 0;

	for (unsigned int i = 0; i < clock->cpu_count && !hz; i++) {
		const struct perf_event_mmap_page *page;
		uint32_t seq;

		if (clock->cpus[i].fd < 0)
			continue;
		page = mmap(NULL, page_bytes, PROT_READ, MAP_SHARED, clock->cpus[i].fd, 0);
		if (page == MAP_FAILED)
			continue;
		do {
			seq = __atomic_load_n(&page->lock, __ATOMIC_ACQUIRE);
			hz = page->cap_user_time ? xp_clock_frequency_perf(page->time_mult, page->time_shift) : 0;
			__atomic_thread_fence(__ATOMIC_ACQUIRE);
		} while (__atomic_load_n(&page->lock, __ATOMIC_RELAXED) != seq);
		munmap((void *)page, page_bytes);
	}
	return hz;
}

/* ---- the clock ---- */

/* All of a file without NULs, for the caller to free. */
static char *read_text(const char *path)
{
	FILE *file = fopen(path, "re");
	char *text = NULL;
	size_t room = 0;

	if (file && getdelim(&text, &room, 0, file) < 0) {
		free(text);
		text = NULL;
	}
	if (file)
		fclose(file);
	return text;
}

void xp_clock_cpu_flags(bool *constant_tsc, bool *nonstop_tsc)
{
	char *cpuinfo = read_text("/proc/cpuinfo");

	*constant_tsc = cpuinfo && xp_clock_cpuinfo_has(cpuinfo, "constant_tsc");
	*nonstop_tsc = cpuinfo && xp_clock_cpuinfo_has(cpuinfo, "nonstop_tsc");
	free(cpuinfo);
}

static int find_frequency(struct xp_clock *clock)
{
	struct xp_clock_pair now;
	int err;

	clock->hz = kernel_frequency(clock);
	clock->hz_from_kernel = clock->hz != 0;
	if (!clock->hz_from_kernel) {
		err = sleep_ns(START_NS);
		if (!err)
			err = xp_clock_pair_take(CLOCK_MONOTONIC_RAW, &now);
		if (err)
			return err;
		clock->hz = xp_clock_frequency(now.tsc - clock->raw.tsc, now.ns - clock->raw.ns);
		if (!clock->hz)
			return -ERANGE;
	}
	clock->mono_hz = clock->hz;
	return 0;
}

int xp_clock_open(struct xp_clock **clock_out)
{
	int cpu_count = libbpf_num_possible_cpus();
	struct xp_clock *clock;
	int err;

	if (cpu_count < 0)
		return cpu_count;
	clock = calloc(1, sizeof(*clock));
	if (!clock)
		return -ENOMEM;
	clock->cpus = calloc(cpu_count, sizeof(*clock->cpus));
	if (!clock->cpus) {
		free(clock);
		return -ENOMEM;
	}
	clock->cpu_count = cpu_count;
	for (int i = 0; i < cpu_count; i++)
		clock->cpus[i].fd = -1;
	xp_clock_cpu_flags(&clock->constant_tsc, &clock->nonstop_tsc);
	err = xp_clock_pair_take(CLOCK_MONOTONIC_RAW, &clock->raw);
	if (!err)
		err = counters_open(clock);
	if (!err)
		err = find_frequency(clock);
	if (!err)
		err = xp_clock_pair_take(CLOCK_MONOTONIC, &clock->mono);
	if (!err)
		err = xp_clock_pair_take(CLOCK_REALTIME, &clock->real);
	if (err) {
		xp_clock_free(clock);
		return err;
	}
	clock->paced = clock->mono;
	clock->ktime_error_ns = xp_clock_ns(clock, clock->mono.error_tsc);
	counters_check(clock);
	for (int i = 0; i < cpu_count; i++)
		clock->cpus[i].calibrated = clock->cpus[i].fd >= 0;
	*clock_out = clock;
	return 0;
}

void xp_clock_free(struct xp_clock *clock)
{
	if (!clock)
		return;
	for (unsigned int i = 0; i < clock->cpu_count; i++)
		if (clock->cpus[i].fd >= 0)
			close(clock->cpus[i].fd);
	free(clock->cpus);
	free(clock);
}

int xp_clock_counter_fd(const struct xp_clock *clock, int cpu)
{
	return cpu >= 0 && (unsigned int)cpu < clock->cpu_count ? clock->cpus[cpu].fd : -1;
}

/* NTP slews CLOCK_MONOTONIC by at most 500 ppm. More means a suspend or a TSC jump, which no slope describes. */
static bool plausible(uint64_t hz, uint64_t expected_hz)
{
	return hz > expected_hz - expected_hz / 1000 && hz < expected_hz + expected_hz / 1000;
}

static void follow_monotonic(struct xp_clock *clock, const struct xp_clock_pair *now)
{
	int64_t off = (int64_t)(xp_clock_tsc_of_ktime(clock, now->ns) - now->tsc);
	uint64_t off_ns = xp_clock_ns(clock, (off < 0 ? -(uint64_t)off : (uint64_t)off) + now->error_tsc);

	clock->ktime_error_ns = XP_MAX(clock->ktime_error_ns, off_ns);
	clock->mono = *now;
}

static void pace_monotonic(struct xp_clock *clock, const struct xp_clock_pair *now)
{
	uint64_t elapsed_ns = now->ns - clock->paced.ns;

	if (elapsed_ns >= MEASURE_NS_MIN) {
		uint64_t hz = xp_clock_frequency(now->tsc - clock->paced.tsc, elapsed_ns);

		clock->mono_hz = plausible(hz, clock->hz) ? hz : clock->hz;
		clock->paced = *now;
	}
}

uint64_t xp_clock_mark(struct xp_clock *clock)
{
	const uint64_t usual_tsc = clock->paced.error_tsc, before = xp_clock_now_tsc();
	struct xp_clock_pair now;

	if (xp_clock_pair_take_narrow(CLOCK_MONOTONIC, MARK_TRIES, 2 * usual_tsc, &now))
		return before;
	/* One that is much wider makes nothing more exact. */
	if (now.error_tsc <= 4 * usual_tsc)
		follow_monotonic(clock, &now);
	return XP_MIN(before, xp_clock_tsc_of_ktime(clock, now.ns));
}

int xp_clock_update(struct xp_clock *clock)
{
	struct xp_clock_pair mono, raw;
	int err = xp_clock_pair_take(CLOCK_MONOTONIC, &mono);

	if (!err)
		err = xp_clock_pair_take(CLOCK_MONOTONIC_RAW, &raw);
	if (err)
		return err;
	if (!clock->hz_from_kernel && raw.ns - clock->raw.ns >= MEASURE_NS_MIN) {
		uint64_t hz = xp_clock_frequency(raw.tsc - clock->raw.tsc, raw.ns - clock->raw.ns);

		if (plausible(hz, clock->hz))
			clock->hz = hz;
	}
	follow_monotonic(clock, &mono);
	pace_monotonic(clock, &mono);
	return counters_check(clock);
}

int xp_clock_verify(struct xp_clock *clock)
{
	/*
	 * Measure the bounds first. The check in xp_clock_update() is for counters that would go on stamping records.
	 */
	int visited = counters_visit(clock, counter_verify);
	int err = xp_clock_update(clock);

	return visited ? visited : XP_MIN(err, 0);
}

uint64_t xp_clock_wall_ns(const struct xp_clock *clock, uint64_t tsc)
{
	int64_t delta = (int64_t)(tsc - clock->real.tsc);

	return clock->real.ns + (uint64_t)((__int128)delta * (__int128)XP_NS_PER_S / (__int128)clock->hz);
}

uint64_t xp_clock_ns(const struct xp_clock *clock, uint64_t tsc_delta)
{
	return xp_scale(tsc_delta, XP_NS_PER_S, clock->hz);
}

uint64_t xp_clock_ticks(const struct xp_clock *clock, uint64_t ns)
{
	return xp_scale(ns, clock->hz, XP_NS_PER_S);
}

static bool has_counter(const struct xp_clock *clock)
{
	for (unsigned int i = 0; i < clock->cpu_count; i++)
		if (clock->cpus[i].calibrated)
			return true;
	return false;
}

const char *xp_clock_source(const struct xp_clock *clock)
{
	return has_counter(clock) ? "msr/tsc" : "ktime";
}

uint64_t xp_clock_error_ns(const struct xp_clock *clock)
{
	uint64_t worst = 0;

	if (!has_counter(clock))
		return clock->ktime_error_ns;
	for (unsigned int i = 0; i < clock->cpu_count; i++)
		if (clock->cpus[i].calibrated)
			worst = XP_MAX(worst, clock->cpus[i].error_tsc);
	return xp_clock_ns(clock, worst) + 1; /* rounded up */
}
