/* SPDX-License-Identifier: BSD-2-Clause */
#include "kernel/attach_samples.h"

#include <bpf/bpf.h>
#include <dirent.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/array.h"
#include "base/small_file.h"
#include "base/util.h"
#include "base/why.h"
#include "target/target.h"

#define CPU_CLOCK_MIN_NS (XP_NS_PER_S / XP_SAMPLER_CPU_CLOCK_HZ_MAX)

struct event {
	int fd;
	int link_fd;			/* -1: the event itself holds the program */
	pid_t tid;			/* -1 - cpu for the event of a CPU */
	struct xp_perf_event_look look; /* per-CPU events only */
};

struct xp_sampler {
	struct xp_sampler_options options;
	struct perf_event_attr attr;
	uint64_t clamped_hz;
	uint64_t periods; /* sum over the events already closed */
	bool has_dropped; /* events of threads */
	struct event *events;
	size_t count;
	size_t room;
};

static int perf_event_open(struct perf_event_attr *attr, pid_t pid, int cpu)
{
	int fd = syscall(__NR_perf_event_open, attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static void set_rate(struct xp_sampler *sampler)
{
	struct perf_event_attr *attr = &sampler->attr;
	uint64_t hz = sampler->options.hz;
	uint64_t max;

	if (xp_small_file_number("/proc/sys/kernel/perf_event_max_sample_rate", &max))
		max = 0;
	if (!hz) {
		attr->sample_period = sampler->options.period;
		if (attr->type == PERF_TYPE_SOFTWARE)
			attr->sample_period = XP_MAX(attr->sample_period, CPU_CLOCK_MIN_NS);
		return;
	}
	if (attr->type == PERF_TYPE_SOFTWARE)
		max = max ? XP_MIN(max, XP_SAMPLER_CPU_CLOCK_HZ_MAX) : XP_SAMPLER_CPU_CLOCK_HZ_MAX;
	if (max && hz > max) {
		sampler->clamped_hz = hz == UINT64_MAX ? 0 : max;
		hz = max;
	}
	if (attr->type == PERF_TYPE_SOFTWARE) {
		/* cpu-clock is a timer: a period is exact, and the kernel would convert a frequency to a period. */
		attr->sample_period = XP_NS_PER_S / hz;
		return;
	}
	attr->freq = 1;
	attr->sample_freq = hz;
}

/* Opens the event on the calling thread, to find out whether the kernel supports it. */
static int try_event(struct xp_sampler *sampler, uint32_t type, uint64_t config)
{
	int fd;

	sampler->attr = (struct perf_event_attr){
		.type = type,
		.config = config,
		.size = sizeof(sampler->attr),
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED,
		.disabled = 1,
		.exclude_guest = type == PERF_TYPE_HARDWARE,
	};
	set_rate(sampler);
	fd = perf_event_open(&sampler->attr, 0, -1);
	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

int xp_sampler_new(struct xp_sampler **result, const struct xp_sampler_options *options)
{
	struct xp_sampler *sampler = calloc(1, sizeof(*sampler));
	int err;

	if (!sampler)
		return -ENOMEM;
	sampler->options = *options;
	err = try_event(sampler, PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES);
	if (err)
		err = try_event(sampler, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK);
	if (!err) {
		*result = sampler;
		return 0;
	}
	if (err == -EACCES || err == -EPERM)
		xp_why_set(err, "sampling is not permitted: run xprof as root, or `sudo sysctl "
				"kernel.perf_event_paranoid=-1`; under lockdown, boot with lockdown=none");
	else
		xp_why_set(err, "the kernel has no sampling event: %s; it needs CONFIG_PERF_EVENTS", strerror(-err));
	free(sampler);
	return err;
}

/* Adds the count of a thread's event, including all threads that inherited it, to the sum, and closes the event. */
static void close_event(struct xp_sampler *sampler, const struct event *event)
{
	uint64_t values[2]; /* count, time enabled */

	if (event->tid >= 0 && !sampler->attr.freq &&
	    read(event->fd, values, sizeof(values)) >= (ssize_t)sizeof(*values))
		sampler->periods += values[0] / sampler->attr.sample_period;
	if (event->link_fd >= 0)
		close(event->link_fd);
	close(event->fd);
}

void xp_sampler_stop(struct xp_sampler *sampler)
{
	while (sampler->count)
		close_event(sampler, &sampler->events[--sampler->count]);
}

void xp_sampler_free(struct xp_sampler *sampler)
{
	if (!sampler)
		return;
	xp_sampler_stop(sampler);
	free(sampler->events);
	free(sampler);
}

static int make_room(struct xp_sampler *sampler)
{
	return XP_ARRAY_RESERVE(sampler->events, sampler->room, sampler->count + 1);
}

/* Attaches the program to the event, with the cookie if it is not 0. */
static int set_program(const struct xp_sampler *sampler, struct event *event, uint64_t cookie)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts, .perf_event.bpf_cookie = cookie);

	if (!cookie)
		return ioctl(event->fd, PERF_EVENT_IOC_SET_BPF, sampler->options.program_fd) ? -errno : 0;
	event->link_fd = bpf_link_create(sampler->options.program_fd, event->fd, BPF_PERF_EVENT, &opts);
	return event->link_fd < 0 ? -errno : 0;
}

static int add_event(struct xp_sampler *sampler, struct perf_event_attr *attr, pid_t tid, int cpu)
{
	struct event event = { .link_fd = -1, .tid = cpu < 0 ? tid : -1 - cpu };
	int err = make_room(sampler);

	if (err)
		return err;
	event.fd = perf_event_open(attr, tid, cpu);
	if (event.fd < 0)
		return event.fd;
	err = set_program(sampler, &event, cpu < 0 ? 0 : sampler->options.cpu_cookie);
	if (!err && ioctl(event.fd, PERF_EVENT_IOC_ENABLE, 0))
		err = -errno;
	if (err) {
		if (event.link_fd >= 0)
			close(event.link_fd);
		close(event.fd);
		return err;
	}
	sampler->events[sampler->count++] = event;
	return 0;
}

int xp_sampler_add_thread(struct xp_sampler *sampler, pid_t tid)
{
	struct perf_event_attr attr = sampler->attr;

	if (sampler->options.children)
		attr.inherit = 1;
	return add_event(sampler, &attr, tid, -1);
}

/*
 * Scans the threads once. A thread with an event passes it on to the threads that it creates. A thread is missed if it
 * is created during the scan by a thread that has no event yet, as with perf: a second scan could not tell it from a
 * thread that inherited its event, and would sample that thread twice.
 */
int xp_sampler_add_process(struct xp_sampler *sampler, pid_t pid)
{
	struct perf_event_attr attr = sampler->attr;
	size_t before = sampler->count;
	DIR *list = xp_target_list(pid);
	int err = 0;
	pid_t tid;

	if (!list)
		return -ESRCH;
	attr.inherit = 1;
	attr.inherit_thread = !sampler->options.children;
	while (!err && (tid = xp_target_next(list))) {
		err = add_event(sampler, &attr, tid, -1);
		if (err == -ESRCH) /* the thread has ended */
			err = 0;
	}
	closedir(list);
	if (err)
		return err;
	return sampler->count > before ? 0 : -ESRCH;
}

/* Returns whether the event of this CPU still samples. Otherwise closes it. */
static bool has_live(struct xp_sampler *sampler, pid_t id)
{
	for (size_t i = 0; i < sampler->count; i++) {
		struct event *event = &sampler->events[i];

		if (event->tid != id)
			continue;
		if (xp_perf_event_lives(event->fd, &event->look))
			return true;
		close_event(sampler, event);
		*event = sampler->events[--sampler->count];
		return false;
	}
	return false;
}

int xp_sampler_add_cpus(struct xp_sampler *sampler, const bool *cpus, size_t count)
{
	struct perf_event_attr attr = sampler->attr;

	attr.exclude_idle = sampler->options.cpu_cookie != 0;
	for (unsigned int cpu = 0; cpu < count; cpu++) {
		int err;

		if (!cpus[cpu] || has_live(sampler, -1 - (pid_t)cpu))
			continue;
		err = add_event(sampler, &attr, -1, cpu);
		if (err && err != -ENODEV) /* offline */
			return err;
	}
	return 0;
}

static void drop(struct xp_sampler *sampler, bool cpus)
{
	size_t kept = 0;

	for (size_t i = 0; i < sampler->count; i++) {
		if ((sampler->events[i].tid < 0) == cpus)
			close_event(sampler, &sampler->events[i]);
		else
			sampler->events[kept++] = sampler->events[i];
	}
	sampler->count = kept;
}

void xp_sampler_drop_cpus(struct xp_sampler *sampler)
{
	drop(sampler, true);
}

void xp_sampler_drop_threads(struct xp_sampler *sampler)
{
	sampler->has_dropped = true;
	drop(sampler, false);
}

const char *xp_sampler_event(const struct xp_sampler *sampler)
{
	return xp_sampler_hardware(sampler) ? "cycles" : "cpu-clock";
}

bool xp_sampler_hardware(const struct xp_sampler *sampler)
{
	return sampler->attr.type == PERF_TYPE_HARDWARE;
}

uint64_t xp_sampler_period_ns(const struct xp_sampler *sampler, uint64_t tsc_hz)
{
	if (sampler->attr.freq)
		return XP_NS_PER_S / sampler->attr.sample_freq;
	if (xp_sampler_hardware(sampler))
		return (unsigned __int128)sampler->attr.sample_period * XP_NS_PER_S / tsc_hz;
	return sampler->attr.sample_period;
}

uint64_t xp_sampler_periods(const struct xp_sampler *sampler)
{
	return sampler->has_dropped ? 0 : sampler->periods;
}

void xp_sampler_begin_part(struct xp_sampler *sampler)
{
	sampler->has_dropped = true;
}

uint64_t xp_sampler_clamped_hz(const struct xp_sampler *sampler)
{
	return sampler->clamped_hz;
}

bool xp_perf_event_lives(int fd, struct xp_perf_event_look *look)
{
	struct {
		uint64_t value, enabled_ns, lost;
	} now = { 0 };
	bool lives =
	    read(fd, &now, sizeof(now)) >= (ssize_t)(2 * sizeof(uint64_t)) && now.enabled_ns > look->enabled_ns;

	if (lives)
		*look = (struct xp_perf_event_look){ now.enabled_ns, now.lost };
	return lives;
}
