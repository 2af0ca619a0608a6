// SPDX-License-Identifier: BSD-2-Clause
#include "sled/call_rings.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory_room.h"
#include "base/util.h"
#include "sled/ring_pages.h"
#include "target/memory.h"
#include "target/target.h"

/* Limits of the rings of all processes: bytes, and share of the machine's memory. */
#define ALL_RINGS_BYTES (1ull << 30)
#define ALL_RINGS_SHARE 8
/*
 * Memory of the cgroup that the rings leave free for xprof's other data: chunks, stacks and buffers of a busy
 * recording.
 */
#define OTHER_BYTES (32ull << 20)
/* The rings use at most a quarter of the free memory of the cgroup, because the targets may be in the same cgroup. */
#define OTHER_FACTOR 3
/* Large rings use at most a quarter of what all rings may use. */
#define LARGE_SHARE 4
#define ROOM_NS 10000000

/*
 * Size of the rings of all processes. The kernel charges it to xprof: if it were too much, the OOM killer would end
 * xprof, and sleds would stay patched. One thread patches while another may read.
 */
static size_t bytes_of_all;

static void give_up_bytes(size_t bytes)
{
	__atomic_sub_fetch(&bytes_of_all, bytes, __ATOMIC_RELAXED);
}

/*
 * Whether this share of the room of xprof's control group is enough. To ask the kernel takes some 50 us, and a process
 * may begin a thousand threads in a second: what it said holds for a while, less what was taken since.
 */
static bool has_room(size_t bytes, unsigned int share)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static uint64_t room, asked_ns;
	bool found;

	pthread_mutex_lock(&lock);
	if (xp_now_ns() - asked_ns > ROOM_NS) {
		room = xp_memory_room();
		asked_ns = xp_now_ns();
	}
	found = room >= OTHER_BYTES + share * (bytes + OTHER_FACTOR * bytes_of_all);
	if (found && room != UINT64_MAX)
		room -= bytes;
	pthread_mutex_unlock(&lock);
	return found;
}

static uint64_t most_bytes(void)
{
	const uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);

	return XP_MIN(memory / ALL_RINGS_SHARE, ALL_RINGS_BYTES);
}

/* -ENOMEM: xprof's control group has no room; -ENOSPC: all rings together have as much as they may. */
static int take_share(size_t bytes, unsigned int share)
{
	if (!has_room(bytes, share))
		return -ENOMEM;
	if (__atomic_add_fetch(&bytes_of_all, bytes, __ATOMIC_RELAXED) <= most_bytes() / share)
		return 0;
	give_up_bytes(bytes);
	return -ENOSPC;
}

static bool may_take(size_t bytes)
{
	static bool told;
	int err = take_share(bytes, 1);

	if (!err)
		return true;
	if (__atomic_exchange_n(&told, true, __ATOMIC_RELAXED))
		return false;
	if (err == -ENOMEM)
		xp_warn("the calls of further threads are recorded through the kernel, not in memory: the memory limit "
			"of xprof's cgroup (memory.max) has no space for more call rings; raise it, or run xprof in "
			"another cgroup");
	else
		xp_warn("the calls of further threads are recorded through the kernel, not in memory: the call "
			"rings of all processes have reached their limit of %" PRIu64 " MiB",
			most_bytes() >> 20);
	return false;
}

/* The number of a ring's first block. */
static size_t block_of(size_t index)
{
	return index <= XP_CALL_LARGE_RINGS ? 1 + (index - 1) * XP_CALL_LARGE_BLOCKS
					    : index + XP_CALL_LARGE_RINGS * (XP_CALL_LARGE_BLOCKS - 1);
}

static uint8_t *ring_memory(const struct xp_call_rings *rings, size_t index)
{
	return rings->memory + block_of(index) * XP_CALL_BLOCK_BYTES;
}

