/* SPDX-License-Identifier: BSD-2-Clause */
#include "sled/sleds.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arch/x86_64/patch_bytes.h"
#include "base/interrupt.h"
#include "base/util.h"
#include "sled/sled_lock.h"
#include "target/chosen_file.h"
#include "target/memory_window.h"

#define BREAKPOINT 0xcc
/* Scanned in less than 0.1 s, between two interrupt checks. */
#define SLEDS_PER_LOOK 65536
#define MAPPINGS_PER_LOOK 256
/* Retries if a process executes programs faster than their sleds can be checked. */
#define IMAGE_TRIES 5

enum verdict {
	VERDICT_INTACT,
	VERDICT_PATCHED,
	VERDICT_UNREADABLE,
};

/*
 * A leading breakpoint is another profiler's uprobe on the sled, which can coexist with ours: uprobes at one address
 * share one breakpoint. (A debugger's breakpoint looks the same, and the kernel keeps it as it is.)
 */
static enum verdict judge(struct xp_memory_window *memory, const struct xp_sled *sled, uint64_t address)
{
	static const uint8_t first[XP_SLED_KINDS] = { 0xeb, 0xc3, 0xeb, 0xeb, 0xeb, 0xeb };
	uint8_t bytes[XP_SLED_BYTES_MAX] = { 0 };
	/* Event sleds are longer. The others are 11 bytes, and a mapping may end behind them. */
	size_t size = sled->kind == XP_SLED_TYPED_EVENT ? 22 : sled->kind == XP_SLED_CUSTOM_EVENT ? 17 : 11;

	if (!xp_memory_window_read(memory, bytes, address, size))
		return VERDICT_UNREADABLE;
	if (bytes[0] == BREAKPOINT)
		bytes[0] = first[sled->kind];
	return xp_sled_intact(sled->kind, bytes) ? VERDICT_INTACT : VERDICT_PATCHED;
}

bool xp_sleds_mapped(const struct xp_object *object, pid_t pid, const struct xp_mapping *mapping)
{
	struct stat st;
	int fd;
	bool same;

	if (mapping->inode != object->inode)
		return false;
	/* Device numbers in /proc/PID/maps differ from fstat's on overlayfs and btrfs: ask the file itself. */
	fd = xp_mapping_open(pid, mapping);
	if (fd < 0)
		return false;
	same = !fstat(fd, &st);
	xp_chosen_original(&st);
	same = same && st.st_ino == object->inode && st.st_dev == object->dev;
	close(fd);
	return same;
}

static bool is_chosen(const struct xp_sled_choice *choice, const struct xp_sled *sled)
{
	if (!choice)
		return true;
	return choice->wanted(choice->arg, sled->function_id) && (!choice->unpatched || !xp_patch_possible(sled));
}

/* Raises the verdicts to the worst that a mapping of the object shows. */
static int judge_mapping(const struct xp_object *object, struct xp_memory_window *memory,
			 const struct xp_mapping *mapping, const struct xp_sled_choice *choice, uint8_t *verdicts)
{
	size_t first = xp_object_selected_from(object, mapping->file_offset);

	xp_memory_window_set(memory, mapping->start, mapping->end);
	for (size_t i = first; i < object->selected_count; i++) {
		const struct xp_sled *sled = &object->table->sleds[object->selected[i]];
		uint64_t into = sled->file_offset - mapping->file_offset;
		enum verdict verdict;

		if ((i - first) % SLEDS_PER_LOOK == SLEDS_PER_LOOK - 1 && xp_interrupted())
			return -ECANCELED;
		if (into >= mapping->end - mapping->start)
			break;
		if (!is_chosen(choice, sled))
			continue;
		verdict = judge(memory, sled, mapping->start + into);
		verdicts[i] = XP_MAX(verdicts[i], verdict);
	}
	return 0;
}

/* Returns -ESRCH also if the process executed another program meanwhile: the verdicts are then void. */
static int judge_image(const struct xp_object *object, pid_t pid, const struct xp_sled_choice *choice,
		       uint8_t *verdicts)
{
	struct xp_mappings mappings;
	struct xp_memory_window *memory;
	int err = xp_memory_window_open(&memory, pid);

	if (err)
		return err;
	err = xp_mappings_read(&mappings, pid);
	if (err) {
		xp_memory_window_free(memory);
		return err;
	}
	for (size_t m = 0; m < mappings.count && !err; m++) {
		if (m % MAPPINGS_PER_LOOK == MAPPINGS_PER_LOOK - 1 && xp_interrupted())
			err = -ECANCELED;
		else if (xp_sleds_mapped(object, pid, &mappings.list[m]))
			err = judge_mapping(object, memory, &mappings.list[m], choice, verdicts);
	}
	if (!err && mappings.count && xp_memory_window_gone(memory))
		err = -ESRCH;
	xp_memory_window_free(memory);
	xp_mappings_free(&mappings);
	return err;
}

/*
 * Raises the verdicts of the chosen selected sleds to the worst that the memory of process pid shows, and sets
 * *patched_pid to pid if it is 0 and sleds are patched there. Returns -ESRCH if the process ended, or executes one
 * program after another.
 */
