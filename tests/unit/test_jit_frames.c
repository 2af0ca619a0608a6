/* SPDX-License-Identifier: BSD-2-Clause */
/* The frames of samples in JIT code: they wait for a look at the sources and get names. The target is this process. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/util.h"
#include "sample/jit_samples.h"
#include "target/status.h"
#include "target/target.h"

#define TEXT 0x7e0000000000ull

static struct xp_file program = { .kind = XP_FILE_DISK, .path = "/nonexistent/program" };
static struct xp_file memory = { .kind = XP_FILE_ANON, .index = 1, .path = "//anon" };
static const struct xp_vma program_vma = { 0x400000, 0x500000, 0, &program };
static const struct xp_vma jit_vma = { TEXT, TEXT + 0x10000, 0, &memory };

struct fixture {
	char path[64];
	FILE *map;
	struct xp_jit_samples jits;
	struct xp_image image;
	struct xp_address_space *space;
	size_t delivered;
	struct xp_frame frames[8]; /* of the last sample */
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct xp_target_status status;
	struct xp_clock *clock;

	assert_non_null(f);
	assert_int_equal(xp_clock_open(&clock), 0);
	f->jits.jits = (struct xp_jits){ .clock = clock, .bytes_left = XP_JIT_BYTES_LEFT };
	f->image.pid = getpid();
	f->image.number = 1;
	f->space = xp_address_space_new();
	assert_int_equal(xp_address_space_map(f->space, &program_vma), 0);
	assert_int_equal(xp_address_space_map(f->space, &jit_vma), 0);
	assert_int_equal(xp_target_status(&status, getpid(), xp_target_start_time(getpid())), 0);
	snprintf(f->path, sizeof(f->path), "/tmp/perf-%d.map", status.inner_pid);
	unlink(f->path);
	f->map = fopen(f->path, "we");
	assert_non_null(f->map);
	setbuf(f->map, NULL);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	xp_jit_samples_free(&f->jits);
	xp_jit_free(f->image.jit);
	xp_address_space_release(f->image.jit_space);
	assert_int_equal(f->jits.jits.bytes_left, XP_JIT_BYTES_LEFT);
	assert_int_equal(f->jits.bytes, 0);
	xp_address_space_release(f->space);
	xp_clock_free((struct xp_clock *)f->jits.jits.clock);
	fclose(f->map);
	unlink(f->path);
	free(f);
	return 0;
}

static int deliver(void *arg, struct xp_image *image, const struct xp_frame *frames, size_t count)
{
	struct fixture *f = arg;

	assert_ptr_equal(image, &f->image);
	assert_in_range(count, 1, XP_ARRAY_SIZE(f->frames));
	memcpy(f->frames, frames, count * sizeof(*frames));
	f->delivered++;
	return 0;
}

/* A look ends early if the machine takes the CPU away: it has then used much of its time budget. */
static bool was_cut_short(const struct fixture *f)
{
	const struct xp_rate_limit *looking = &f->jits.jits.looking;

	return looking->filled_ns && looking->left_ns < (int64_t)XP_ALLOWANCE_NS_PER_S * 3 / 4;
}

/* Looks once, with the budget of a whole second, unless the look is cut short. */
static void refresh(struct fixture *f)
{
	size_t before = f->delivered;
	int tries = 0;

	do {
		f->jits.jits.looking = (struct xp_rate_limit){ 0 };
		assert_int_equal(xp_jit_samples_refresh(&f->jits, deliver, f), 0);
	} while (f->delivered == before && was_cut_short(f) && ++tries < 10);
}

/* The first sample causes an immediate look at the sources. */
static void sample_first(struct fixture *f, uint64_t address, uint64_t tsc)
{
	int waits;

	f->frames[0] = (struct xp_frame){ address, &f->space->vmas[1], false };
	waits = xp_jit_samples_name(&f->jits, &f->image, f->space, tsc, f->frames, 1);
	if (waits == 1 && was_cut_short(f)) {
		refresh(f);
		assert_int_equal(f->delivered, 1);
		f->delivered = waits = 0;
	}
	assert_int_equal(waits, 0);
}

