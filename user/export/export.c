// SPDX-License-Identifier: BSD-2-Clause
#include "export/export.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_name.h"
#include "base/util.h"
#include "base/why.h"
#include "elf/function_patterns.h"
#include "explain/explain.h"
#include "export/output.h"
#include "model/facts.h"
#include "model/input.h"
#include "model/part_list.h"

static const struct {
	const char *suffix; /* suffix of the file next to the recording */
	enum xp_model_group by;
	int (*write)(FILE *out, struct xp_model *model, const struct xp_export_options *options);
	const char *reader; /* command that reads the file: text before and after the file name */
	const char *after;
	bool is_page; /* contains samples and calls together */
} formats[XP_EXPORT_FORMATS] = {
	[XP_EXPORT_PPROF] = { "pb.gz", XP_MODEL_BY_THREAD, xp_export_pprof, "go tool pprof -top", "", false },
	[XP_EXPORT_FOLDED] = { "folded", XP_MODEL_BY_PROCESS, xp_export_folded, "flamegraph.pl", " > flame.svg",
			       false },
	[XP_EXPORT_HTML] = { "html", XP_MODEL_BY_THREAD, NULL, "xdg-open", "", true },
	[XP_EXPORT_PERFETTO] = { "pftrace", XP_MODEL_BY_THREAD, xp_export_perfetto, "https://ui.perfetto.dev opens", "",
				 true },
};

#define OF_ONE_MODEL (1u << XP_EXPORT_PPROF | 1u << XP_EXPORT_FOLDED)

/* ---- output ---- */

struct writing {
	const struct xp_export_page *page; /* its first model, unless the format is a page */
	struct xp_export_options options;  /* with `by` set */
	enum xp_export_format format;
};

static int write_format(void *arg, FILE *out)
{
	struct writing *writing = arg;

	if (formats[writing->format].write)
		return formats[writing->format].write(out, writing->page->models[0], &writing->options);
	return xp_export_html(out, writing->page, &writing->options);
}

static void tell_made(const struct writing *writing, const char *path)
{
	struct xp_shell_path word;
	struct stat st;

	xp_shell_path(&word, "%s", path);
	xp_put_line(stderr, "  %s  %.1f KB", path, stat(path, &st) ? 0 : (double)st.st_size / 1e3);
	xp_put_line(stderr, "    %s %s%s", formats[writing->format].reader, word.text, formats[writing->format].after);
}

static int write_one(struct writing *writing, const char *directory)
{
	const char *given = writing->options.output, *what = XP_EXPORT_SAMPLES;
	char name[NAME_MAX], made[PATH_MAX + NAME_MAX];
	const char *path = !given ? made : strcmp(given, "-") == 0 ? "the standard output" : given;
	int err;

	if (writing->options.kind == XP_MODEL_CALLS)
		what = XP_EXPORT_CALLS;
	else if (writing->options.kind == XP_MODEL_WAITS)
		what = XP_EXPORT_WAITS;
	else if (formats[writing->format].is_page)
		what = XP_EXPORT_RECORDING;
	snprintf(name, sizeof(name), "%s.%s", what, formats[writing->format].suffix);
	snprintf(made, sizeof(made), "%s/%s", directory, name);
	if (given)
		err = xp_export_file_given(given, write_format, writing);
	else
		err = xp_export_file_made(directory, name, write_format, writing);
	if (err && err != -ENODATA)
		xp_error("%s: cannot write it: %s", path, xp_export_file_reason(err));
	else if (!err && !given && xp_log_level > XP_LOG_QUIET)
		tell_made(writing, path);
	return err;
}

/* Writes the requested formats. */
static int write_all(const struct xp_export_page *page, unsigned int of, const struct xp_export_options *options,
		     const char *directory)
{
	int err = 0;

	for (unsigned int i = 0; !err && i < XP_EXPORT_FORMATS; i++) {
		struct writing writing = { .page = page, .options = *options, .format = (enum xp_export_format)i };

		if (!(options->formats & of & 1u << i))
			continue;
		if (!options->has_by)
			writing.options.by = formats[i].by;
		err = write_one(&writing, directory);
	}
	return err;
}

/* ---- input ---- */

/* State of an export: what, and from where. */
struct exporting {
	const struct xp_export_options *options;
	struct xp_part_list *parts;
	struct xp_model_input input; /* the recording, or all its parts */
	struct xp_select select;
	char directory[PATH_MAX]; /* of the files that are made */
};

