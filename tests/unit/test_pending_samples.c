/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>

#include "unit.h"

#include <errno.h>

#include "sample/pending_samples.h"
#include "sample/samples.h"

static struct xp_file lib = { .kind = XP_FILE_DISK, .path = "lib" };

static int add(struct xp_pending_samples *waiting, struct xp_address_space *space, uint64_t tsc, size_t stack_bytes)
{
	size_t size = sizeof(struct xp_event_sample) + stack_bytes;
	struct xp_pending_sample from = { .space = space, .tsc = tsc, .size = size };
	struct xp_event_sample *record = calloc(1, size);
	int err;

	assert_non_null(record);
	record->ip = ~tsc;
	memset(record + 1, (int)tsc, stack_bytes);
	err = xp_pending_samples_add(waiting, &from, record);
	free(record);
	return err;
}

static struct xp_address_space *new_space(size_t vmas)
{
	struct xp_address_space *space = xp_address_space_new();

	assert_non_null(space);
	for (uint64_t i = 1; i <= vmas; i++) {
		const struct xp_vma vma = { i << 16, (i << 16) + 1, 0, &lib };

		assert_int_equal(xp_address_space_map(space, &vma), 0);
	}
	return space;
}

struct seen {
	uint64_t tsc[16];
	size_t count;
	int (*answer)(const struct xp_pending_sample *sample);
};

static int take(void *arg, struct xp_pending_sample *sample)
{
	struct seen *seen = arg;

	seen->tsc[seen->count++] = sample->tsc;
	assert_int_equal(sample->record.ip, ~sample->tsc);
	for (size_t i = sizeof(sample->record); i < sample->size; i++)
		assert_int_equal(((uint8_t *)&sample->record)[i], (uint8_t)sample->tsc);
	return seen->answer(sample);
}

static int odd_waits(const struct xp_pending_sample *sample)
{
	return sample->tsc % 2;
}

static int all_done(const struct xp_pending_sample *sample)
{
	(void)sample;
	return 0;
}

static int third_fails(const struct xp_pending_sample *sample)
{
	return sample->tsc == 3 ? -EIO : sample->tsc == 5 ? -ENOMEM : 1;
}

static void check(struct xp_pending_samples *waiting, int (*answer)(const struct xp_pending_sample *), int ret,
		  const uint64_t *tsc, size_t count)
{
	struct seen seen = { .answer = answer };

	assert_int_equal(xp_pending_samples_each(waiting, take, &seen), ret);
	assert_int_equal(seen.count, count);
	assert_memory_equal(seen.tsc, tsc, count * sizeof(*tsc));
}
#define CHECK(waiting, answer, ret, ...)                                                                               \
	do {                                                                                                           \
		const uint64_t tsc_[] = { __VA_ARGS__ };                                                               \
		check(waiting, answer, ret, tsc_, sizeof(tsc_) / sizeof(*tsc_));                                       \
	} while (0)

TEST(test_order)
{
	struct xp_address_space *space = new_space(1);
	struct xp_pending_samples waiting = { .bytes_max = XP_WAITING_BYTES_MAX };

	for (uint64_t i = 1; i <= 6; i++)
		assert_int_equal(add(&waiting, space, i, 100 * i), 0);
	CHECK(&waiting, odd_waits, 0, 1, 2, 3, 4, 5, 6);
	assert_int_equal(waiting.count, 3);
	assert_int_equal(add(&waiting, space, 7, 0), 0);
	CHECK(&waiting, third_fails, -EIO, 1, 3, 5, 7);
	CHECK(&waiting, odd_waits, 0, 1, 7);
	CHECK(&waiting, all_done, 0, 1, 7);
	assert_int_equal(waiting.count, 0);
	assert_int_equal(waiting.bytes, 0);
	assert_null(waiting.first);
	assert_null(waiting.last);
	assert_int_equal(add(&waiting, space, 8, 0), 0);
	CHECK(&waiting, all_done, 0, 8);
	assert_int_equal(space->sharers, 0);
	xp_address_space_release(space);
}

