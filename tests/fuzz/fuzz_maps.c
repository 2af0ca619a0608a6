// SPDX-License-Identifier: BSD-2-Clause
/*
 * Fuzzes the readers of /proc/PID/maps, whose paths a process can choose: the list of mappings, and the search for free
 * address space, which must be free. The first bytes select the wanted space.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "fuzz.h"

#include "target/address_gap.h"
#include "target/target.h"

struct head {
	uint64_t start;
	uint32_t bytes; /* size of the code */
	uint32_t pages; /* wanted size */
};

static char *copy_of(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	CHECK(text);
	memcpy(text, data, size);
	text[size] = 0;
	return text;
}

static void check_mappings(const uint8_t *data, size_t size, bool all)
{
	char *text = copy_of(data, size);
	struct xp_mappings mappings;

	CHECK(!xp_mappings_parse(&mappings, text, all));
	free(text);
	for (size_t i = 0; i < mappings.count; i++) {
		const struct xp_mapping *mapping = &mappings.list[i];

		CHECK(mapping->start < mapping->end && strlen(mapping->path) <= size);
		CHECK(all || (mapping->inode && mapping->path[0] == '/'));
	}
	xp_mappings_free(&mappings);
}

/* Returns true if the range is in no mapping, or if the text is not the kernel's, which has whole pages in order. */
static bool is_free(const uint8_t *data, size_t size, uint64_t place, uint64_t bytes)
{
	char *text = copy_of(data, size), *rest = text, *line;
	bool is_sane = true, is_taken = false;
	uint64_t last = 0;

	while ((line = strsep(&rest, "\n"))) {
		uint64_t start, end;

		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %*x %*x:%*x %*u", &start, &end) != 2 || start >= end)
			continue;
		is_sane = is_sane && start >= last && !(start % 4096) && !(end % 4096);
		is_taken = is_taken || (place + bytes > start && place < end);
		last = end;
	}
	free(text);
	return !is_sane || (!is_taken && !(place % 4096));
}

static void check_vacancy(const struct head *head, const uint8_t *data, size_t size)
{
	uint64_t start = head->start & 0x7ffffffff000, end = start + (head->bytes & 0x7ffff000) + 4096;
	uint64_t bytes = 4096 * (uint64_t)(head->pages % 1024 + 1);
	char *text = copy_of(data, size);
	uint64_t place = xp_address_gap_find(text, start, end, bytes);

	free(text);
	if (!place)
		return;
	CHECK(place >= 1 << 20 && place + bytes <= 1ull << 47);
	CHECK(place >= start || end - place <= 1ull << 31);
	CHECK(place < start || place + bytes - start <= 1ull << 31);
	CHECK(is_free(data, size, place, bytes));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct head head;

	if (size < sizeof(head))
		return -1;
	memcpy(&head, data, sizeof(head));
	data += sizeof(head);
	size -= sizeof(head);
	check_mappings(data, size, false);
	check_mappings(data, size, true);
	check_vacancy(&head, data, size);
	return 0;
}