/* Before anything is written, where the names of all functions are known by then. */
static int check_patterns(const struct exporting *exporting)
{
	int err = xp_pattern_uses_check(exporting->options->select.uses, "--functions");

	return err ? xp_fail(-EINVAL, "%s", xp_why(err)) : 0;
}

static int say_nothing(const struct exporting *exporting, bool is_page)
{
	const struct xp_export_options *options = exporting->options;
	bool is_calls = options->kind == XP_MODEL_CALLS, has_logs = false;
	bool is_waits = options->kind == XP_MODEL_WAITS;
	const char *what = is_calls ? "call" : is_waits ? "wait" : is_page ? "sample, call or wait" : "sample";

	for (size_t i = 0; i < exporting->input.recorded.process_count; i++)
		has_logs |= !!exporting->input.recorded.processes[i].log;
	if (options->may_be_empty && !exporting->input.broken) {
		xp_info("nothing to export: no %s was recorded", what);
		return 0;
	}
	if (is_calls && !is_page && !has_logs)
		xp_error("nothing to export: there is no XRay FDR log with calls");
	else
		xp_error("nothing to export: no %s %s", what,
			 exporting->input.broken		  ? "can be read"
			 : xp_select_is_given(&exporting->select) ? "is selected"
								  : "was recorded");
	return -ENODATA;
}

/* Returns whether a timeline has samples: without perf.data, samples have no times. */
static bool has_times(const struct exporting *exporting, const struct xp_model_source *source)
{
	return exporting->options->kind != XP_MODEL_CALLS && source->directory &&
	       exporting->input.recorded.has_perf_data;
}

/* Reads samples and waits with times. A model of waits only has no samples. */
static int read_timeline(struct exporting *exporting, const struct xp_model_source *source, struct xp_model *model)
{
	int err = xp_model_input_read(model, &exporting->input, source, XP_MODEL_SAMPLES, XP_MODEL_KEEP_TIMES);

	if (exporting->options->kind == XP_MODEL_WAITS)
		model->sample_count = model->hit_count = 0;
	if (!err && model->dropped_waits)
		xp_warn("%" PRIu64 " wait%s missing: the recording has too many", model->dropped_waits,
			xp_plural_s_are(model->dropped_waits));
	if (!err && model->dropped_hits)
		xp_warn("%" PRIu64 " hit%s of USDT probes missing: the recording has too many", model->dropped_hits,
			xp_plural_s_are(model->dropped_hits));
	return err;
}

static void end_explanation(struct xp_explanation **why)
{
	if (*why)
		xp_explanation_free(*why);
	free(*why);
	*why = NULL;
}

/*
 * Only a whole recording is explained. *why: NULL: it is not. Returns 0 or -errno; -ENODATA is no error.
 */
static int explain(struct exporting *exporting, const struct xp_model_source *source, struct xp_explanation **why)
{
	const struct xp_explain_options how = {
		.functions = exporting->options->requests,
		.function_count = exporting->options->request_count,
		.are_requests = exporting->options->request_count > 0,
		.full_names = source->full_names,
		.instr_map = source->instr_map,
	};
	int err;

	*why = NULL;
	if (exporting->options->kind != XP_MODEL_SAMPLES || !source->directory || exporting->input.broken ||
	    xp_select_is_given(source->select))
		return 0;
	*why = calloc(1, sizeof(**why));
	err = *why ? xp_explain(*why, exporting->parts, &how) : -ENOMEM;
	if (err)
		end_explanation(why);
	return err == -ENODATA ? 0 : err;
}

/* The writer reads the calls. */
static int export_timeline(struct exporting *exporting, const struct xp_model_source *source)
{
	struct xp_export_options options = *exporting->options;
	struct xp_explanation *why = NULL;
	struct xp_model model;
	const struct xp_export_page page = { .models = { &model }, .model_count = 1, .facts = exporting->input.facts };
	int err;

	options.source = source;
	options.broken = &exporting->input.broken;
	if (has_times(exporting, source)) {
		err = read_timeline(exporting, source, &model);
	} else {
		err = xp_model_init(&model, XP_MODEL_SAMPLES, XP_NAMES_LINES);
		model.keep_times = true;
		if (!err)
			xp_model_describe(&model, source);
	}
	err = err ?: explain(exporting, source, &why);
	options.why = why;
	if (!err)
		err = write_all(&page, 1u << XP_EXPORT_PERFETTO, &options, exporting->directory);
	if (err == -ENODATA)
		err = check_patterns(exporting) ?: say_nothing(exporting, true);
	end_explanation(&why);
	xp_model_free(&model);
	return err;
}

