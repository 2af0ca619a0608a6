// SPDX-License-Identifier: BSD-2-Clause
/* Profiles of pprof. The bytes are hand-made from profile.proto and "Protocol Buffers Encoding". */

#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/util.h"
#include "format/pprof.h"

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

/* Each part of the message in order of writing: the key of a field is number << 3 | type. */
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

TEST(test_writer)
{
	struct bytes bytes = write_small();
	uint8_t message[sizeof(small) + 1];
	z_stream stream = {
		.next_in = (uint8_t *)bytes.all,
		.avail_in = (unsigned int)bytes.size,
		.next_out = message,
		.avail_out = sizeof(message),
	};

	assert_int_equal(inflateInit2(&stream, 31), Z_OK);
	assert_int_equal(inflate(&stream, Z_FINISH), Z_STREAM_END);
	assert_int_equal(stream.avail_in, 0);
	assert_int_equal(stream.total_out, sizeof(small) - 1);
	assert_memory_equal(message, small, stream.total_out);
	inflateEnd(&stream);
	free(bytes.all);
}

/* An error of a full disk is returned, and again by all later calls. */
TEST(test_full_disk)
{
	const struct xp_pprof_options options = { .types = { { "a", "b" }, { "c", "d" } } };
	const struct xp_pprof_sample sample = { .values = { 1, 1 } };
	FILE *out = fopen("/dev/full", "w");
	struct xp_pprof *pprof;

	setbuf(out, NULL);
	xp_pprof_new(&pprof, out, &options);
	xp_pprof_sample(pprof, &sample);
	assert_int_equal(xp_pprof_finish(pprof), -ENOSPC);
	assert_int_equal(xp_pprof_sample(pprof, &sample), -ENOSPC);
	assert_int_equal(xp_pprof_finish(pprof), -ENOSPC);
	xp_pprof_free(pprof);
	fclose(out);
}
