// SPDX-License-Identifier: BSD-2-Clause
/*
 * Fuzzes the reader of the side-band: kernel records, with strings that any process can choose, in a ring buffer of one
 * page. The first bytes are the position where the records start.
 */
#include "fuzz.h"

#include "kernel/sideband.c" /* for its buffers, which otherwise only the kernel fills */

#define DATA_BYTES 4096u

static void read_all(struct xp_sideband *sideband)
{
	struct xp_clock clock = { .hz = 1000000000, .mono_hz = 1000000000 };
	const struct xp_sideband_event *event;
	uint64_t last = 0;
	int err = xp_sideband_read(sideband, &clock);

	CHECK(!err || err == -EBADMSG);
	while ((event = xp_sideband_next(sideband, UINT64_MAX))) {
		CHECK(event->tsc >= last && event->kind <= XP_SIDEBAND_BPF);
		CHECK(!event->text || strlen(event->text) < DATA_BYTES);
		last = event->tsc;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct perf_event_mmap_page page = { 0 };
	struct xp_sideband *sideband = calloc(1, sizeof(*sideband));
	struct buffer buffer = { .page = &page, .data = malloc(DATA_BYTES) };

	CHECK(sideband && buffer.data);
	if (size > 2) {
		page.data_tail = (data[0] | data[1] << 8) & ~7u;
		data += 2;
		size = XP_MIN(size - 2, (size_t)DATA_BYTES) & ~(size_t)7; /* aligned as the kernel's records */
		for (size_t i = 0; i < size; i++)
			buffer.data[(page.data_tail + i) % DATA_BYTES] = data[i];
		page.data_head = page.data_tail + size;
		sideband->buffers = &buffer;
		sideband->cpus = 1;
		sideband->data_bytes = DATA_BYTES;
		read_all(sideband);
		read_all(sideband);
		sideband->buffers = NULL;
		sideband->cpus = 0;
	}
	xp_sideband_free(sideband);
	free(buffer.data);
	return 0;
}
