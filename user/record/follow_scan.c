/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds the binaries that a traced process has mapped. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "base/why.h"
#include "record/follow.h"
#include "target/chosen_file.h"
#include "target/link_map.h"
#include "target/memory_window.h"

/* Number of files to open between two interrupt checks. */
#define MAPPINGS_PER_LOOK 256

static int watch_linker(struct xp_targets *targets, struct xp_process *process, const struct xp_mapping *mapping)
{
	struct stat st;
	int fd, err = 0;

	if (targets->options->exec_path || !xp_link_map_is_linker(mapping->path))
		return 0;
	fd = xp_mapping_open(process->pid, mapping);
	if (fd < 0) /* unmapped meanwhile */
		return 0;
	if (!fstat(fd, &st) && !xp_chosen_original(&st)) {
		process->attaching.stops_when_loaded = strstr(mapping->path, "musl") ? 1 : 2;
		err = xp_probes_add_linker(&targets->probes, targets->programs, fd, &st,
					   xp_follow_probe_pid(targets, process->pid));
	}
	close(fd);
	/* The binaries that are mapped now are recorded even without this probe. */
	if (err == -EBUSY && xp_follow_may_skip_busy(targets))
		err = 0;
	return err;
}

/*
 * Probes the dynamic linkers first: attaching takes so long that the process may load another binary meanwhile. From
 * then on, the linker reports each binary that appears after the mappings were read.
 */
static int watch_linkers(struct xp_targets *targets, struct xp_process *process, struct xp_mappings *mappings)
{
	size_t linkers = targets->probes.linker_count;
	int err = 0;

	for (size_t i = 0; !err && i < mappings->count; i++)
		err = mappings->list[i].first == i ? watch_linker(targets, process, &mappings->list[i]) : 0;
	if (err || linkers == targets->probes.linker_count)
		return err;
	xp_mappings_free(mappings);
	return xp_mappings_read(mappings, process->pid);
}

/* Returns 1 if no calls can be recorded in this file: do not scan its other mappings. */
static int look_at(struct xp_targets *targets, struct xp_process *process, const struct xp_mapping *mapping, bool main)
{
	struct xp_object *object;
	struct stat st;
	int fd = xp_mapping_open(process->pid, mapping);
	const struct xp_object_file file = { fd, mapping->path, process->pid };
	int err = 0, refused;
	bool is_copy; /* xprof has copied the file, because the kernel would wait for FUSE at each uprobe */

	if (fd < 0) /* unmapped meanwhile */
		return 0;
	if (fstat(fd, &st))
		goto out;
	is_copy = xp_chosen_original(&st);
	if (targets->options->exec_path && !xp_follow_same_file(&st, &targets->plan->exec_file)) {
		err = 1;
		goto out;
	}
	if (targets->probes.usdt.pattern_count && !is_copy && targets->probes.attach && !targets->probes.stopped)
		err = xp_usdt_on_attach(&targets->probes.usdt, targets->probes.attach, targets->programs, fd,
					mapping->path, xp_follow_probe_pid(targets, process->pid));
	if (err || !targets->plan->sleds) {
		err = err ?: 1;
		goto out;
	}
	err = xp_objects_add(&targets->objects, &object, &file, &refused);
	if (err == -ENOSPC)
		xp_why_set(err, "the binaries have more than %u functions in total: record fewer processes", XP_FN_MAX);
	if (err)
		goto out;
	if (refused == -EINVAL)
		xp_warn("%s: %s; its sleds are not recorded", mapping->path, xp_why(refused));
	xp_why_clear();
	err = object->table ? xp_follow_add_object(targets, process, object, mapping, main) : 1;
out:
	close(fd);
	return err;
}

static bool is_program(pid_t pid, const struct xp_mapping *mapping, const struct stat *exe)
{
	int fd = xp_mapping_open(pid, mapping);
	struct stat st;
	bool same = fd >= 0 && !fstat(fd, &st);

	if (same) {
		xp_chosen_original(&st);
		same = xp_follow_same_file(&st, exe);
	}
	if (fd >= 0)
		close(fd);
	return same;
}

/* Returns the index of the first mapping of the program's file, or the number of mappings. */
static size_t find_program(pid_t pid, const struct xp_mappings *mappings)
{
	struct stat exe;
	size_t i = xp_target_stat_exe(pid, &exe) ? mappings->count : 0;

	while (i < mappings->count && (mappings->list[i].first != i || !is_program(pid, &mappings->list[i], &exe)))
		i++;
	return i;
}

/* -ESRCH for one mapping means only that the binary was unloaded meanwhile, while the program stayed the same. */
static int look_at_all(struct xp_targets *targets, struct xp_process *process, const struct xp_mappings *mappings,
		       const struct xp_memory_window *memory)
{
	size_t program = find_program(process->pid, mappings);
	uint8_t *passed = calloc(mappings->count + 1, sizeof(*passed)); /* files to skip, by their first mapping */
	int err = passed ? 0 : -ENOMEM;

	for (int main = 1; main >= 0 && !err; main--)
		for (size_t i = 0; i < mappings->count && !err; i++) {
			const struct xp_mapping *mapping = &mappings->list[i];

			if ((mapping->first == program) != main || passed[mapping->first])
				continue;
			if (i % MAPPINGS_PER_LOOK == MAPPINGS_PER_LOOK - 1 && xp_interrupted())
				err = -ECANCELED;
			else
				err = look_at(targets, process, mapping, main);
			if (err == 1)
				passed[mapping->first] = 1;
			if (err == 1 || (err == -ESRCH && memory && !xp_memory_window_gone(memory)))
				err = 0;
		}
	free(passed);
	return err;
}

/* Returns -ESRCH if the process exited, has executed another program, or is about to: then it has no code yet. */
static int scan_once(struct xp_targets *targets, struct xp_process *process)
{
	struct xp_memory_window *memory = NULL;
	struct xp_mappings mappings;
	int err;

	if (xp_memory_window_open(&memory, process->pid) == -ESRCH)
		return -ESRCH;
	err = xp_mappings_read(&mappings, process->pid);
	if (err) {
		xp_why_set(err, "cannot read the mappings of process %d: %s", process->pid, strerror(-err));
		goto out;
	}
	err = watch_linkers(targets, process, &mappings);
	if (!err)
		err = look_at_all(targets, process, &mappings, memory);
	/* The process has exited, so some of the mappings could not be examined. */
	if (!err && (!mappings.count || (memory && xp_memory_window_gone(memory))))
		err = -ESRCH;
	xp_mappings_free(&mappings);
out:
	xp_memory_window_free(memory);
	return err;
}

int xp_follow_scan(struct xp_targets *targets, struct xp_process *process)
{
	int err;

	process->attaching.looked_tsc = xp_clock_now_tsc();
	err = targets->plan->sleds || targets->probes.usdt.pattern_count ? scan_once(targets, process) : 0;
	if (err == -ESRCH)
		process->attaching.in_vain++;
	if (process->functions.range_count || !err)
		process->attaching.flees = 0;
	else if (err == -ESRCH)
		process->attaching.flees++;
	if (err != -ESRCH)
		return err;
	/* The exit and the execs of the process cause events of their own. */
	xp_why_clear();
	return 0;
}