static size_t ring_bytes(size_t records)
{
	return XP_CALL_HEADER_BYTES + records * sizeof(struct xp_call_record);
}

static uint64_t *table_memory(const struct xp_call_rings *rings, size_t number)
{
	return (uint64_t *)(void *)(rings->memory + XP_CALL_TABLES + number * XP_CALL_TABLE_BYTES);
}

/*
 * Allocates pages of the memory. fallocate() would wait for the lock of the file, which the process can hold forever:
 * by a write to the file from memory for which it handles the page faults. A page fault of xprof needs no such lock.
 */
static int take_pages(uint8_t *start, size_t bytes)
{
	if (!madvise(start, bytes, MADV_POPULATE_WRITE) || errno == EINVAL) /* Linux 5.14 */
		return 0;
	return errno == EFAULT ? -ENOMEM : -errno;
}

/*
 * Clears the tables of earlier children. Children of a killed recording still have the addresses of their tables, and
 * would write into rings that now belong to others. Reading the file allocates no pages.
 */
static void clear_other_tables(const struct xp_call_rings *rings, int fd)
{
	static const uint8_t zeros[XP_CALL_TABLE_BYTES];
	uint8_t table[XP_CALL_TABLE_BYTES];

	for (size_t number = 1; number < XP_CALL_TABLES_MAX; number++) {
		off_t at = (off_t)(XP_CALL_TABLES + number * sizeof(table));

		if (pread(fd, table, sizeof(table), at) != (ssize_t)sizeof(table) ||
		    memcmp(table, zeros, sizeof(table)) != 0)
			memset(table_memory(rings, number), 0, sizeof(table));
	}
}

/* The process may remove pages at any time: guard the memory before it is accessed. */
static int begin_guarded(struct xp_call_rings *rings, int fd)
{
	int err;

	rings->pages = (struct xp_shared_pages){ .start = rings->memory, .bytes = XP_CALL_RINGS_BYTES };
	if (!may_take(XP_CALL_TABLE_BYTES))
		return -ENOMEM;
	err = xp_shared_pages_guard(&rings->pages);
	if (!err)
		err = take_pages((uint8_t *)table_memory(rings, 0), XP_CALL_TABLE_BYTES);
	/* A thread that has been in the stub since an earlier recording continues with the ring that it finds. */
	if (!err)
		memset(table_memory(rings, 0), 0, XP_CALL_TABLE_BYTES);
	if (!err)
		clear_other_tables(rings, fd);
	if (!err && xp_call_rings_torn(rings))
		err = -ENOMEM;
	if (err) {
		xp_shared_pages_forget(&rings->pages);
		give_up_bytes(XP_CALL_TABLE_BYTES);
	}
	return err;
}

