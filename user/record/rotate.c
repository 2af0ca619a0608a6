/* SPDX-License-Identifier: BSD-2-Clause */
#include "record/rotate.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/child.h"
#include "base/interrupt.h"
#include "base/util.h"
#include "base/why.h"
#include "record/manifest.h"
#include "record/messages.h"
#include "record/parts.h"
#include "record/recording.h"
#include "store/sym_dir.h"
#include "store/sym_shared.h"
#include "target/memory.h"

/* Ending a part takes seconds. A child that takes longer is killed, and `xprof recover` completes its part. */
#define PART_END_SECONDS 900
#define POLL_MS 100
#define SETTLE_NS XP_NS_PER_S /* for unwind tables that samples wait for */
#define CLEAN_SECONDS 60
#define TELL_NS (60 * XP_NS_PER_S) /* between two messages about a full disk */

/* ---- the parts ---- */

/* Creates a part named by the time of its start, so that names sort by time. */
static int open_part(struct xp_rotation *rotation, const struct xp_clock *clock, uint64_t tsc, struct xp_outdir *part)
{
	time_t seconds = (time_t)(xp_clock_wall_ns(clock, tsc) / XP_NS_PER_S);
	char name[XP_ISO_TIME_BYTES];
	struct tm tm;
	int err;

	gmtime_r(&seconds, &tm);
	strftime(name, sizeof(name), "%Y%m%dT%H%M%SZ", &tm);
	err = xp_outdir_open_part(part, &rotation->parts, name, rotation->newest);
	if (err == -EEXIST) /* the clock was set back for more parts than have names in a second */
		err = xp_outdir_open_part(part, &rotation->parts, name, "");
	if (!err)
		snprintf(rotation->newest, sizeof(rotation->newest), "%s", part->name);
	return err;
}

int xp_rotation_open(struct xp_rotation *rotation, const struct xp_clock *clock, const struct xp_options *options,
		     struct xp_outdir *first)
{
	int err = xp_outdir_open_parts(&rotation->parts, options->output_dir);

	if (!err)
		err = open_part(rotation, clock, xp_clock_now_tsc(), first);
	if (err) {
		xp_outdir_leave(&rotation->parts);
		return err;
	}
	rotation->shared_fd = xp_sym_shared_open(rotation->parts.fd);
	if (rotation->shared_fd < 0)
		xp_warn("%s/" XP_SYM_DIR_NAME ": the parts do not share names: %s", rotation->parts.path,
			strerror(-rotation->shared_fd));
	return 0;
}

void xp_rotation_begin(struct xp_rotation *rotation, const struct xp_clock *clock, uint64_t tsc)
{
	uint64_t ticks = xp_clock_ticks(clock, rotation->options->rotate.ns);

	rotation->has_waited = rotation->is_asked = false;
	rotation->due_ns = 0;
	rotation->next_tsc = ticks ? tsc + ticks : UINT64_MAX;
}

/* ---- what is deleted ---- */

static int clean(void *arg)
{
	const struct xp_rotation *rotation = arg;
	const struct xp_time_or_bytes *keep = &rotation->options->keep;
	const struct xp_parts_limits limits = {
		.now_ns = (uint64_t)time(NULL) * XP_NS_PER_S,
		.keep_ns = keep->ns,
		.max_bytes = keep->bytes,
		.shared_fd = XP_CHILD_FDS + 1,
		.is_full = true,
	};

	if (xp_parts_clean(XP_CHILD_FDS, &limits) > 0)
		xp_sym_shared_clean(XP_CHILD_FDS + 1);
	return 0;
}

/* Starts a child that deletes old parts: deleting large files takes long. */
static void start_cleaning(struct xp_rotation *rotation)
{
	const struct xp_child_options options = {
		.name = "xprof-clean",
		.fds = { rotation->parts.fd, rotation->shared_fd },
		.fd_count = 2,
		.limits = { .seconds = CLEAN_SECONDS },
	};

	if (rotation->cleaner.pid && xp_child_wait(rotation->cleaner.pid, 0) == -EAGAIN)
		return;
	if (xp_child_start(&rotation->cleaner, &options, clean, rotation))
		rotation->cleaner.pid = 0;
}

/* Reports a complete part. code: exit code of the process that ended the part. */
static void part_is_complete(struct xp_rotation *rotation, const char *path, int code)
{
	rotation->after->complete(rotation->after->arg, path);
	rotation->code = rotation->code ?: code;
	start_cleaning(rotation);
}

