// SPDX-License-Identifier: BSD-2-Clause
/* Fuzzes the reader of gperftools profiles. */
#include <errno.h>
#include <string.h>

#include "fuzz.h"

#include "format/gperf_reader.h"

/* Checks that the records are consecutive and inside the file. Returns the reader's last result. */
static int read_all(const uint8_t *data, size_t size, struct xp_violation *violation)
{
	struct xp_gperf_reader reader;
	struct xp_gperf_sample sample;
	struct xp_gperf_line line;
	uint64_t at = 0;
	int more = xp_gperf_reader_init(&reader, data, size, violation);

	if (more)
		return more;
	while ((more = xp_gperf_reader_next(&reader, &sample, violation)) == 1) {
		CHECK(sample.offset > at && sample.offset < size && sample.count && sample.pc_count);
		CHECK(sample.pcs >= data &&
		      sample.pc_count <= (uint64_t)(data + size - sample.pcs) / XP_GPERF_SLOT_BYTES);
		xp_gperf_reader_pc(&sample, sample.pc_count - 1);
		at = sample.offset;
	}
	if (more)
		return more;
	while ((more = xp_gperf_reader_line(&reader, &line, violation)) == 1) {
		CHECK(line.offset > at && line.start < line.end);
		CHECK(line.path >= (const char *)data + line.offset && line.path_bytes <= size &&
		      line.path + line.path_bytes <= (const char *)data + size);
		at = line.offset;
	}
	return more;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct xp_violation violation = { .text = "" };
	int err = read_all(data, size, &violation);

	CHECK(!err || err == -EBADMSG);
	CHECK(!err == !violation.text[0] && violation.offset <= size);
	return 0;
}
