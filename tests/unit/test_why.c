/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/why.h"

static void test_sentence_belongs_to_its_error(void **state)
{
	(void)state;
	assert_false(xp_why_has(-ENOENT));
	assert_false(xp_why_has(0));
	assert_string_equal(xp_why(-ENOENT), strerror(ENOENT));
	assert_int_equal(xp_why_set(-ENOENT, "no %s", "file"), -ENOENT);
	assert_true(xp_why_has(-ENOENT));
	assert_false(xp_why_has(-EACCES));
	assert_string_equal(xp_why(-ENOENT), "no file");
	assert_string_equal(xp_why(-EACCES), strerror(EACCES));
	assert_int_equal(xp_why_set(-EACCES, "%s: %s", "map", xp_why(-ENOENT)), -EACCES);
	assert_string_equal(xp_why(-EACCES), "map: no file");
	assert_false(xp_why_has(-ENOENT));
	xp_why_clear();
	assert_false(xp_why_has(-EACCES));
	assert_false(xp_why_has(0));
}

static void test_long_sentence(void **state)
{
	char text[10000];

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	xp_why_set(-EINVAL, "%s", text);
	assert_true(strlen(xp_why(-EINVAL)) > 4000 && strlen(xp_why(-EINVAL)) < sizeof(text) - 1);
}

static void *set_another(void *arg)
{
	assert_false(xp_why_has(-EINVAL));
	xp_why_set(-EINVAL, "another");
	return arg;
}

static void test_each_thread_has_its_own(void **state)
{
	pthread_t thread;

	(void)state;
	xp_why_set(-EINVAL, "one");
	assert_int_equal(pthread_create(&thread, NULL, set_another, NULL), 0);
	pthread_join(thread, NULL);
	assert_string_equal(xp_why(-EINVAL), "one");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sentence_belongs_to_its_error),
		cmocka_unit_test(test_long_sentence),
		cmocka_unit_test(test_each_thread_has_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