/* It counts as unnamed. */
static void begin(struct fixture *f)
{
	sample_first(f, TEXT + 0x8000, 1);
	assert_int_equal(f->image.jit_unnamed, 1);
	f->image.jit_unnamed = 0;
}

/* Samples the address at the present time. */
static int sample(struct fixture *f, uint64_t address)
{
	f->frames[0] = (struct xp_frame){ address, &f->space->vmas[1], false };
	return xp_jit_samples_name(&f->jits, &f->image, f->space, xp_clock_now_tsc(), f->frames, 1);
}

static const char *name_of(struct fixture *f, const struct xp_frame *frame)
{
	const struct xp_sym *syms;
	size_t count = xp_jit_syms(f->image.jit, &syms);

	if (frame->vma != &xp_profile_jit_vma)
		return "-";
	for (size_t i = 0; i < count; i++)
		if (frame->address - XP_PROFILE_JIT_BASE - syms[i].address < syms[i].size)
			return syms[i].name;
	return "nowhere";
}

static void test_waits_for_a_look(void **state)
{
	struct fixture *f = *state;

	begin(f);
	fputs("7e0000000000 20 a\n7e0000000020 20 b\n", f->map);
	assert_int_equal(sample(f, TEXT + 8), 1);
	assert_int_equal(f->delivered, 0);
	refresh(f);
	assert_int_equal(f->delivered, 1);
	assert_string_equal(name_of(f, &f->frames[0]), "a");
	assert_int_equal(f->image.jit_named, 1);
	/* This code is unknown; that is certain after the next look, not earlier. */
	assert_int_equal(sample(f, TEXT + 0x100), 1);
	fputs("7e0000000100 20 c\n", f->map);
	refresh(f);
	assert_string_equal(name_of(f, &f->frames[0]), "c");
	assert_int_equal(sample(f, TEXT + 0x200), 1);
	refresh(f);
	assert_string_equal(name_of(f, &f->frames[0]), "-");
	assert_int_equal(f->frames[0].address, TEXT + 0x200);
	assert_int_equal(f->delivered, 3);
	assert_int_equal(f->image.jit_named, 2);
	assert_int_equal(f->image.jit_unnamed, 1);
}

/* A sample from before the last look need not wait. */
static void test_late_in_the_ring(void **state)
{
	struct fixture *f = *state;
	uint64_t tsc = xp_clock_now_tsc();

	fputs("7e0000000000 20 a\n", f->map);
	sample_first(f, TEXT, tsc);
	assert_string_equal(name_of(f, &f->frames[0]), "a");
}

/* The address of a caller is after its call, and may already be in another function. */
static void test_chain(void **state)
{
	struct fixture *f = *state;
	const struct xp_vma *jit = &f->space->vmas[1], *elf = &f->space->vmas[0];
	const struct xp_frame chain[] = {
		{ 0xffffffff81000000, NULL, false }, { TEXT + 0x20, jit, true }, { TEXT + 0x20, jit, false },
		{ TEXT + 0x10, jit, false },	     { 0x400100, elf, false },
	};
	struct xp_frame frames[5];

	begin(f);
	fputs("7e0000000000 20 a\n7e0000000020 20 b\n", f->map);
	memcpy(frames, chain, sizeof(chain));
	assert_int_equal(xp_jit_samples_name(&f->jits, &f->image, f->space, xp_clock_now_tsc(), frames, 5), 1);
	refresh(f);
	assert_string_equal(name_of(f, &f->frames[1]), "b");
	assert_string_equal(name_of(f, &f->frames[2]), "a");
	assert_string_equal(name_of(f, &f->frames[3]), "a");
	assert_int_equal(f->frames[2].address - f->frames[3].address, 0x10);
	assert_int_equal(f->frames[0].address, chain[0].address);
	assert_ptr_equal(f->frames[4].vma, elf);
	assert_int_equal(f->image.jit_named, 1);
	/* Only the sampled frame counts, not its callers. */
	frames[0] = chain[4];
	frames[1] = chain[3];
	xp_jit_samples_name(&f->jits, &f->image, f->space, xp_clock_now_tsc(), frames, 2);
	refresh(f);
	assert_int_equal(f->image.jit_named + f->image.jit_unnamed, 1);
}

