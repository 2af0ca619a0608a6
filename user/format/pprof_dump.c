// SPDX-License-Identifier: BSD-2-Clause
/* pprof's own profiles for `xprof dump` and `xprof check`. */
#include <errno.h>
#include <inttypes.h>

#include "base/util.h"
#include "format/formats.h"
#include "format/pprof_reader.h"

/* A text as printf's %.*s takes it. */
#define TEXT(profile, index) (int)(profile)->texts[index].bytes, (profile)->texts[index].text

static void dump_head(FILE *out, const struct xp_pprof_profile *profile)
{
	xp_put_line(out,
		    "# pprof profile: %zu samples, %zu locations, %zu functions, %zu mappings; period %" PRId64
		    " %.*s %.*s, time %" PRId64 " ns, duration %" PRId64 " ns",
		    profile->sample_count, profile->location_count, profile->function_count, profile->mapping_count,
		    profile->period, TEXT(profile, profile->period_type.type_text),
		    TEXT(profile, profile->period_type.unit_text), profile->time_ns, profile->duration_ns);
	for (size_t i = 0; i < profile->comment_text_count; i++)
		xp_put_line(out, "# %.*s", TEXT(profile, profile->comment_texts[i]));
	xp_put(out, "#  values:");
	for (size_t i = 0; i < profile->type_count; i++)
		xp_put(out, " %.*s/%.*s", TEXT(profile, profile->types[i].type_text),
		       TEXT(profile, profile->types[i].unit_text));
	xp_put_line(out, "%s", "");
}

static void dump_mapping(FILE *out, const struct xp_pprof_profile *profile, const struct xp_pprof_read_mapping *mapping)
{
	xp_put_line(
	    out, "mapping %" PRIu64 " 0x%" PRIx64 "-0x%" PRIx64 " at 0x%" PRIx64 " build id \"%.*s\"%s%s%s%s \"%.*s\"",
	    mapping->id, mapping->start, mapping->limit, mapping->offset, TEXT(profile, mapping->build_id_text),
	    mapping->has_functions ? " functions" : "", mapping->has_filenames ? " filenames" : "",
	    mapping->has_line_numbers ? " lines" : "", mapping->has_inline_frames ? " inlined" : "",
	    TEXT(profile, mapping->filename_text));
}

static void dump_location(FILE *out, const struct xp_pprof_profile *profile,
			  const struct xp_pprof_read_location *location)
{
	xp_put(out, "location %" PRIu64 " mapping %" PRIu64 " 0x%" PRIx64, location->id,
	       location->mapping == XP_PPROF_NO_MAPPING ? 0 : profile->mappings[location->mapping].id,
	       location->address);
	for (uint32_t i = 0; i < location->line_count; i++) {
		const struct xp_pprof_read_line *line = &profile->lines[location->first_line + i];

		xp_put(out, " %" PRIu64 ":%" PRId64, profile->functions[line->function].id, line->line);
	}
	xp_put_line(out, "%s", "");
}

static void dump_sample(FILE *out, const struct xp_pprof_profile *profile, size_t index)
{
	struct xp_pprof_read_label label;
	struct xp_pprof_parts parts;
	uint32_t location;
	int64_t value;

	xp_put(out, "0x%08" PRIx64 " sample", profile->samples[index].offset);
	xp_pprof_parts_start(&parts, profile, index);
	while (xp_pprof_values_next(&parts, &value))
		xp_put(out, " %" PRId64, value);
	xp_put(out, " at");
	xp_pprof_parts_start(&parts, profile, index);
	while (xp_pprof_locations_next(&parts, &location))
		xp_put(out, " %" PRIu64, profile->locations[location].id);
	xp_pprof_parts_start(&parts, profile, index);
	while (xp_pprof_labels_next(&parts, &label)) {
		xp_put(out, " %.*s=", TEXT(profile, label.key_text));
		if (label.str_text)
			xp_put(out, "\"%.*s\"", TEXT(profile, label.str_text));
		else
			xp_put(out, "%" PRId64 "%.*s", label.number, TEXT(profile, label.unit_text));
	}
	xp_put_line(out, "%s", "");
}

static int dump(const uint8_t *bytes, uint64_t size, const struct xp_function_names *names, FILE *out,
		struct xp_violation *violation)
{
	struct xp_pprof_profile profile;
	int err = xp_pprof_read(&profile, bytes, size, violation);

	(void)names;
	if (!err)
		dump_head(out, &profile);
	for (size_t i = 0; !err && i < profile.mapping_count; i++)
		dump_mapping(out, &profile, &profile.mappings[i]);
	for (size_t i = 0; !err && i < profile.function_count; i++) {
		const struct xp_pprof_read_function *function = &profile.functions[i];

		xp_put_line(out, "function %" PRIu64 " \"%.*s\" \"%.*s\" \"%.*s\":%" PRId64, function->id,
			    TEXT(&profile, function->name_text), TEXT(&profile, function->system_name_text),
			    TEXT(&profile, function->filename_text), function->start_line);
	}
	for (size_t i = 0; !err && i < profile.location_count; i++)
		dump_location(out, &profile, &profile.locations[i]);
	for (size_t i = 0; !err && i < profile.sample_count && !ferror(out); i++)
		dump_sample(out, &profile, i);
	xp_pprof_profile_free(&profile);
	return !err && ferror(out) ? -EIO : err;
}

/* Go's profile.CheckValid() and pprof's internal/symbolizer. */
static bool violates_rules(const struct xp_pprof_profile *profile, struct xp_violation *violation)
{
	for (size_t i = 0; i < profile->location_count; i++) {
		const struct xp_pprof_read_location *location = &profile->locations[i];
		const struct xp_pprof_read_mapping *mapping =
		    location->mapping == XP_PPROF_NO_MAPPING ? NULL : &profile->mappings[location->mapping];

		if (mapping && location->address && mapping->limit &&
		    (location->address < mapping->start || location->address > mapping->limit)) {
			xp_violate(violation, 0, "location %" PRIu64 " is outside of its mapping", location->id);
			return true;
		}
		if (mapping && mapping->has_functions && !location->line_count) {
			xp_violate(violation, 0,
				   "location %" PRIu64
				   " has no function, and pprof looks for none: its mapping says that "
				   "all have one",
				   location->id);
			return true;
		}
	}
	return false;
}

static int check(const uint8_t *bytes, uint64_t size, struct xp_report *report)
{
	struct xp_violation violation;
	struct xp_pprof_profile profile;
	int err = xp_pprof_read(&profile, bytes, size, &violation);

	if (err == -EBADMSG || (!err && violates_rules(&profile, &violation)))
		xp_report_add(report, "", &violation);
	snprintf(report->summary, sizeof(report->summary),
		 "pprof profile: %zu samples, %zu locations, %zu functions, %zu mappings", profile.sample_count,
		 profile.location_count, profile.function_count, profile.mapping_count);
	xp_pprof_profile_free(&profile);
	return err == -ENOMEM ? err : 0;
}

const struct xp_format xp_format_pprof = {
	.name = "pprof profile",
	.probe = xp_pprof_probe,
	.dump = dump,
	.check = check,
};
