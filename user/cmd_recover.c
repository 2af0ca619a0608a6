// SPDX-License-Identifier: BSD-2-Clause
/*
 * `xprof recover`: writes the logs of recordings that were cut off, from their spools. Directories name the recordings,
 * or processes that still hold calls of them.
 */
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
#include "format/manifest_reader.h"
#include "kernel/privilege.h"
#include "record/left_recording.h"
#include "record/manifest.h"
#include "record/outdir.h"
#include "record/recovered.h"
#include "sample/perf_out.h"
#include "target/target.h"
#include "trace/ring_recovery.h"
#include "trace/spool_layout.h"

/* A directory of recordings. */
struct place {
	int dir_fd;
	const char *dir_name;
	bool is_ours; /* nobody else could write there */
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

/* Why the calls in a process stay there, for now: its spool stays, too. */
static void say_kept(const char *dir_name, const char *entry, int err, const char *why)
{
	if (err == -EACCES || err == -EPERM)
		xp_error("%s/%s: %s; run `sudo xprof recover %s`", dir_name, entry, why, dir_name);
	else if (why[0])
		xp_error("%s/%s: %s; try again while the process runs", dir_name, entry, why);
	else
		xp_error("%s/%s: cannot recover it: %s", dir_name, entry, reason(err));
}

/*
 * The calls that a process still holds in its memory, if the recording is ours. Returns an error if they can be had,
 * but not now: without the spool they could not be had any more.
 */
static int recover_rings(int dir_fd, const char *dir_name, const char *entry, uint64_t patience_ns)
{
	struct xp_ring_recovery rings;
	char why[256];
	int err = xp_ring_recover(&rings, dir_fd, entry, patience_ns, why, sizeof(why));

	if (!why[0] && (err == -ENODATA || err == -EBADMSG)) /* the latter is told of with the log */
		return 0;
	if (why[0] && (err == -ESRCH || err == -ENOENT)) {
		xp_info("%s/%s: calls that were still in the memory of its process are lost: %s", dir_name, entry, why);
		return 0;
	}
	if (err) {
		say_kept(dir_name, entry, err, why);
		return err;
	}
	xp_info("%s/%s: %" PRIu64 " record%s of calls of %zu thread%s found in the memory of process %d", dir_name,
		entry, rings.left.calls, xp_plural_s(rings.left.calls), rings.left.threads,
		xp_plural_s(rings.left.threads), rings.pid);
	if (rings.left.unstored + rings.left.lost)
		xp_info("  up to %" PRIu64 " earlier ones are lost: xprof had taken them, and was killed before "
			"it stored them",
			rings.left.unstored + rings.left.lost);
	if (rings.left.wraps && rings.left.overwritten)
		xp_info("  they are the newest: %" PRIu64 " older ones were overwritten, as --flight has it",
			rings.left.overwritten);
	if (rings.left.full)
		xp_info("  the memory of %zu of them was full: their later records are missing", rings.left.full);
	return 0;
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
	err = xp_spool_recover(place->dir_fd, entry, patience_ns, &notes, &log->result);
	if (err)
		xp_recovered_drop(place->recovered);
	else
		say_recovered(place, &log->result);
	return err;
}

static void recover_entry(const struct place *place, const char *entry, uint64_t *patience_ns, bool *failed)
{
	const char *dir_name = place->dir_name;
	int rings_err = place->is_ours ? recover_rings(place->dir_fd, dir_name, entry, *patience_ns) : 0;
	int err = rings_err ?: recover_log(place, entry, *patience_ns);

	if (err == -ENODATA)
		xp_info("%s/%s: the recording was cut off before anything was stored; removed", dir_name, entry);
	else if (err && !rings_err)
		xp_error("%s/%s: cannot recover it: %s", dir_name, entry, reason(err));
	*failed |= err && err != -ENODATA;
	/* Waits only once: a process that holds one lock may hold any number. */
	if (err == -EBUSY)
		*patience_ns = 0;
}

static int is_spool(const struct dirent *entry)
{
	return xp_file_is_spool(entry->d_name);
}

/* Left by a recording that was killed after it created the file. A running recording holds a lock on it. */
static bool remove_empty_samples(int dir_fd, const char *dir_name)
{
	int fd = openat(dir_fd, XP_PERF_OUT_NAME, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	bool removed = false;
	struct stat st;

	if (fd < 0)
		return false;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && !st.st_size && !xp_file_lock(fd, NULL))
		removed = !unlinkat(dir_fd, XP_PERF_OUT_NAME, 0);
	if (removed)
		xp_info("%s/" XP_PERF_OUT_NAME ": the recording was cut off before anything was stored; removed",
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
	/* A newer xprof may know more of what the spools hold, too: they stay. */
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
		place.is_ours = xp_left_recording_is_ours(&dir);
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
	*failed |= has_failed;
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

/* The recording of a process. */
static enum xp_exit find_recording(pid_t pid, struct xp_left_recording *recording)
{
	struct xp_target_info info;
	char why[PATH_MAX + 512], lacks[256];
	int err = xp_target_check(pid, &info, why, sizeof(why));

	if (!err && xp_privilege_patch(pid, lacks, sizeof(lacks)) == -EACCES) {
		snprintf(why, sizeof(why), "process %d (%s): %s; run `sudo xprof recover -p %d`", pid, info.comm, lacks,
			 pid);
		err = -EACCES;
	}
	if (!err)
		err = xp_left_recording_find(recording, pid, why, sizeof(why));
	if (!err)
		return XP_EXIT_OK;
	xp_error("%s", why);
	return err == -EACCES ? XP_EXIT_ENVIRONMENT : XP_EXIT_FAILED;
}

/* Finds all recordings first: the recovery of one takes the calls of all its processes. */
static enum xp_exit recover_processes(const struct xp_pid_list *pids)
{
	struct xp_left_recording *list = calloc(pids->count, sizeof(*list));
	enum xp_exit code = XP_EXIT_OK;
	size_t count = 0;
	bool failed = false;

	if (!list)
		return xp_fail(XP_EXIT_FAILED, "out of memory");
	for (size_t i = 0; i < pids->count; i++) {
		enum xp_exit its_code = find_recording(pids->pids[i], &list[count]);
		bool known = false;

		code = code == XP_EXIT_OK ? its_code : code;
		if (its_code != XP_EXIT_OK)
			continue;
		for (size_t k = 0; k < count && !known; k++)
			known = list[k].dev == list[count].dev && list[k].inode == list[count].inode;
		if (known)
			close(list[count].dir_fd);
		else
			count++;
	}
	for (size_t i = 0; i < count; i++) {
		recover_opened(list[i].dir_fd, list[i].path, &failed);
		close(list[i].dir_fd);
	}
	free(list);
	return code == XP_EXIT_OK && failed ? XP_EXIT_FAILED : code;
}

enum xp_exit xp_cmd_recover(const struct xp_options *options)
{
	bool failed = false;

	if (options->pids.count)
		return recover_processes(&options->pids);
	for (size_t i = 0; i < options->operand_count; i++)
		recover_directory(options->operands[i], &failed);
	return failed ? XP_EXIT_FAILED : XP_EXIT_OK;
}
