// SPDX-License-Identifier: BSD-2-Clause
#include "check/formats.h"

#include "base/util.h"

static const struct xp_format *const formats[] = { &xp_format_fdr, &xp_format_gperf, &xp_format_jitdump,
						   &xp_format_perfdata };

const struct xp_format *xp_format_find(const uint8_t *bytes, uint64_t size)
{
	for (size_t i = 0; i < XP_ARRAY_SIZE(formats); i++)
		if (formats[i]->probe(bytes, size))
			return formats[i];
	return NULL;
}

void xp_report_add(struct xp_report *report, const char *whose, const struct xp_violation *violation)
{
	xp_violate(&report->findings[report->finding_count++], violation->offset, "%s%s", whose, violation->text);
}

void xp_put_quoted(FILE *out, const void *data, size_t bytes)
{
	const unsigned char *at = data;

	putc('"', out);
	for (const unsigned char *end = at + bytes; at < end; at++)
		if (*at == '"' || *at == '\\')
			fprintf(out, "\\%c", *at);
		else if (*at >= 0x20 && *at < 0x7f)
			putc(*at, out);
		else
			fprintf(out, "\\x%02x", *at);
	putc('"', out);
}
