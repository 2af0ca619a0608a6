/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/clock.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/small_file.h"
#include "base/util.h"

#define PAIR_TRIES 32
#define CPUINFO_BYTES 8192 /* more than the text of one CPU */
#define MARK_TRIES 8
#define MEASURE_NS_MIN 100000000ull /* shorter spans are too inaccurate: 100 ns in 100 ms are 1 ppm */
#define START_NS 20000000ull	    /* time that a start spends on a first estimate of the frequency, about 1 ppm */

/* ---- arithmetic ---- */

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

static int sleep_ns(uint64_t ns)
{
	struct timespec span = { ns / XP_NS_PER_S, ns % XP_NS_PER_S };
	int err;

	do
		err = clock_nanosleep(CLOCK_MONOTONIC, 0, &span, &span);
	while (err == EINTR);
	return -err;
}

/*
 * Returns the kernel's TSC frequency from the mmap page of a perf event (linux/perf_event.h, cap_user_time). 0:
 * unknown.
 */
static uint64_t kernel_frequency(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY,
		.exclude_kernel = 1,
	};
	int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	const struct perf_event_mmap_page *page;
	uint64_t hz;
	uint32_t seq;

	if (fd < 0)
		return 0;
	page = mmap(NULL, page_bytes, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (page == MAP_FAILED)
		return 0;
	do {
		seq = __atomic_load_n(&page->lock, __ATOMIC_ACQUIRE);
		hz = page->cap_user_time ? xp_clock_frequency_perf(page->time_mult, page->time_shift) : 0;
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
	} while (__atomic_load_n(&page->lock, __ATOMIC_RELAXED) != seq);
	munmap((void *)page, page_bytes);
	return hz;
}

/* All CPUs of a machine have the same TSC: reads the flags of the first one. */
void xp_clock_cpu_flags(bool *constant_tsc, bool *nonstop_tsc)
{
	char cpuinfo[CPUINFO_BYTES];

	xp_small_file_read(cpuinfo, sizeof(cpuinfo), "/proc/cpuinfo");
	*constant_tsc = strstr(cpuinfo, " constant_tsc ");
	*nonstop_tsc = strstr(cpuinfo, " nonstop_tsc ");
}

/* ---- pairs ---- */

static uint64_t half(uint64_t value)
{
	return value / 2 + (value & 1);
}

static int read_clock(clockid_t id, uint64_t *ns)
{
	struct timespec now;

	if (clock_gettime(id, &now))
		return -errno;
	*ns = (uint64_t)now.tv_sec * XP_NS_PER_S + (uint64_t)now.tv_nsec;
	return 0;
}

/*
 * Reads the TSC before and after the other clock, up to `tries` times, and keeps the pair with the smallest error,
 * because an interrupt or a preemption makes a pair inaccurate. Stops at an error of enough_tsc. Returns 0, -ERANGE, or
 * an error of clock_gettime(2).
 */
static int take_narrow_pair(clockid_t id, int tries, uint64_t enough_tsc, struct xp_clock_pair *pair)
{
	struct xp_clock_pair best = { .error_tsc = UINT64_MAX };

	for (int i = 0; i < tries && best.error_tsc > enough_tsc; i++) {
		uint64_t before, after, ns = 0;
		int err;

		before = xp_clock_now_tsc();
		err = read_clock(id, &ns);
		if (err)
			return err;
		after = xp_clock_now_tsc();
		/* after < before: the thread moved to a CPU whose TSC is behind. */
		if (after < before || half(after - before) >= best.error_tsc)
			continue;
		best = (struct xp_clock_pair){ before + (after - before) / 2, ns, half(after - before) };
	}
	if (best.error_tsc == UINT64_MAX)
		return -ERANGE;
	*pair = best;
	return 0;
}

static int take_pair(clockid_t id, struct xp_clock_pair *pair)
{
	return take_narrow_pair(id, PAIR_TRIES, 0, pair);
}

/* ---- the clock ---- */

static int find_frequency(struct xp_clock *clock)
{
	struct xp_clock_pair now;
	int err;

	clock->hz = kernel_frequency();
	clock->hz_from_kernel = clock->hz != 0;
	if (!clock->hz_from_kernel) {
		err = sleep_ns(START_NS);
		if (!err)
			err = take_pair(CLOCK_MONOTONIC_RAW, &now);
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
	struct xp_clock *clock = calloc(1, sizeof(*clock));
	int err;

	if (!clock)
		return -ENOMEM;
	xp_clock_cpu_flags(&clock->constant_tsc, &clock->nonstop_tsc);
	err = take_pair(CLOCK_MONOTONIC_RAW, &clock->raw);
	if (!err)
		err = find_frequency(clock);
	if (!err)
		err = take_pair(CLOCK_MONOTONIC, &clock->mono);
	if (!err)
		err = take_pair(CLOCK_REALTIME, &clock->real);
	if (err) {
		xp_clock_free(clock);
		return err;
	}
	clock->paced = clock->mono;
	clock->error_ns = xp_clock_ns(clock, clock->mono.error_tsc);
	*clock_out = clock;
	return 0;
}

void xp_clock_free(struct xp_clock *clock)
{
	free(clock);
}

/* NTP slews CLOCK_MONOTONIC by at most 500 ppm. More means a suspend or a TSC jump, which no slope describes. */
static bool plausible(uint64_t hz, uint64_t expected_hz)
{
	return hz > expected_hz - expected_hz / 1000 && hz < expected_hz + expected_hz / 1000;
}

static void follow_monotonic(struct xp_clock *clock, const struct xp_clock_pair *now)
{
	int64_t off = (int64_t)(xp_clock_tsc(clock, now->ns) - now->tsc);
	uint64_t off_ns = xp_clock_ns(clock, (off < 0 ? -(uint64_t)off : (uint64_t)off) + now->error_tsc);

	clock->error_ns = XP_MAX(clock->error_ns, off_ns);
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

	if (take_narrow_pair(CLOCK_MONOTONIC, MARK_TRIES, 2 * usual_tsc, &now))
		return before;
	/* Ignore a pair whose error is more than four times the usual: it cannot improve the estimate. */
	if (now.error_tsc <= 4 * usual_tsc)
		follow_monotonic(clock, &now);
	return XP_MIN(before, xp_clock_tsc(clock, now.ns));
}

int xp_clock_update(struct xp_clock *clock)
{
	struct xp_clock_pair mono, raw;
	int err = take_pair(CLOCK_MONOTONIC, &mono);

	if (!err)
		err = take_pair(CLOCK_MONOTONIC_RAW, &raw);
	if (err)
		return err;
	if (!clock->hz_from_kernel && raw.ns - clock->raw.ns >= MEASURE_NS_MIN) {
		uint64_t hz = xp_clock_frequency(raw.tsc - clock->raw.tsc, raw.ns - clock->raw.ns);

		if (plausible(hz, clock->hz))
			clock->hz = hz;
	}
	follow_monotonic(clock, &mono);
	pace_monotonic(clock, &mono);
	return 0;
}

int xp_clock_new_wall(struct xp_clock *clock)
{
	struct xp_clock_pair real;
	int err = take_pair(CLOCK_REALTIME, &real);

	if (!err)
		clock->real = real;
	return err;
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
