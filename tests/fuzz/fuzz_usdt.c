// SPDX-License-Identifier: BSD-2-Clause
/*
 * Fuzzes the reader of USDT probes and of their arguments: the input is a section of notes. All texts are in the notes,
 * and end there.
 */
#include <string.h>

#include "elf/usdt_operands.h"
#include "fuzz.h"

static void check_text(const char *text, const uint8_t *notes, size_t size)
{
	const uint8_t *first = (const uint8_t *)text;

	CHECK(first >= notes && first < notes + size);
	CHECK(memchr(first, 0, (size_t)(notes + size - first)));
}

static bool find(void *arg, const char *name, uint64_t *vaddr)
{
	(void)arg;
	*vaddr = strlen(name);
	return *vaddr % 2;
}

static void check_operands(const struct xp_usdt_probe *probe)
{
	struct xp_usdt_place place;

	xp_usdt_operands(probe, &place, find, NULL);
	CHECK(place.count <= XP_USDT_ARGS_MAX);
	for (size_t i = 0; i < place.count; i++) {
		const struct xp_usdt_operand *operand = &place.operands[i];

		if (operand->kind == XP_USDT_UNSUPPORTED)
			continue;
		CHECK(operand->bytes && operand->bytes <= 8 && operand->shift <= 3);
		CHECK(operand->base <= XP_USDT_NO_REGISTER && operand->index <= XP_USDT_NO_REGISTER);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct xp_usdt_probes probes = { 0 };

	CHECK(!xp_usdt_parse(&probes, data, size, size % 2 ? 0x1000 : 0));
	for (size_t i = 0; i < probes.count; i++) {
		check_text(probes.all[i].provider, data, size);
		check_text(probes.all[i].name, data, size);
		check_text(probes.all[i].arguments, data, size);
		check_operands(&probes.all[i]);
		CHECK(!i || probes.all[i].provider > probes.all[i - 1].arguments);
	}
	xp_usdt_free(&probes);
	return 0;
}
