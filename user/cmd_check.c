// SPDX-License-Identifier: BSD-2-Clause
/*
 * `xprof check FILE|DIR...`: one line per file, either "ok" with counts (not with -q) or the first violation of its
 * format and of the rules of the tools that read it. Files of unknown formats in a directory are skipped.
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
#include "commands.h"
#include "format/formats.h"
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

enum xp_exit xp_cmd_check(const struct xp_options *options)
{
	struct tally tally = { 0 };

	for (size_t i = 0; i < options->operand_count; i++)
		check_operand(options->operands[i], &tally);
	if (fflush(stdout))
		return xp_fail(XP_EXIT_FAILED, "cannot write to the standard output: %s", strerror(errno));
	return tally.failed ? XP_EXIT_FAILED : XP_EXIT_OK;
}