static int export_model(struct exporting *exporting, const struct xp_model_source *source)
{
	/* Folded stacks contain no lines. */
	enum xp_model_keep keep =
	    exporting->options->formats & 1u << XP_EXPORT_PPROF ? XP_MODEL_KEEP_SUMS : XP_MODEL_KEEP_FUNCTIONS;
	struct xp_model model;
	const struct xp_export_page page = { .models = { &model }, .model_count = 1, .facts = exporting->input.facts };
	int err = xp_model_input_read(&model, &exporting->input, source, exporting->options->kind, keep);

	err = err ?: check_patterns(exporting);
	if (!err && !model.sample_count)
		err = say_nothing(exporting, false);
	else if (!err)
		err = write_all(&page, OF_ONE_MODEL, exporting->options, exporting->directory);
	xp_model_free(&model);
	return err;
}

/* Writes the page of models that have been read. */
static int write_page(struct exporting *exporting, struct xp_export_page *page, const struct xp_model_source *source)
{
	struct xp_export_options options = *exporting->options;
	int err = page->is_sum ? 0 : explain(exporting, source, &page->why);

	options.source = source;
	err = err ?: write_all(page, 1u << XP_EXPORT_HTML, &options, exporting->directory);
	end_explanation(&page->why);
	return err;
}

/* Reads samples, calls and waits, if the recording has them. */
static int export_page(struct exporting *exporting, const struct xp_model_source *source)
{
	static const enum xp_model_kind kinds[] = { XP_MODEL_SAMPLES, XP_MODEL_CALLS, XP_MODEL_WAITS };
	struct xp_export_page page = { .facts = exporting->input.facts, .is_sum = exporting->parts->count > 1 };
	struct xp_model models[XP_ARRAY_SIZE(kinds)];
	enum xp_model_kind asked = exporting->options->kind;
	int err = 0;

	memset(models, 0, sizeof(models));
	for (size_t i = 0; !err && i < XP_ARRAY_SIZE(kinds); i++) {
		/* A model of samples contains their waits. */
		if (asked == XP_MODEL_SAMPLES ? kinds[i] == XP_MODEL_WAITS : kinds[i] != asked)
			continue;
		/* Without samples, only calls can be selected by thread. */
		if (!page.is_sum && kinds[i] == XP_MODEL_SAMPLES &&
		    !xp_facts_summary(exporting->input.facts)->samples && xp_select_needs_threads(source->select))
			continue;
		err = xp_model_input_read(&models[i], &exporting->input, source, kinds[i], XP_MODEL_KEEP_SLOTS);
		if (!err && (models[i].sample_count || models[i].wait_count))
			page.models[page.model_count++] = &models[i];
	}
	err = err ?: check_patterns(exporting);
	if (!err && !page.model_count)
		err = say_nothing(exporting, true);
	else if (!err)
		err = write_page(exporting, &page, source);
	for (size_t i = 0; i < XP_ARRAY_SIZE(models); i++)
		xp_model_free(&models[i]);
	return err;
}

/* A timeline has its own model with times, in which equal samples are separate. */
static int export_all(struct exporting *exporting)
{
	struct xp_model_source source = xp_model_input_source(&exporting->input);
	int err = 0;

	source.select = &exporting->select;
	source.instr_map = exporting->options->instr_map;
	source.full_names = exporting->options->full_names;
	if (exporting->options->formats & OF_ONE_MODEL)
		err = export_model(exporting, &source);
	if (!err && exporting->options->formats & 1u << XP_EXPORT_PERFETTO)
		err = export_timeline(exporting, &source) ?: check_patterns(exporting);
	if (!err && exporting->options->formats & 1u << XP_EXPORT_HTML)
		err = export_page(exporting, &source);
	return err;
}

/* Files of several parts are written to the directory that contains the parts. */
static void set_directory(struct exporting *exporting)
{
	const char *directory = exporting->input.directory, *slash = strrchr(directory, '/');
	int length = exporting->parts->count > 1 && slash ? (int)(slash - directory) : (int)strlen(directory);

	snprintf(exporting->directory, sizeof(exporting->directory), "%.*s", XP_MAX(length, 1), directory);
}

int xp_export(struct xp_part_list *parts, const struct xp_export_options *options)
{
	struct exporting exporting = { .options = options, .parts = parts, .select = options->select };
	bool broken;
	int err = xp_model_input_open_parts(&exporting.input, parts, &exporting.select);

	set_directory(&exporting);
	if (!err)
		err = export_all(&exporting);
	broken = exporting.input.broken;
	xp_model_input_close(&exporting.input);
	return err ? err : broken ? -EBADMSG : 0;
}
