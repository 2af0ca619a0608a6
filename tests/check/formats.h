/* SPDX-License-Identifier: BSD-2-Clause */
/* The file formats that the tests check and print, recognized by content. */
#ifndef XPROF_CHECK_FORMATS_H
#define XPROF_CHECK_FORMATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "format/violation.h"

/* The result of a check. */
struct xp_report {
	char summary[256]; /* description of the file, with counts */
	struct xp_violation findings[2];
	unsigned int finding_count; /* 0: the file is valid */
	bool is_of_waits;	    /* set by the caller: the file's name is that of a profile of waits */
};

struct xp_format {
	bool (*probe)(const uint8_t *bytes, uint64_t size);
	/* Prints one line per record. Returns 0 or -errno: -EBADMSG and *violation if the file is malformed. */
	int (*dump)(const uint8_t *bytes, uint64_t size, FILE *out, struct xp_violation *violation);
	/* *report is empty on entry, but for is_of_waits. Returns 0, with or without findings, or -ENOMEM. */
	int (*check)(const uint8_t *bytes, uint64_t size, struct xp_report *report);
};

/* Adds a finding. whose: who makes this rule, followed by ": ", or "". */
void xp_report_add(struct xp_report *report, const char *whose, const struct xp_violation *violation);

/* The format of a file that begins with these bytes, or NULL if it is unknown. */
const struct xp_format *xp_format_find(const uint8_t *bytes, uint64_t size);
/* Writes bytes in double quotes, as a C string: everything but printable ASCII is escaped. */
void xp_put_quoted(FILE *out, const void *data, size_t bytes);

extern const struct xp_format xp_format_fdr;
extern const struct xp_format xp_format_gperf;
extern const struct xp_format xp_format_jitdump;
extern const struct xp_format xp_format_perfdata;

#endif