int xp_call_rings_new(struct xp_call_rings **result, pid_t pid, int fd, uint64_t address,
		      const struct xp_programs *programs)
{
	struct xp_call_rings *rings = calloc(1, sizeof(*rings));
	int err = rings ? 0 : -ENOMEM;

	if (!err) {
		rings->memory = mmap(NULL, XP_CALL_RINGS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		err = rings->memory == MAP_FAILED ? -errno : 0;
	}
	if (!err) {
		err = begin_guarded(rings, fd);
		if (err)
			munmap(rings->memory, XP_CALL_RINGS_BYTES);
	}
	if (err) {
		free(rings);
		close(fd);
		return err;
	}
	rings->fd = fd;
	rings->address = address;
	rings->programs = programs;
	rings->references = 1;
	rings->tables[0] = pid;
	rings->count = rings->clean = rings->clean_tables = 1;
	*result = rings;
	return 0;
}

struct xp_call_rings *xp_call_rings_share(struct xp_call_rings *rings)
{
	rings->references++;
	return rings;
}

void xp_call_rings_free(struct xp_call_rings *rings)
{
	if (!rings || --rings->references)
		return;
	for (size_t number = 0; number < XP_CALL_TABLES_MAX; number++)
		if (rings->tables[number]) {
			xp_call_rings_stop(rings, rings->tables[number]);
			xp_call_rings_forget(rings, rings->tables[number]);
		}
	xp_shared_pages_forget(&rings->pages);
	munmap(rings->memory, XP_CALL_RINGS_BYTES);
	xp_ring_pages_give_back(rings->fd);
	give_up_bytes(rings->clean_tables * XP_CALL_TABLE_BYTES + rings->clean_bytes);
	close(rings->fd);
	free(rings);
}

struct xp_thread_ring *xp_call_rings_of(struct xp_call_rings *rings, pid_t pid, pid_t tid)
{
	for (size_t i = 0; i < rings->count; i++)
		if (rings->tids[i] == tid && rings->pids[i] == pid)
			return &rings->list[i];
	return NULL;
}

struct xp_thread_ring *xp_call_rings_at(struct xp_call_rings *rings, pid_t pid, uint64_t fs_base)
{
	for (size_t i = 0; i < rings->count; i++)
		if (rings->fs_bases[i] == fs_base && rings->pids[i] == pid)
			return &rings->list[i];
	return NULL;
}

struct xp_thread_ring *xp_call_rings_next(struct xp_call_rings *rings, pid_t pid, struct xp_thread_ring *ring)
{
	for (size_t i = ring ? (size_t)(ring - rings->list) + 1 : 1; i < rings->count; i++)
		if (rings->fs_bases[i] && rings->pids[i] == pid)
			return &rings->list[i];
	return NULL;
}

static size_t index_of(const struct xp_call_rings *rings, const struct xp_thread_ring *ring)
{
	return (size_t)(ring - rings->list);
}

/* Returns the address of a ring's header in the process. */
static uint64_t header_address(const struct xp_call_rings *rings, size_t index)
{
	return rings->address + (uint64_t)(ring_memory(rings, index) - rings->memory);
}

static void tell_programs(struct xp_call_rings *rings, size_t index)
{
	if (rings->programs)
		xp_programs_set_call_header(rings->programs, rings->pids[index], rings->fs_bases[index],
					    header_address(rings, index));
	rings->list[index].told = true;
}

static void forget_ring(struct xp_call_rings *rings, size_t index)
{
	if (rings->list[index].told && rings->programs)
		xp_programs_set_call_header(rings->programs, rings->pids[index], rings->fs_bases[index], 0);
	rings->list[index].told = false;
}

void xp_call_rings_forget(struct xp_call_rings *rings, pid_t pid)
{
	for (struct xp_thread_ring *ring = NULL; (ring = xp_call_rings_next(rings, pid, ring));)
		forget_ring(rings, index_of(rings, ring));
}

static void set_key(struct xp_call_rings *rings, size_t index)
{
	__atomic_store_n(rings->list[index].entry, XP_CALL_KEY(rings->fs_bases[index], block_of(index)),
			 __ATOMIC_RELEASE);
	rings->list[index].free_tsc = 0;
}

static void clear_key(struct xp_thread_ring *ring)
{
	if (ring->free_tsc)
		return;
	__atomic_store_n(ring->entry, 0, __ATOMIC_RELEASE);
	ring->free_tsc = xp_clock_now_tsc();
}

int xp_call_rings_table(const struct xp_call_rings *rings, pid_t pid)
{
	for (int number = 0; number < XP_CALL_TABLES_MAX; number++)
		if (rings->tables[number] == pid)
			return number;
	return -ENOENT;
}

/*
 * Finds a free entry for this fs base in the table of the process. NULL: other threads use both possible entries, or
 * the process has no table.
 */
static uint64_t *find_entry(const struct xp_call_rings *rings, pid_t pid, uint64_t fs_base)
{
	uint32_t place = XP_CALL_ENTRY_OF(fs_base);
	int number = xp_call_rings_table(rings, pid);

	for (uint32_t neighbor = 0; neighbor < 2 && number >= 0; neighbor++) {
		uint64_t *entry = &table_memory(rings, (size_t)number)[place ^ neighbor];
		bool used = false;

		for (size_t i = 0; i < rings->count && !used; i++)
			used = rings->fs_bases[i] && rings->list[i].entry == entry;
		if (!used)
			return entry;
	}
	return NULL;
}

/* Records of the next ring, for which it takes the memory; 0: there is none. */
static size_t take_records(const struct xp_call_rings *rings)
{
	if (rings->clean <= XP_CALL_LARGE_RINGS && !take_share(ring_bytes(XP_CALL_LARGE_RECORDS), LARGE_SHARE))
		return XP_CALL_LARGE_RECORDS;
	return rings->clean < XP_CALL_RINGS_MAX && may_take(ring_bytes(XP_CALL_RING_RECORDS)) ? XP_CALL_RING_RECORDS
											      : 0;
}

/* The pages are charged to xprof, not to the process. What an xprof that was killed left there is removed. */
static int clear_pages(uint8_t *start, size_t bytes)
{
	int err = take_pages(start, bytes);

	if (!err)
		memset(start, 0, bytes);
	return err;
}

/* ready: how many records get pages now, if the ring has so many. */
static int prepare_next(struct xp_call_rings *rings, size_t ready)
{
	const size_t index = rings->clean, records = take_records(rings);
	int err;

	if (!records)
		return -ENOSPC;
	ready = XP_MIN(ready, records);
	err = clear_pages(ring_memory(rings, index), ring_bytes(ready));
	if (err) {
		give_up_bytes(ring_bytes(records));
		return err;
	}
	rings->records[index] = records;
	rings->ready[index] = ready;
	rings->clean_bytes += ring_bytes(records);
	rings->clean++;
	return 0;
}

void xp_call_rings_prepare(struct xp_call_rings *rings, size_t threads)
{
	while (rings->clean - rings->count < threads && !prepare_next(rings, XP_CALL_LARGE_RECORDS))
		;
}

void xp_call_rings_grow(struct xp_call_rings *rings, struct xp_thread_ring *ring)
{
	const size_t index = index_of(rings, ring), ready = rings->ready[index];
	const size_t more = XP_MIN(ready, rings->records[index] - ready);

	if (!more || ring->ring.next - ring->ring.first < ready / 2 ||
	    clear_pages(ring_memory(rings, index) + ring_bytes(ready), ring_bytes(more) - ring_bytes(0)))
		return;
	rings->ready[index] += more;
	xp_call_ring_set_ready(&ring->ring, rings->ready[index]);
}

/* Removes what an earlier thread left. */
static void clear_ring(struct xp_call_rings *rings, size_t index)
{
	const struct xp_call_ring *ring = &rings->list[index].ring;
	const uint64_t ready = rings->ready[index], read = XP_MIN(ring->next - ring->first, ready);
	const uint64_t used = read + XP_MIN(xp_call_ring_reserved(ring), ready) + XP_CALL_RING_MARGIN;

	memset(ring_memory(rings, index), 0, ring_bytes(XP_MIN(used, ready)));
}

/* A ring that no thread has. */
static struct xp_thread_ring *find_ring(struct xp_call_rings *rings)
{
	for (size_t i = 1; i < rings->count; i++)
		if (!rings->fs_bases[i]) {
			clear_ring(rings, i);
			return &rings->list[i];
		}
	if (rings->count == rings->clean && prepare_next(rings, XP_CALL_RING_RECORDS))
		return NULL;
	return &rings->list[rings->count++];
}

static void bind_ring(struct xp_call_rings *rings, pid_t pid, pid_t tid, uint64_t fs_base, uint64_t tsc)
{
	uint64_t *entry = find_entry(rings, pid, fs_base);
	struct xp_thread_ring *ring = entry ? find_ring(rings) : NULL;
	uint8_t *memory;
	size_t index;

	if (!ring) {
		xp_debug("thread %d gets no call ring", tid);
		rings->refused = true;
		return;
	}
	index = index_of(rings, ring);
	memory = ring_memory(rings, index);
	*ring = (struct xp_thread_ring){ .since_tsc = tsc, .entry = entry };
	xp_call_ring_begin(&ring->ring, (struct xp_call_header *)(void *)memory,
			   (struct xp_call_record *)(void *)(memory + XP_CALL_HEADER_BYTES), rings->records[index]);
	xp_call_ring_number_from(&ring->ring, rings->first_number);
	xp_call_ring_set_ready(&ring->ring, rings->ready[index]);
	if (rings->min_ticks)
		xp_call_ring_drop_short(&ring->ring, rings->min_ticks);
	rings->tids[index] = tid;
	rings->fs_bases[index] = fs_base;
	rings->pids[index] = pid;
	/* Tell BPF before the thread records there. */
	tell_programs(rings, index);
	set_key(rings, index);
}

void xp_call_rings_begin(struct xp_call_rings *rings, pid_t pid, pid_t tid, uint64_t fs_base, uint64_t tsc)
{
	struct xp_thread_ring *ring = fs_base ? xp_call_rings_at(rings, pid, fs_base) : NULL;
	size_t index = ring ? index_of(rings, ring) : 0;

	if (!fs_base || rings->given_up || (ring && (rings->tids[index] == tid || tsc < ring->since_tsc)))
		return;
	if (!ring) {
		bind_ring(rings, pid, tid, fs_base, tsc);
	} else if (rings->tids[index]) {
		/* From now on, records may be from both threads. */
		ring->shared = true;
		clear_key(ring);
	} else if (!ring->shared) {
		rings->tids[index] = tid;
		ring->since_tsc = tsc;
		set_key(rings, index);
	}
}

void xp_call_rings_lend(struct xp_thread_ring *ring, pid_t borrower)
{
	ring->borrower = borrower;
	ring->gone_tsc = 0;
}

void xp_call_rings_end(struct xp_call_rings *rings, pid_t pid, pid_t tid)
{
	struct xp_thread_ring *ring = xp_call_rings_of(rings, pid, tid);

	if (!ring)
		return;
	rings->tids[index_of(rings, ring)] = 0;
	ring->left_tid = 0;
	ring->borrower = 0;
	ring->ended_tsc = 0;
}

/* Frees a ring without a key. */
static void free_ring(struct xp_call_rings *rings, struct xp_thread_ring *ring)
{
	size_t index = index_of(rings, ring);

	forget_ring(rings, index);
	/* A number that BPF has read in this ring comes before all numbers of a later one. */
	if (rings->first_number < ring->ring.next)
		rings->first_number = (ring->ring.next | (XP_CALL_LARGE_RECORDS - 1)) + 1;
	rings->fs_bases[index] = 0;
	rings->tids[index] = 0;
	if (rings->refused && rings->programs)
		xp_programs_tell_again(rings->programs);
	rings->refused = false;
}

void xp_call_rings_recycle(struct xp_call_rings *rings, pid_t pid, uint64_t done_tsc,
			   void (*before)(void *arg, struct xp_thread_ring *ring), void *arg)
{
	for (struct xp_thread_ring *ring = NULL; (ring = xp_call_rings_next(rings, pid, ring));) {
		if (xp_call_rings_owner(rings, ring))
			continue;
		if (!ring->free_tsc) {
			clear_key(ring);
		} else if (ring->free_tsc < done_tsc) {
			before(arg, ring);
			free_ring(rings, ring);
		}
	}
}

void xp_call_rings_stop(struct xp_call_rings *rings, pid_t pid)
{
	for (struct xp_thread_ring *ring = NULL; (ring = xp_call_rings_next(rings, pid, ring));)
		clear_key(ring);
}

void xp_call_rings_leave(struct xp_call_rings *rings, pid_t pid, bool is_used)
{
	xp_call_rings_stop(rings, pid);
	for (struct xp_thread_ring *ring = NULL; (ring = xp_call_rings_next(rings, pid, ring));)
		free_ring(rings, ring);
	if (xp_call_rings_table(rings, pid) >= 0)
		rings->tables[xp_call_rings_table(rings, pid)] = is_used ? -1 : 0;
}

/* Finds a free table and clears it. The first table is that of the process that has mapped the memory. */
static int take_table(struct xp_call_rings *rings, pid_t pid)
{
	size_t number = 1;

	while (number < XP_CALL_TABLES_MAX && rings->tables[number])
		number++;
	if (number == XP_CALL_TABLES_MAX)
		return -ENOSPC;
	if (number == rings->clean_tables) {
		if (!may_take(XP_CALL_TABLE_BYTES))
			return -ENOSPC;
		rings->clean_tables++;
	}
	memset(table_memory(rings, number), 0, XP_CALL_TABLE_BYTES);
	rings->tables[number] = pid;
	return (int)number;
}

/*
 * Writes the address of a table into a stub, if the program has inherited the stub and has no table: it may be another
 * program by now, with other memory at that address.
 */
static int write_table(const struct xp_program_memory *program, uint64_t stub, size_t number)
{
	const uint64_t address = stub + XP_STUB_RINGS + XP_CALL_TABLES + number * XP_CALL_TABLE_BYTES;
	struct xp_target_memory *memory = xp_target_memory_own();
	uint8_t page[XP_STUB_BYTES], now[XP_STUB_TABLE + sizeof(address)] = { 0 };
	uint64_t table;
	ssize_t n = memory ? xp_program_memory_read(memory, program, stub, now, sizeof(now)) : -ENOMEM;

	if (n < 0)
		return (int)n;
	xp_stub_make(page);
	memcpy(&table, now + XP_STUB_TABLE, sizeof(table));
	/* The code in memory has probes. */
	if ((size_t)n != sizeof(now) || memcmp(now, page, XP_STUB_TEXT) != 0 || now[XP_STUB_FLAG] || table)
		return -ESRCH;
	return xp_program_memory_write(memory, program, stub + XP_STUB_TABLE, &address, sizeof(address));
}

/* Writes the address into all stubs. Ignores stubs that were mapped after the fork, which the child lacks. */
static int write_tables(const struct xp_call_rings *rings, pid_t pid, uint64_t start_time, size_t number)
{
	struct xp_program_memory program;
	int err = xp_program_memory_open(&program, pid, pid, true), written = -ESRCH;

	/* A later child with the same PID has the same memory. The first child still lives, so the file is its. */
	if (!err && xp_target_start_time(pid) != start_time) {
		xp_program_memory_close(&program);
		return -ESRCH;
	}
	for (size_t i = 0; i < rings->stub_count && (!err || err == -ESRCH || err == -EIO); i++) {
		err = write_table(&program, rings->stubs[i], number);
		written = err ? written : 0;
	}
	xp_program_memory_close(&program);
	return written ? err : 0;
}

int xp_call_rings_adopt(struct xp_call_rings *rings, pid_t pid, uint64_t start_time, uint64_t fs_base, uint64_t tsc)
{
	bool may = rings->stub_count && !rings->given_up && !rings->no_children;
	int number = may ? take_table(rings, pid) : -EOPNOTSUPP, err;

	if (number < 0)
		return number;
	/* The thread records as soon as the address is written. */
	xp_call_rings_begin(rings, pid, pid, fs_base, tsc);
	err = write_tables(rings, pid, start_time, (size_t)number);
	if (err)
		xp_call_rings_leave(rings, pid, err == -ETIMEDOUT); /* the address may still be written */
	return err;
}