/* ---- a full disk ---- */

static bool is_full(int err)
{
	return err == -ENOSPC;
}

/* Returns whether the disk is full, and so a file of the part has ended. */
static bool has_no_room(const struct xp_recording *recording)
{
	const struct xp_process *process = recording->targets.processes.first_live;

	while (process && !is_full(process->log.error))
		process = process->next_live;
	return process || is_full(xp_perf_out_counts(recording->sampling.samples.perf).err);
}

int xp_rotation_forgives(int err)
{
	return is_full(err) ? 0 : err;
}

static void tell_pause(struct xp_rotation *rotation)
{
	uint64_t now_ns = xp_now_ns();

	if (!rotation->told_ns || now_ns - rotation->told_ns >= TELL_NS)
		xp_warn(
		    "the disk is full: the oldest parts in %s are deleted; until there is space, xprof writes nothing "
		    "and counts the lost events",
		    rotation->parts.path);
	rotation->told_ns = now_ns;
}

void xp_rotation_tend(struct xp_recording *recording)
{
	struct xp_rotation *rotation = &recording->rotation;
	uint64_t bytes = rotation->options->rotate.bytes;

	if (rotation->parts.fd < 0)
		return;
	rotation->is_asked |= bytes && xp_outdir_bytes(recording->outdir.fd) >= bytes;
	if (!has_no_room(recording))
		return;
	if (!rotation->is_paused)
		tell_pause(rotation);
	rotation->is_paused = true;
	if (xp_parts_have_room(rotation->parts.fd))
		rotation->is_asked = true;
	else
		start_cleaning(rotation);
}

int xp_rotation_products(const struct xp_rotation *rotation, const char *path)
{
	struct xp_options of_part = *rotation->options;

	of_part.output_dir = path;
	return rotation->after->products(&of_part);
}

/* ---- children that end parts ---- */

/* Handles children that have exited. timeout_ms: how long to wait for the first. */
static void take_ended(struct xp_rotation *rotation, int timeout_ms)
{
	for (size_t i = 0; i < rotation->end_count;) {
		struct xp_part_end *end = &rotation->ends[i];
		int code = xp_child_wait(end->pid, timeout_ms);

		timeout_ms = 0;
		if (code == -EAGAIN) {
			i++;
			continue;
		}
		if (code < 0) {
			struct xp_shell_path dir;

			xp_error("the process that wrote %s has died; `xprof recover %s` makes the files", end->path,
				 xp_shell_path(&dir, "%s", end->path));
			code = XP_EXIT_FAILED;
		}
		part_is_complete(rotation, end->path, code);
		*end = rotation->ends[--rotation->end_count];
	}
}

int xp_rotation_end(struct xp_rotation *rotation)
{
	if (rotation->parts.fd < 0)
		return XP_EXIT_OK;
	while (rotation->end_count && !xp_interrupted())
		take_ended(rotation, POLL_MS);
	if (rotation->end_count)
		xp_warn("%zu part%s still being written in the background", rotation->end_count,
			xp_plural_s(rotation->end_count));
	if (rotation->postponed)
		xp_info("%" PRIu64
			" part%s began later than requested, because two earlier ones were still being written",
			rotation->postponed, xp_plural_s(rotation->postponed));
	xp_outdir_leave(&rotation->parts);
	return rotation->code;
}

/*
 * Closes links and perf events: an open descriptor would keep probes and sampling attached after xprof exits. Maps and
 * programs stay open, because the end of a part reads them.
 */
static void close_attached(void)
{
	DIR *fds = opendir("/proc/self/fd");
	char path[64], target[64];
	struct dirent *entry;

	while (fds && (entry = readdir(fds))) {
		ssize_t length;

		snprintf(path, sizeof(path), "/proc/self/fd/%.32s", entry->d_name);
		length = readlink(path, target, sizeof(target) - 1);
		target[XP_MAX(length, 0)] = 0;
		if (!strcmp(target, "anon_inode:bpf_link") || !strcmp(target, "anon_inode:[perf_event]") ||
		    !strcmp(target, "anon_inode:bpf-link"))
			close(atoi(entry->d_name));
	}
	if (fds)
		closedir(fds);
}

