// SPDX-License-Identifier: BSD-2-Clause
/* The strict reader of FDR logs and the rules of llvm-xray, on hand-written logs. */
#include "format/fdr_reader.h"
#include "check/fdr_rules.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

/* ---- building a log ---- */

struct log {
	uint16_t version;
	size_t size;
	size_t extents; /* where the last BufferExtents is */
	uint8_t bytes[1 << 16];
};

static struct log l;

/* Puts a value of some bytes at an offset, little-endian. */
static void put_at(size_t place, uint64_t value, unsigned int bytes)
{
	assert_true(place + bytes <= sizeof(l.bytes));
	for (unsigned int i = 0; i < bytes; i++)
		l.bytes[place + i] = value >> (8 * i);
}

static void put(uint64_t value, unsigned int bytes)
{
	put_at(l.size, value, bytes);
	l.size += bytes;
}

static void zeros(size_t bytes)
{
	assert_true(l.size + bytes <= sizeof(l.bytes));
	memset(l.bytes + l.size, 0, bytes);
	l.size += bytes;
}

static void header(uint16_t version)
{
	memset(&l, 0, sizeof(l));
	l.version = version;
	put(version, 2);
	put(1, 2);
	put(1, 4); /* constant_tsc */
	put(1000, 8);
	put(0, 8);
	put(0, 8);
}

static size_t metadata(unsigned int kind)
{
	size_t start = l.size;

	zeros(16);
	l.bytes[start] = kind << 1 | 1;
	return start;
}

static void new_buffer(int32_t tid)
{
	put_at(metadata(0) + 1, tid, 4);
}

static void end_of_buffer(void)
{
	metadata(1);
}

static void new_cpu(uint16_t cpu, uint64_t tsc)
{
	size_t start = metadata(2);

	put_at(start + 1, cpu, 2);
	put_at(start + 3, tsc, 8);
}

static void tsc_wrap(uint64_t tsc)
{
	put_at(metadata(3) + 1, tsc, 8);
}

static void wall_clock(uint64_t seconds, uint32_t microseconds)
{
	size_t start = metadata(4);

	put_at(start + 1, seconds, 8);
	put_at(start + 9, microseconds, 4);
}

/* Only the record of an event. */
static void custom_record(int32_t bytes, uint64_t tsc_or_delta)
{
	size_t start = metadata(5);

	put_at(start + 1, bytes, 4);
	put_at(start + 5, tsc_or_delta, l.version >= 5 ? 4 : 8);
}

static void payload(const char *text)
{
	memcpy(l.bytes + l.size, text, strlen(text));
	l.size += strlen(text);
}

static void custom(const char *text, uint64_t tsc_or_delta)
{
	custom_record(strlen(text), tsc_or_delta);
	payload(text);
}

static void typed(const char *text, uint32_t delta, uint16_t type)
{
	size_t start = metadata(8);

	put_at(start + 1, strlen(text), 4);
	put_at(start + 5, delta, 4);
	put_at(start + 9, type, 2);
	payload(text);
}

static void argument(uint64_t value)
{
	put_at(metadata(6) + 1, value, 8);
}

static void extents(void)
{
	l.extents = metadata(7);
}

static void pid(int32_t value)
{
	put_at(metadata(9) + 1, value, 4);
}

static void function(unsigned int kind, uint32_t fn_id, uint32_t delta)
{
	put(fn_id << 4 | kind << 1, 4);
	put(delta, 4);
}

/* Up to the first NewCPUId, at TSC 100. */
static void begin(int32_t tid)
{
	if (l.version > 1)
		extents();
	new_buffer(tid);
	wall_clock(5, 6);
	if (l.version > 2)
		pid(42);
	new_cpu(1, 100);
}

/* Closes the block, or the only buffer of version 1, with this many bytes after EndOfBuffer. */
static void end(size_t rest)
{
	if (l.version > 1) {
		put_at(l.extents + 1, l.size - l.extents - 16, 8);
		return;
	}
	end_of_buffer();
	zeros(rest);
	put_at(16, l.size - 32, 8);
}

/* ---- results ---- */

struct outcome {
	int result; /* of the last next, or of init */
	struct xp_violation violation;
	bool accepted; /* by the rules */
	struct xp_violation rule;
	size_t count;
	struct xp_fdr_record records[64];
};

static struct outcome o;

