// SPDX-License-Identifier: BSD-2-Clause
/* `xprof recover`: makes the logs and profiles of interrupted recordings. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_lock.h"
#include "base/file_name.h"
#include "base/owner_rights.h"
#include "base/trusted_dir.h"
#include "commands.h"
#include "export/logs.h"
#include "export/profiles.h"
#include "format/manifest_reader.h"
#include "record/manifest.h"
#include "record/outdir.h"
#include "record/recovered.h"

/* The directory of a recording. */
struct place {
	int dir_fd;
	const char *dir_name;
	struct xp_recovered *recovered;
};

static const char *reason(int err)
{
	switch (err) {
	case -EBUSY:
		return "its recording is still running";
	case -EBADMSG:
		return "it is not a spool of this version of xprof, or it is damaged";
	case -ENOSPC:
		return "the disk is full; free some space and try again";
	default:
		return strerror(-err);
	}
}

static void say_recovered(const struct place *place, const struct xp_spool_result *result)
{
	const char *dir_name = place->dir_name;
	struct xp_shell_path log, exe;

	xp_info("%s/%s: %u thread%s, %" PRIu64 " function record%s, %" PRIu64 " event%s", dir_name, result->final_name,
		result->threads, xp_plural_s(result->threads), result->stats.functions,
		xp_plural_s(result->stats.functions), result->stats.events, xp_plural_s(result->stats.events));
	if (result->dropped_bytes)
		xp_info("  %" PRIu64 " bytes at the end of its spool were incomplete", result->dropped_bytes);
	xp_info("  llvm-xray account %s -instr_map=%s", xp_shell_path(&log, "%s/%s", dir_name, result->final_name),
		xp_shell_path(&exe, "%s", result->exe));
}

static int recover_log(const struct place *place, const char *entry, uint64_t patience_ns)
{
	struct xp_recovered_log *log = xp_recovered_add(place->recovered);
	const struct xp_spool_taker notes = { xp_recovered_take_note, log };
	int err;

	if (!log)
		return -ENOMEM;
	err = xp_fdr_make(place->dir_fd, entry, patience_ns, &notes, &log->result);
	if (err)
		xp_recovered_drop(place->recovered);
	else if (log->result.file_bytes)
		say_recovered(place, &log->result);
	return err;
}

static void recover_entry(const struct place *place, const char *entry, uint64_t *patience_ns, bool *failed)
{
	const char *dir_name = place->dir_name;
	int err = recover_log(place, entry, *patience_ns);

	if (err == -ENODATA)
		xp_info("%s/%s: the recording was interrupted before anything was stored; removed", dir_name, entry);
	else if (err)
		xp_error("%s/%s: cannot recover it: %s", dir_name, entry, reason(err));
	*failed |= err && err != -ENODATA;
	/* Waits for a lock only once, because one process can hold the locks of all spools. */
	if (err == -EBUSY)
		*patience_ns = 0;
}

static int is_spool(const struct dirent *entry)
{
	return xp_file_is_spool(entry->d_name);
}

/*
 * Removes an empty perf.data: xprof was killed after it created the file. A running recording holds a lock on the file.
 * Returns whether the file was removed.
 */
static bool remove_empty_samples(int dir_fd, const char *dir_name)
{
	int fd = openat(dir_fd, XP_PERF_DATA_NAME, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	bool removed = false;
	struct stat st;

	if (fd < 0)
		return false;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && !st.st_size && !xp_file_lock(fd, NULL))
		removed = !unlinkat(dir_fd, XP_PERF_DATA_NAME, 0);
	if (removed)
		xp_info("%s/" XP_PERF_DATA_NAME ": the recording was interrupted before anything was stored; removed",
			dir_name);
	close(fd);
	return removed;
}

