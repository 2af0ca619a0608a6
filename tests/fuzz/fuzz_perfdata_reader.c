// SPDX-License-Identifier: BSD-2-Clause
/* Fuzzes the reader of perf.data files. */
#include <errno.h>
#include <string.h>

#include "fuzz.h"

#include "format/perfdata_reader.h"

/* The sanitizer detects reads of the bytes after the input. */
static void check_record(const uint8_t *data, size_t size, const struct xp_perfdata_record *record)
{
	CHECK(record->bytes >= 8);
	if (record->is_decompressed) {
		if (record->type == PERF_RECORD_SAMPLE && record->sample.chain_count)
			xp_perfdata_record_chain(record, record->sample.chain_count - 1);
		return;
	}
	CHECK(record->bytes <= size - record->offset);
	switch (record->type) {
	case PERF_RECORD_SAMPLE:
		CHECK(!record->sample.chain_count ||
		      record->sample.chain_count <= (uint64_t)(data + size - record->sample.chain) / 8);
		if (record->sample.chain_count)
			xp_perfdata_record_chain(record, record->sample.chain_count - 1);
		break;
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		CHECK(strlen(record->map.path) < size && record->map.build_id_bytes <= 20);
		break;
	case PERF_RECORD_COMM:
		CHECK(strlen(record->comm.name) < size);
		break;
	}
}

/* Returns the reader's last result. */
static int read_all(const uint8_t *data, size_t size, struct xp_violation *violation)
{
	struct xp_perfdata_feature_section section;
	struct xp_perfdata_reader reader;
	struct xp_perfdata_record record;
	uint64_t at = 0;
	int more = xp_perfdata_reader_init(&reader, data, size, violation);

	if (more)
		return more;
	while ((more = xp_perfdata_reader_next(&reader, &record, violation)) == 1) {
		CHECK(record.is_decompressed || record.offset >= at);
		check_record(data, size, &record);
		if (!record.is_decompressed)
			at = record.offset + record.bytes;
	}
	for (unsigned int from = 0; !more; from = section.feature + 1) {
		more = xp_perfdata_reader_feature(&reader, from, &section, violation);
		if (more <= 0)
			break;
		CHECK(section.feature >= from && section.offset <= size && section.bytes <= size - section.offset);
		more = 0;
	}
	xp_perfdata_reader_end(&reader);
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
