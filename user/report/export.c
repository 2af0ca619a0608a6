// SPDX-License-Identifier: BSD-2-Clause
#include "report/export.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_name.h"
#include "base/own_file.h"
#include "base/owner_rights.h"
#include "base/trusted_dir.h"
#include "base/util.h"
#include "report/facts.h"
#include "report/model_calls.h"
#include "report/model_depth.h"
#include "report/recorded.h"

static const struct {
	const char *suffix; /* of the file's name beside the recording */
	enum xp_model_group by;
	int (*write)(FILE *out, struct xp_model *model, const struct xp_export_options *options);
	const char *reader; /* the command that reads it: before the file, and after it */
	const char *after;
	bool has_times; /* of each sample */
	bool is_page;	/* of samples and calls together */
} formats[XP_EXPORT_FORMATS] = {
	[XP_EXPORT_PPROF] = { "pb.gz", XP_MODEL_BY_THREAD, xp_export_pprof, "go tool pprof -top", "", false, false },
	[XP_EXPORT_FOLDED] = { "folded", XP_MODEL_BY_PROCESS, xp_export_folded, "flamegraph.pl", " > flame.svg", false,
			       false },
	[XP_EXPORT_SPEEDSCOPE] = { "speedscope.json", XP_MODEL_BY_THREAD, xp_export_speedscope, "speedscope", "", true,
				   false },
	[XP_EXPORT_HTML] = { "html", XP_MODEL_BY_THREAD, NULL, "xdg-open", "", false, true },
	[XP_EXPORT_PERFETTO] = { "pftrace", XP_MODEL_BY_THREAD, xp_export_perfetto, "https://ui.perfetto.dev opens", "",
				 true, true },
};

/* ---- output ---- */

struct writing {
	const struct xp_export_page *page; /* its first model, unless the format is a page */
	struct xp_export_options options;  /* with `by` set */
	enum xp_export_format format;
};

/* Writes all to fd, which stays open. */
static int write_format(void *arg, int fd)
{
	struct writing *writing = arg;
	int own = fcntl(fd, F_DUPFD_CLOEXEC, 0), err;
	FILE *out = own < 0 ? NULL : fdopen(own, "w");
	uid_t uid;
	gid_t gid;

	if (!out) {
		err = -errno;
		if (own >= 0)
			close(own);
		return err;
	}
	if (xp_own_file_user(&uid, &gid) && fd != STDOUT_FILENO && fchown(fd, uid, gid))
		xp_debug("cannot give the file to the user behind sudo: %s", strerror(errno));
	errno = 0;
	if (formats[writing->format].write)
		err = formats[writing->format].write(out, writing->page->models[0], &writing->options);
	else
		err = xp_export_html(out, writing->page, &writing->options);
	if (!err && (ferror(out) || fflush(out)))
		err = errno ? -errno : -EIO;
	if (fclose(out) && !err)
		err = -errno;
	return err;
}

