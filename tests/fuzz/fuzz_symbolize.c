// SPDX-License-Identifier: BSD-2-Clause
/* Fuzzes what the reader of names believes of its child, in which a hostile file may have taken over. */
#include "report/symbolize.c" /* for the reader behind the pipe */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition)                                                                                               \
	do {                                                                                                           \
		if (!(condition))                                                                                      \
			abort();                                                                                       \
	} while (0)

#define WANTED 8

static void check_text(const char *text)
{
	for (; text && *text; text++)
		CHECK((unsigned char)*text >= ' ' && *text != 0x7f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct xp_symbolizer *symbolizer;
	FILE *in = size ? fmemopen((void *)data, size, "r") : NULL;
	uint32_t file, number;
	size_t count;

	if (!in)
		return 0;
	CHECK(!xp_symbolizer_new(&symbolizer, XP_NAMES_LINES));
	CHECK(!xp_symbolizer_file(symbolizer, "/no/such/file", NULL, 0, &file));
	for (uint64_t i = 0; i < WANTED; i++)
		CHECK(!xp_symbolizer_want(symbolizer, file, 16 * i, &number) && number == i);
	count = get_answers(symbolizer, symbolizer->files[file], in);
	CHECK(count <= symbolizer->files[file]->wanted_count);
	for (uint32_t i = 0; i < WANTED; i++) {
		const struct xp_place *place = xp_symbolizer_place(symbolizer, i);

		CHECK(place->frame_count <= XP_NAME_FRAMES_MAX && (i < count || !place->frame_count));
		for (uint32_t j = 0; j < place->frame_count; j++) {
			check_text(place->frames[j].function);
			check_text(place->frames[j].file);
		}
	}
	fclose(in);
	xp_symbolizer_free(symbolizer);
	return 0;
}
