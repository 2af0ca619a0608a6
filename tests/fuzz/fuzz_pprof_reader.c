// SPDX-License-Identifier: BSD-2-Clause
/* Fuzzes the reader of pprof's own profiles, and what dump and check make of them. The input is the message. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "format/formats.h"
#include "format/pprof_reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition)                                                                                               \
	do {                                                                                                           \
		if (!(condition))                                                                                      \
			abort();                                                                                       \
	} while (0)

#include "check_format.h"
#include "gzip.h"

/* Parts of samples are what the profile has. */
static void read_samples(const struct xp_pprof_profile *profile)
{
	for (size_t i = 0; i < profile->sample_count; i++) {
		struct xp_pprof_read_label label;
		struct xp_pprof_parts parts;
		uint32_t location;
		size_t values = 0;
		int64_t value;

		xp_pprof_parts_start(&parts, profile, i);
		while (xp_pprof_locations_next(&parts, &location))
			CHECK(location < profile->location_count);
		xp_pprof_parts_start(&parts, profile, i);
		while (xp_pprof_values_next(&parts, &value))
			values++;
		CHECK(values == profile->type_count);
		xp_pprof_parts_start(&parts, profile, i);
		while (xp_pprof_labels_next(&parts, &label))
			CHECK(label.key_text < profile->text_count && label.str_text < profile->text_count &&
			      label.unit_text < profile->text_count);
	}
	for (size_t i = 0; i < profile->location_count; i++) {
		const struct xp_pprof_read_location *location = &profile->locations[i];

		CHECK(location->mapping == XP_PPROF_NO_MAPPING || location->mapping < profile->mapping_count);
		CHECK(location->first_line + location->line_count <= profile->line_count);
	}
	for (size_t i = 0; i < profile->line_count; i++)
		CHECK(profile->lines[i].function < profile->function_count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct xp_violation violation = { .text = "" };
	struct xp_pprof_profile profile;
	size_t zipped_size;
	uint8_t *zipped = gzip(data, size, &zipped_size);
	int err = xp_pprof_read(&profile, zipped, zipped_size, &violation);

	CHECK(!err || err == -EBADMSG);
	CHECK(!err == !violation.text[0] && violation.offset <= size);
	if (!err)
		read_samples(&profile);
	xp_pprof_profile_free(&profile);
	check_format(&xp_format_pprof, zipped, zipped_size, !err);
	free(zipped);
	/* As a file. */
	xp_pprof_probe(data, size);
	xp_pprof_read(&profile, data, size, &violation);
	xp_pprof_profile_free(&profile);
	return 0;
}