/* A file appears under its name once it is whole. A device or a pipe that the user named is written as it is. */
static int write_given(struct writing *writing, const char *path)
{
	const char *slash = strrchr(path, '/');
	char directory[PATH_MAX];
	struct stat st;
	int fd, err;

	if (!stat(path, &st) && !S_ISREG(st.st_mode)) {
		fd = open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
		err = fd < 0 || fstat(fd, &st) ? -errno : S_ISREG(st.st_mode) ? -EEXIST : write_format(writing, fd);
		if (fd >= 0 && close(fd) && !err)
			err = -errno;
		return err;
	}
	snprintf(directory, sizeof(directory), "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
	fd = xp_trusted_dir_open(directory);
	if (fd < 0)
		return fd;
	err = xp_log_file_make(fd, slash ? slash + 1 : path, write_format, writing);
	close(fd);
	return err;
}

static const char *reason(int err)
{
	if (err == -EREMCHG)
		return "the path goes through another user's symbolic link: give the directory itself";
	if (err == -ENOTUNIQ)
		return "the directory is root's, but others may write to it: name a file with --output";
	return strerror(-err);
}

/*
 * Whoever owns the recording can put anything under the name, and root's rights are not theirs: what is there is
 * replaced, never opened, and as the owner.
 */
static int write_made(struct writing *writing, const char *directory, const char *name)
{
	int dir_fd = xp_own_links_dir_open(directory), err, own_err;
	struct stat dir;

	if (dir_fd < 0)
		return dir_fd;
	err = fstat(dir_fd, &dir) ? -errno : xp_owner_rights_take(&dir);
	if (!err)
		err = xp_log_file_make(dir_fd, name, write_format, writing);
	own_err = xp_owner_rights_return();
	close(dir_fd);
	return err ? err : own_err;
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
	bool is_standard = given && strcmp(given, "-") == 0;
	char name[NAME_MAX], made[PATH_MAX + NAME_MAX];
	const char *path = is_standard ? "the standard output" : given ? given : made;
	int err;

	if (writing->options.kind == XP_MODEL_CALLS)
		what = XP_EXPORT_CALLS;
	else if (formats[writing->format].is_page)
		what = XP_EXPORT_RECORDING;
	snprintf(name, sizeof(name), "%s.%s", what, formats[writing->format].suffix);
	snprintf(made, sizeof(made), "%s/%s", directory, name);
	if (is_standard)
		err = write_format(writing, STDOUT_FILENO);
	else
		err = given ? write_given(writing, given) : write_made(writing, directory, name);
	if (err && err != -ENODATA)
		xp_error("%s: cannot write it: %s", path, reason(err));
	else if (!err && !given && xp_log_level > XP_LOG_QUIET)
		tell_made(writing, path);
	return err;
}

/* Writes those of the formats that are made of such models. */
static int write_all(const struct xp_export_page *page, bool is_page, const struct xp_export_options *options,
		     const char *directory)
{
	int err = 0;

	for (unsigned int i = 0; !err && i < XP_EXPORT_FORMATS; i++) {
		struct writing writing = { .page = page, .options = *options, .format = (enum xp_export_format)i };

		if (!(options->formats & 1u << i) || formats[i].is_page != is_page ||
		    formats[i].has_times != page->models[0]->keep_times)
			continue;
		if (!options->has_by)
			writing.options.by = formats[i].by;
		err = write_one(&writing, directory);
	}
	return err;
}

/* ---- input ---- */

/* What is exported, and where it is. */
struct exporting {
	const struct xp_export_options *options;
	struct xp_recorded recorded;
	struct xp_facts *facts;
	char directory[PATH_MAX]; /* of the recording */
	bool broken;
};

static int say_nothing(const struct exporting *exporting, bool is_page)
{
	const struct xp_export_options *options = exporting->options;
	bool is_calls = options->kind == XP_MODEL_CALLS, has_logs = false, has_profiles = false, is_missing;
	const char *what = is_calls ? "call" : is_page ? "sample or call" : "sample";

	for (size_t i = 0; i < exporting->recorded.process_count; i++) {
		has_logs |= !!exporting->recorded.processes[i].log;
		has_profiles |= !!exporting->recorded.processes[i].profile;
	}
	is_missing = !is_page && !(is_calls ? has_logs : has_profiles);
	if (options->may_be_empty && !exporting->broken) {
		xp_info("nothing to export: no %s was recorded", what);
		return 0;
	}
	if (is_missing)
		xp_error("nothing to export: there is no %s with %ss", is_calls ? "XRay FDR log" : "gperftools profile",
			 what);
	else
		xp_error("nothing to export: no %s %s", what,
			 exporting->broken			? "can be read"
			 : xp_select_is_given(&options->select) ? "is selected"
								: "was recorded");
	return -ENODATA;
}

/* The caller frees the model, also after an error. */
static int read_model(struct xp_model *model, struct exporting *exporting, const struct xp_model_source *source,
		      enum xp_model_kind kind, bool keep_times)
{
	int err = xp_model_init(model, kind);
	const char *what = kind == XP_MODEL_CALLS ? "calls" : "samples";
	struct xp_model_cut cut = { 0 };

	model->keep_times = keep_times;
	model->full_names = exporting->options->full_names;
	if (!err && model->kind == XP_MODEL_CALLS)
		err = xp_model_read_calls(model, source, &exporting->broken);
	else if (!err)
		err = xp_model_read_samples(model, source, &exporting->broken);
	if (!err)
		err = xp_model_cut_depth(model, &cut);
	if (!err && model->dropped)
		xp_warn("%" PRIu64 " %s are missing: the recording has too many different stacks", model->dropped,
			what);
	if (!err && cut.samples)
		xp_warn("%" PRIu64 " %s have stacks of more than %" PRIu32 " functions: " XP_MODEL_DEEPER
			" stands for those between the outermost and the last one",
			cut.samples, what, cut.depth);
	return err;
}

/* Whether a timeline has samples: without perf.data, they have no times. */
static bool has_times(const struct exporting *exporting, const struct xp_model_source *source)
{
	char path[PATH_MAX];

	return exporting->options->kind == XP_MODEL_SAMPLES && source->directory &&
	       (size_t)snprintf(path, sizeof(path), "%s/" XP_PERF_DATA_NAME, source->directory) < sizeof(path) &&
	       !access(path, F_OK);
}

/* Samples with times; the writer reads the calls. */
static int export_timeline(struct exporting *exporting, const struct xp_model_source *source)
{
	struct xp_export_options options = *exporting->options;
	struct xp_model model;
	const struct xp_export_page page = { .models = { &model }, .model_count = 1, .facts = exporting->facts };
	int err;

	options.source = source;
	options.broken = &exporting->broken;
	if (has_times(exporting, source)) {
		err = read_model(&model, exporting, source, XP_MODEL_SAMPLES, true);
	} else {
		err = xp_model_init(&model, XP_MODEL_SAMPLES);
		model.keep_times = true;
		if (!err)
			xp_model_describe(&model, source);
	}
	if (!err)
		err = write_all(&page, true, &options, exporting->directory);
	if (err == -ENODATA)
		err = say_nothing(exporting, true);
	xp_model_free(&model);
	return err;
}

static int export_model(struct exporting *exporting, const struct xp_model_source *source, bool keep_times)
{
	struct xp_model model;
	const struct xp_export_page page = { .models = { &model }, .model_count = 1, .facts = exporting->facts };
	int err = read_model(&model, exporting, source, exporting->options->kind, keep_times);

	if (!err && !model.sample_count)
		err = say_nothing(exporting, false);
	else if (!err)
		err = write_all(&page, false, exporting->options, exporting->directory);
	xp_model_free(&model);
	return err;
}

/* Samples and calls, as far as there are any. */
static int export_page(struct exporting *exporting, const struct xp_model_source *source)
{
	struct xp_export_page page = { .facts = exporting->facts };
	struct xp_model models[2];
	int err = 0;

	memset(models, 0, sizeof(models));
	for (int kind = exporting->options->kind; !err && kind <= XP_MODEL_CALLS; kind++) {
		/* Calls alone can be selected by threads where there are no samples. */
		if (kind == XP_MODEL_SAMPLES && !xp_facts_summary(exporting->facts)->samples &&
		    xp_select_needs_threads(source->select))
			continue;
		err = read_model(&models[kind], exporting, source, (enum xp_model_kind)kind, false);
		if (!err && models[kind].sample_count)
			page.models[page.model_count++] = &models[kind];
	}
	if (!err && !page.model_count)
		err = say_nothing(exporting, true);
	else if (!err)
		err = write_all(&page, true, exporting->options, exporting->directory);
	for (size_t i = 0; i < XP_ARRAY_SIZE(models); i++)
		xp_model_free(&models[i]);
	return err;
}

/* Formats with the time of each sample have a model of their own: with times, samples are not added up. */
static int export_all(struct exporting *exporting, bool is_directory)
{
	const struct xp_model_source source = {
		.recorded = &exporting->recorded,
		.directory = is_directory ? exporting->directory : NULL,
		.facts = exporting->facts,
		.select = &exporting->options->select,
		.instr_map = exporting->options->instr_map,
	};
	bool needed[2] = { false, false };
	int err = 0;

	for (unsigned int i = 0; i < XP_EXPORT_FORMATS; i++)
		if (!formats[i].is_page)
			needed[formats[i].has_times] |= exporting->options->formats & 1u << i;
	for (int times = 0; !err && times < 2; times++)
		if (needed[times])
			err = export_model(exporting, &source, times);
	if (!err && exporting->options->formats & 1u << XP_EXPORT_PERFETTO)
		err = export_timeline(exporting, &source);
	if (!err && exporting->options->formats & 1u << XP_EXPORT_HTML)
		err = export_page(exporting, &source);
	return err;
}

int xp_export(const char *recording, const struct xp_export_options *options)
{
	struct exporting exporting = { .options = options };
	const char *slash = strrchr(recording, '/');
	char *directory = exporting.directory;
	struct stat st;
	bool is_directory = !stat(recording, &st) && S_ISDIR(st.st_mode);
	int err;

	if (is_directory)
		snprintf(directory, sizeof(exporting.directory), "%s", recording);
	else
		snprintf(directory, sizeof(exporting.directory), "%.*s",
			 slash ? XP_MAX((int)(slash - recording), 1) : 1, slash ? recording : ".");
	err = xp_recorded_add(&exporting.recorded, recording);
	if (!err)
		err = xp_facts_read(&exporting.facts, directory);
	if (!err)
		err = export_all(&exporting, is_directory);
	xp_facts_free(exporting.facts);
	xp_recorded_free(&exporting.recorded);
	return err ? err : exporting.broken ? -EBADMSG : 0;
}
