// SPDX-License-Identifier: BSD-2-Clause
#include "format/jitdump.h"

#include <elf.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"

#define LOAD_BYTES 56u
#define MOVE_BYTES 64u
#define DEBUG_INFO_BYTES 32u
#define LINE_BYTES 16u

struct xp_jitdump {
	int fd;
	int err; /* the first error; permanent */
	bool closed;
	bool awaits_load; /* debug information was written, which is meaningless without its load */
	uint64_t begun;	  /* start of the last record, or of the first record that belongs to the same load */
	uint64_t written; /* bytes already written to the file */
	uint64_t whole;	  /* the part of `written` that preceded `begun` at the time of the write */
	size_t used;
	uint8_t buf[64 << 10];
};

static int fail(struct xp_jitdump *dump, int err)
{
	dump->err = err;
	if (ftruncate(dump->fd, dump->whole))
		return err; /* if this fails, the file ends in a partial record, which readers tolerate */
	return err;
}

static int flush(struct xp_jitdump *dump)
{
	int err = xp_pwrite_all(dump->fd, dump->buf, dump->used, dump->written);

	if (err)
		return fail(dump, err);
	dump->written += dump->used;
	dump->whole = XP_MIN(dump->begun, dump->written);
	dump->used = 0;
	return 0;
}

/* Starts a record of `bytes` bytes. */
static int begin_record(struct xp_jitdump *dump, uint64_t bytes)
{
	if (dump->err)
		return dump->err;
	if (dump->closed || bytes > XP_JITDUMP_RECORD_BYTES_MAX)
		return -EINVAL;
	if (!dump->awaits_load)
		dump->begun = dump->written + dump->used;
	return bytes > sizeof(dump->buf) - dump->used ? flush(dump) : 0;
}

static int put(struct xp_jitdump *dump, const void *data, size_t size)
{
	const uint8_t *from = data;

	while (size) {
		size_t part = XP_MIN(size, sizeof(dump->buf) - dump->used);
		int err;

		memcpy(dump->buf + dump->used, from, part);
		dump->used += part;
		from += part;
		size -= part;
		err = dump->used == sizeof(dump->buf) && size ? flush(dump) : 0;
		if (err)
			return err;
	}
	return 0;
}

/* The fixed fields of a record or header. */
struct fields {
	size_t size;
	uint8_t bytes[MOVE_BYTES];
};

static void put32(struct fields *fields, uint32_t value)
{
	value = htole32(value);
	memcpy(fields->bytes + fields->size, &value, sizeof(value));
	fields->size += sizeof(value);
}

static void put64(struct fields *fields, uint64_t value)
{
	value = htole64(value);
	memcpy(fields->bytes + fields->size, &value, sizeof(value));
	fields->size += sizeof(value);
}

static struct fields prefix(enum xp_jitdump_kind kind, uint64_t bytes, uint64_t timestamp)
{
	struct fields fields = { 0 };

	put32(&fields, kind);
	put32(&fields, bytes);
	put64(&fields, timestamp);
	return fields;
}

int xp_jitdump_new(struct xp_jitdump **out, int fd, const struct xp_jitdump_options *options)
{
	struct xp_jitdump *dump = malloc(sizeof(*dump));
	struct fields header = { 0 };

	*out = dump;
	if (!dump)
		return -ENOMEM;
	memset(dump, 0, offsetof(struct xp_jitdump, buf));
	dump->fd = fd;
	put32(&header, XP_JITDUMP_MAGIC);
	put32(&header, XP_JITDUMP_PERF_VERSION);
	put32(&header, XP_JITDUMP_HEADER_BYTES);
	put32(&header, EM_X86_64);
	put32(&header, 0);
	put32(&header, options->pid);
	put64(&header, options->timestamp);
	put64(&header, options->arch_timestamp ? XP_JITDUMP_FLAG_ARCH_TIMESTAMP : 0);
	return put(dump, header.bytes, header.size); /* only fills the buffer, so it cannot fail */
}