static void read_log(void)
{
	struct xp_fdr_rules *rules = NULL;
	struct xp_fdr_reader reader;
	struct xp_fdr_record record;
	uint8_t *exact = malloc(l.size ? l.size : 1); /* so that a sanitizer detects every byte beyond the end */

	memset(&o, 0, sizeof(o));
	assert_non_null(exact);
	memcpy(exact, l.bytes, l.size);
	o.result = xp_fdr_reader_init(&reader, exact, l.size, &o.violation);
	if (!o.result) {
		assert_int_equal(xp_fdr_rules_new(&rules, &reader), 0);
		while ((o.result = xp_fdr_reader_next(&reader, &record, &o.violation)) == 1) {
			assert_int_equal(xp_fdr_rules_record(rules, &record), 0);
			if (o.count < 64)
				o.records[o.count] = record;
			o.count++;
		}
		o.accepted = xp_fdr_rules_finish(rules, &o.rule);
		xp_fdr_rules_free(rules);
	}
	free(exact);
}

static void assert_good(void)
{
	read_log();
	if (o.result)
		fail_msg("0x%llx: %s", (unsigned long long)o.violation.offset, o.violation.text);
	if (!o.accepted)
		fail_msg("rule, 0x%llx: %s", (unsigned long long)o.rule.offset, o.rule.text);
}

static void assert_violation(size_t offset, const char *words)
{
	read_log();
	assert_int_equal(o.result, -EBADMSG);
	if (!strstr(o.violation.text, words))
		fail_msg("\"%s\" is not about \"%s\"", o.violation.text, words);
	assert_int_equal(o.violation.offset, offset);
}

/* Allowed by the format, but not by llvm-xray. */
static void assert_rule(size_t offset, const char *words)
{
	read_log();
	if (o.result)
		fail_msg("0x%llx: %s", (unsigned long long)o.violation.offset, o.violation.text);
	assert_false(o.accepted);
	if (!strstr(o.rule.text, words))
		fail_msg("\"%s\" is not about \"%s\"", o.rule.text, words);
	assert_int_equal(o.rule.offset, offset);
}

#define FOR_EVERY_LOG                                                                                                  \
	for (int version_ = 1; version_ <= 5; version_ += 4)                                                           \
		for (bool once_ = (header(version_), true); once_; once_ = false)

static const struct xp_fdr_record *record_of(bool is_function, unsigned int kind)
{
	for (size_t i = 0; i < o.count; i++)
		if (o.records[i].is_function == is_function && o.records[i].kind == kind)
			return &o.records[i];
	fail_msg("no record of kind %u", kind);
	return NULL;
}

/* ---- good logs ---- */

TEST(every_kind)
{
	FOR_EVERY_LOG
	{
		const struct xp_fdr_record *record;
		struct xp_violation violation;
		struct xp_fdr_reader reader;

		begin(0x12345);
		function(3, 0x0abcdef1, 10);
		argument(0x0102030405060708);
		argument(UINT64_MAX);
		function(0, 2, 0xffffffff);
		tsc_wrap(0x1122334455667788);
		function(2, 2, 1);
		new_cpu(0x102, 0x1122334455667800);
		custom("ab\n", l.version == 5 ? 5 : 0x1122334455667805);
		if (l.version == 5)
			typed("xyz!", 6, 0x8001);
		function(1, 0x0abcdef1, 7);
		end(24);
		assert_good();

		assert_int_equal(xp_fdr_reader_init(&reader, l.bytes, l.size, &violation), 0);
		assert_int_equal(reader.header.version, l.version);
		assert_true(reader.header.constant_tsc);
		assert_false(reader.header.nonstop_tsc);
		assert_int_equal(reader.header.cycle_hz, 1000);

		record = record_of(true, XP_FDR_ENTER_ARGS);
		assert_int_equal(record->function.fn_id, 0x0abcdef1);
		assert_int_equal(record->function.delta, 10);
		assert_int_equal(record->tsc, 110);
		assert_int_equal(record->tid, 0x12345);
		assert_int_equal(record->pid, l.version > 2 ? 42 : 0);
		assert_int_equal(record->cpu, 1);
		assert_int_equal(record_of(false, XP_FDR_CALL_ARGUMENT)->argument, 0x0102030405060708);
		assert_int_equal(record_of(true, XP_FDR_ENTER)->tsc, 110 + 0xffffffffull);
		assert_int_equal(record_of(true, XP_FDR_TAIL_EXIT)->tsc, 0x1122334455667789);
		assert_int_equal(record_of(false, XP_FDR_WALL_CLOCK)->wall.seconds, 5);
		assert_int_equal(record_of(false, XP_FDR_WALL_CLOCK)->wall.microseconds, 6);

		record = record_of(false, XP_FDR_CUSTOM_EVENT);
		assert_int_equal(record->tsc, 0x1122334455667805);
		assert_int_equal(record->cpu, 0x102);
		assert_int_equal(record->event.bytes, 3);

		/* Events of version 5 advance the base; other events do not. */
		record = record_of(true, XP_FDR_EXIT);
		assert_int_equal(record->tsc, 0x1122334455667807 + (l.version == 5 ? 11 : 0));
		assert_int_equal(record->cpu, 0x102);
		if (l.version == 1)
			assert_int_equal(record_of(false, XP_FDR_END_OF_BUFFER)->rest.bytes, 24);
		if (l.version == 5) {
			record = record_of(false, XP_FDR_TYPED_EVENT);
			assert_int_equal(record->tsc, 0x112233445566780b);
			assert_int_equal(record->event.type, 0x8001);
			assert_int_equal(record->event.bytes, 4);
		}
	}
}