static int judge_process(const struct xp_object *object, pid_t pid, const struct xp_sled_choice *choice,
			 uint8_t *verdicts, pid_t *patched_pid)
{
	uint8_t *here = malloc(object->selected_count + 1);
	int err = here ? -ESRCH : -ENOMEM;

	for (int tries = 0; tries < IMAGE_TRIES && err == -ESRCH; tries++) {
		memset(here, VERDICT_INTACT, object->selected_count);
		err = judge_image(object, pid, choice, here);
	}
	for (size_t i = 0; i < object->selected_count && !err; i++) {
		verdicts[i] = XP_MAX(verdicts[i], here[i]);
		if (here[i] == VERDICT_PATCHED && !*patched_pid)
			*patched_pid = pid;
	}
	free(here);
	return err;
}

static int judge_all_processes(const struct xp_object *object, const struct xp_sled_choice *choice, uint8_t *verdicts,
			       pid_t *patched_pid)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	int err = 0;

	if (!dir)
		return -errno;
	while (!err && (entry = readdir(dir))) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		err = judge_process(object, atoi(entry->d_name), choice, verdicts, patched_pid);
		/* It has ended, or is ending and refuses access. */
		if (err == -ESRCH || err == -EACCES || err == -EPERM || err == -E2BIG)
			err = 0;
	}
	closedir(dir);
	return err;
}

/* pid 0: the processes that map the object. */
static int judge_all(const struct xp_object *object, pid_t pid, const struct xp_sled_choice *choice, uint8_t *verdicts,
		     pid_t *patched_pid)
{
	*patched_pid = 0;
	return pid ? judge_process(object, pid, choice, verdicts, patched_pid)
		   : judge_all_processes(object, choice, verdicts, patched_pid);
}

/* Goes on without the lock where somebody else holds it: anybody who may open the file can. */
static int lock_to_probe(const struct xp_attach *attach, const struct xp_object *object)
{
	pid_t holder;
	int lock = attach ? xp_sled_lock(object, &holder) : -ENOENT;

	if (lock == -EBUSY)
		xp_debug("%s: process %d holds a lock (flock) on it", object->path, holder);
	return lock;
}

/* The programs that serve sleds: one per kind, and one for conditional tail exits. */
enum group {
	GROUP_CONDITIONAL = XP_SLED_KINDS,
	GROUPS,
};

/*
 * Entries come last, so that they are detached first. A call is then never recorded without its exit. And the cheap
 * entry probes do not flood the rings while the expensive exit probes, which slow the target down, are not yet or no
 * longer attached.
 */
static const enum group attach_order[GROUPS] = {
	(enum group)XP_SLED_EXIT,	  (enum group)XP_SLED_TAIL_EXIT,   GROUP_CONDITIONAL,
	(enum group)XP_SLED_CUSTOM_EVENT, (enum group)XP_SLED_TYPED_EVENT, (enum group)XP_SLED_ENTRY_ARGS,
	(enum group)XP_SLED_ENTRY,
};

static enum group group_of(const struct xp_sled *sled, bool all_args)
{
	if (sled->kind == XP_SLED_TAIL_EXIT && sled->conditional)
		return GROUP_CONDITIONAL;
	if (sled->kind == XP_SLED_ENTRY && all_args)
		return (enum group)XP_SLED_ENTRY_ARGS;
	return (enum group)sled->kind;
}

struct xp_uprobe xp_sled_uprobe(const struct xp_object *object, const struct xp_sled *sled, bool alias)
{
	uint64_t cookie = xp_object_number(object, sled->function_id, alias);

	for (int i = 0; i < 3; i++)
		cookie |= (uint64_t)(sled->operands[i] & 0xf) << (32 + 4 * i);
	cookie |= (uint64_t)(sled->condition & 0xf) << 48;
	return (struct xp_uprobe){ sled->file_offset, cookie };
}

#define JUMP_BYTES 2 /* jmp +9, over the rest of an entry sled */

/*
 * The anchor of a process that has none yet (a probe in its dynamic linker would be one). It goes on the nop behind the
 * first instruction of an entry sled, which is a jump over the nop. If there is no anchor, attaching continues.
 */
static void anchor(struct xp_attach *attach, int program_fd, const struct xp_object *object, pid_t pid,
		   const struct xp_sled_choice *choice, const uint8_t *verdicts)
{
	for (size_t i = 0; i < object->selected_count; i++) {
		const struct xp_sled *sled = &object->table->sleds[object->selected[i]];
		int err;

		if (verdicts[i] != VERDICT_INTACT || !is_chosen(choice, sled) ||
		    (sled->kind != XP_SLED_ENTRY && sled->kind != XP_SLED_ENTRY_ARGS))
			continue;
		err = xp_attach_anchor(attach, program_fd, object->fd, pid, sled->file_offset + JUMP_BYTES);
		if (err)
			xp_debug("%s: no anchor behind the sled at %#" PRIx64 ": %s", object->path, sled->file_offset,
				 strerror(-err));
		return;
	}
}

