/* SPDX-License-Identifier: BSD-2-Clause */
/* The file formats that `xprof dump` and `xprof check` know, told apart by content. */
#ifndef XPROF_FORMATS_H
#define XPROF_FORMATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct xp_finding {
	uint64_t offset;
	char text[256]; /* a sentence without its full stop */
};

/* What a check tells. */
struct xp_report {
	char summary[256]; /* what the file is, with counts */
	struct xp_finding findings[2];
	unsigned int finding_count; /* 0: the file is right */
};

struct xp_format {
	const char *name;
	bool (*probe)(const uint8_t *bytes, uint64_t size);
	/* As text, a line a record. 0, -EBADMSG with *finding: the file is malformed there, or another -errno. */
	int (*dump)(const uint8_t *bytes, uint64_t size, FILE *out, struct xp_finding *finding);
	/* *report is empty before. 0 also when there are findings; -ENOMEM. */
	int (*check)(const uint8_t *bytes, uint64_t size, struct xp_report *report);
};

/* The format of a file that begins with these bytes, NULL when it is none of them. */
const struct xp_format *xp_format_find(const uint8_t *bytes, uint64_t size);
/* "XRay FDR log, ..." */
const char *xp_format_names(char *to, size_t to_size);

extern const struct xp_format xp_format_fdr;
extern const struct xp_format xp_format_gperf;
extern const struct xp_format xp_format_jitdump;
extern const struct xp_format xp_format_perfdata;

#endif