TEST(payload_is_in_the_file)
{
	struct xp_violation violation;
	struct xp_fdr_reader reader;
	struct xp_fdr_record record;

	header(5);
	begin(1);
	custom("where", 0);
	end(0);
	assert_int_equal(xp_fdr_reader_init(&reader, l.bytes, l.size, &violation), 0);
	while (xp_fdr_reader_next(&reader, &record, &violation) == 1)
		if (!record.is_function && record.kind == XP_FDR_CUSTOM_EVENT)
			assert_ptr_equal(record.event.data, l.bytes + l.size - 5);
}

TEST(several_buffers)
{
	FOR_EVERY_LOG
	{
		size_t first = l.size;

		begin(1);
		function(0, 1, 0);
		end(8);
		begin(2);
		function(0, 1, 0);
		end(8);
		if (l.version == 1)
			put_at(16, (l.size - first) / 2, 8);
		assert_good();
		assert_int_equal(o.records[o.count - 1].tid, 2);
		for (size_t i = 0; i < o.count; i++)
			if (!o.records[i].is_function && o.records[i].kind == XP_FDR_NEW_BUFFER)
				assert_false(o.records[i].has_cpu);
	}
}

TEST(pid_may_be_missing)
{
	header(5);
	extents();
	new_buffer(1);
	wall_clock(0, 0);
	new_cpu(0, 1);
	end(0);
	assert_good();
}

/* ---- headers ---- */

TEST(not_a_log)
{
	FOR_EVERY_LOG
	{
		l.size = 3;
		assert_violation(0, "not an XRay FDR log");
		l.size = 31;
		assert_violation(0, "inside the header");
	}
	header(4);
	assert_violation(0, "not an XRay FDR log");
	header(6);
	assert_violation(0, "not an XRay FDR log");
	header(0);
	assert_violation(0, "not an XRay FDR log");
	header(1);
	put_at(2, 0, 2); /* the basic mode's type */
	assert_violation(0, "not an XRay FDR log");
	l.size = 0;
	assert_violation(0, "not an XRay FDR log");
}

TEST(buffer_size_of_version_1)
{
	header(1);
	begin(1);
	end(0);
	put_at(16, 0, 8);
	assert_violation(16, "no buffer size");
	put_at(16, l.size - 31, 8);
	assert_violation(16, "not a multiple");
	put_at(16, UINT64_MAX, 8);
	assert_violation(16, "not a multiple");
	put_at(16, 2, 8); /* a divisor */
	assert_violation(16, "is smaller than a record");
}

/* ---- order ---- */

TEST(wrong_first_records)
{
	FOR_EVERY_LOG
	{
		size_t start;

		/* Replaces each record of the beginning in turn. */
		begin(1);
		end(0);
		for (start = 32; start < l.size - (l.version == 1 ? 16 : 0); start += 16) {
			uint8_t kind = l.bytes[start];

			l.bytes[start] = 3 << 1 | 1; /* TSCWrap */
			assert_violation(start, "expected, not a record TSCWrap");
			l.bytes[start] = 0; /* a function record */
			assert_violation(start, "expected, not a record enter");
			l.bytes[start] = kind;
		}
	}
}

TEST(wrong_body_records)
{
	static const unsigned int kinds[] = { XP_FDR_NEW_BUFFER, XP_FDR_WALL_CLOCK, XP_FDR_BUFFER_EXTENTS, XP_FDR_PID };

	for (int i = 0; i < 4; i++) {
		size_t start;

		header(5);
		begin(1);
		start = metadata(kinds[i]);
		end(0);
		assert_violation(start, "body expected");
	}
}

TEST(second_pid)
{
	header(5);
	extents();
	new_buffer(1);
	wall_clock(0, 0);
	pid(1);
	pid(2);
	new_cpu(0, 0);
	end(0);
	assert_violation(32 + 4 * 16, "NewCPUId expected");
}

