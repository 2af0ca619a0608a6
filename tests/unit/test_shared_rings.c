/* SPDX-License-Identifier: BSD-2-Clause */
/* The call rings that children of fork() share with their parent: this process and its children execute the stub. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "call_stub.h"
#include "sled/call_rings.h"
#include "target/target.h"

static struct family {
	struct xp_call_rings *rings;
	uint8_t *stub;
	const uint8_t *slot;
	int commands[2];
	int answers[2];
} family;

static void begin_family(void)
{
	int fd = memfd_create("rings", MFD_CLOEXEC), stub_fd = xp_stub_open();
	uint8_t *stub = xp_stub_map(stub_fd);

	assert_non_null(stub);
	assert_int_equal(ftruncate(fd, XP_CALL_RINGS_BYTES), 0);
	assert_ptr_not_equal(
	    mmap(stub + XP_STUB_RINGS, XP_CALL_RINGS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0),
	    MAP_FAILED);
	assert_int_equal(xp_call_rings_new(&family.rings, getpid(), fd, (uintptr_t)stub + XP_STUB_RINGS, NULL), 0);
	family.rings->stubs[family.rings->stub_count++] = (uintptr_t)stub;
	family.stub = stub;
	family.slot = stub + xp_stub_memory_entry(false);
	assert_int_equal(pipe2(family.commands, O_CLOEXEC), 0);
	assert_int_equal(pipe2(family.answers, O_CLOEXEC), 0);
	xp_call_rings_begin(family.rings, getpid(), getpid(), fs_base_now(), xp_clock_now_tsc());
	close(stub_fd);
}

static void end_family(void)
{
	xp_call_rings_free(family.rings);
	munmap(family.stub, XP_STUB_MAP_BYTES);
	close(family.commands[0]);
	close(family.commands[1]);
	close(family.answers[0]);
	close(family.answers[1]);
	memset(&family, 0, sizeof(family));
}

/* A child that makes a call for each byte that it is sent. */
static pid_t begin_child(void)
{
	pid_t child = fork();
	char byte;

	assert_true(child >= 0);
	if (child)
		return child;
	while (read(family.commands[0], &byte, 1) == 1) {
		call_slot(family.slot, word(XP_EVENT_ENTRY));
		if (write(family.answers[1], &byte, 1) != 1)
			break;
	}
	_exit(0);
}

static void call_in_child(unsigned int count)
{
	char byte = 0;

	for (unsigned int i = 0; i < count; i++) {
		assert_int_equal(write(family.commands[1], &byte, 1), 1);
		assert_int_equal(read(family.answers[0], &byte, 1), 1);
	}
}

static void end_child(pid_t child)
{
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
}

static uint64_t head_of(pid_t pid)
{
	return xp_call_rings_at(family.rings, pid, fs_base_now())->ring.header->head;
}

static int adopt(pid_t pid, uint64_t tsc)
{
	return xp_call_rings_adopt(family.rings, pid, xp_target_start_time(pid), fs_base_now(), tsc);
}

/* It has the fs base of its parent, and a ring of its own, from the moment on that it is given one. */
TEST(test_child_gets_a_ring)
{
	pid_t child;

	begin_family();
	for (int round = 0; round < 3; round++) {
		child = begin_child();
		call_in_child(2);
		assert_int_equal(adopt(child, xp_clock_now_tsc()), 0);
		call_in_child(5);
		call_slot(family.slot, word(XP_EVENT_ENTRY));
		assert_int_equal(head_of(child), 5);
		assert_int_equal(head_of(getpid()), round + 1);
		end_child(child);
		/* The next one has the same ring and the same table. */
		xp_call_rings_leave(family.rings, child, false);
		assert_int_equal(family.rings->count, 3);
		assert_int_equal(family.rings->clean_tables, 2);
	}
	end_family();
}

