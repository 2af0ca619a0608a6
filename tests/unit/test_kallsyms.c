/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of kernel addresses from a table in the form of /proc/kallsyms. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kallsyms.h"
#include "util.h"

#define BASE 0xffffffff81000000ull

static const char table[] = "0000000000000000 A fixed_percpu_data\n"
			    "ffffffff81000000 T _text\n"
			    "ffffffff81000000 t local\n"
			    "ffffffff81000100 t __start\n"
			    "ffffffff81000100 W start\n"
			    "ffffffff81000180 d data\n"
			    "ffffffff81000200 T next\n"
			    "ffffffff81000300 T last_of_kernel\n"
			    "ffffffffc0001000 t module_one\t[mod]\n"
			    "ffffffffc0002000 t module_two\t[mod]\n"
			    "ffffffff81000280 t bpf_prog_1_late\t[bpf]\n";

static struct xp_kallsyms name_all(const char *text, const uint64_t *addresses, size_t count)
{
	FILE *file = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
	struct xp_kallsyms syms = { 0 };

	assert_non_null(file);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(xp_kallsyms_want(&syms, addresses[i]), 0);
	assert_int_equal(xp_kallsyms_read(&syms, file), 0);
	fclose(file);
	return syms;
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

static void test_names(void **state)
{
	static const uint64_t wanted[] = { BASE + 0x27f,       BASE + 0x150,	   BASE,	 BASE + 0xff,
					   0xffffffffc0001fff, BASE + 0x280,	   BASE + 0x150, BASE + 0x300,
					   BASE - 1,	       0xffffffffc0002010, BASE + 0x1ff };
	struct xp_kallsyms syms = name_all(table, wanted, XP_ARRAY_SIZE(wanted));

	(void)state;
	assert_int_equal(syms.count, 10);
	check(&syms.all[0], BASE - 1, NULL, 0, 0);
	check(&syms.all[1], BASE, "_text", BASE, BASE + 0x100);
	check(&syms.all[2], BASE + 0xff, "_text", BASE, BASE + 0x100);
	check(&syms.all[3], BASE + 0x150, "start", BASE + 0x100, BASE + 0x200);
	check(&syms.all[4], BASE + 0x1ff, "start", BASE + 0x100, BASE + 0x200);
	check(&syms.all[5], BASE + 0x27f, "next", BASE + 0x200, BASE + 0x280);
	check(&syms.all[6], BASE + 0x280, "bpf_prog_1_late", BASE + 0x280, BASE + 0x300);
	check(&syms.all[7], BASE + 0x300, "last_of_kernel", BASE + 0x300, BASE + 0x300 + XP_KALLSYM_BYTES_MAX);
	check(&syms.all[8], 0xffffffffc0001fff, "module_one", 0xffffffffc0001000, 0xffffffffc0002000);
	check(&syms.all[9], 0xffffffffc0002010, "module_two", 0xffffffffc0002000,
	      0xffffffffc0002000 + XP_KALLSYM_BYTES_MAX);
	xp_kallsyms_free(&syms);
}

/* Far behind the last symbol nothing is known. */
static void test_far(void **state)
{
	static const uint64_t wanted[] = { BASE + 0x2ff + XP_KALLSYM_BYTES_MAX, BASE + 0x300 + XP_KALLSYM_BYTES_MAX,
					   UINT64_MAX };
	struct xp_kallsyms syms = name_all(table, wanted, XP_ARRAY_SIZE(wanted));

	(void)state;
	assert_string_equal(syms.all[0].name, "last_of_kernel");
	assert_null(syms.all[1].name);
	assert_null(syms.all[2].name);
	xp_kallsyms_free(&syms);
}

/* As an unprivileged user sees it, and lines that are none. */
static void test_bad(void **state)
{
	static const uint64_t wanted[] = { BASE + 0x10, 5 };
	static const char *const texts[] = {
		"",
		"0000000000000000 T _text\n0000000000000000 T next\n",
		"ffffffff81000000\nffffffff81000000 T\nffffffff81000000 T \nffffffff81000000TT _text\nx T y\n\n",
		"ffffffff81000000 D data\n",
	};

	(void)state;
	for (size_t i = 0; i < XP_ARRAY_SIZE(texts); i++) {
		struct xp_kallsyms syms = { 0 };
		FILE *file = tmpfile();

		fputs(texts[i], file);
		rewind(file);
		for (size_t k = 0; k < XP_ARRAY_SIZE(wanted); k++)
			assert_int_equal(xp_kallsyms_want(&syms, wanted[k]), 0);
		assert_int_equal(xp_kallsyms_read(&syms, file), 0);
		fclose(file);
		assert_int_equal(syms.count, 2);
		assert_null(syms.all[0].name);
		assert_null(syms.all[1].name);
		xp_kallsyms_free(&syms);
	}
}

static void test_none(void **state)
{
	struct xp_kallsyms syms = name_all(table, NULL, 0);

	(void)state;
	assert_int_equal(syms.count, 0);
	xp_kallsyms_free(&syms);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_far),
		cmocka_unit_test(test_bad),
		cmocka_unit_test(test_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