TEST(misplaced_argument)
{
	FOR_EVERY_LOG
	{
		size_t start;

		begin(1);
		start = l.size;
		argument(1);
		end(0);
		assert_violation(start, "CallArgument");
	}
	FOR_EVERY_LOG
	{
		begin(1);
		function(3, 1, 0);
		argument(1);
		tsc_wrap(200);
		argument(1);
		end(0);
		assert_violation(l.size - (l.version == 1 ? 32 : 16), "CallArgument");
	}
	FOR_EVERY_LOG
	{
		begin(1);
		function(3, 1, 0);
		function(0, 1, 0);
		argument(1);
		end(0);
		assert_violation(l.size - (l.version == 1 ? 32 : 16), "CallArgument");
	}
}

TEST(kinds_of_another_version)
{
	static const unsigned int kinds[] = { XP_FDR_BUFFER_EXTENTS, XP_FDR_TYPED_EVENT, XP_FDR_PID,
					      XP_FDR_END_OF_BUFFER };

	for (int i = 0; i < 4; i++) {
		size_t start;

		header(kinds[i] == XP_FDR_END_OF_BUFFER ? 5 : 1);
		begin(1);
		start = metadata(kinds[i]);
		end(0);
		assert_violation(start, "does not exist in version");
	}
}

TEST(unknown_kinds)
{
	FOR_EVERY_LOG
	{
		size_t start;

		begin(1);
		start = l.size;
		metadata(10);
		end(0);
		assert_violation(start, "unknown kind 10");
		l.bytes[start] = 0xff;
		assert_violation(start, "unknown kind 127");
	}
	FOR_EVERY_LOG
	{
		size_t start;

		begin(1);
		start = l.size;
		function(4, 1, 0);
		end(0);
		assert_violation(start, "unknown kind 4");
	}
}

/* ---- ends ---- */

TEST(cut_off_anywhere)
{
	size_t whole;

	header(5);
	begin(1);
	function(0, 1, 0);
	custom("abcdef", 7);
	end(0);
	for (whole = l.size, l.size = 33; l.size < whole; l.size++) {
		read_log();
		assert_int_equal(o.result, -EBADMSG);
	}
	/* The extents are smaller than the contents. */
	put_at(l.extents + 1, whole - l.extents - 16 - 1, 8);
	assert_violation(whole - 22, "do not fit");
	put_at(l.extents + 1, whole - l.extents - 16 - 7, 8);
	assert_violation(whole - 22, "BufferExtents");
	put_at(l.extents + 1, whole - l.extents - 16 - 22, 8);
	assert_violation(whole - 22, "no other block follows");
	put_at(l.extents + 1, whole - l.extents - 16 - 23, 8);
	assert_violation(whole - 30, "BufferExtents");
	put_at(l.extents + 1, 48, 8);
	assert_violation(32 + 64, "before its first NewCPUId");
	put_at(l.extents + 1, 0, 8);
	assert_violation(32 + 16, "before its first NewCPUId");
	put_at(l.extents + 1, whole - l.extents - 16 + 1, 8);
	assert_violation(32, "but only");
	put_at(l.extents + 1, UINT64_MAX, 8);
	assert_violation(32, "but only");
}

TEST(no_end_of_buffer)
{
	header(1);
	begin(1);
	function(0, 1, 0);
	put_at(16, l.size - 32, 8);
	assert_violation(l.size, "has no EndOfBuffer");
	zeros(4);
	put_at(16, l.size - 32, 8);
	assert_violation(l.size - 4, "The file ends inside a function record, 4 bytes");
	/* In the first of two buffers. */
	put_at(16, (l.size + 100 - 32) / 2, 8);
	zeros(100);
	assert_violation(32 + (l.size - 32) / 2, "has no EndOfBuffer");
}

TEST(bytes_behind_the_last_block)
{
	header(5);
	begin(1);
	end(0);
	put(0, 1);
	assert_violation(l.size - 1, "no other block follows");
}

/* ---- fields ---- */

TEST(event_sizes)
{
	FOR_EVERY_LOG
	{
		size_t start;

		begin(1);
		start = l.size;
		custom_record(-1, 0);
		end(0);
		assert_violation(start, "negative");
		put_at(start + 1, INT32_MAX, 4);
		assert_violation(start, "do not fit");
		put_at(start + 1, l.version == 1 ? 17 : 1, 4);
		assert_violation(start, "do not fit");
	}
}

