/* SPDX-License-Identifier: BSD-2-Clause */
#include "kernel/sideband.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/util.h"
#include "kernel/attach_samples.h"

#define RECORD_BYTES_MAX 65536

struct buffer {
	int fd; /* -1: this CPU has none */
	struct perf_event_mmap_page *page;
	uint8_t *data;
	struct xp_perf_event_look look;
};

struct xp_sideband {
	struct buffer *buffers; /* by CPU */
	unsigned int cpus;
	size_t data_bytes;
	/* The events read so far, in time order from `next` on. */
	struct xp_sideband_event *events;
	size_t count;
	size_t room;
	size_t next;
	uint64_t sequence;
	uint64_t lost;
	uint8_t record[RECORD_BYTES_MAX]; /* a record that wraps around the end of the buffer */
};

/* The trailer that sample_id_all appends to each record, in this order. */
struct trailer {
	uint32_t pid, tid;
	uint64_t time;
};

static int open_buffer(struct xp_sideband *sideband, unsigned int cpu)
{
	struct buffer *buffer = &sideband->buffers[cpu];
	size_t page = sysconf(_SC_PAGESIZE);
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY,
		.size = sizeof(attr),
		.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME,
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_LOST,
		.sample_id_all = 1,
		.mmap = 1,
		.mmap2 = 1,
		.comm = 1,
		.comm_exec = 1,
		.task = 1,
		.ksymbol = 1,
		.bpf_event = 1,
		.watermark = 1,
		.wakeup_watermark = sideband->data_bytes, /* xprof polls */
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
	};
	void *map;

	buffer->fd = syscall(__NR_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	if (buffer->fd < 0 &&
	    errno == EINVAL) { /* before Linux 6.0, the kernel reports losses only with the next record */
		attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED;
		buffer->fd = syscall(__NR_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	}
	if (buffer->fd < 0)
		return -errno;
	map = mmap(NULL, page + sideband->data_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, buffer->fd, 0);
	if (map == MAP_FAILED) {
		int err = -errno;

		close(buffer->fd);
		buffer->fd = -1;
		return err;
	}
	buffer->page = map;
	buffer->data = (uint8_t *)map + page;
	buffer->look = (struct xp_perf_event_look){ 0 };
	return 0;
}

static void close_buffer(struct xp_sideband *sideband, struct buffer *buffer)
{
	if (buffer->fd < 0)
		return;
	munmap(buffer->page, sysconf(_SC_PAGESIZE) + sideband->data_bytes);
	close(buffer->fd);
	buffer->fd = -1;
}

/* Opens the missing buffers. Returns how many it opened, or -errno. */
static int open_missing(struct xp_sideband *sideband)
{
	int opened = 0;

	for (unsigned int cpu = 0; cpu < sideband->cpus; cpu++) {
		int err;

		if (sideband->buffers[cpu].fd >= 0)
			continue;
		err = open_buffer(sideband, cpu);
		if (err && err != -ENODEV) /* offline */
			return err;
		opened += !err;
	}
	return opened;
}

static bool is_empty(const struct buffer *buffer)
{
	return __atomic_load_n(&buffer->page->data_head, __ATOMIC_ACQUIRE) == buffer->page->data_tail;
}

int xp_sideband_add_cpus(struct xp_sideband *sideband)
{
	int opened;

	for (unsigned int cpu = 0; cpu < sideband->cpus; cpu++) {
		struct buffer *buffer = &sideband->buffers[cpu];

		uint64_t lost = buffer->look.lost;

		if (buffer->fd >= 0 && !xp_perf_event_lives(buffer->fd, &buffer->look) && is_empty(buffer))
			close_buffer(sideband, buffer);
		/*
		 * The kernel reports a loss only with the next record that fits into the buffer, which may never
		 * arrive.
		 */
		sideband->lost += buffer->look.lost > lost;
	}
	opened = open_missing(sideband);
	if (opened < 0)
		return opened;
	sideband->lost += opened; /* events on these CPUs before their buffers were opened */
	return 0;
}

int xp_sideband_open(struct xp_sideband **result, unsigned int buffer_pages)
{
	struct xp_sideband *sideband = calloc(1, sizeof(*sideband));
	int err = -ENOMEM;

	if (!sideband)
		return err;
	sideband->cpus = sysconf(_SC_NPROCESSORS_CONF);
	sideband->data_bytes = (size_t)buffer_pages * sysconf(_SC_PAGESIZE);
	sideband->buffers = calloc(sideband->cpus, sizeof(*sideband->buffers));
	if (!sideband->buffers) {
		free(sideband);
		return err;
	}
	for (unsigned int cpu = 0; cpu < sideband->cpus; cpu++)
		sideband->buffers[cpu].fd = -1;
	err = open_missing(sideband);
	if (err < 0) {
		xp_sideband_free(sideband);
		return err;
	}
	*result = sideband;
	return 0;
}

void xp_sideband_free(struct xp_sideband *sideband)
{
	if (!sideband)
		return;
	for (unsigned int cpu = 0; cpu < sideband->cpus; cpu++)
		close_buffer(sideband, &sideband->buffers[cpu]);
	for (size_t i = 0; i < sideband->count; i++)
		free(sideband->events[i].text);
	free(sideband->events);
	free(sideband->buffers);
	free(sideband);
}

static int add_event(struct xp_sideband *sideband, struct xp_sideband_event *event, const char *text, size_t text_max)
{
	if (text) {
		event->text = strndup(text, text_max);
		if (!event->text)
			return -ENOMEM;
	}
	if (XP_ARRAY_RESERVE(sideband->events, sideband->room, sideband->count + 1)) {
		free(event->text);
		return -ENOMEM;
	}
	event->sequence = sideband->sequence++;
	sideband->events[sideband->count++] = *event;
	return 0;
}

/* Record bodies, which follow the header of 8 bytes. */
struct mmap2_body {
	uint32_t pid, tid;
	uint64_t addr, len, pgoff;
	uint32_t maj, min;
	uint64_t ino, ino_generation;
	uint32_t prot, flags;
	char filename[];
};

struct comm_body {
	uint32_t pid, tid;
	char comm[];
};

struct task_body {
	uint32_t pid, ppid, tid, ptid;
	uint64_t time;
};

struct symbol_body {
	uint64_t addr;
	uint32_t len;
	uint16_t type, flags;
	char name[];
};

struct bpf_body {
	uint16_t type, flags;
	uint32_t id;
	uint8_t tag[8];
};

static int take_symbol(struct xp_sideband *sideband, struct xp_sideband_event *event, const struct symbol_body *body,
		       size_t text_bytes)
{
	event->kind = XP_SIDEBAND_SYMBOL;
	event->start = body->addr;
	event->length = body->len;
	event->type = body->type;
	event->flags = body->flags;
	return add_event(sideband, event, body->name, text_bytes);
}

static int take_bpf(struct xp_sideband *sideband, struct xp_sideband_event *event, const struct bpf_body *body)
{
	event->kind = XP_SIDEBAND_BPF;
	event->type = body->type;
	event->id = body->id;
	memcpy(event->tag, body->tag, sizeof(event->tag));
	return add_event(sideband, event, NULL, 0);
}

static int take_mmap(struct xp_sideband *sideband, struct xp_sideband_event *event, const struct mmap2_body *body,
		     size_t text_bytes)
{
	if (!(body->prot & PROT_EXEC))
		return 0;
	event->kind = XP_SIDEBAND_MMAP;
	event->pid = body->pid;
	event->tid = body->tid;
	event->start = body->addr;
	event->length = body->len;
	event->file_offset = body->pgoff;
	event->dev = makedev(body->maj, body->min);
	event->inode = body->ino;
	event->generation = body->ino_generation;
	return add_event(sideband, event, body->filename, text_bytes);
}

static int take(struct xp_sideband *sideband, const struct xp_clock *clock, const struct perf_event_header *header)
{
	const uint8_t *body = (const uint8_t *)(header + 1);
	size_t bytes = header->size - sizeof(*header);
	struct xp_sideband_event event = { 0 };
	const struct comm_body *comm = (const struct comm_body *)body;
	const struct task_body *task = (const struct task_body *)body;
	struct trailer trailer;

	if (header->type == PERF_RECORD_LOST) {
		sideband->lost++;
		return 0;
	}
	if (bytes < sizeof(trailer))
		return 0;
	bytes -= sizeof(trailer);
	memcpy(&trailer, body + bytes, sizeof(trailer));
	event.tsc = xp_clock_tsc(clock, trailer.time);
	switch (header->type) {
	case PERF_RECORD_MMAP2:
		if (bytes < sizeof(struct mmap2_body))
			return 0;
		return take_mmap(sideband, &event, (const struct mmap2_body *)body, bytes - sizeof(struct mmap2_body));
	case PERF_RECORD_KSYMBOL:
		if (bytes < sizeof(struct symbol_body))
			return 0;
		return take_symbol(sideband, &event, (const struct symbol_body *)body,
				   bytes - sizeof(struct symbol_body));
	case PERF_RECORD_BPF_EVENT:
		return bytes < sizeof(struct bpf_body) ? 0 : take_bpf(sideband, &event, (const struct bpf_body *)body);
	case PERF_RECORD_COMM:
		if (bytes < sizeof(*comm))
			return 0;
		event.kind = header->misc & PERF_RECORD_MISC_COMM_EXEC ? XP_SIDEBAND_EXEC : XP_SIDEBAND_COMM;
		event.pid = comm->pid;
		event.tid = comm->tid;
		return add_event(sideband, &event, comm->comm, bytes - sizeof(*comm));
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT:
		if (bytes < sizeof(*task))
			return 0;
		event.kind = header->type == PERF_RECORD_FORK ? XP_SIDEBAND_FORK : XP_SIDEBAND_EXIT;
		event.pid = task->pid;
		event.tid = task->tid;
		event.ppid = task->ppid;
		return add_event(sideband, &event, NULL, 0);
	default:
		return 0;
	}
}

static int read_buffer(struct xp_sideband *sideband, struct buffer *buffer, const struct xp_clock *clock)
{
	uint64_t head = __atomic_load_n(&buffer->page->data_head, __ATOMIC_ACQUIRE);
	uint64_t tail = buffer->page->data_tail;
	uint64_t mask = sideband->data_bytes - 1;
	int err = 0;

	while (tail < head && !err) {
		const struct perf_event_header *header = (const void *)(buffer->data + (tail & mask));
		size_t size = header->size; /* 8-byte aligned, so the header itself never wraps */

		if (size < sizeof(*header) || size % sizeof(*header) || size > head - tail)
			return -EBADMSG;
		if ((tail & mask) + size > sideband->data_bytes) {
			size_t first = sideband->data_bytes - (tail & mask);

			memcpy(sideband->record, buffer->data + (tail & mask), first);
			memcpy(sideband->record + first, buffer->data, size - first);
			header = (const void *)sideband->record;
		}
		err = take(sideband, clock, header);
		tail += size;
	}
	__atomic_store_n(&buffer->page->data_tail, tail, __ATOMIC_RELEASE);
	return err;
}

static int by_time(const void *a, const void *b)
{
	const struct xp_sideband_event *left = a, *right = b;

	return xp_compare(left->tsc, right->tsc) ?: xp_compare(left->sequence, right->sequence);
}

/* Frees the events that xp_sideband_next() has returned. */
static void forget_taken(struct xp_sideband *sideband)
{
	for (size_t i = 0; i < sideband->next; i++)
		free(sideband->events[i].text);
	sideband->count -= sideband->next;
	memmove(sideband->events, sideband->events + sideband->next, sideband->count * sizeof(*sideband->events));
	sideband->next = 0;
}

int xp_sideband_read(struct xp_sideband *sideband, const struct xp_clock *clock)
{
	int err = 0;

	if (sideband->next)
		forget_taken(sideband);
	for (unsigned int cpu = 0; cpu < sideband->cpus && !err; cpu++)
		if (sideband->buffers[cpu].fd >= 0)
			err = read_buffer(sideband, &sideband->buffers[cpu], clock);
	if (sideband->count)
		qsort(sideband->events, sideband->count, sizeof(*sideband->events), by_time);
	return err;
}

const struct xp_sideband_event *xp_sideband_next(struct xp_sideband *sideband, uint64_t tsc)
{
	if (sideband->next == sideband->count || sideband->events[sideband->next].tsc >= tsc)
		return NULL;
	return &sideband->events[sideband->next++];
}

uint64_t xp_sideband_lost(const struct xp_sideband *sideband)
{
	return sideband->lost;
}
