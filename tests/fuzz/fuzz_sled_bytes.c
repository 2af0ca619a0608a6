// SPDX-License-Identifier: BSD-2-Clause
/* Fuzzes the readers of machine code: unpatched and patched sleds. */
#include <string.h>

#include "fuzz.h"

#include "arch/x86_64/patch_bytes.h"
#include "arch/x86_64/sled_bytes.h"

struct head {
	uint64_t address;
	uint64_t slot;
	uint32_t fn;
	uint8_t kind;
	uint8_t pad[3];
};

/* Allocated with the exact size: the sanitizer detects reads beyond. */
static uint8_t *exactly(const uint8_t *data, size_t bytes)
{
	uint8_t *copy = malloc(bytes);

	CHECK(copy);
	memcpy(copy, data, bytes);
	return copy;
}

static void check_compiled(const uint8_t *data, enum xp_sled_kind kind)
{
	uint8_t *bytes = exactly(data, XP_SLED_BYTES_MAX), registers[3], condition;

	xp_sled_intact(kind, bytes);
	if (xp_sled_operands(kind, bytes, registers))
		CHECK(registers[0] < 16 && registers[1] < 16 && (kind != XP_SLED_TYPED_EVENT || registers[2] < 16));
	free(bytes);
	bytes = exactly(data, XP_SLED_WINDOW_BYTES);
	if (xp_sled_condition(bytes, &condition))
		CHECK(condition < 16);
	free(bytes);
}

static void check_patched(const uint8_t *data, enum xp_sled_kind kind, uint64_t address)
{
	uint8_t *bytes = exactly(data, xp_sled_bytes(kind));
	uint64_t slot;

	xp_patch_decode(kind, bytes, address, &slot);
	xp_patch_decode_remains(kind, bytes, address, &slot);
	free(bytes);
}

/* Patched code is read back as what was written, also after its head is restored. */
static void check_own(const struct head *head, enum xp_sled_kind kind, const uint8_t *operands)
{
	struct xp_sled sled = { .kind = kind };
	uint8_t bytes[XP_SLED_BYTES_MAX], first[2];
	uint64_t slot;
	size_t count;

	for (int i = 0; i < 3; i++)
		sled.operands[i] = operands[i] % 16;
	count = xp_patch_encode(&sled, head->fn & XP_FN_MAX, head->address, head->slot, bytes);
	if (!count)
		return;
	CHECK(count == xp_sled_bytes(kind));
	CHECK(xp_patch_decode(kind, bytes, head->address, &slot) && slot == head->slot);
	count = xp_patch_head(kind, first);
	CHECK(count == 1 || count == 2);
	memcpy(bytes, first, count);
	CHECK(xp_sled_intact(kind, bytes));
	CHECK(xp_patch_decode_remains(kind, bytes, head->address, &slot) && slot == head->slot);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum xp_sled_kind kind;
	struct head head;

	if (size < sizeof(head) + XP_SLED_WINDOW_BYTES)
		return -1;
	memcpy(&head, data, sizeof(head));
	data += sizeof(head);
	kind = head.kind % XP_SLED_KINDS;
	check_compiled(data, kind);
	check_patched(data, kind, head.address);
	check_own(&head, kind, data);
	return 0;
}
