/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes a recording as files that other programs read, with all names in them: these programs need neither the
 * binaries nor the recording.
 *
 *	recording  -->  model (model.h)  -->  one writer a format: xp_export_<format>()
 *
 * The HTML page shows up to three models: of samples, calls and waits.
 *
 * A new format is a line in the table of export.c and a writer.
 */
#ifndef XPROF_EXPORT_EXPORT_H
#define XPROF_EXPORT_EXPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "model/facts.h"
#include "model/read_samples.h"
#include "model/select.h"
#include "model/tree.h"

enum xp_export_format {
	XP_EXPORT_PPROF,
	XP_EXPORT_FOLDED,
	XP_EXPORT_HTML,
	XP_EXPORT_PERFETTO,
	XP_EXPORT_FORMATS, /* their number */
};

struct xp_export_options {
	unsigned int formats;	 /* 1u << enum xp_export_format, or'ed */
	enum xp_model_kind kind; /* calls or waits instead of samples; HTML: only these */
	bool has_by;
	enum xp_model_group by; /* without has_by, each format has its own default */
	bool full_names;	/* instead of names shortened by xp_short_name() */
	const char *output; /* "-": standard output; NULL: a file for each format, in the directory of the recording */
	const char *instr_map; /* as in struct xp_model_source */
	struct xp_select select;
	const char *const *requests; /* HTML, Perfetto: globs of functions that handle requests; none: they are found */
	size_t request_count;
	bool may_be_empty; /* an empty export is not an error */
	/* Set by xp_export() for writers that read the calls themselves. */
	const struct xp_model_source *source;
	bool *broken;
	const struct xp_explanation *why; /* for Perfetto's traces; NULL: none */
};

struct xp_explanation;
struct xp_part_list;

/*
 * Exports a recording: the sum of its parts, or one profile or log. Prints errors, and the path of each file that it
 * names: in the directory of the recording or of its parts. Returns 0 or -errno: -EBADMSG if a part of the recording is
 * malformed or missing, and the rest was exported; -EINVAL for a format that cannot show a sum.
 */
int xp_export(struct xp_part_list *parts, const struct xp_export_options *options);

/* Writers return -ENOMEM; ferror(out) shows errors of writing. */
int xp_export_pprof(FILE *out, struct xp_model *model, const struct xp_export_options *options);
/* Writes only these samples of the model, and the code in their stacks. */
int xp_export_pprof_samples(FILE *out, const struct xp_model *model, enum xp_model_group by,
			    const struct xp_model_sample *samples, size_t count);
int xp_export_folded(FILE *out, struct xp_model *model, const struct xp_export_options *options);
/* Writes the model's samples and waits, and the calls and events of the source. -ENODATA: there are none. */
int xp_export_perfetto(FILE *out, struct xp_model *model, const struct xp_export_options *options);

/* The content of an HTML page. */
struct xp_export_page {
	struct xp_model *models[2]; /* of samples or waits, and of calls; waits of a model of samples come last */
	size_t model_count;
	const struct xp_facts *facts; /* facts of the recording, or of its first part */
	bool is_sum;		      /* sum of several parts: the counts in `facts` are those of one part */
	struct xp_explanation *why; /* NULL: there is nothing to explain, or only a part of the recording is selected */
};
int xp_export_html(FILE *out, const struct xp_export_page *page, const struct xp_export_options *options);

#endif
