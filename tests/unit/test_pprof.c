// SPDX-License-Identifier: BSD-2-Clause
/* pprof's own profiles. The bytes are made by hand from profile.proto and "Protocol Buffers Encoding". */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/util.h"
#include "format/formats.h"
#include "format/pprof.h"
#include "format/pprof_inflate.h"
#include "format/pprof_reader.h"

struct bytes {
	char *all;
	size_t size;
};

static struct bytes write_small(void)
{
	const struct xp_pprof_options options = {
		.types = { { "samples", "count" }, { "cpu", "nanoseconds" } },
		.period_type = { "cpu", "nanoseconds" },
		.period = 1000,
		.time_ns = 5,
		.duration_ns = 300,
		.comment = "made by hand",
	};
	const struct xp_pprof_line lines[] = { { 1, 7 }, { 2, 0 } };
	const uint64_t locations[] = { 2, 1 };
	struct xp_pprof_location location = { 1, 0x1234, lines, 2 };
	const struct xp_pprof_sample sample = {
		.locations = locations,
		.location_count = 2,
		.values = { 2, 2000 },
		.labels = { { "tid", "0" } },
		.label_count = 1,
	};
	struct bytes bytes;
	FILE *out = open_memstream(&bytes.all, &bytes.size);
	struct xp_pprof *pprof;

	assert_int_equal(xp_pprof_new(&pprof, out, &options), 0);
	assert_int_equal(
	    xp_pprof_mapping(pprof, &(struct xp_pprof_mapping){ "/my app", "ab01", true, false, false, false }), 0);
	assert_int_equal(xp_pprof_function(pprof, &(struct xp_pprof_function){ "f", "_Zf", "f.c" }), 0);
	assert_int_equal(xp_pprof_function(pprof, &(struct xp_pprof_function){ "main", "main", NULL }), 0);
	assert_int_equal(xp_pprof_location(pprof, &location), 0);
	location = (struct xp_pprof_location){ 1, 0, &lines[1], 1 };
	assert_int_equal(xp_pprof_location(pprof, &location), 0);
	assert_int_equal(xp_pprof_sample(pprof, &sample), 0);
	assert_int_equal(xp_pprof_finish(pprof), 0);
	xp_pprof_free(pprof);
	assert_int_equal(fclose(out), 0);
	return bytes;
}

#define TEXT(length, text) "\x32" length text

/* Each piece of the message as it is written: a field's key is number << 3 | type. */
static const char small[] = TEXT("\x00", "") TEXT("\x0c", "made by hand") TEXT("\x07", "samples") TEXT("\x05", "count")
    TEXT("\x03", "cpu") TEXT("\x0b", "nanoseconds")
    /* two sample_type, time_nanos, duration_nanos, period_type, period, comment */
    "\x0a\x04\x08\x02\x10\x03"
    "\x0a\x04\x08\x04\x10\x05"
    "\x48\x05\x50\xac\x02"
    "\x5a\x04\x08\x04\x10\x05"
    "\x60\xe8\x07\x6a\x01\x01" TEXT("\x07", "/my app") TEXT("\x04", "ab01")
    /* mapping: id 1, limit 2^64 - 1, filename 6, build_id 7, has_functions */
    "\x1a\x13\x08\x01\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x28\x06\x30\x07\x38\x01" TEXT("\x01", "f")
	TEXT("\x03", "_Zf") TEXT("\x03", "f.c") "\x2a\x08\x08\x01\x10\x08\x18\x09\x20\x0a" TEXT(
	    "\x04", "main") "\x2a\x06\x08\x02\x10\x0b\x18\x0b"
			    /* location 1: mapping 1, address 0x1234, line of function 1, line of function 2 */
			    "\x22\x11\x08\x01\x10\x01\x18\xb4\x24\x22\x04\x08\x01\x10\x07\x22\x02\x08\x02"
			    "\x22\x08\x08\x02\x10\x01\x22\x02\x08\x02" TEXT("\x03", "tid") TEXT("\x01", "0")
    /* sample: location_id 2, 1; value 2, 2000; label 12 = 13 */
    "\x12\x0f\x0a\x02\x02\x01\x12\x03\x02\xd0\x0f\x1a\x04\x08\x0c\x10\x0d";

static void test_writer(void **state)
{
	struct bytes bytes = write_small();
	struct xp_violation violation;
	uint64_t size;
	uint8_t *message;

	(void)state;
	assert_int_equal(xp_pprof_inflate((uint8_t *)bytes.all, bytes.size, 1 << 20, &message, &size, &violation), 0);
	assert_int_equal(size, sizeof(small) - 1);
	assert_memory_equal(message, small, size);
	free(message);
	free(bytes.all);
}

