/* SPDX-License-Identifier: BSD-2-Clause */
/* What a record must be to be believed, kind by kind: each at its exact length, and a byte less or one of something
 * more. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "kernel/event_check.h"

static union {
	struct xp_rec rec;
	struct xp_rec_args args;
	struct xp_rec_event event;
	struct xp_rec_task task;
	struct xp_rec_sample sample;
	uint8_t bytes[sizeof(struct xp_rec_sample) + XP_STACK_BYTES_MAX + 4096];
} record;

static void begin(enum xp_rec_kind kind)
{
	memset(&record, 0, sizeof(record));
	record.rec.word = xp_rec_word(7, kind);
}

static void assert_needs(size_t size)
{
	assert_int_equal(xp_rec_check(&record.rec, size), 0);
	assert_int_equal(xp_rec_check(&record.rec, size - 1), -EBADMSG);
}

static void test_plain(void **state)
{
	static const enum xp_rec_kind kinds[] = { XP_REC_ENTRY, XP_REC_EXIT, XP_REC_TAIL_EXIT, XP_REC_LINK_MAP,
						  XP_REC_JIT };

	(void)state;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		begin(kinds[i]);
		assert_needs(sizeof(struct xp_rec));
	}
}

static void test_no_kind(void **state)
{
	(void)state;
	for (int kind = 0; kind < XP_REC_KINDS; kind++) {
		begin((enum xp_rec_kind)kind);
		if (kind == 6 || kind == 7 || kind == XP_REC_NONE)
			assert_int_equal(xp_rec_check(&record.rec, sizeof(record)), -EBADMSG);
		else
			assert_int_equal(xp_rec_check(&record.rec, sizeof(record)), 0);
	}
}

static void test_arguments(void **state)
{
	(void)state;
	begin(XP_REC_ENTRY_ARGS);
	record.args.count = XP_ARGS_MAX;
	assert_needs(sizeof(struct xp_rec_args));
	record.args.count++;
	assert_int_equal(xp_rec_check(&record.rec, sizeof(record)), -EBADMSG);
}

static void test_events(void **state)
{
	(void)state;
	for (int kind = XP_REC_CUSTOM_EVENT; kind <= XP_REC_TYPED_EVENT; kind++) {
		begin((enum xp_rec_kind)kind);
		assert_needs(sizeof(struct xp_rec_event));
		record.event.size = XP_EVENT_PAYLOAD_MAX;
		assert_needs(sizeof(struct xp_rec_event) + XP_EVENT_PAYLOAD_MAX);
		record.event.size++;
		assert_int_equal(xp_rec_check(&record.rec, sizeof(record)), -EBADMSG);
		record.event.size = UINT32_MAX;
		assert_int_equal(xp_rec_check(&record.rec, sizeof(record)), -EBADMSG);
	}
}

static void test_tasks(void **state)
{
	(void)state;
	for (int kind = XP_REC_EXEC; kind <= XP_REC_EXIT_PROCESS; kind++) {
		begin((enum xp_rec_kind)kind);
		assert_needs(sizeof(struct xp_rec_task));
		memset(record.task.comm, 'x', sizeof(record.task.comm));
		assert_int_equal(xp_rec_check(&record.rec, sizeof(record)), -EBADMSG);
	}
}

static void test_samples(void **state)
{
	const size_t frames = 2 * XP_SAMPLE_FRAMES_MAX * sizeof(uint64_t);

	(void)state;
	begin(XP_REC_SAMPLE);
	assert_needs(sizeof(struct xp_rec_sample));
	record.sample.kernel_frames = record.sample.user_frames = XP_SAMPLE_FRAMES_MAX;
	assert_needs(sizeof(struct xp_rec_sample) + frames);
	record.sample.stack_bytes = XP_STACK_BYTES_MAX;
	assert_needs(sizeof(struct xp_rec_sample) + frames + XP_STACK_BYTES_MAX);
	record.sample.stack_bytes++;
	assert_int_equal(xp_rec_check(&record.rec, sizeof(record)), -EBADMSG);
	record.sample.stack_bytes = 0;
	record.sample.user_frames++;
	assert_int_equal(xp_rec_check(&record.rec, sizeof(record)), -EBADMSG);
	record.sample.user_frames = 0;
	memset(record.sample.comm, 'x', sizeof(record.sample.comm));
	assert_int_equal(xp_rec_check(&record.rec, sizeof(record)), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain),  cmocka_unit_test(test_no_kind), cmocka_unit_test(test_arguments),
		cmocka_unit_test(test_events), cmocka_unit_test(test_tasks),   cmocka_unit_test(test_samples),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
