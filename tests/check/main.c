// SPDX-License-Identifier: BSD-2-Clause
/*
 * Checks the files that the tests make, or prints them record by record.
 *
 *   xprof-check FILE|DIR...     one line per file: "ok" with counts, or the first violation of its format and of the
 *                               rules of the tools that read it; files of unknown formats in a directory are skipped
 *   xprof-check --dump FILE...
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/file_name.h"
#include "base/file_view.h"
#include "base/util.h"
#include "check/formats.h"
#include "trace/spool.h"

static int check_view(const struct xp_format *format, const struct xp_file_view *view, const char *path)
{
	struct xp_report report = { .is_of_waits = xp_file_ends_with(path, XP_WAIT_PROFILE_SUFFIX) };
	int err = format->check(view->bytes, view->size, &report);

	if (err)
		return xp_fail(1, "%s: cannot check it: %s", path, strerror(-err));
	for (unsigned int i = 0; i < report.finding_count; i++)
		xp_put_line(stdout, "%s: 0x%" PRIx64 ": %s", path, report.findings[i].offset, report.findings[i].text);
	if (!report.finding_count)
		xp_put_line(stdout, "%s: ok, %s", path, report.summary);
	return report.finding_count != 0;
}

static int dump_view(const struct xp_format *format, const struct xp_file_view *view, const char *path)
{
	struct xp_violation finding;
	int err = format->dump(view->bytes, view->size, stdout, &finding);

	fflush(stdout); /* print the records before the message */
	if (err == -EBADMSG)
		return xp_fail(1, "%s: 0x%" PRIx64 ": %s", path, finding.offset, finding.text);
	return err ? xp_fail(1, "%s: cannot print it: %s", path, strerror(-err)) : 0;
}

static int look_at(const char *path, bool dumps);

/* Adds the number of files of known formats to *known. */
static int check_entry(const char *directory, const char *name, unsigned int *known)
{
	struct xp_file_view view;
	char path[PATH_MAX + NAME_MAX + 2];
	bool is_known;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	if (xp_file_is_spool(name))
		return xp_fail(1, "%s: the recording was interrupted; `xprof recover` writes its log", path);
	if (xp_file_view_open(&view, AT_FDCWD, path))
		return 0;
	is_known = xp_format_find(view.bytes, view.size);
	xp_file_view_close(&view);
	*known += is_known;
	return is_known ? look_at(path, false) : 0;
}

static int check_directory(const char *path)
{
	struct dirent **entries;
	unsigned int known = 0;
	int failed = 0, count = scandir(path, &entries, NULL, alphasort);

	if (count < 0)
		return xp_fail(1, "%s: cannot read it: %s", path, strerror(errno));
	for (int i = 0; i < count; i++) {
		failed |= check_entry(path, entries[i]->d_name, &known);
		free(entries[i]);
	}
	free(entries);
	return known ? failed : xp_fail(1, "%s: contains no file to check", path);
}

static int look_at(const char *path, bool dumps)
{
	const struct xp_format *format;
	struct xp_file_view view;
	int failed, err = xp_file_view_open(&view, AT_FDCWD, path);

	if (err == -EISDIR && !dumps)
		return check_directory(path);
	if (err)
		return xp_fail(1, "%s: cannot read it: %s", path, xp_file_view_error(err));
	format = xp_format_find(view.bytes, view.size);
	if (!format)
		failed = xp_fail(1, "%s: of no known format", path);
	else
		failed = dumps ? dump_view(format, &view, path) : check_view(format, &view, path);
	xp_file_view_close(&view);
	return failed;
}

int main(int argc, char **argv)
{
	bool dumps = argc > 1 && !strcmp(argv[1], "--dump");
	int failed = argc < 2 + dumps;

	for (int i = 1 + dumps; i < argc; i++)
		failed |= look_at(argv[i], dumps);
	return fflush(stdout) ? xp_fail(1, "cannot write to the standard output: %s", strerror(errno)) : failed;
}
