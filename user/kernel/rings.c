/* SPDX-License-Identifier: BSD-2-Clause */
#include "kernel/rings.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/util.h"

#define OFFLINE_RING_BYTES (256u << 10)

static void ring_close(struct xp_ring *ring)
{
	size_t page = sysconf(_SC_PAGESIZE);

	if (ring->consumer)
		munmap(ring->consumer, page);
	if (ring->producer)
		munmap((void *)ring->producer, page + 2 * (ring->mask + 1));
	if (ring->map_fd >= 0)
		close(ring->map_fd);
}

static int ring_open(struct xp_ring *ring, uint64_t bytes)
{
	size_t page = sysconf(_SC_PAGESIZE);
	void *map;

	ring->mask = bytes - 1;
	ring->map_fd = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "xprof_ring", 0, 0, bytes, NULL);
	if (ring->map_fd < 0)
		return -errno;
	map = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, ring->map_fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	ring->consumer = map;
	map = mmap(NULL, page + 2 * bytes, PROT_READ, MAP_SHARED, ring->map_fd, page);
	if (map == MAP_FAILED)
		return -errno;
	ring->producer = map;
	ring->data = (uint8_t *)map + page;
	return 0;
}

/*
 * Updates the array of maps in one batch. After each single update, the kernel waits for an RCU grace period of about
 * 10 ms (maybe_wait_bpf_programs(), kernel/bpf/syscall.c); after a batch, it waits once for all CPUs. Before Linux
 * 5.16, arrays of maps do not support batches.
 */
static int insert_rings(const struct xp_rings *rings, int outer_fd)
{
	unsigned int *cpus = calloc(rings->count, sizeof(*cpus));
	int *fds = calloc(rings->count, sizeof(*fds));
	uint32_t count = rings->count;
	int err = cpus && fds ? 0 : -ENOMEM;

	for (unsigned int cpu = 0; cpu < rings->count && !err; cpu++) {
		cpus[cpu] = cpu;
		fds[cpu] = rings->rings[cpu].map_fd;
	}
	if (!err && bpf_map_update_batch(outer_fd, cpus, fds, &count, NULL))
		for (unsigned int cpu = 0; cpu < rings->count && !err; cpu++)
			err = bpf_map_update_elem(outer_fd, &cpu, &fds[cpu], BPF_ANY) ? -errno : 0;
	free(cpus);
	free(fds);
	return err;
}

int xp_rings_open(struct xp_rings **result, int outer_fd, uint64_t bytes)
{
	int cpus = libbpf_num_possible_cpus();
	struct xp_rings *rings;
	int err = 0;

	if (cpus < 0)
		return cpus;
	rings = calloc(1, sizeof(*rings));
	if (!rings)
		return -ENOMEM;
	rings->rings = calloc(cpus, sizeof(*rings->rings));
	if (!rings->rings) {
		free(rings);
		return -ENOMEM;
	}
	for (int cpu = 0; cpu < cpus; cpu++)
		rings->rings[cpu].map_fd = -1;
	rings->count = cpus;
	for (int cpu = 0; cpu < cpus && !err; cpu++)
		err = ring_open(&rings->rings[cpu], xp_cpu_online(cpu) ? bytes : XP_MIN(bytes, OFFLINE_RING_BYTES));
	if (!err)
		err = insert_rings(rings, outer_fd);
	if (err)
		xp_rings_free(rings);
	else
		*result = rings;
	return err;
}

void xp_rings_free(struct xp_rings *rings)
{
	if (!rings)
		return;
	for (unsigned int cpu = 0; cpu < rings->count; cpu++)
		ring_close(&rings->rings[cpu]);
	free(rings->rings);
	free(rings);
}

void xp_ring_snapshot(struct xp_ring *ring)
{
	ring->end = __atomic_load_n(ring->producer, __ATOMIC_ACQUIRE);
}

void xp_ring_publish(struct xp_ring *ring)
{
	if (ring->published == ring->position)
		return;
	__atomic_store_n(ring->consumer, ring->position, __ATOMIC_RELEASE);
	ring->published = ring->position;
}