/* As a gzip file. The caller frees all. */
static struct bytes zip(const char *message, size_t size)
{
	struct bytes bytes = { malloc(size + 1024), size + 1024 };
	z_stream stream = {
		.next_in = (uint8_t *)message,
		.avail_in = (unsigned int)size,
		.next_out = (uint8_t *)bytes.all,
		.avail_out = (unsigned int)bytes.size,
	};

	assert_int_equal(deflateInit2(&stream, 0, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
	assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
	bytes.size = stream.total_out;
	deflateEnd(&stream);
	return bytes;
}

static int read_message(const char *message, size_t size, struct xp_pprof_profile *profile,
			struct xp_violation *violation)
{
	struct bytes bytes = zip(message, size);
	int err = xp_pprof_read(profile, (uint8_t *)bytes.all, bytes.size, violation);

	free(bytes.all);
	return err;
}

static void assert_text(const struct xp_pprof_profile *profile, uint32_t index, const char *text)
{
	assert_int_equal(profile->texts[index].bytes, strlen(text));
	assert_memory_equal(profile->texts[index].text, text, strlen(text));
}

static void test_reader(void **state)
{
	struct xp_pprof_read_label label;
	struct xp_pprof_profile profile;
	struct xp_violation violation;
	struct xp_pprof_parts parts;
	uint32_t location;
	int64_t value;

	(void)state;
	assert_int_equal(read_message(small, sizeof(small) - 1, &profile, &violation), 0);
	assert_int_equal(profile.type_count, 2);
	assert_text(&profile, profile.types[1].unit_text, "nanoseconds");
	assert_int_equal(profile.period, 1000);
	assert_int_equal(profile.duration_ns, 300);
	assert_text(&profile, profile.comment_texts[0], "made by hand");
	assert_int_equal(profile.mappings[0].limit, UINT64_MAX);
	assert_true(profile.mappings[0].has_functions);
	assert_text(&profile, profile.mappings[0].filename_text, "/my app");
	assert_int_equal(profile.locations[0].address, 0x1234);
	assert_int_equal(profile.locations[0].line_count, 2);
	assert_int_equal(profile.lines[0].line, 7);
	assert_text(&profile, profile.functions[profile.lines[0].function].system_name_text, "_Zf");

	xp_pprof_parts_start(&parts, &profile, 0);
	assert_true(xp_pprof_locations_next(&parts, &location));
	assert_int_equal(location, 1);
	assert_true(xp_pprof_locations_next(&parts, &location));
	assert_int_equal(location, 0);
	assert_false(xp_pprof_locations_next(&parts, &location));
	xp_pprof_parts_start(&parts, &profile, 0);
	assert_true(xp_pprof_values_next(&parts, &value) && value == 2);
	assert_true(xp_pprof_values_next(&parts, &value) && value == 2000);
	assert_false(xp_pprof_values_next(&parts, &value));
	xp_pprof_parts_start(&parts, &profile, 0);
	assert_true(xp_pprof_labels_next(&parts, &label));
	assert_text(&profile, label.key_text, "tid");
	assert_text(&profile, label.str_text, "0");
	assert_false(xp_pprof_labels_next(&parts, &label));
	xp_pprof_profile_free(&profile);
}

/* Numbers one by one, and fields in another order, as other writers have them. */
static void test_other_order(void **state)
{
	static const char message[] = "\x12\x08\x08\x05\x10\x01\x08\x06\x10\x02" /* sample 5 6 = 1 2 */
				      "\x22\x02\x08\x05\x22\x02\x08\x06\x0a\x00\x0a\x00\x32\x00";
	struct xp_pprof_profile profile;
	struct xp_violation violation;
	struct xp_pprof_parts parts;
	uint32_t location;
	int64_t value;

	(void)state;
	assert_int_equal(read_message(message, sizeof(message) - 1, &profile, &violation), 0);
	xp_pprof_parts_start(&parts, &profile, 0);
	assert_true(xp_pprof_locations_next(&parts, &location) && location == 0);
	assert_true(xp_pprof_locations_next(&parts, &location) && location == 1);
	assert_false(xp_pprof_locations_next(&parts, &location));
	xp_pprof_parts_start(&parts, &profile, 0);
	assert_true(xp_pprof_values_next(&parts, &value) && value == 1);
	assert_true(xp_pprof_values_next(&parts, &value) && value == 2);
	assert_false(xp_pprof_values_next(&parts, &value));
	assert_int_equal(profile.locations[0].mapping, XP_PPROF_NO_MAPPING);
	xp_pprof_profile_free(&profile);
}

#define MESSAGE(text) text, sizeof(text) - 1
#define HEAD "\x32\x00\x0a\x00" /* a text and a sample type */

static void test_violations(void **state)
{
	static const struct {
		const char *message;
		size_t size;
		const char *text;
	} cases[] = {
		{ MESSAGE(""), "there is no table of texts" },
		{ MESSAGE("\x32\x00"), "there is no sample type" },
		{ MESSAGE("\x32\x01x\x0a\x00"), "the first text is not empty" },
		{ MESSAGE(HEAD "\x32\x01\xff"), "a text is not UTF-8" },
		{ MESSAGE(HEAD "\x32\x02\xc0\x80"), "a text is not UTF-8" },
		{ MESSAGE(HEAD "\x32\x01\x00"), "a text has a zero byte" },
		{ MESSAGE(HEAD "\x82\x01\x00"), "field 16 of type 2 is not in the schema" },
		{ MESSAGE(HEAD "\x0d\x00\x00\x00\x00"), "field 1 of type 5 is not in the schema" },
		{ MESSAGE(HEAD "\x32\x7f"), "a field is malformed or cut off" },
		{ MESSAGE(HEAD "\x48\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"), "a field is malformed or cut off" },
		{ MESSAGE(HEAD "\x0a\x02\x08\x01"), "text 1 of a table of 1" },
		{ MESSAGE(HEAD "\x22\x00"), "an element without an id" },
		{ MESSAGE(HEAD "\x22\x02\x08\x01\x22\x02\x08\x01"), "id 1 is used twice" },
		{ MESSAGE(HEAD "\x22\x04\x08\x01\x10\x09"), "mapping 9 does not exist" },
		{ MESSAGE(HEAD "\x22\x06\x08\x01\x22\x02\x08\x03"), "function 3 does not exist" },
		{ MESSAGE(HEAD "\x12\x05\x0a\x01\x02\x10\x01"), "location 2 does not exist" },
		{ MESSAGE(HEAD "\x12\x03\x12\x01\x80"), "packed numbers are cut off" },
		{ MESSAGE(HEAD "\x12\x00"), "a sample with 0 values; there are 1 types" },
		{ MESSAGE(HEAD "\x12\x04\x12\x02\x01\x01"), "a sample with 2 values; there are 1 types" },
		{ MESSAGE(HEAD "\x12\x04\x10\x01\x1a\x00"), "a label without a key" },
	};

	(void)state;
	for (size_t i = 0; i < XP_ARRAY_SIZE(cases); i++) {
		struct xp_pprof_profile profile;
		struct xp_violation violation = { .text = "" };

		assert_int_equal(read_message(cases[i].message, cases[i].size, &profile, &violation), -EBADMSG);
		assert_string_equal(violation.text, cases[i].text);
		xp_pprof_profile_free(&profile);
	}
}

static void test_gzip(void **state)
{
	struct bytes bytes = zip(small, sizeof(small) - 1);
	struct xp_pprof_profile profile;
	struct xp_violation violation;
	uint8_t *all = (uint8_t *)bytes.all, *to;
	uint64_t size;

	(void)state;
	assert_true(xp_pprof_probe(all, bytes.size));
	assert_ptr_equal(xp_format_find(all, bytes.size), &xp_format_pprof);
	for (size_t i = 0; i < bytes.size; i++) {
		assert_int_equal(xp_pprof_read(&profile, all, i, &violation), -EBADMSG);
		xp_pprof_profile_free(&profile);
	}
	assert_int_equal(xp_pprof_inflate(all, bytes.size, 10, &to, &size, &violation), -EBADMSG);
	assert_null(to);
	all[bytes.size] = 0;
	assert_int_equal(xp_pprof_read(&profile, all, bytes.size + 1, &violation), -EBADMSG);
	assert_string_equal(violation.text, "1 bytes follow the end of the gzip file");
	xp_pprof_profile_free(&profile);
	free(bytes.all);

	bytes = zip(MESSAGE("a text, and no profile"));
	assert_false(xp_pprof_probe((uint8_t *)bytes.all, bytes.size));
	free(bytes.all);
}

/* A disk that is full shows in the result, and in all further ones. */
static void test_full_disk(void **state)
{
	const struct xp_pprof_options options = { .types = { { "a", "b" }, { "c", "d" } } };
	const struct xp_pprof_sample sample = { .values = { 1, 1 } };
	FILE *out = fopen("/dev/full", "w");
	struct xp_pprof *pprof;

	(void)state;
	setbuf(out, NULL);
	xp_pprof_new(&pprof, out, &options);
	xp_pprof_sample(pprof, &sample);
	assert_int_equal(xp_pprof_finish(pprof), -ENOSPC);
	assert_int_equal(xp_pprof_sample(pprof, &sample), -ENOSPC);
	assert_int_equal(xp_pprof_finish(pprof), -ENOSPC);
	xp_pprof_free(pprof);
	fclose(out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_writer),	   cmocka_unit_test(test_reader), cmocka_unit_test(test_other_order),
		cmocka_unit_test(test_violations), cmocka_unit_test(test_gzip),	  cmocka_unit_test(test_full_disk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
