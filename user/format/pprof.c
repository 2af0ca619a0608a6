// SPDX-License-Identifier: BSD-2-Clause
#include "format/pprof.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "base/array.h"
#include "base/text_pool.h"
#include "base/u64_map.h"
#include "base/util.h"
#include "profile.pb-c.h"

#define TEXTS_BYTES_MAX (512u << 20)
#define GZIP_WINDOW_BITS (15 + 16) /* zlib.h: 16 more for a gzip header */
#define OUT_BYTES 65536

typedef Xprof__Pprof__Profile Piece;

struct xp_pprof {
	FILE *out;
	z_stream deflater;
	uint8_t *packed; /* the serialized piece */
	size_t packed_room;
	struct xp_text_pool texts;
	struct xp_u64_map text_ids; /* by the address of the string in the pool */
	uint64_t text_count;
	uint64_t mapping_count, function_count, location_count;
	int err;
	/* Scratch buffers for a location or a sample. */
	Xprof__Pprof__Line *lines;
	Xprof__Pprof__Line **line_pointers;
	size_t line_room, line_pointer_room;
	int64_t values[XP_PPROF_VALUES];
	Xprof__Pprof__Label labels[XP_PPROF_LABELS_MAX];
	Xprof__Pprof__Label *label_pointers[XP_PPROF_LABELS_MAX];
};

/* ---- bytes ---- */

static int fail(struct xp_pprof *pprof, int err)
{
	if (!pprof->err)
		pprof->err = err;
	return pprof->err;
}

static int deflate_bytes(struct xp_pprof *pprof, const uint8_t *bytes, size_t size, int flush)
{
	uint8_t out[OUT_BYTES];
	int status;

	pprof->deflater.next_in = (uint8_t *)bytes;
	pprof->deflater.avail_in = (unsigned int)size;
	do {
		size_t count;

		pprof->deflater.next_out = out;
		pprof->deflater.avail_out = sizeof(out);
		status = deflate(&pprof->deflater, flush);
		count = sizeof(out) - pprof->deflater.avail_out;
		errno = 0;
		if (count && fwrite(out, 1, count, pprof->out) != count)
			return fail(pprof, errno ? -errno : -EIO);
	} while (!pprof->deflater.avail_out || (flush == Z_FINISH && status == Z_OK));
	return 0;
}

/* Writes a piece of the profile: a message with only some fields. */
static int put(struct xp_pprof *pprof, const Piece *piece)
{
	size_t size = xprof__pprof__profile__get_packed_size(piece);

	if (pprof->err)
		return pprof->err;
	if (size > UINT32_MAX || XP_ARRAY_RESERVE(pprof->packed, pprof->packed_room, size))
		return fail(pprof, -ENOMEM);
	xprof__pprof__profile__pack(piece, pprof->packed);
	return deflate_bytes(pprof, pprof->packed, size, Z_NO_FLUSH);
}

/* ---- texts ---- */

static int put_text(struct xp_pprof *pprof, const char *text)
{
	Piece piece = XPROF__PPROF__PROFILE__INIT;
	char *texts[] = { (char *)text };

	piece.n_string_table = 1;
	piece.string_table = texts;
	pprof->text_count++;
	return put(pprof, &piece);
}

/* Returns the index of a string in the string table. Adds the string if it is new. 0: NULL, "", or an error. */
static int64_t text_id(struct xp_pprof *pprof, const char *text)
{
	const char *kept = text && *text ? xp_text_pool_keep(&pprof->texts, text) : NULL;
	uint32_t *id = kept ? xp_u64_map_find(&pprof->text_ids, (uintptr_t)kept) : NULL;

	if (!text || !*text)
		return 0;
	if (!kept) {
		fail(pprof, -ENOMEM);
		return 0;
	}
	if (id)
		return *id;
	id = xp_u64_map_add(&pprof->text_ids, (uintptr_t)kept, (uint32_t)pprof->text_count);
	if (!id) {
		fail(pprof, -ENOMEM);
		return 0;
	}
	put_text(pprof, kept);
	return (int64_t)pprof->text_count - 1;
}

/* ---- the profile ---- */

static int put_head(struct xp_pprof *pprof, const struct xp_pprof_options *options)
{
	Xprof__Pprof__ValueType types[XP_PPROF_VALUES], *type_pointers[XP_PPROF_VALUES];
	Xprof__Pprof__ValueType period_type = XPROF__PPROF__VALUE_TYPE__INIT;
	int64_t comment = text_id(pprof, options->comment);
	Piece piece = XPROF__PPROF__PROFILE__INIT;

	for (size_t i = 0; i < XP_PPROF_VALUES; i++) {
		xprof__pprof__value_type__init(&types[i]);
		types[i].type = text_id(pprof, options->types[i].type);
		types[i].unit = text_id(pprof, options->types[i].unit);
		type_pointers[i] = &types[i];
	}
	piece.n_sample_type = XP_PPROF_VALUES;
	piece.sample_type = type_pointers;
	if (options->period) {
		period_type.type = text_id(pprof, options->period_type.type);
		period_type.unit = text_id(pprof, options->period_type.unit);
		piece.period_type = &period_type;
		piece.period = (int64_t)options->period;
	}
	piece.time_nanos = (int64_t)options->time_ns;
	piece.duration_nanos = (int64_t)options->duration_ns;
	piece.n_comment = comment ? 1 : 0;
	piece.comment = &comment;
	return put(pprof, &piece);
}