/* Nothing is written to a process that has its own table, the memory of its parent, or another program. */
TEST(test_others_get_none)
{
	pid_t child, sleeper;
	char byte;

	begin_family();
	child = begin_child();
	assert_int_equal(adopt(child, 1), 0);
	xp_call_rings_leave(family.rings, child, false);
	assert_int_equal(adopt(child, 1), -ESRCH);
	assert_int_equal(xp_call_rings_table(family.rings, child), -ENOENT);
	end_child(child);
	xp_call_rings_leave(family.rings, getpid(), false);
	assert_int_equal(adopt(getpid(), 1), -ESRCH);
	sleeper = fork();
	if (!sleeper) {
		execl("/bin/sleep", "sleep", "100", NULL);
		_exit(1);
	}
	/* Its exec closes the last descriptor. */
	close(family.answers[1]);
	family.answers[1] = -1;
	assert_int_equal(read(family.answers[0], &byte, 1), 0);
	assert_int_not_equal(adopt(sleeper, 1), 0);
	assert_null(xp_call_rings_at(family.rings, sleeper, fs_base_now()));
	end_child(sleeper);
	end_family();
}

/* The fork event of a child is late: another child has the PID by now, and the same memory. */
TEST(test_pid_of_another)
{
	uint64_t start_time;
	pid_t child;

	begin_family();
	child = begin_child();
	start_time = xp_target_start_time(child);
	assert_int_equal(xp_target_start_time_ago(child, 0), start_time);
	assert_int_equal(xp_target_start_time_ago(child, XP_NS_PER_S), 0);
	assert_int_equal(xp_call_rings_adopt(family.rings, child, start_time - 1, fs_base_now(), 1), -ESRCH);
	assert_null(xp_call_rings_at(family.rings, child, fs_base_now()));
	assert_int_equal(adopt(child, 1), 0);
	end_child(child);
	end_family();
}

/* However many there are, no table and no ring has two owners. */
TEST(test_no_table_is_left)
{
	unsigned int given = 0;
	pid_t child;

	begin_family();
	child = begin_child();
	for (pid_t pid = 1; pid < XP_CALL_TABLES_MAX; pid++)
		family.rings->tables[pid] = pid;
	assert_int_equal(adopt(child, 1), -ENOSPC);
	family.rings->tables[7] = 0;
	family.rings->clean_tables = XP_CALL_TABLES_MAX;
	assert_int_equal(adopt(child, 1), 0);
	for (size_t i = 0; i < XP_CALL_TABLES_MAX; i++)
		given += family.rings->tables[i] == child;
	assert_int_equal(given, 1);
	family.rings->clean_tables = 1;
	end_child(child);
	end_family();
}

/* Whatever a relative writes into the memory, the stub writes to rings and headers only. */
TEST(test_scribbled_memory)
{
	uint8_t before[XP_CALL_TABLE_BYTES];
	unsigned int seed = 1;
	uint64_t *table, *entry;

	begin_family();
	table = (uint64_t *)(family.stub + XP_STUB_RINGS + XP_CALL_TABLES);
	entry = xp_call_rings_at(family.rings, getpid(), fs_base_now())->entry;
	for (unsigned int round = 0; round < 2000; round++) {
		unsigned int number = (unsigned int)rand_r(&seed) % XP_CALL_BLOCKS;
		struct xp_call_header *header = (void *)(family.stub + XP_STUB_RINGS + number * XP_CALL_BLOCK_BYTES);

		*header = (struct xp_call_header){ .limit = ~0ull,
						   .head = (uint64_t)rand_r(&seed) << rand_r(&seed) % 34,
						   .min_ticks = ~0ull,
						   .mask = (uint32_t)rand_r(&seed) << rand_r(&seed) % 2 };
		*entry = XP_CALL_KEY(fs_base_now(), number);
		memcpy(before, table, sizeof(before));
		call_slot(family.slot, word(XP_EVENT_ENTRY));
		header->head += (uint64_t)rand_r(&seed) << 32;
		call_slot(family.stub + xp_stub_take_back_entry(false), word(XP_EVENT_TAIL_EXIT));
		assert_memory_equal(before, table, sizeof(before));
	}
	end_family();
}

const char *unit_why_not(void)
{
	return xp_instructions_try().rdfsbase ? NULL : XP_NO_RDFSBASE;
}
