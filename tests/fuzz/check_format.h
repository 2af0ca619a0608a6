/* SPDX-License-Identifier: BSD-2-Clause */
/* What the strict rules and the dump must make of any input: shared by the fuzz targets of the readers. */
#ifndef XPROF_FUZZ_CHECK_FORMAT_H
#define XPROF_FUZZ_CHECK_FORMAT_H

/* CHECK() is the target's. */
static inline void check_format(const struct xp_format *format, const uint8_t *data, size_t size, bool is_right)
{
	struct xp_report report = { 0 };
	struct xp_violation finding;
	FILE *out = fopen("/dev/null", "w");

	CHECK(out);
	CHECK(format->dump(data, size, NULL, out, &finding) == (is_right ? 0 : -EBADMSG));
	fclose(out);
	CHECK(!format->check(data, size, &report));
	CHECK(report.finding_count <= 1 && (is_right || report.finding_count));
}

#endif
