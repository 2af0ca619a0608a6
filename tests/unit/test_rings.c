/* SPDX-License-Identifier: BSD-2-Clause */
/* Opens the rings of all CPUs in a fake kernel: see syscall(). */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "unit.h"

#include "kernel/rings.h"

#define OUTER 1000
#define CPUS_MAX 1024
#define BYTES 65536
#define NO_BATCHES 524 /* the kernel's ENOTSUPP */

static struct {
	bool has_batches;
	bool refuses;
	unsigned int batches, singles;
	int last;	   /* number of the ring that was created */
	int fds[CPUS_MAX]; /* by CPU */
} kernel;

static int insert(uint32_t cpu, int fd)
{
	if (kernel.refuses || cpu >= CPUS_MAX) {
		errno = E2BIG;
		return -1;
	}
	kernel.fds[cpu] = fd;
	return 0;
}

static int insert_batch(union bpf_attr *attr)
{
	const uint32_t *cpus = (const uint32_t *)(uintptr_t)attr->batch.keys;
	const int *fds = (const int *)(uintptr_t)attr->batch.values;
	int err = 0;

	if (!kernel.has_batches) {
		errno = NO_BATCHES;
		return -1;
	}
	kernel.batches++;
	assert_int_equal(attr->batch.map_fd, OUTER);
	for (uint32_t i = 0; i < attr->batch.count && !err; i++)
		err = insert(cpus[i], fds[i]);
	return err;
}

/* Replaces libc's syscall(): rings are files. */
long syscall(long number, ...)
{
	union bpf_attr *attr;
	va_list list;
	int command, fd;

	va_start(list, number);
	command = va_arg(list, int);
	attr = va_arg(list, union bpf_attr *);
	va_end(list);
	errno = EINVAL;
	if (number != __NR_bpf)
		return -1;
	switch (command) {
	case BPF_MAP_CREATE:
		fd = memfd_create("ring", MFD_CLOEXEC);
		assert_int_equal(ftruncate(fd, 2 * sysconf(_SC_PAGESIZE) + 2 * (off_t)attr->max_entries), 0);
		kernel.last = fd;
		return fd;
	case BPF_MAP_UPDATE_BATCH:
		return insert_batch(attr);
	case BPF_MAP_UPDATE_ELEM:
		kernel.singles++;
		assert_int_equal(attr->map_fd, OUTER);
		return insert(*(const uint32_t *)(uintptr_t)attr->key, *(const int *)(uintptr_t)attr->value);
	default:
		return -1;
	}
}

static void check_inserted(bool has_batches)
{
	struct xp_rings *rings;

	memset(&kernel, 0, sizeof(kernel));
	kernel.has_batches = has_batches;
	assert_int_equal(xp_rings_open(&rings, OUTER, BYTES), 0);
	assert_int_equal(kernel.batches, has_batches);
	assert_int_equal(kernel.singles, has_batches ? 0 : rings->count);
	for (unsigned int cpu = 0; cpu < rings->count; cpu++)
		assert_int_equal(kernel.fds[cpu], rings->rings[cpu].map_fd);
	xp_rings_free(rings);
}

/* One update, and so one wait for the kernel, for all CPUs. */
TEST(test_batch)
{
	check_inserted(true);
}

TEST(test_no_batches)
{
	check_inserted(false);
}

TEST(test_refused)
{
	struct xp_rings *rings;

	memset(&kernel, 0, sizeof(kernel));
	kernel.has_batches = true;
	kernel.refuses = true;
	assert_int_equal(xp_rings_open(&rings, OUTER, BYTES), -E2BIG);
	/* No file of a ring remains open. */
	assert_int_equal(fcntl(kernel.last, F_GETFD), -1);
}
