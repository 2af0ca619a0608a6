/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of kernel addresses, from the kernel. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

#include "base/util.h"
#include "store/ksym.h"

#define BASE UINT64_C(0xffffffff81000000)

/* Symbols of 0x100 bytes, f0 at BASE. calls counts the batches. */
static int describe(void *arg, const uint64_t *addresses, size_t count, char (*texts)[XP_KSYM_TEXT_BYTES])
{
	unsigned int *calls = arg;

	assert_true(count && count <= XP_KSYM_BATCH);
	for (size_t i = 0; i < count; i++) {
		if (addresses[i] < BASE)
			snprintf(texts[i], XP_KSYM_TEXT_BYTES, "0x%" PRIx64, addresses[i]);
		else
			snprintf(texts[i], XP_KSYM_TEXT_BYTES, "f%" PRIu64 "+0x%" PRIx64 "/0x100%s",
				 (addresses[i] - BASE) / 0x100, addresses[i] % 0x100,
				 addresses[i] % 2 ? " [module]" : "");
	}
	++*calls;
	return 0;
}

static void check(const struct xp_kallsym *sym, uint64_t address, const char *name, uint64_t start, uint64_t end)
{
	assert_int_equal(sym->address, address);
	if (!name) {
		assert_null(sym->name);
		return;
	}
	assert_string_equal(sym->name, name);
	assert_int_equal(sym->start, start);
	assert_int_equal(sym->end, end);
}

TEST(test_names)
{
	static const uint64_t wanted[] = { BASE + 0x27f, BASE + 0x150, BASE, BASE + 0xff, BASE - 1, BASE + 0x150 };
	struct xp_ksym syms = { 0 };
	unsigned int calls = 0;

	for (size_t i = 0; i < XP_ARRAY_SIZE(wanted); i++)
		assert_int_equal(xp_ksym_want(&syms, wanted[i]), 0);
	assert_int_equal(xp_ksym_ask(&syms, describe, &calls), 0);
	assert_int_equal(calls, 1);
	assert_int_equal(syms.count, 5);
	check(&syms.all[0], BASE - 1, NULL, 0, 0);
	check(&syms.all[1], BASE, "f0", BASE, BASE + 0x100);
	check(&syms.all[2], BASE + 0xff, "f0", BASE, BASE + 0x100);
	check(&syms.all[3], BASE + 0x150, "f1", BASE + 0x100, BASE + 0x200);
	check(&syms.all[4], BASE + 0x27f, "f2", BASE + 0x200, BASE + 0x300);
	xp_ksym_free(&syms);
}

TEST(test_batches)
{
	enum { COUNT = 2 * XP_KSYM_BATCH + 1 };
	struct xp_ksym syms = { 0 };
	unsigned int calls = 0;
	char name[16];

	assert_int_equal(xp_ksym_ask(&syms, describe, &calls), 0);
	assert_int_equal(calls, 0);
	for (size_t i = 0; i < COUNT; i++)
		assert_int_equal(xp_ksym_want(&syms, BASE + (COUNT - 1 - i) * 0x100 + 5), 0);
	assert_int_equal(xp_ksym_ask(&syms, describe, &calls), 0);
	assert_int_equal(calls, 3);
	assert_int_equal(syms.count, COUNT);
	for (size_t i = 0; i < COUNT; i++) {
		snprintf(name, sizeof(name), "f%zu", i);
		check(&syms.all[i], BASE + i * 0x100 + 5, name, BASE + i * 0x100, BASE + (i + 1) * 0x100);
	}
	xp_ksym_free(&syms);
}

/* Thousands of profiles request the same addresses. */
TEST(test_often)
{
	struct xp_ksym syms = { 0 };
	unsigned int calls = 0;

	for (size_t i = 0; i < 100000; i++)
		assert_int_equal(xp_ksym_want(&syms, BASE + i % 150), 0);
	assert_true(syms.room <= 512);
	for (size_t i = 0; i < 1000; i++)
		assert_int_equal(xp_ksym_want(&syms, BASE + i), 0);
	assert_int_equal(xp_ksym_ask(&syms, describe, &calls), 0);
	assert_int_equal(syms.count, 1000);
	for (size_t i = 0; i < 1000; i++)
		assert_int_equal(syms.all[i].address, BASE + i);
	xp_ksym_free(&syms);
}

static int say(void *arg, const uint64_t *addresses, size_t count, char (*texts)[XP_KSYM_TEXT_BYTES])
{
	(void)addresses;
	for (size_t i = 0; i < count; i++)
		strncpy(texts[i], arg, XP_KSYM_TEXT_BYTES);
	return 0;
}

TEST(test_texts)
{
	static const struct {
		const char *text, *name;
		uint64_t start, end;
	} cases[] = {
		{ "a+0x10/0x20", "a", BASE, BASE + 0x20 },
		{ "a+0x10/0x40 [mod]", "a", BASE, BASE + 0x40 },
		{ "a+0x1+b+0x10/0x40", "a+0x1+b", BASE, BASE + 0x40 },
		/* Far after a symbol the name is unknown. */
		{ "a+0x10/0xffffff", "a", BASE, BASE + XP_KALLSYM_BYTES_MAX },
		{ "a+0xfffff/0xffffff", "a", BASE + 0x10 - 0xfffff, BASE + 0x11 },
		{ "a+0x100000/0xffffff", NULL, 0, 0 },
		/* No symbol, and an unknown address. */
		{ "0xffffffff81000010", NULL, 0, 0 },
		{ "", NULL, 0, 0 },
		{ "+0x10/0x20", NULL, 0, 0 },
		{ "a+0x10", NULL, 0, 0 },
		{ "a+0x10/", NULL, 0, 0 },
		{ "a+0x20/0x20", NULL, 0, 0 },
	};

	for (size_t i = 0; i < XP_ARRAY_SIZE(cases); i++) {
		struct xp_ksym syms = { 0 };

		assert_int_equal(xp_ksym_want(&syms, BASE + 0x10), 0);
		assert_int_equal(xp_ksym_ask(&syms, say, (void *)cases[i].text), 0);
		check(&syms.all[0], BASE + 0x10, cases[i].name, cases[i].start, cases[i].end);
		xp_ksym_free(&syms);
	}
}

static int fill(void *arg, const uint64_t *addresses, size_t count, char (*texts)[XP_KSYM_TEXT_BYTES])
{
	(void)addresses;
	memset(texts, 'x', count * sizeof(*texts));
	return *(int *)arg;
}

/* A name that is too long, and is truncated; and no answer. */
TEST(test_bad)
{
	struct xp_ksym syms = { 0 };
	int err = 0;

	assert_int_equal(xp_ksym_want(&syms, BASE), 0);
	assert_int_equal(xp_ksym_ask(&syms, fill, &err), 0);
	check(&syms.all[0], BASE, NULL, 0, 0);
	err = -EPERM;
	assert_int_equal(xp_ksym_ask(&syms, fill, &err), -EPERM);
	check(&syms.all[0], BASE, NULL, 0, 0);
	xp_ksym_free(&syms);
}
