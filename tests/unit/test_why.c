/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "unit.h"

#include "base/why.h"

TEST(test_sentence_belongs_to_its_error)
{
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

TEST(test_long_sentence)
{
	char text[10000];

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

TEST(test_each_thread_has_its_own)
{
	pthread_t thread;

	xp_why_set(-EINVAL, "one");
	assert_int_equal(pthread_create(&thread, NULL, set_another, NULL), 0);
	pthread_join(thread, NULL);
	assert_string_equal(xp_why(-EINVAL), "one");
}
