/* SPDX-License-Identifier: BSD-2-Clause */
/* What a killed xprof has left: call rings behind a stub in this process, and a spool. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "record/left_recording.h"
#include "sled/call_rings.h"
#include "sled/left_rings.h"
#include "target/target.h"
#include "trace/ring_recovery.h"
#include "trace/spool_layout.h"
#include "xprof/event.h"

#define NAME "program.7.spool"
#define CALLS 6000u
#define SLOT 5u
#define TAKES_MAX 1000u

static const uint64_t recording[2] = { 11, 12 };
static char directory[] = "/tmp/xprof-left-rings-XXXXXX";

static struct test {
	int dir_fd;
	int stub_fd;
	int rings_fd;
	uint8_t *stub;
	uint8_t *memory;
	struct xp_call_slot *slot;
	struct xp_ring_owners *owners;
	struct xp_call_record *records;
	uint64_t calls; /* that were taken */
	unsigned int takes;
	bool holes; /* the process leaves some */
} test;

/* ---- the process ---- */

static void map_stub(void)
{
	const size_t room = XP_STUB_SLOTS_TABLE + XP_CALL_RINGS_BYTES;
	const int fixed = MAP_FIXED;
	uint8_t page[XP_STUB_BYTES];

	test.stub_fd = memfd_create(XP_STUB_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	test.rings_fd = memfd_create(XP_STUB_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_true(test.stub_fd >= 0 && test.rings_fd >= 0);
	xp_stub_make(page);
	assert_int_equal(write(test.stub_fd, page, sizeof(page)), sizeof(page));
	assert_int_equal(fcntl(test.stub_fd, F_ADD_SEALS, F_SEAL_WRITE), 0);
	assert_int_equal(ftruncate(test.rings_fd, (off_t)XP_CALL_RINGS_BYTES), 0);
	assert_int_equal(fcntl(test.rings_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
	test.stub = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(test.stub, MAP_FAILED);
	assert_ptr_not_equal(
	    mmap(test.stub, XP_STUB_BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE | fixed, test.stub_fd, 0), MAP_FAILED);
	test.memory = test.stub + XP_STUB_SLOTS_TABLE;
	assert_ptr_not_equal(
	    mmap(test.memory, XP_CALL_RINGS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | fixed, test.rings_fd, 0),
	    MAP_FAILED);
	test.slot = (struct xp_call_slot *)test.memory + SLOT;
	test.owners = (struct xp_ring_owners *)(test.memory + XP_CALL_OWNERS_AT);
	test.records = (struct xp_call_record *)(test.memory + XP_CALL_TABLE_BYTES);
}

/* Entries and exits of one function, in turn. */
static void write_call(uint64_t position)
{
	struct xp_call_record *record = &test.records[position % XP_CALL_RING_RECORDS];

	record->time = xp_clock_now_tsc() << XP_CALL_CPU_BITS;
	record->sp = 1000 + position % 2;
	record->word = xp_event_word(1, position % 2 ? XP_EVENT_EXIT : XP_EVENT_ENTRY);
}

static void write_calls(uint64_t count)
{
	memcpy(test.owners->recording, recording, sizeof(recording));
	test.owners->list[0] = (struct xp_ring_owner){ .tid = 7, .slot = SLOT };
	test.slot->key = 1;
	for (uint64_t i = 0; i < count; i++)
		write_call(i);
	test.slot->head = count;
}

/* ---- the spool ---- */

static int take_nothing(void *arg, int kind, int32_t tid, uint64_t tsc, const uint8_t *bytes, size_t size)
{
	(void)arg;
	(void)kind;
	(void)tid;
	(void)tsc;
	(void)bytes;
	(void)size;
	return 0;
}

static void make_spool(void)
{
	const struct xp_log_info info = { .pid = getpid(),
					  .fdr_version = 1,
					  .cycle_hz = 1000000000,
					  .wall_ns = 1,
					  .comm = "program",
					  .exe = "/bin/program",
					  .final_name = "program.7.fdr" };
	struct {
		struct xp_spool_rings rings;
		struct xp_spool_range range;
	} note = { .rings = { .start_time = xp_target_start_time(getpid()), .range_count = 1 },
		   .range = { .function_count = 9 } };
	struct xp_spool *spool;

	memcpy(note.rings.recording, recording, sizeof(recording));
	assert_int_equal(xp_spool_create(&spool, test.dir_fd, NAME, &info), 0);
	assert_int_equal(xp_spool_note(spool, XP_SPOOL_NOTE_RINGS, 0, &note, sizeof(note)), 0);
	assert_int_equal(xp_spool_flush(spool), 0);
	xp_spool_free(spool);
}

static off_t spool_bytes(void)
{
	struct stat st;

	assert_int_equal(fstatat(test.dir_fd, NAME, &st, 0), 0);
	return st.st_size;
}

/* Lays the log out. Returns the number of its calls, and removes it. */
static uint64_t log_calls(void)
{
	struct xp_spool_result result;

	assert_int_equal(xp_spool_recover(test.dir_fd, NAME, 0, NULL, &result), 0);
	assert_int_equal(unlinkat(test.dir_fd, result.final_name, 0), 0);
	return result.stats.functions;
}

static int recover(struct xp_ring_recovery *recovery, char why[256])
{
	return xp_ring_recover(recovery, test.dir_fd, NAME, 0, why, 256);
}

static int begin(void **state)
{
	(void)state;
	memset(&test, 0, sizeof(test));
	strcpy(strrchr(directory, '-'), "-XXXXXX");
	if (!mkdtemp(directory))
		return -1;
	test.dir_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	map_stub();
	return 0;
}

static int end(void **state)
{
	(void)state;
	munmap(test.stub, XP_STUB_SLOTS_TABLE + XP_CALL_RINGS_BYTES);
	close(test.stub_fd);
	close(test.rings_fd);
	unlinkat(test.dir_fd, NAME, 0);
	close(test.dir_fd);
	return rmdir(directory);
}

/* ---- storing fails ---- */

/* No write goes beyond this size, as on a full disk. 0: no limit. */
static void limit_files(off_t bytes)
{
	const struct rlimit limit = { bytes ? (rlim_t)bytes : RLIM_INFINITY, RLIM_INFINITY };

	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void test_calls_that_cannot_be_stored(void **state)
{
	struct xp_ring_recovery recovery;
	char why[256];
	off_t before;

	(void)state;
	make_spool();
	write_calls(CALLS);
	before = spool_bytes();
	limit_files(before + 20000);
	assert_int_equal(recover(&recovery, why), -EFBIG);
	limit_files(0);
	assert_non_null(strstr(why, "cannot store the calls that process"));
	assert_int_equal(spool_bytes(), before);
	/* Another time there is room. */
	assert_int_equal(recover(&recovery, why), 0);
	assert_int_equal(recovery.left.calls, CALLS);
	assert_int_equal(recovery.counts.written, CALLS);
	assert_int_equal(log_calls(), CALLS);
}

/* A recovery was killed while it stored: what it stored is not stored twice. */
static void test_a_recovery_that_was_cut_off(void **state)
{
	struct xp_ring_recovery recovery;
	uint8_t *memory = malloc(XP_CALL_OWNERS_BYTES);
	char why[256];
	off_t before;

	(void)state;
	assert_non_null(memory);
	make_spool();
	write_calls(CALLS);
	memcpy(memory, test.owners, XP_CALL_OWNERS_BYTES);
	before = spool_bytes();
	assert_int_equal(recover(&recovery, why), 0);
	/* All is stored, and the process was not told. */
	memcpy(test.owners, memory, XP_CALL_OWNERS_BYTES);
	write_calls(CALLS);
	assert_int_equal(recover(&recovery, why), -ENODATA);
	assert_int_equal(why[0], 0);
	/* A part is stored. */
	assert_true(spool_bytes() > before + 20000);
	assert_int_equal(truncate((snprintf(why, sizeof(why), "%s/" NAME, directory), why), before + 20000), 0);
	assert_int_equal(recover(&recovery, why), 0);
	assert_int_equal(recovery.counts.written, CALLS);
	assert_int_equal(log_calls(), CALLS);
	free(memory);
}

/* There is no descriptor for the stub's file: that does not mean that the process has no stub. */
static void test_no_descriptors(void **state)
{
	struct rlimit limit, few;
	struct xp_left_rings *left;
	char why[256];
	int err, most = -ENOENT;

	(void)state;
	write_calls(CALLS);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	few = limit;
	for (few.rlim_cur = 3; few.rlim_cur < 64; few.rlim_cur++) {
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
		err = xp_left_rings_open(&left, getpid(), recording, why, sizeof(why));
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
		if (!err)
			break;
		assert_true(err != -ENOENT && err != -ESRCH);
		most = err;
	}
	assert_int_equal(err, 0);
	assert_int_equal(most, -EMFILE);
	xp_left_rings_free(left);
}

/* ---- the spool lies ---- */

/* The stack of a thread: as many calls, and the ring has the exit of the last one. */
static void note_stack(struct xp_spool *spool, int32_t tid, uint32_t depth)
{
	struct xp_open_call frames[XP_SPOOL_STACK_MAX + 1];

	for (uint32_t i = 0; i < depth; i++)
		frames[i] = (struct xp_open_call){ .fn_id = 1, .slot = 1001 + depth - 1 - i };
	assert_int_equal(xp_spool_note(spool, XP_SPOOL_NOTE_STACK, tid, frames, depth * sizeof(frames[0])), 0);
}

/* Returns how many exits have no entry then. */
static uint64_t unmatched(uint32_t depth, int32_t other_threads)
{
	struct xp_spool_taker none = { take_nothing, NULL };
	struct xp_ring_recovery recovery;
	struct xp_spool *spool;
	char why[256];
	pid_t pid;

	make_spool();
	assert_int_equal(xp_spool_reopen(&spool, test.dir_fd, NAME, 0, &pid, &none), 0);
	for (int32_t i = 0; i < other_threads; i++)
		note_stack(spool, 1000 + i, XP_SPOOL_STACK_MAX);
	note_stack(spool, 7, depth);
	assert_int_equal(xp_spool_flush(spool), 0);
	xp_spool_free(spool);
	memset(test.memory, 0, XP_CALL_TABLE_BYTES + XP_CALL_RING_BYTES);
	write_calls(CALLS);
	test.owners->list[0].taken = 1;
	assert_int_equal(recover(&recovery, why), 0);
	assert_int_equal(recovery.counts.seen, CALLS - 1);
	log_calls();
	return recovery.counts.filtered[XP_FILTER_UNMATCHED_EXIT];
}

static void test_stacks_without_end(void **state)
{
	(void)state;
	assert_int_equal(unmatched(1, 0), 0);
	assert_int_equal(unmatched(XP_SPOOL_STACK_MAX, 0), 0);
	assert_int_equal(unmatched(XP_SPOOL_STACK_MAX + 1, 0), 1);
	/* 16 MiB in all. */
	assert_int_equal(unmatched(XP_SPOOL_STACK_MAX, 4095), 0);
	assert_int_equal(unmatched(XP_SPOOL_STACK_MAX, 4096), 1);
}

/* ---- the process tells where the recording is ---- */

static int find(struct xp_left_recording *found, const char *path)
{
	char why[PATH_MAX + 512];
	int err;

	memset(test.owners->directory, 0, sizeof(test.owners->directory));
	strcpy(test.owners->directory, path);
	err = xp_left_recording_find(found, getpid(), why, sizeof(why));
	assert_true(!why[0] == !err);
	return err;
}

static void test_directory_of_the_recording(void **state)
{
	struct xp_left_recording found;
	struct xp_call_rings rings = { .memory = test.memory };
	char path[64];
	off_t before;

	(void)state;
	make_spool();
	before = spool_bytes();
	write_calls(CALLS);
	xp_call_rings_note_directory(&rings, test.dir_fd);
	assert_string_equal(test.owners->directory, directory);
	/* What is shown is the true path. */
	snprintf(path, sizeof(path), "/tmp/../%s/.", directory);
	assert_int_equal(find(&found, path), 0);
	assert_string_equal(found.path, directory);
	close(found.dir_fd);
	assert_int_equal(spool_bytes(), before);
	/* It was killed before it stored where. */
	assert_int_equal(find(&found, ""), -ENODATA);
}

/* The process may tell any path. */
static void test_directory_that_is_not_believed(void **state)
{
	struct xp_left_recording found;
	char here[PATH_MAX];

	(void)state;
	make_spool();
	write_calls(CALLS);
	assert_int_equal(find(&found, "/proc/self/fd"), -ENOENT);
	assert_int_equal(find(&found, "/dev/null"), -ENOENT);
	assert_non_null(getcwd(here, sizeof(here)));
	assert_int_equal(chdir(directory), 0);
	assert_int_equal(find(&found, "."), -ENOENT);
	assert_int_equal(chdir(here), 0);
	/* Others may have made what is there. */
	assert_int_equal(fchmod(test.dir_fd, 0720), 0);
	assert_int_equal(find(&found, directory), -ENOENT);
	assert_int_equal(fchmod(test.dir_fd, 0702), 0);
	assert_int_equal(find(&found, directory), -ENOENT);
	assert_int_equal(fchmod(test.dir_fd, 0700), 0);
	assert_int_equal(find(&found, directory), 0);
	close(found.dir_fd);
	if (!geteuid()) {
		assert_int_equal(fchown(test.dir_fd, 1, 1), 0);
		assert_int_equal(find(&found, directory), -ENOENT);
		assert_int_equal(fchown(test.dir_fd, 0, 0), 0);
	}
	/* Of another recording, or of another process. */
	test.owners->recording[1]++;
	assert_int_equal(find(&found, directory), -ENOENT);
	test.owners->recording[1]--;
	assert_true(xp_ring_recovery_is_of(test.dir_fd, NAME, 0, getpid(), recording));
	assert_false(xp_ring_recovery_is_of(test.dir_fd, NAME, 0, getpid() + 1, recording));
	/* Without an end. */
	memset(test.owners->directory, '/', sizeof(test.owners->directory));
	assert_int_equal(xp_left_recording_find(&found, getpid(), here, sizeof(here)), -ENOENT);
}

/* ---- the process goes on ---- */

/* It writes as many calls as were taken, and some behind. Other calls would never end. */
static int keep_up(void *arg, pid_t tid, const struct xp_ring_call *calls, size_t count, bool inside)
{
	uint64_t head = test.slot->head;

	(void)arg;
	(void)tid;
	(void)inside;
	(void)calls;
	test.calls += count;
	for (uint64_t i = 0; i < count + 20; i++)
		if (!test.holes || i % 40)
			write_call(head + i);
	test.slot->head = head + count + 20;
	return ++test.takes < TAKES_MAX ? 0 : -EOVERFLOW;
}

static void test_a_process_that_keeps_up(void **state)
{
	struct xp_left_counts counts;
	struct xp_left_rings *left;
	char why[256];

	(void)state;
	for (int holes = 0; holes < 2; holes++) {
		memset(test.memory, 0, XP_CALL_TABLE_BYTES + XP_CALL_RING_BYTES);
		write_calls(XP_CALL_RING_RECORDS - 100);
		for (uint64_t i = 0; holes && i < XP_CALL_RING_RECORDS; i += 40)
			test.records[i].word = 0;
		test.calls = test.takes = 0;
		test.holes = holes;
		assert_int_equal(xp_left_rings_open(&left, getpid(), recording, why, sizeof(why)), 0);
		assert_int_equal(xp_left_rings_take(left, keep_up, NULL, &counts), 0);
		xp_left_rings_free(left);
		assert_int_equal(counts.calls, test.calls);
		assert_int_equal(counts.calls + counts.lost, XP_CALL_RING_RECORDS - 100);
		assert_int_equal(counts.lost > 0, holes);
	}
}

/* ---- the rings of a flight recorder ---- */

#define WRAPPING 8192u

/* One call around all others, of which the last one is its exit. records: of the ring, as the process says. */
static void write_around(uint64_t count, uint32_t records)
{
	struct xp_call_record *last;

	memset(test.memory, 0, XP_CALL_TABLE_BYTES + XP_CALL_RING_BYTES);
	write_calls(0);
	test.owners->ring_records = records;
	test.owners->wraps = 1;
	for (uint64_t i = 0; i < count; i++) {
		write_call(i);
		test.records[i % WRAPPING] = test.records[i % XP_CALL_RING_RECORDS];
	}
	last = &test.records[(count - 1) % WRAPPING];
	last->word = xp_event_word(2, XP_EVENT_EXIT);
	last->sp = 2000;
	test.slot->head = count;
	test.slot->limit = UINT64_MAX;
}

static void test_rings_that_wrap(void **state)
{
	struct xp_ring_recovery recovery;
	char why[256];

	(void)state;
	make_spool();
	write_around(20001, WRAPPING);
	assert_int_equal(xp_ring_owners_count(test.owners, (struct xp_call_slot *)test.memory), WRAPPING);
	assert_int_equal(recover(&recovery, why), 0);
	assert_true(recovery.left.wraps);
	assert_int_equal(recovery.left.calls, WRAPPING);
	assert_int_equal(recovery.left.overwritten, 20001 - WRAPPING);
	assert_int_equal(recovery.left.full + recovery.left.lost + recovery.left.unstored, 0);
	/* The calls that began among those that were overwritten have their entries. */
	assert_int_equal(recovery.counts.written, WRAPPING);
	assert_int_equal(recovery.counts.synthesized, 2);
	assert_int_equal(xp_counts_filtered(&recovery.counts), 0);
	assert_int_equal(log_calls(), WRAPPING + 2);
}

/* What was taken is in an earlier log, or is lost with xprof. */
static void test_rings_that_wrap_and_were_read(void **state)
{
	struct xp_ring_recovery recovery;
	char why[256];

	(void)state;
	make_spool();
	write_around(20001, WRAPPING);
	test.owners->list[0].taken = 19000;
	test.owners->list[0].stored = 18990;
	assert_int_equal(recover(&recovery, why), 0);
	assert_int_equal(recovery.left.calls, 1001);
	assert_int_equal(recovery.left.unstored, 10);
	assert_int_equal(recovery.left.overwritten, 0);
	assert_int_equal(log_calls(), 1002);
}

static void test_sizes_of_rings_that_cannot_be(void **state)
{
	static const uint32_t sizes[] = { 0, 1, 2048, 4097, 3 << 12, 1 << 19, UINT32_MAX };

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		struct xp_ring_recovery recovery;
		char why[256];

		make_spool();
		write_around(20000, sizes[i]);
		/* Of any other ring, too. */
		for (uint32_t ring = 1; ring < XP_CALL_RINGS_MAX; ring++)
			test.owners->list[ring] = (struct xp_ring_owner){ .tid = 7 + ring, .slot = ring };
		assert_int_equal(xp_ring_owners_records(test.owners), XP_CALL_RING_RECORDS);
		assert_int_equal(recover(&recovery, why), 0);
		assert_in_range(recovery.left.calls, WRAPPING - 1, XP_CALL_RING_RECORDS);
		log_calls();
	}
	/* The largest: not all of them fit in the memory. */
	make_spool();
	write_around(100, XP_CALL_RING_BYTES_MAX / XP_CALL_RECORD_BYTES);
	for (uint32_t ring = 1; ring < XP_CALL_RINGS_MAX; ring++)
		test.owners->list[ring] = (struct xp_ring_owner){ .tid = 7 + ring, .slot = SLOT };
	{
		struct xp_ring_recovery recovery;
		char why[256];

		assert_int_equal(recover(&recovery, why), 0);
		assert_in_range(recovery.left.threads, XP_CALL_RINGS_WRAPPING_MIN, XP_CALL_RINGS_WRAPPING_MIN + 1);
	}
	log_calls();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_rings_that_wrap, begin, end),
		cmocka_unit_test_setup_teardown(test_rings_that_wrap_and_were_read, begin, end),
		cmocka_unit_test_setup_teardown(test_sizes_of_rings_that_cannot_be, begin, end),
		cmocka_unit_test_setup_teardown(test_calls_that_cannot_be_stored, begin, end),
		cmocka_unit_test_setup_teardown(test_a_recovery_that_was_cut_off, begin, end),
		cmocka_unit_test_setup_teardown(test_no_descriptors, begin, end),
		cmocka_unit_test_setup_teardown(test_stacks_without_end, begin, end),
		cmocka_unit_test_setup_teardown(test_directory_of_the_recording, begin, end),
		cmocka_unit_test_setup_teardown(test_directory_that_is_not_believed, begin, end),
		cmocka_unit_test_setup_teardown(test_a_process_that_keeps_up, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
