// SPDX-License-Identifier: BSD-2-Clause
/* Fuzzes the reader of USDT probes: the input is a section of notes. All texts are in the notes, and end there. */
#include <string.h>

#include "elf/usdt.h"
#include "fuzz.h"

static void check_text(const char *text, const uint8_t *notes, size_t size)
{
	const uint8_t *first = (const uint8_t *)text;

	CHECK(first >= notes && first < notes + size);
	CHECK(memchr(first, 0, (size_t)(notes + size - first)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct xp_usdt_probes probes = { 0 };

	CHECK(!xp_usdt_parse(&probes, data, size, size % 2 ? 0x1000 : 0));
	for (size_t i = 0; i < probes.count; i++) {
		check_text(probes.all[i].provider, data, size);
		check_text(probes.all[i].name, data, size);
		check_text(probes.all[i].arguments, data, size);
		CHECK(!i || probes.all[i].provider > probes.all[i - 1].arguments);
	}
	xp_usdt_free(&probes);
	return 0;
}