/* Code at the same address at different times is different code. */
static void test_replaced(void **state)
{
	struct fixture *f = *state;
	uint64_t first;

	begin(f);
	fputs("7e0000000000 20 a\n", f->map);
	assert_int_equal(sample(f, TEXT), 1);
	refresh(f);
	first = f->frames[0].address;
	fputs("7e0000000000 40 b\n", f->map);
	assert_int_equal(sample(f, TEXT), 1);
	refresh(f);
	assert_string_equal(name_of(f, &f->frames[0]), "b");
	assert_int_not_equal(f->frames[0].address, first);
}

static void test_without_jit_code(void **state)
{
	struct fixture *f = *state;

	f->frames[0] = (struct xp_frame){ 0x400100, &f->space->vmas[0], false };
	f->frames[1] = f->frames[0];
	f->frames[2] = (struct xp_frame){ TEXT, xp_address_space_find(f->space, TEXT), false };
	assert_false(xp_jit_samples_concern(&f->jits, f->frames, 2));
	assert_true(xp_jit_samples_concern(&f->jits, f->frames, 3));
	/* Without naming of JIT code. */
	f->jits.jits.clock = NULL;
	assert_false(xp_jit_samples_concern(&f->jits, f->frames, 3));
}

static void test_finish(void **state)
{
	struct fixture *f = *state;
	struct xp_image *images[] = { &f->image };

	begin(f);
	assert_int_equal(sample(f, TEXT), 1);
	assert_int_equal(sample(f, TEXT + 0x20), 1);
	fputs("7e0000000000 20 a\n", f->map);
	assert_int_equal(xp_jit_samples_finish(&f->jits, images, 1, deliver, f), 0);
	assert_int_equal(f->delivered, 2);
	assert_int_equal(f->image.jit_named, 1);
	assert_int_equal(f->image.jit_unnamed, 1);
	assert_int_equal(sample(f, TEXT), 0); /* a sample from now on need not wait */
}

/* The program has ended and the process runs another one: nothing of the new one is taken. */
static void test_over(void **state)
{
	struct fixture *f = *state;

	begin(f);
	fputs("7e0000000000 20 a\n", f->map);
	assert_int_equal(sample(f, TEXT), 1);
	f->image.is_over = true;
	fclose(f->map);
	unlink(f->path);
	f->map = fopen(f->path, "we");
	setbuf(f->map, NULL);
	fputs("7e0000000000 20 wrong\n", f->map);
	refresh(f);
	assert_string_equal(name_of(f, &f->frames[0]), "a");
}

/* More samples than may wait: the rest is delivered without names, and counted. */
static void test_memory(void **state)
{
	struct fixture *f = *state;
	struct xp_frame frames[128];
	size_t sent = 0, now = 0;

	begin(f);
	for (size_t i = 0; i < XP_ARRAY_SIZE(frames); i++)
		frames[i] = (struct xp_frame){ TEXT, &f->space->vmas[1], false };
	for (; !now; sent++)
		now = !xp_jit_samples_name(&f->jits, &f->image, f->space, xp_clock_now_tsc(), frames, 128);
	assert_in_range(sent, 5000, 20000);
	assert_int_equal(f->image.jit_unnamed, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_waits_for_a_look, setup, teardown),
		cmocka_unit_test_setup_teardown(test_late_in_the_ring, setup, teardown),
		cmocka_unit_test_setup_teardown(test_chain, setup, teardown),
		cmocka_unit_test_setup_teardown(test_replaced, setup, teardown),
		cmocka_unit_test_setup_teardown(test_without_jit_code, setup, teardown),
		cmocka_unit_test_setup_teardown(test_finish, setup, teardown),
		cmocka_unit_test_setup_teardown(test_over, setup, teardown),
		cmocka_unit_test_setup_teardown(test_memory, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