/* Runs in the child. Returns its exit code. */
static int end_part(void *arg)
{
	struct xp_recording *recording = arg;
	int code, made, lock_fd;

	xp_interrupt_leave();
	xp_outdir_leave(&recording->rotation.parts);
	close_attached();
	if (setpriority(PRIO_PROCESS, 0, recording->own_nice))
		xp_debug("the end of a part keeps the reader's priority: %s", strerror(errno));
	recording->rotation.goes_on = true;
	xp_processes_forked(&recording->targets.processes);
	xp_samples_forked(&recording->sampling.samples);
	if (xp_target_memory_own())
		xp_target_memory_forked(xp_target_memory_own());
	code = xp_finish_store(recording, XP_EXIT_OK);
	/* This descriptor keeps the lock: the part must not be deleted before it is complete. */
	lock_fd = fcntl(recording->outdir.fd, F_DUPFD_CLOEXEC, 0);
	if (xp_outdir_close(&recording->outdir, true))
		return code ?: XP_EXIT_FAILED;
	made = xp_rotation_products(&recording->rotation, recording->outdir.path);
	if (lock_fd >= 0)
		close(lock_fd);
	return code ?: made;
}

/* Starts a child, which has a copy of all data as of now. */
static int start_end(struct xp_recording *recording, uint64_t tsc)
{
	static const struct xp_child_options options = {
		.name = "xprof-part",
		.keeps_fds = true,
		.outlives_parent = true,
		.limits = { .seconds = PART_END_SECONDS },
	};
	struct xp_rotation *rotation = &recording->rotation;
	struct xp_part_end *end = &rotation->ends[rotation->end_count];
	uint64_t *stop_tsc = &recording->targets.processes.stop_tsc;
	struct xp_child child;
	int err;

	*stop_tsc = tsc;
	err = xp_child_start(&child, &options, end_part, recording);
	*stop_tsc = UINT64_MAX;
	if (err)
		return err;
	end->pid = child.pid;
	memcpy(end->path, recording->outdir.path, sizeof(end->path));
	rotation->end_count++;
	return 0;
}

/* ---- the next part ---- */

/* Resets everything that belongs to a part. */
static int begin_part(struct xp_recording *recording, const struct xp_outdir *part, uint64_t tsc)
{
	struct xp_targets *targets = &recording->targets;
	int err;

	xp_outdir_leave(&recording->outdir);
	recording->outdir = *part;
	targets->run_tsc = tsc;
	targets->other_process = 0;
	xp_bpf_side_begin_part(&recording->bpf);
	xp_off_cpu_begin_part(&recording->off_cpu);
	err = xp_processes_begin_part(&targets->processes, part->fd, tsc);
	return xp_rotation_forgives(err) ?: xp_sampling_begin_part(&recording->sampling, part->fd, tsc);
}

/* Reads the counts of lost events, which belong to the part that ends. */
static int read_counts(struct xp_recording *recording)
{
	xp_bpf_side_read_losses(&recording->bpf);
	return xp_off_cpu_end_part(&recording->off_cpu);
}

static bool may_begin(struct xp_rotation *rotation, size_t waiting, uint64_t done_tsc)
{
	if (done_tsc < rotation->next_tsc && !rotation->is_asked)
		return false;
	/* If there is no space, another part would end immediately. */
	if (rotation->is_paused && !xp_parts_have_room(rotation->parts.fd))
		return false;
	rotation->due_ns = rotation->due_ns ?: xp_now_ns();
	if (waiting && xp_now_ns() - rotation->due_ns < SETTLE_NS)
		return false;
	if (rotation->end_count < XP_PART_ENDS_MAX)
		return true;
	rotation->postponed += !rotation->has_waited;
	rotation->has_waited = true;
	return false;
}

int xp_rotate(struct xp_recording *recording, uint64_t done_tsc)
{
	struct xp_rotation *rotation = &recording->rotation;
	struct xp_outdir part;
	int err;

	take_ended(rotation, 0);
	if (!may_begin(rotation, recording->sampling.samples.waiting.count, done_tsc))
		return 0;
	xp_clock_new_wall(recording->clock);
	xp_rotation_begin(rotation, recording->clock, done_tsc);
	err = read_counts(recording);
	if (err)
		return err;
	err = open_part(rotation, recording->clock, done_tsc, &part);
	if (!err) {
		err = start_end(recording, done_tsc);
		if (!err) {
			if (rotation->is_paused)
				xp_info("the disk has space again: the recording continues in %s", part.path);
			rotation->is_paused = false;
			return begin_part(recording, &part, done_tsc) ?: 1;
		}
		xp_outdir_close(&part, false);
	}
	xp_warn("cannot begin another part: %s; the recording continues in %s", xp_why(err), recording->outdir.path);
	xp_why_clear();
	return 0;
}
