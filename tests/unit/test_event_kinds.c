/* SPDX-License-Identifier: BSD-2-Clause */
/* The checks of each kind of event: at its exact length, one byte shorter, or with extra bytes. */
#include <errno.h>
#include <string.h>

#include "unit.h"

#include "event/kinds.h"
#include "xprof/wait.h"

static union {
	struct xp_event head;
	struct xp_event_args args;
	struct xp_event_payload event;
	struct xp_event_task task;
	struct xp_event_sample sample;
	struct xp_event_wait wait;
	struct xp_event_wait_sum sum;
	uint8_t bytes[sizeof(struct xp_event_sample) + XP_STACK_BYTES_MAX + 4096];
} record;

static void begin(enum xp_event_kind kind)
{
	memset(&record, 0, sizeof(record));
	record.head.word = xp_event_word(7, kind);
}

static int check(size_t size)
{
	return xp_event_check(&(struct xp_arrival){ .event = &record.head, .size = size });
}

static void assert_needs(size_t size)
{
	assert_int_equal(check(size), 0);
	assert_int_equal(check(size - 1), -EBADMSG);
}

TEST(test_plain)
{
	static const enum xp_event_kind kinds[] = { XP_EVENT_ENTRY, XP_EVENT_EXIT, XP_EVENT_TAIL_EXIT,
						    XP_EVENT_LINK_MAP, XP_EVENT_JIT };

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		begin(kinds[i]);
		assert_needs(sizeof(struct xp_event));
	}
}

static void assert_refused(void)
{
	assert_int_equal(check(sizeof(record)), -EBADMSG);
}

static void begin_wait(void)
{
	begin(XP_EVENT_WAIT);
	record.wait.chance = XP_WAIT_CHOSEN;
	record.wait.kernel_frames = 3;
}

TEST(test_waits)
{
	begin_wait();
	assert_needs(sizeof(struct xp_event_wait) + 3 * sizeof(uint64_t));
	record.wait.kernel_frames = XP_SAMPLE_FRAMES_MAX + 1;
	assert_refused();
	begin_wait();
	record.wait.chance = 0;
	assert_refused();
	record.wait.chance = XP_WAIT_CHOSEN + 1;
	assert_refused();
	begin_wait();
	memset(record.wait.comm, 'x', sizeof(record.wait.comm));
	assert_refused();
	begin_wait();
	memset(record.wait.waker_comm, 'x', sizeof(record.wait.waker_comm));
	assert_refused();
}

TEST(test_sums_of_waits)
{
	begin(XP_EVENT_WAIT_SUM);
	assert_needs(sizeof(struct xp_event_wait_sum));
	memset(record.sum.comm, 'x', sizeof(record.sum.comm));
	assert_refused();
}

TEST(test_kinds)
{
	for (int kind = 0; kind < XP_EVENT_KINDS; kind++) {
		begin((enum xp_event_kind)kind);
		record.wait.chance = kind == XP_EVENT_WAIT;
		assert_int_equal(check(sizeof(record)), 0);
		assert_non_null(xp_kinds[kind].name);
		for (int other = 0; other < kind; other++)
			assert_string_not_equal(xp_kinds[kind].name, xp_kinds[other].name);
	}
	begin(XP_EVENT_KINDS);
	assert_refused();
	begin(XP_EVENT_NONE);
	assert_refused();
}

TEST(test_arguments)
{
	begin(XP_EVENT_ENTRY_ARGS);
	record.args.count = XP_ARGS_MAX;
	assert_needs(sizeof(struct xp_event_args));
	record.args.count++;
	assert_refused();
}

TEST(test_events)
{
	for (int kind = XP_EVENT_CUSTOM; kind <= XP_EVENT_TYPED; kind++) {
		begin((enum xp_event_kind)kind);
		assert_needs(sizeof(struct xp_event_payload));
		record.event.size = XP_EVENT_PAYLOAD_MAX;
		assert_needs(sizeof(struct xp_event_payload) + XP_EVENT_PAYLOAD_MAX);
		record.event.size++;
		assert_refused();
		record.event.size = UINT16_MAX;
		assert_refused();
	}
}

TEST(test_tasks)
{
	for (int kind = XP_EVENT_EXEC; kind <= XP_EVENT_EXIT_PROCESS; kind++) {
		begin((enum xp_event_kind)kind);
		assert_needs(sizeof(struct xp_event_task));
		memset(record.task.comm, 'x', sizeof(record.task.comm));
		assert_refused();
	}
}

TEST(test_threads)
{
	begin(XP_EVENT_THREAD);
	assert_needs(sizeof(struct xp_event_thread));
	begin(XP_EVENT_THREAD_GONE);
	assert_needs(sizeof(struct xp_event_thread));
}

TEST(test_samples)
{
	const size_t frames = 2 * XP_SAMPLE_FRAMES_MAX * sizeof(uint64_t);

	begin(XP_EVENT_SAMPLE);
	assert_needs(sizeof(struct xp_event_sample));
	record.sample.kernel_frames = record.sample.user_frames = XP_SAMPLE_FRAMES_MAX;
	assert_needs(sizeof(struct xp_event_sample) + frames);
	record.sample.stack_bytes = XP_STACK_BYTES_MAX;
	assert_needs(sizeof(struct xp_event_sample) + frames + XP_STACK_BYTES_MAX);
	record.sample.stack_bytes++;
	assert_refused();
	record.sample.stack_bytes = 0;
	record.sample.user_frames++;
	assert_refused();
	record.sample.user_frames = 0;
	memset(record.sample.comm, 'x', sizeof(record.sample.comm));
	assert_refused();
}

TEST(test_switches)
{
	begin(XP_EVENT_SWITCH);
	assert_needs(sizeof(struct xp_event_switch));
}
