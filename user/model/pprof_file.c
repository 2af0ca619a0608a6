// SPDX-License-Identifier: BSD-2-Clause
#include "model/pprof_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/file_view.h"
#include "base/util.h"

/* Of one sample: the sum of as many as a file can have is in 64 bits. */
#define COUNT_MAX (INT64_C(1) << 40)

bool xp_pprof_file_is_one(const char *path)
{
	struct xp_file_view view;
	bool is_one;

	if (xp_file_view_open(&view, AT_FDCWD, path))
		return false;
	is_one = xp_pprof_probe(view.bytes, view.size);
	xp_file_view_close(&view);
	return is_one;
}

static bool is_text(const struct xp_pprof_profile *profile, uint32_t index, const char *text)
{
	const struct xp_pprof_text *its = &profile->texts[index];

	return its->bytes == strlen(text) && memcmp(its->text, text, its->bytes) == 0;
}

/* Returns false if no value counts. */
static bool choose_values(struct xp_pprof_values *values, const struct xp_pprof_profile *profile)
{
	*values = (struct xp_pprof_values){ .count_index = profile->type_count, .ns_index = profile->type_count };
	for (size_t i = profile->type_count; i; i--) {
		const struct xp_pprof_type *type = &profile->types[i - 1];

		if (is_text(profile, type->unit_text, "count"))
			values->count_index = i - 1;
		else if (is_text(profile, type->unit_text, "nanoseconds"))
			values->ns_index = i - 1;
	}
	if (values->count_index == profile->type_count)
		return false;
	values->has_ns = values->ns_index < profile->type_count;
	values->is_calls = is_text(profile, profile->types[values->count_index].type_text, "calls");
	if (is_text(profile, profile->period_type.unit_text, "nanoseconds") && profile->period > 0)
		values->period_ns = (uint64_t)profile->period;
	return true;
}

int xp_pprof_file_read(struct xp_pprof_profile *profile, struct xp_pprof_values *values, const char *path)
{
	struct xp_violation violation;
	struct xp_file_view view;
	int err = xp_file_view_open(&view, AT_FDCWD, path);

	if (err)
		return err;
	err = xp_pprof_read(profile, view.bytes, view.size, &violation);
	xp_file_view_close(&view);
	if (err == -EBADMSG)
		xp_error("%s: 0x%" PRIx64 ": %s", path, violation.offset, violation.text);
	if (err || choose_values(values, profile))
		return err;
	xp_error("%s: it has no value that counts something", path);
	return -EBADMSG;
}

void xp_pprof_values_read(const struct xp_pprof_values *values, const struct xp_pprof_profile *profile, size_t sample,
			  uint64_t to[2])
{
	struct xp_pprof_parts parts;
	int64_t value;

	to[0] = to[1] = 0;
	xp_pprof_parts_start(&parts, profile, sample);
	for (size_t i = 0; xp_pprof_values_next(&parts, &value); i++) {
		if (i == values->count_index)
			to[0] = value > 0 ? (uint64_t)XP_MIN(value, COUNT_MAX) : 0;
		if (i == values->ns_index)
			to[1] = value > 0 ? (uint64_t)value : 0;
	}
}

const char *xp_pprof_text(const struct xp_pprof_profile *profile, uint32_t index, const char **texts,
			  struct xp_symbolizer *symbolizer)
{
	const struct xp_pprof_text *from = &profile->texts[index];
	char *copy;

	if (texts[index])
		return texts[index];
	copy = strndup(from->text, from->bytes);
	if (copy)
		texts[index] = xp_symbolizer_text(symbolizer, copy);
	free(copy);
	return texts[index];
}