int xp_pprof_new(struct xp_pprof **pprof, FILE *out, const struct xp_pprof_options *options)
{
	struct xp_pprof *new = calloc(1, sizeof(*new));

	*pprof = new;
	if (!new)
		return -ENOMEM;
	new->out = out;
	new->texts.bytes_max = TEXTS_BYTES_MAX;
	if (deflateInit2(&new->deflater, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW_BITS, 8, Z_DEFAULT_STRATEGY)) {
		free(new);
		*pprof = NULL;
		return -ENOMEM;
	}
	put_text(new, "");
	return put_head(new, options);
}

int xp_pprof_mapping(struct xp_pprof *pprof, const struct xp_pprof_mapping *mapping)
{
	Xprof__Pprof__Mapping message = XPROF__PPROF__MAPPING__INIT, *pointer = &message;
	Piece piece = XPROF__PPROF__PROFILE__INIT;

	message.id = ++pprof->mapping_count;
	message.memory_limit = UINT64_MAX;
	message.filename = text_id(pprof, mapping->filename);
	message.build_id = text_id(pprof, mapping->build_id);
	message.has_functions = mapping->has_functions;
	message.has_filenames = mapping->has_filenames;
	message.has_line_numbers = mapping->has_line_numbers;
	message.has_inline_frames = mapping->has_inline_frames;
	piece.n_mapping = 1;
	piece.mapping = &pointer;
	return put(pprof, &piece);
}

int xp_pprof_function(struct xp_pprof *pprof, const struct xp_pprof_function *function)
{
	Xprof__Pprof__Function message = XPROF__PPROF__FUNCTION__INIT, *pointer = &message;
	Piece piece = XPROF__PPROF__PROFILE__INIT;

	message.id = ++pprof->function_count;
	message.name = text_id(pprof, function->name);
	message.system_name = text_id(pprof, function->system_name);
	message.filename = text_id(pprof, function->filename);
	piece.n_function = 1;
	piece.function = &pointer;
	return put(pprof, &piece);
}

int xp_pprof_location(struct xp_pprof *pprof, const struct xp_pprof_location *location)
{
	Xprof__Pprof__Location message = XPROF__PPROF__LOCATION__INIT, *pointer = &message;
	Piece piece = XPROF__PPROF__PROFILE__INIT;

	if (XP_ARRAY_RESERVE(pprof->lines, pprof->line_room, location->line_count) ||
	    XP_ARRAY_RESERVE(pprof->line_pointers, pprof->line_pointer_room, location->line_count))
		return fail(pprof, -ENOMEM);
	for (size_t i = 0; i < location->line_count; i++) {
		xprof__pprof__line__init(&pprof->lines[i]);
		pprof->lines[i].function_id = location->lines[i].function;
		pprof->lines[i].line = location->lines[i].line;
		pprof->line_pointers[i] = &pprof->lines[i];
	}
	message.id = ++pprof->location_count;
	message.mapping_id = location->mapping;
	message.address = location->address;
	message.n_line = location->line_count;
	message.line = pprof->line_pointers;
	piece.n_location = 1;
	piece.location = &pointer;
	return put(pprof, &piece);
}

int xp_pprof_sample(struct xp_pprof *pprof, const struct xp_pprof_sample *sample)
{
	Xprof__Pprof__Sample message = XPROF__PPROF__SAMPLE__INIT, *pointer = &message;
	Piece piece = XPROF__PPROF__PROFILE__INIT;

	for (size_t i = 0; i < XP_PPROF_VALUES; i++)
		pprof->values[i] = (int64_t)XP_MIN(sample->values[i], (uint64_t)INT64_MAX);
	for (size_t i = 0; i < sample->label_count; i++) {
		xprof__pprof__label__init(&pprof->labels[i]);
		pprof->labels[i].key = text_id(pprof, sample->labels[i].key);
		pprof->labels[i].str = text_id(pprof, sample->labels[i].text);
		pprof->label_pointers[i] = &pprof->labels[i];
	}
	message.n_location_id = sample->location_count;
	message.location_id = (uint64_t *)sample->locations;
	message.n_value = XP_PPROF_VALUES;
	message.value = pprof->values;
	message.n_label = sample->label_count;
	message.label = pprof->label_pointers;
	piece.n_sample = 1;
	piece.sample = &pointer;
	return put(pprof, &piece);
}

int xp_pprof_finish(struct xp_pprof *pprof)
{
	return pprof->err ? pprof->err : deflate_bytes(pprof, NULL, 0, Z_FINISH);
}

void xp_pprof_free(struct xp_pprof *pprof)
{
	if (!pprof)
		return;
	deflateEnd(&pprof->deflater);
	xp_text_pool_free(&pprof->texts);
	xp_u64_map_free(&pprof->text_ids);
	free(pprof->packed);
	free(pprof->lines);
	free(pprof->line_pointers);
	free(pprof);
}