TEST(deltas)
{
	header(5);
	begin(1);
	custom("x", -1);
	end(0);
	assert_violation(l.size - 17, "negative");
	header(5);
	begin(1);
	tsc_wrap(UINT64_MAX - 5);
	custom("x", 5);
	typed("x", 1, 0);
	end(0);
	assert_violation(l.size - 17, "largest TSC");
	FOR_EVERY_LOG
	{
		begin(1);
		tsc_wrap(UINT64_MAX - 5);
		function(0, 1, 5);
		function(0, 1, 1);
		end(0);
		assert_violation(l.size - 8 - (l.version == 1 ? 16 : 0), "largest TSC");
	}
}

TEST(microseconds)
{
	header(1);
	new_buffer(1);
	wall_clock(1, 1000000);
	new_cpu(0, 0);
	end(0);
	assert_violation(48, "microseconds");
}

/* ---- llvm-xray ---- */

TEST(rule_no_buffer)
{
	for (int version = 1; version <= 5; version += 4) {
		header(version);
		assert_rule(32, "no buffer");
	}
}

TEST(rule_frequency)
{
	header(5);
	put_at(8, 0, 8);
	begin(1);
	end(0);
	assert_rule(8, "frequency");
}

TEST(rule_exits)
{
	header(1);
	begin(1);
	function(0, 1, 0);
	function(1, 1, 0);
	function(1, 1, 0);
	end(0);
	assert_rule(l.size - 24, "leaves function 1 without having entered it");
	header(1);
	begin(1);
	function(0, 1, 0);
	function(0, 2, 0);
	function(2, 1, 0);
	end(0);
	assert_rule(l.size - 24, "leaves function 1 inside function 2");
}

/* Each thread has its own stack, and keeps it from one buffer to the next. */
TEST(rule_exits_by_thread)
{
	header(5);
	begin(1);
	function(0, 1, 0);
	end(0);
	begin(2);
	function(0, 2, 0);
	end(0);
	begin(1);
	function(1, 1, 0);
	end(0);
	assert_good();
	begin(2);
	function(1, 1, 0);
	end(0);
	assert_rule(l.size - 8, "Thread 2 leaves function 1 inside function 2");
}

TEST(rule_time_goes_back)
{
	header(1);
	begin(1);
	function(0, 1, 10);
	tsc_wrap(105);
	function(1, 1, 0);
	end(0);
	assert_rule(l.size - 24, "back in time by 5");
}

TEST(rule_first_tsc)
{
	header(5);
	begin(1);
	function(0, 1, 10);
	end(0);
	begin(2);
	function(0, 1, 9);
	end(0);
	assert_rule(32 + 16 * 5, "first TSC of thread 1");
	/* An event at the start of the recording fixes it. */
	header(5);
	begin(1);
	custom("a", 0);
	function(0, 1, 10);
	end(0);
	begin(2);
	custom("b", 0);
	function(0, 1, 9);
	end(0);
	assert_good();
}

TEST(rule_buffers)
{
	header(5);
	for (int i = 0; i < 16; i++) {
		begin(1);
		end(0);
		begin(2);
		end(0);
	}
	assert_good();
	begin(1);
	end(0);
	assert_rule(l.size - 16, "more than 16 buffers");
}

TEST(rule_wall_clock)
{
	header(5);
	begin(1);
	end(0);
	begin(1);
	end(0);
	put_at(l.size - 16 * 3 + 9, 5, 4);
	assert_rule(l.size - 16, "wall clock");
	put_at(l.size - 16 * 3 + 1, 6, 8);
	assert_good();
}

TEST(rule_empty_event)
{
	for (int version = 1; version <= 5; version += 4) {
		header(version);
		begin(1);
		custom("", version == 5 ? 0 : 100);
		end(0);
		assert_rule(l.size - (version == 1 ? 32 : 16), "no payload");
	}
}

TEST(rule_rest_of_buffer)
{
	size_t rest;

	header(1);
	begin(1);
	end(0);
	rest = l.size;
	zeros(40);
	put_at(16, l.size - 32, 8);
	assert_good();
	/* One event that covers bytes which are no records. */
	memset(l.bytes + rest, 0xff, 40);
	l.bytes[rest] = 0x0b;
	put_at(rest + 1, 24, 4);
	assert_good();
	put_at(rest + 1, 25, 4);
	assert_rule(rest, "after EndOfBuffer");
	put_at(rest + 1, 23, 4);
	assert_rule(rest + 39, "after EndOfBuffer");
	put_at(rest + 1, 0, 4);
	assert_rule(rest, "after EndOfBuffer");
	l.bytes[rest] = 0x01; /* NewBuffer */
	assert_rule(rest, "after EndOfBuffer");
	l.bytes[rest] = 0x08; /* function record of kind 4 */
	assert_rule(rest, "after EndOfBuffer");
}