static void recover_entries(struct place *place, bool *failed)
{
	struct xp_recovered recovered = { 0 };
	const char *dir_name = place->dir_name;
	int dir_fd = place->dir_fd, err;
	struct dirent **entries = NULL;
	int count = scandirat(dir_fd, ".", &entries, is_spool, alphasort);
	uint64_t patience_ns = XP_FILE_LOCK_PATIENCE_NS;
	bool is_newer, removed;
	size_t flights;

	place->recovered = &recovered;
	if (count < 0) {
		xp_error("%s: cannot read the directory: %s", dir_name, strerror(errno));
		*failed = true;
	}
	removed = remove_empty_samples(dir_fd, dir_name);
	/* Keeps spools of a newer xprof, because their contents may have another meaning. */
	*failed |= is_newer = count > 0 && xp_manifest_check(dir_fd, dir_name);
	for (int i = 0; i < count; i++) {
		if (!is_newer)
			recover_entry(place, entries[i]->d_name, &patience_ns, failed);
		free(entries[i]);
	}
	free(entries);
	xp_manifest_recover(dir_fd);
	err = xp_recovered_write(&recovered, dir_fd, &flights);
	if (err) {
		xp_error("%s/" XP_MANIFEST_NAME ": cannot write it: %s", dir_name, reason(err));
		*failed = true;
	} else if (recovered.count || flights) {
		struct xp_shell_path dir;

		if (flights)
			xp_info("%s/" XP_MANIFEST_NAME ": names %zu log%s of flight recorders", dir_name, flights,
				xp_plural_s(flights));
		if (recovered.count)
			xp_info("%s: if xprof was killed, up to a second of calls before that is missing", dir_name);
		xp_info("%s: xprof report %s", dir_name, xp_shell_path(&dir, "%s", dir_name));
	} else if (!count && !removed) {
		xp_info("%s: nothing to recover", dir_name);
	}
	xp_recovered_free(&recovered);
}

static bool take_owners_rights(const struct stat *dir, const char *dir_name)
{
	int err = xp_owner_rights_take(dir);

	if (err == -ENOTUNIQ)
		xp_error("%s: the directory is root's, but others may write to it: move the recording to a separate "
			 "one, and recover it there",
			 dir_name);
	else if (err)
		xp_error("%s: cannot work as the directory's owner, user %u: %s", dir_name, dir->st_uid,
			 strerror(-err));
	return !err;
}

static void recover_opened(int dir_fd, const char *dir_name, bool *failed)
{
	struct place place = { .dir_fd = dir_fd, .dir_name = dir_name };
	bool has_failed = false;
	struct stat dir;

	if (xp_file_lock(dir_fd, NULL) == -EBUSY) {
		xp_error("%s: cannot recover it: %s", dir_name, reason(-EBUSY));
		has_failed = true;
	} else if (fstat(dir_fd, &dir)) {
		xp_error("%s: cannot read the directory: %s", dir_name, strerror(errno));
		has_failed = true;
	} else {
		has_failed = !take_owners_rights(&dir, dir_name);
	}
	if (!has_failed)
		recover_entries(&place, &has_failed);
	if (xp_owner_rights_return()) {
		xp_error("cannot become root again: %s", strerror(errno));
		has_failed = true;
	} else if (!has_failed && xp_outdir_give(dir_fd, dir_name)) {
		has_failed = true;
	}
	*failed |= has_failed || xp_export_profiles(dir_name);
}

static void recover_directory(const char *path, bool *failed)
{
	int dir_fd = xp_own_links_dir_open(path);

	if (dir_fd == -EREMCHG)
		xp_error("%s: the path goes through another user's symbolic link: give the directory itself", path);
	else if (dir_fd < 0)
		xp_error("%s: cannot read the directory: %s", path, strerror(-dir_fd));
	if (dir_fd < 0) {
		*failed = true;
		return;
	}
	recover_opened(dir_fd, path, failed);
	close(dir_fd);
}

enum xp_exit xp_cmd_recover(const struct xp_options *options)
{
	bool failed = false;

	for (size_t i = 0; i < options->operand_count; i++)
		recover_directory(options->operands[i], &failed);
	return failed ? XP_EXIT_FAILED : XP_EXIT_OK;
}