int xp_jitdump_load(struct xp_jitdump *dump, uint64_t timestamp, const struct xp_jitdump_load *load)
{
	size_t name_bytes = strlen(load->name) + 1;
	struct fields fields;
	uint64_t bytes;
	int err;

	if (__builtin_add_overflow(load->code_size, (uint64_t)LOAD_BYTES + name_bytes, &bytes))
		return -EINVAL;
	err = begin_record(dump, bytes);
	if (err)
		return err;
	dump->awaits_load = false;
	fields = prefix(XP_JITDUMP_LOAD, bytes, timestamp);
	put32(&fields, load->pid);
	put32(&fields, load->tid);
	put64(&fields, load->code_addr);
	put64(&fields, load->code_addr);
	put64(&fields, load->code_size);
	put64(&fields, load->code_index);
	err = put(dump, fields.bytes, fields.size);
	if (!err)
		err = put(dump, load->name, name_bytes);
	return err ? err : put(dump, load->code, load->code_size);
}

int xp_jitdump_move(struct xp_jitdump *dump, uint64_t timestamp, const struct xp_jitdump_move *move)
{
	struct fields fields = prefix(XP_JITDUMP_MOVE, MOVE_BYTES, timestamp);
	int err = begin_record(dump, MOVE_BYTES);

	put32(&fields, move->pid);
	put32(&fields, move->tid);
	put64(&fields, move->new_code_addr);
	put64(&fields, move->old_code_addr);
	put64(&fields, move->new_code_addr);
	put64(&fields, move->code_size);
	put64(&fields, move->code_index);
	return err ? err : put(dump, fields.bytes, fields.size);
}

static int put_line(struct xp_jitdump *dump, const struct xp_jitdump_line *line)
{
	struct fields fields = { 0 };
	int err;

	put64(&fields, line->address);
	put32(&fields, line->line);
	put32(&fields, line->discriminator);
	err = put(dump, fields.bytes, fields.size);
	return err ? err : put(dump, line->file, strlen(line->file) + 1);
}

int xp_jitdump_debug_info(struct xp_jitdump *dump, uint64_t timestamp, uint64_t code_addr,
			  const struct xp_jitdump_line *lines, size_t line_count)
{
	uint64_t bytes = DEBUG_INFO_BYTES;
	struct fields fields;
	int err;

	if (!line_count)
		return -EINVAL;
	for (size_t i = 0; i < line_count; i++)
		bytes += LINE_BYTES + strlen(lines[i].file) + 1;
	err = begin_record(dump, bytes);
	if (err)
		return err;
	dump->awaits_load = true;
	fields = prefix(XP_JITDUMP_DEBUG_INFO, bytes, timestamp);
	put64(&fields, code_addr);
	put64(&fields, line_count);
	err = put(dump, fields.bytes, fields.size);
	for (size_t i = 0; i < line_count && !err; i++)
		err = put_line(dump, &lines[i]);
	return err;
}

int xp_jitdump_close(struct xp_jitdump *dump, uint64_t timestamp)
{
	struct fields fields = prefix(XP_JITDUMP_CLOSE, XP_JITDUMP_PREFIX_BYTES, timestamp);
	int err = begin_record(dump, XP_JITDUMP_PREFIX_BYTES);

	if (!err)
		err = put(dump, fields.bytes, fields.size);
	dump->closed = true;
	return err;
}

int xp_jitdump_flush(struct xp_jitdump *dump)
{
	if (!dump->awaits_load)
		dump->begun = dump->written + dump->used;
	return dump->err ? dump->err : flush(dump);
}

uint64_t xp_jitdump_bytes(const struct xp_jitdump *dump)
{
	return dump->err ? dump->whole : dump->written + dump->used;
}

uint64_t xp_jitdump_whole_bytes(const struct xp_jitdump *dump)
{
	return dump->whole;
}

void xp_jitdump_free(struct xp_jitdump *dump)
{
	free(dump);
}
