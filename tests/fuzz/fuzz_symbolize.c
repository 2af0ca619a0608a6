// SPDX-License-Identifier: BSD-2-Clause
/* Fuzzes the parent of the process that reads names: a hostile file may control that process. */
#include "fuzz.h"

#include "elf/questions.c" /* for the parent's end of the pipe */

#define WANTED 8

static void check_text(const char *text)
{
	for (; text && *text; text++)
		CHECK((unsigned char)*text >= ' ' && *text != 0x7f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct xp_source_frame frames[XP_NAME_FRAMES_MAX];
	struct xp_text_pool texts = { .bytes_max = 1 << 20 };
	struct hearing hearing = { .in = size ? fmemopen((void *)data, size, "r") : NULL, .pool = &texts };
	uint32_t count;

	if (!hearing.in)
		return 0;
	for (uint64_t i = 0; i < WANTED && hear_frames(&hearing, 16 * i, frames, &count); i++) {
		CHECK(count <= XP_NAME_FRAMES_MAX);
		for (uint32_t j = 0; j < count; j++) {
			check_text(frames[j].function);
			check_text(frames[j].symbol);
			check_text(frames[j].file);
		}
	}
	fclose(hearing.in);
	free(hearing.texts);
	xp_text_pool_free(&texts);
	return 0;
}
