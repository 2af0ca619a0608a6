// SPDX-License-Identifier: BSD-2-Clause
#include <stdlib.h>
#include <string.h>

#include "unit.h"

#include "model/json_data.h"

static void check_text(const char *text, const char *expected)
{
	size_t bytes;
	char *written;
	FILE *out = open_memstream(&written, &bytes);

	xp_json_text(out, text);
	assert_int_equal(fclose(out), 0);
	assert_string_equal(written, expected);
	free(written);
}

TEST(test_text)
{
	check_text(NULL, "\"\"");
	check_text("", "\"\"");
	check_text("std::map<K, V>&", "\"std::map\\u003cK, V\\u003e\\u0026\"");
	check_text("</script><!--", "\"\\u003c/script\\u003e\\u003c!--\"");
	check_text("a\"b\\", "\"a\\\"b\\\\\"");
	check_text("a\nb\x1b\x7f", "\"a?b??\"");
	check_text("\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xaa", "\"\\u2028\\u2029\xe2\x80\xaa\"");
	check_text("\xff\xc0\xaf\xe2\x80", "\"?????\"");
}

/* Long strings are written in pieces that split no character. */
TEST(test_long_text)
{
	char text[3001], expected[3003];

	for (size_t offset = 0; offset < 3; offset++) {
		size_t bytes = 0;

		memset(text, 'a', offset);
		for (bytes = offset; bytes + 3 < sizeof(text); bytes += 3)
			memcpy(text + bytes, "\xe2\x82\xac", 3);
		text[bytes] = '\0';
		snprintf(expected, sizeof(expected), "\"%s\"", text);
		check_text(text, expected);
	}
}

static void check_numbers(const uint64_t *values, size_t count, const char *expected)
{
	size_t bytes;
	char *written;
	struct xp_json_numbers numbers = { .out = open_memstream(&written, &bytes) };

	for (size_t i = 0; i < count; i++)
		xp_json_number(&numbers, values[i]);
	xp_json_numbers_end(&numbers);
	assert_int_equal(fclose(numbers.out), 0);
	assert_string_equal(written, expected);
	free(written);
}

TEST(test_numbers)
{
	check_numbers(NULL, 0, "");
	check_numbers((const uint64_t[]){ 0 }, 1, "AA==");
	check_numbers((const uint64_t[]){ 127, 128 }, 2, "f4AB");
	check_numbers((const uint64_t[]){ 1, 2, 3, 4, 5 }, 5, "AQIDBAU=");
	check_numbers((const uint64_t[]){ UINT64_MAX }, 1, "////////////AQ==");
}

TEST(test_signed)
{
	size_t bytes;
	char *written;
	struct xp_json_numbers numbers = { .out = open_memstream(&written, &bytes) };

	xp_json_signed(&numbers, 0);
	xp_json_signed(&numbers, -1);
	xp_json_signed(&numbers, 1);
	xp_json_signed(&numbers, -64);
	xp_json_signed(&numbers, INT64_MIN);
	xp_json_numbers_end(&numbers);
	assert_int_equal(fclose(numbers.out), 0);
	assert_string_equal(written, "AAECf////////////wE=");
	free(written);
}
