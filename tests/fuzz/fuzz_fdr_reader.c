// SPDX-License-Identifier: BSD-2-Clause
/* Fuzzes the reader of FDR logs, and the iteration over their calls. */
#include <errno.h>

#include "fuzz.h"

#include "format/fdr_reader.h"
#include "model/durations.h"
#include "model/log_walk.h"

/* Checks that the records are consecutive and inside the file. Returns whether the log is well formed. */
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

struct calls {
	struct xp_durations_memory memory;
	struct xp_durations durations; /* durations of the calls that ended */
	uint64_t entered, ended, abandoned;
};

static int enter(void *arg, struct xp_walked_thread *thread, const struct xp_fdr_record *record)
{
	const struct xp_walked_call *call = &thread->calls[thread->depth - 1];

	CHECK(call->function == record->function.fn_id && call->tsc == record->tsc);
	((struct calls *)arg)->entered++;
	return 0;
}

static int leave(void *arg, struct xp_walked_thread *thread, const struct xp_fdr_record *record)
{
	const struct xp_walked_call *call = &thread->calls[thread->depth - 1];
	struct calls *calls = arg;

	calls->ended++;
	return xp_durations_add(&calls->durations, &calls->memory, record->tsc - call->tsc, call->tsc, thread->tid);
}

static int abandon(void *arg, struct xp_walked_thread *thread, const struct xp_fdr_record *record)
{
	(void)record;
	CHECK(thread->depth);
	((struct calls *)arg)->abandoned++;
	return 0;
}

/* Every call ends or is abandoned, unless the log is malformed. The space for durations is sufficient, or too small. */
static void walk_calls(const uint8_t *data, size_t size, bool good, size_t bytes_max)
{
	struct calls calls = { .memory.max = bytes_max };
	struct xp_log_visitor visitor = { .enter = enter, .leave = leave, .abandon = abandon, .arg = &calls };
	struct xp_file_view view = { .bytes = data, .size = size };
	struct xp_violation violation;

	CHECK(xp_log_walk_view(&visitor, &view, &violation) == (good ? 0 : -EBADMSG));
	CHECK(calls.ended + calls.abandoned == calls.entered);
	CHECK(calls.ended == calls.durations.count);
	CHECK(xp_durations_percentile(&calls.durations, 500) <= xp_durations_percentile(&calls.durations, 990));
	CHECK(xp_durations_percentile(&calls.durations, 990) <= calls.durations.max);
	CHECK(calls.memory.used <= calls.memory.max);
	xp_durations_free(&calls.durations, &calls.memory);
	CHECK(!calls.memory.used);
}

/* The iteration must agree with the reader. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	bool good;

	if (!xp_fdr_probe(data, size))
		return 0;
	good = read_records(data, size);
	walk_calls(data, size, good, 1000);
	walk_calls(data, size, good, XP_DURATIONS_BYTES_MAX);
	return 0;
}
