// SPDX-License-Identifier: BSD-2-Clause
/* Fuzzes the reader of FDR logs, and the sums of report. */
#include <errno.h>
#include <string.h>

#include "fuzz.h"

#include "format/fdr_reader.h"
#include "model/fdr_calls.h"

/* The records follow each other and lie in the file. Returns whether the log is well formed. */
static bool read_records(const uint8_t *data, size_t size)
{
	struct xp_violation violation;
	struct xp_fdr_reader reader;
	struct xp_fdr_record record;
	uint64_t next = XP_FDR_HEADER_BYTES;
	int more = xp_fdr_reader_init(&reader, data, size, &violation);

	if (more)
		return false;
	while ((more = xp_fdr_reader_next(&reader, &record, &violation)) == 1) {
		CHECK(record.offset >= next && record.offset < size && xp_fdr_record_name(&record)[0]);
		next = record.offset + (record.is_function ? XP_FDR_FUNCTION_BYTES : XP_FDR_METADATA_BYTES);
		CHECK(next <= size);
		if (record.is_function)
			CHECK(record.has_cpu && record.function.fn_id <= XP_FDR_FUNCTION_ID_MAX);
		else if (record.kind == XP_FDR_CUSTOM_EVENT || record.kind == XP_FDR_TYPED_EVENT)
			CHECK(record.event.data == data + next && record.event.bytes <= size - next);
		else if (record.kind == XP_FDR_END_OF_BUFFER)
			CHECK(record.rest.data == data + next && record.rest.bytes <= size - next);
	}
	CHECK(!more || (more == -EBADMSG && violation.offset <= size && violation.text[0]));
	return !more;
}

/* Every call is one of a function's, and one that ended or not. The durations have room, or too little. */
static void sum_calls(const uint8_t *data, size_t size, bool good, bool by_thread)
{
	struct xp_durations_memory memory = { .max = by_thread ? XP_DURATIONS_BYTES_MAX : 1000 };
	const struct xp_call_log_options options = { .memory = &memory, .by_thread = by_thread };
	struct xp_file_view view = { .bytes = data, .size = size };
	struct xp_violation violation;
	struct xp_call_log log;
	uint64_t calls = 0;

	CHECK(xp_call_log_read(&log, &view, &options, &violation) == (good ? 0 : -EBADMSG));
	for (size_t i = 0; i < log.function_count; i++) {
		const struct xp_durations *durations = &log.functions[i].durations;

		CHECK(log.functions[i].ended <= log.functions[i].calls);
		CHECK(log.functions[i].ended == durations->count);
		CHECK(xp_durations_percentile(durations, 500) <= xp_durations_percentile(durations, 990));
		CHECK(xp_durations_percentile(durations, 990) <= durations->max);
		calls += log.functions[i].calls;
	}
	CHECK(calls <= log.calls && log.open <= log.calls && memory.used <= memory.max);
	xp_call_log_free(&log);
	CHECK(!memory.used);
}

/* report must agree with the reader. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	bool good;

	if (!xp_fdr_probe(data, size))
		return 0;
	good = read_records(data, size);
	sum_calls(data, size, good, false);
	sum_calls(data, size, good, true);
	return 0;
}
