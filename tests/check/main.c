// SPDX-License-Identifier: BSD-2-Clause
/*
 * Checks the files that the tests make, or prints them record by record.
 *
 *   xprof-check [-q] FILE|DIR...                  one line per file: "ok" with counts (not with -q), or the first
 *                                                 violation of its format and of the rules of the tools that read it;
 *                                                 files of unknown formats in a directory are skipped
 *   xprof-check --dump [--instr-map FILE] FILE...
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file_name.h"
#include "base/file_view.h"
#include "base/util.h"
#include "check/formats.h"
#include "check/log_names.h"
#include "model/objects.h"
#include "trace/spool.h"

struct tally {
	unsigned int known;
	bool failed;
};

static void check_view(const struct xp_format *format, const struct xp_file_view *view, const char *name,
		       struct tally *tally)
{
	struct xp_report report = { .is_of_waits = xp_file_ends_with(name, XP_WAIT_PROFILE_SUFFIX) };
	int err = format->check(view->bytes, view->size, &report);

	tally->known++;
	if (err) {
		xp_error("%s: cannot check it: %s", name, strerror(-err));
		tally->failed = true;
		return;
	}
	for (unsigned int i = 0; i < report.finding_count; i++)
		xp_put_line(stdout, "%s: 0x%" PRIx64 ": %s", name, report.findings[i].offset, report.findings[i].text);
	if (report.finding_count)
		tally->failed = true;
	else if (xp_log_level > XP_LOG_QUIET)
		xp_put_line(stdout, "%s: ok, %s", name, report.summary);
}

static void cannot_read(const char *name, int err, struct tally *tally)
{
	xp_error("%s: cannot read it: %s", name, xp_file_view_error(err));
	tally->failed = true;
}

static void check_entry(int dir_fd, const char *dir_name, const char *entry, struct tally *tally)
{
	const struct xp_format *format;
	struct xp_file_view view;
	char name[PATH_MAX + NAME_MAX + 2];
	int err;

	snprintf(name, sizeof(name), "%s/%s", dir_name, entry);
	if (xp_file_is_spool(entry)) {
		xp_error("%s: the recording was cut off; `xprof recover` writes its log", name);
		tally->known++;
		tally->failed = true;
		return;
	}
	err = xp_file_view_open(&view, dir_fd, entry);
	if (err == -EISDIR || err == -EINVAL)
		return;
	if (err) {
		cannot_read(name, err, tally);
		return;
	}
	format = xp_format_find(view.bytes, view.size);
	if (format)
		check_view(format, &view, name, tally);
	xp_file_view_close(&view);
}

static void check_directory(const char *path, struct tally *tally)
{
	struct dirent **entries;
	unsigned int before = tally->known;
	int count, dir_fd;

	dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0) {
		cannot_read(path, -errno, tally);
		return;
	}
	count = scandirat(dir_fd, ".", &entries, NULL, alphasort);
	if (count < 0) {
		cannot_read(path, -errno, tally);
		close(dir_fd);
		return;
	}
	for (int i = 0; i < count; i++) {
		check_entry(dir_fd, path, entries[i]->d_name, tally);
		free(entries[i]);
	}
	free(entries);
	close(dir_fd);
	if (tally->known == before) {
		char names[128];

		xp_error("%s: contains no file that xprof can check (%s)", path, xp_format_names(names, sizeof(names)));
		tally->failed = true;
	}
}

static void check_operand(const char *path, struct tally *tally)
{
	const struct xp_format *format;
	struct xp_file_view view;
	char names[128];
	int err;

	err = xp_file_view_open(&view, AT_FDCWD, path);
	if (err == -EISDIR) {
		check_directory(path, tally);
		return;
	}
	if (err) {
		cannot_read(path, err, tally);
		return;
	}
	format = xp_format_find(view.bytes, view.size);
	if (format) {
		check_view(format, &view, path, tally);
	} else {
		xp_error("%s: not a file that xprof can check (%s)", path, xp_format_names(names, sizeof(names)));
		tally->failed = true;
	}
	xp_file_view_close(&view);
}

/* ---- dump ---- */

static const char *name_of(const void *arg, uint32_t function_id)
{
	return xp_log_names_get(arg, function_id);
}

static int dump_log(const struct xp_file_view *view, const char *path, const char *instr_map,
		    struct xp_violation *finding)
{
	struct xp_log_names *log_names = NULL;
	int err = xp_log_names_new(&log_names, path, instr_map);
	const struct xp_function_names names = { .name = name_of, .arg = log_names };

	/* Without names it is still a dump. */
	if (err == -ENOEXEC)
		return err;
	err = xp_format_fdr.dump(view->bytes, view->size, err ? NULL : &names, stdout, finding);
	xp_log_names_free(log_names);
	return err;
}

static int dump_view(const struct xp_file_view *view, const char *name, const char *instr_map)
{
	const struct xp_format *format = xp_format_find(view->bytes, view->size);
	struct xp_violation finding;
	char names[128];
	int err;

	if (!format)
		return xp_fail(1, "%s: not a file that xprof can read (%s)", name,
			       xp_format_names(names, sizeof(names)));
	if (format == &xp_format_fdr)
		err = dump_log(view, name, instr_map, &finding);
	else
		err = format->dump(view->bytes, view->size, NULL, stdout, &finding);
	if (!err && fflush(stdout))
		err = -errno;
	if (!err)
		return 0;
	fflush(stdout); /* print the records before the message */
	if (err == -EBADMSG)
		xp_error("%s: 0x%" PRIx64 ": %s", name, finding.offset, finding.text);
	else if (err == -ENOEXEC)
		xp_error("%s: " XP_REPORT_NO_INSTR_MAP, instr_map);
	else
		xp_error("%s: cannot print it: %s", name, strerror(-err));
	return 1;
}

static void dump_operand(const char *name, const char *instr_map, struct tally *tally)
{
	struct xp_file_view view;
	int err = xp_file_view_open(&view, AT_FDCWD, name);

	if (err) {
		cannot_read(name, err, tally);
		return;
	}
	if (dump_view(&view, name, instr_map))
		tally->failed = true;
	xp_file_view_close(&view);
}

int main(int argc, char **argv)
{
	const char *instr_map = NULL;
	struct tally tally = { 0 };
	bool dumps = false;
	int i;

	for (i = 1; i < argc && argv[i][0] == '-'; i++) {
		if (!strcmp(argv[i], "-q"))
			xp_log_level = XP_LOG_QUIET;
		else if (!strcmp(argv[i], "--dump"))
			dumps = true;
		else if (!strcmp(argv[i], "--instr-map") && i + 1 < argc)
			instr_map = argv[++i];
		else
			return 2;
	}
	if (i == argc)
		return 2;
	for (; i < argc; i++) {
		if (dumps)
			dump_operand(argv[i], instr_map, &tally);
		else
			check_operand(argv[i], &tally);
	}
	if (fflush(stdout)) {
		xp_error("cannot write to the standard output: %s", strerror(errno));
		return 1;
	}
	return tally.failed;
}
