// SPDX-License-Identifier: BSD-2-Clause
/*
 * Fuzzes the recovery of a spool. The target corrects the checksums, so that the fuzzer reaches the data that they
 * protect: an attacker can compute them, too.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"

#include "export/logs.h"
#include "format/fdr_reader.h"
#include "format/spool_format.h"

#include "scratch.h"

/* The input is a spool without the zeros after the first HEADER_BYTES of its header. */
#define HEADER_BYTES 384

#define NAME "log.spool"
#define PATIENCE_NS 0

static int dir;

static void repair_frames(uint8_t *frames, size_t bytes)
{
	struct xp_spool_frame frame;

	while (bytes >= sizeof(frame)) {
		memcpy(&frame, frames, sizeof(frame));
		if (frame.magic == XP_SPOOL_NOTE_MAGIC && frame.chunk_bytes <= bytes - sizeof(frame))
			frame.first_tsc = crc32(0, frames + sizeof(frame), frame.chunk_bytes);
		frame.check = xp_spool_frame_check(&frame);
		memcpy(frames, &frame, sizeof(frame));
		frames += sizeof(frame);
		bytes -= sizeof(frame);
		if (frame.chunk_bytes > bytes)
			return;
		frames += frame.chunk_bytes;
		bytes -= frame.chunk_bytes;
	}
}

static void write_spool(const uint8_t *data, size_t size)
{
	uint8_t *bytes = calloc(1, XP_SPOOL_HEADER_BYTES + size);
	struct xp_spool_header header = { 0 };
	int fd;

	CHECK(bytes);
	memcpy(&header, data, HEADER_BYTES);
	header.check = xp_spool_header_check(&header);
	memcpy(bytes, &header, sizeof(header));
	size -= HEADER_BYTES;
	memcpy(bytes + XP_SPOOL_HEADER_BYTES, data + HEADER_BYTES, size);
	repair_frames(bytes + XP_SPOOL_HEADER_BYTES, size);
	fd = openat(dir, NAME, O_CREAT | O_EXCL | O_WRONLY, 0600);
	CHECK(fd >= 0);
	CHECK(write(fd, bytes, XP_SPOOL_HEADER_BYTES + size) == (ssize_t)(XP_SPOOL_HEADER_BYTES + size));
	close(fd);
	free(bytes);
}

/* The log is well formed for any spool; only the time deltas of events are copied unchecked. */
static void check_log(const struct xp_spool_result *result)
{
	struct xp_fdr_chunk_stats stats = { 0 };
	struct xp_violation violation;
	struct xp_fdr_reader reader;
	struct xp_fdr_record record;
	uint8_t *bytes = malloc(result->file_bytes);
	int fd = openat(dir, result->final_name, O_RDONLY);
	int more;

	CHECK(fd >= 0 && bytes && read(fd, bytes, result->file_bytes) == (ssize_t)result->file_bytes);
	CHECK(!xp_fdr_reader_init(&reader, bytes, result->file_bytes, &violation));
	while ((more = xp_fdr_reader_next(&reader, &record, &violation)) == 1)
		stats.functions += record.is_function;
	CHECK(!more || strstr(violation.text, "delta"));
	CHECK(more || stats.functions == result->stats.functions);
	close(fd);
	free(bytes);
}

/* The notes are not larger than the spool. */
static int take(void *arg, const uint8_t *note, size_t bytes)
{
	size_t *left = arg;

	(void)note;
	CHECK(bytes <= *left);
	*left -= bytes;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct xp_spool_result result;
	size_t left;
	const struct xp_spool_taker taker = { take, &left };
	struct scratch scratch;
	int err;

	if (size < HEADER_BYTES)
		return 0;
	scratch = scratch_make();
	dir = scratch.fd;
	write_spool(data, size);
	left = size;
	err = xp_fdr_make(dir, NAME, PATIENCE_NS, &taker, &result);
	CHECK(faccessat(dir, NAME, F_OK, 0) == (err ? 0 : -1));
	if (err) {
		CHECK(err == -EBADMSG || err == -EFBIG);
	} else {
		CHECK(xp_spool_name_valid(result.final_name));
		if (result.file_bytes && result.file_bytes < 16u << 20)
			check_log(&result);
	}
	scratch_remove(&scratch);
	return 0;
}