/* The sample keeps the address space of its time, whatever its process does. */
TEST(test_space_is_kept)
{
	struct xp_address_space *space = new_space(3), *old = space;
	struct xp_pending_samples waiting = { .bytes_max = XP_WAITING_BYTES_MAX };

	assert_int_equal(add(&waiting, space, 1, 8), 0);
	assert_int_equal(xp_address_space_own(&space), 0);
	assert_ptr_not_equal(space, old);
	xp_address_space_clear(space);
	assert_int_equal(waiting.first->space->count, 3);
	xp_address_space_release(space);
	xp_pending_samples_free(&waiting);
	assert_int_equal(waiting.bytes, 0);
}

/* By the rate of the samples, within limits. */
TEST(test_limit)
{
	assert_int_equal(xp_pending_samples_limit(0, 2), XP_WAITING_BYTES_MAX);
	assert_int_equal(xp_pending_samples_limit(UINT64_MAX, 4096), XP_WAITING_BYTES_MAX);
	assert_int_equal(xp_pending_samples_limit(1, 1), XP_WAITING_BYTES_MIN);
	assert_int_equal(xp_pending_samples_limit(99, 2), 2 * 99 * 5 * 9216);
	assert_int_equal(xp_pending_samples_limit(999, 2), 2 * 999 * 5 * 9216);
	assert_int_equal(xp_pending_samples_limit(999, 4), XP_WAITING_BYTES_MAX);
}

/* Counts samples and address spaces, each space once. */
TEST(test_bound)
{
	struct xp_address_space *large = new_space(100000), *small = new_space(1), *own;
	struct xp_pending_samples waiting = { .bytes_max = XP_WAITING_BYTES_MAX };
	size_t bytes;
	unsigned int count;

	for (count = 0; !add(&waiting, small, count, 65536 - 512); count++)
		;
	assert_in_range(count, XP_WAITING_BYTES_MAX / 65536, XP_WAITING_BYTES_MAX / 65536 + 8);
	assert_int_equal(add(&waiting, small, 0, 65536 - 512), -ENOSPC);
	assert_true(waiting.bytes <= XP_WAITING_BYTES_MAX);
	xp_pending_samples_free(&waiting);

	assert_int_equal(add(&waiting, large, 1, 0), 0);
	bytes = waiting.bytes;
	assert_true(bytes > 100000 * sizeof(struct xp_vma));
	assert_int_equal(add(&waiting, large, 2, 0), 0);
	assert_true(waiting.bytes < bytes + 1000);
	for (count = 1; count < 100; count++) {
		own = xp_address_space_share(large);
		assert_int_equal(xp_address_space_own(&own), 0);
		if (add(&waiting, own, 3, 0)) {
			xp_address_space_release(own);
			break;
		}
		xp_address_space_release(own);
	}
	assert_in_range(count, 2, XP_WAITING_BYTES_MAX / (100000 * sizeof(struct xp_vma)) + 1);
	xp_pending_samples_free(&waiting);
	assert_int_equal(waiting.bytes, 0);
	assert_int_equal(waiting.count, 0);
	xp_address_space_release(large);
	xp_address_space_release(small);
}

/* Samples are kept as long as they may wait, also those of a busy machine. */
TEST(test_room)
{
	const uint64_t wanted = 2 * 999 * (XP_SAMPLES_WAIT_NS / 1000000000);
	struct xp_address_space *space = new_space(100);
	struct xp_pending_samples waiting = { .bytes_max = XP_WAITING_BYTES_MAX };

	for (unsigned int i = 0; i < wanted; i++)
		assert_int_equal(add(&waiting, space, i, 9000), 0);
	xp_pending_samples_free(&waiting);
	xp_address_space_release(space);
}