static int attach_group(struct xp_attach *attach, const struct xp_programs *programs, const struct xp_object *object,
			pid_t pid, bool all_args, const struct xp_sled_choice *choice, enum group group,
			const uint8_t *verdicts, struct xp_uprobe *probes, size_t *attached)
{
	size_t count = 0;
	int program_fd, err;

	for (size_t i = 0; i < object->selected_count; i++) {
		const struct xp_sled *sled = &object->table->sleds[object->selected[i]];

		if (verdicts[i] == VERDICT_INTACT && group_of(sled, all_args) == group && is_chosen(choice, sled))
			probes[count++] = xp_sled_uprobe(object, sled, choice && choice->alias);
	}
	*attached += count;
	if (!count || !attach)
		return 0;
	program_fd =
	    xp_programs_sled_fd(programs, group == GROUP_CONDITIONAL ? XP_EVENT_TAIL_EXIT : (enum xp_event_kind)group,
				group == GROUP_CONDITIONAL);
	err = xp_attach_uprobes_group(attach, choice ? choice->group : 0, program_fd, object->fd, pid, probes, count);
	if (err)
		*attached -= count;
	return err;
}

int xp_sleds_attach(struct xp_attach *attach, const struct xp_programs *programs, const struct xp_object *object,
		    pid_t pid, bool all_args, struct xp_sled_result *result)
{
	return xp_sleds_attach_some(attach, programs, object, pid, all_args, NULL, result);
}

int xp_sleds_attach_some(struct xp_attach *attach, const struct xp_programs *programs, const struct xp_object *object,
			 pid_t pid, bool all_args, const struct xp_sled_choice *choice, struct xp_sled_result *result)
{
	uint8_t *verdicts = calloc(object->selected_count + 1, sizeof(*verdicts));
	struct xp_uprobe *probes = malloc((object->selected_count + 1) * sizeof(*probes));
	int lock = lock_to_probe(attach, object);
	int err = -ENOMEM;

	*result = (struct xp_sled_result){ .patched = object->patched_in_file };
	if (!verdicts || !probes)
		goto out;
	err = lock == -ECANCELED ? lock : judge_all(object, pid, choice, verdicts, &result->patched_pid);
	for (size_t i = 0; i < object->selected_count; i++) {
		result->patched += verdicts[i] == VERDICT_PATCHED;
		result->unreadable += verdicts[i] == VERDICT_UNREADABLE;
	}
	if (attach && !err)
		anchor(attach, xp_programs_link_map_fd(programs), object, pid, choice, verdicts);
	for (int i = 0; i < GROUPS && !err; i++)
		err = attach_group(attach, programs, object, pid, all_args, choice, attach_order[i], verdicts, probes,
				   &result->attached);
	result->begin_tsc = xp_clock_now_tsc();
out:
	xp_sled_unlock(lock);
	free(verdicts);
	free(probes);
	return err;
}

int xp_sleds_attach_counters(struct xp_attach *attach, int program_fd, const struct xp_object *object, pid_t pid,
			     uint32_t first_index, const struct xp_sled_choice *choice, size_t *sleds)
{
	uint8_t *verdicts = calloc(object->selected_count + 1, sizeof(*verdicts));
	struct xp_uprobe *probes = malloc((object->selected_count + 1) * sizeof(*probes));
	int lock = lock_to_probe(attach, object);
	size_t count = 0;
	pid_t patched_pid;
	int err = -ENOMEM;

	*sleds = 0;
	if (!verdicts || !probes)
		goto out;
	err = lock == -ECANCELED ? lock : judge_all(object, pid, choice, verdicts, &patched_pid);
	for (size_t i = 0; i < object->selected_count && !err; i++) {
		const struct xp_sled *sled = &object->table->sleds[object->selected[i]];

		if (verdicts[i] != VERDICT_INTACT || !is_chosen(choice, sled))
			continue;
		(*sleds)++;
		if (sled->kind == XP_SLED_ENTRY || sled->kind == XP_SLED_ENTRY_ARGS)
			probes[count++] =
			    (struct xp_uprobe){ sled->file_offset, (uint32_t)(first_index + sled->function_id) };
	}
	if (!err && count) {
		anchor(attach, program_fd, object, pid, choice, verdicts);
		err = xp_attach_uprobes_group(attach, choice ? choice->group : 0, program_fd, object->fd, pid, probes,
					      count);
	}
out:
	xp_sled_unlock(lock);
	free(verdicts);
	free(probes);
	return err;
}

size_t xp_sleds_overwritten(const struct xp_object *object, pid_t pid)
{
	uint8_t *verdicts = calloc(object->selected_count + 1, sizeof(*verdicts));
	size_t overwritten = 0;
	pid_t patched_pid;

	if (!verdicts || judge_all(object, pid, NULL, verdicts, &patched_pid))
		goto out;
	for (size_t i = 0; i < object->selected_count; i++)
		overwritten += verdicts[i] == VERDICT_PATCHED;
out:
	free(verdicts);
	return overwritten;
}
