/* SPDX-License-Identifier: BSD-2-Clause */
#include "sled/sleds.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arch/x86_64/patch_bytes.h"
#include "base/interrupt.h"
#include "base/util.h"
#include "sled/plan_table.h"
#include "sled/sled_lock.h"
#include "target/chosen_file.h"
#include "target/memory_window.h"
#include "target/target.h"

#define BREAKPOINT 0xcc
/* Number of sleds between two interrupt checks, scanned in less than 0.1 s. */
#define SLEDS_PER_LOOK 65536
#define MAPPINGS_PER_LOOK 256
/* Number of retries if a process executes programs faster than their sleds can be checked. */
#define IMAGE_TRIES 5

const char *xp_call_mode_name(const struct xp_sled_result *sleds)
{
	return sleds->memory ? "memory" : sleds->mode == XP_SLEDS_PATCHED ? "patch" : "probe";
}

enum verdict {
	VERDICT_INTACT,
	VERDICT_PATCHED,
	VERDICT_UNREADABLE,
};

/*
 * A breakpoint in the first byte is another profiler's uprobe, which does no harm: uprobes at one address share one
 * breakpoint. (A debugger's breakpoint looks the same, and the kernel does not change it.)
 */
static enum verdict judge_sled(struct xp_memory_window *memory, const struct xp_sled *sled, uint64_t address)
{
	static const uint8_t first[XP_SLED_KINDS] = { 0xeb, 0xc3, 0xeb, 0xeb, 0xeb, 0xeb };
	uint8_t bytes[XP_SLED_BYTES_MAX] = { 0 };
	/* Event sleds are longer. Other sleds have 11 bytes, and a mapping may end after them. */
	size_t size = sled->kind == XP_SLED_TYPED_EVENT ? 22 : sled->kind == XP_SLED_CUSTOM_EVENT ? 17 : 11;

	if (!xp_memory_window_read(memory, bytes, address, size))
		return VERDICT_UNREADABLE;
	if (bytes[0] == BREAKPOINT)
		bytes[0] = first[sled->kind];
	return xp_sled_intact(sled->kind, bytes) ? VERDICT_INTACT : VERDICT_PATCHED;
}

/* Checks a function without sleds: the probed instruction must be as in the file. A breakpoint: as above. */
static enum verdict judge_site(const struct xp_object *object, struct xp_memory_window *memory,
			       const struct xp_sled *sled, uint64_t address)
{
	uint8_t there, expected;

	if (!xp_memory_window_read(memory, &there, address, 1) ||
	    pread(object->fd, &expected, 1, (off_t)sled->file_offset) != 1)
		return VERDICT_UNREADABLE;
	return there == expected || there == BREAKPOINT ? VERDICT_INTACT : VERDICT_PATCHED;
}

bool xp_sleds_mapped(const struct xp_object *object, pid_t pid, const struct xp_mapping *mapping)
{
	struct stat st;
	int fd;
	bool same;

	if (mapping->inode != object->inode)
		return false;
	/* Device numbers in /proc/PID/maps differ from fstat() on overlayfs and btrfs: use fstat() on the open file. */
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
	return !choice->unpatched || !xp_patch_possible(sled);
}

/* Raises the verdicts to the worst verdict in any mapping of the object. */
static int judge_mapping(const struct xp_sled_choice *choice, struct xp_memory_window *memory,
			 const struct xp_mapping *mapping, uint8_t *verdicts)
{
	const struct xp_object *object = choice->object;
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
		verdict = object->plan ? judge_site(object, memory, sled, mapping->start + into)
				       : judge_sled(memory, sled, mapping->start + into);
		verdicts[i] = XP_MAX(verdicts[i], verdict);
	}
	return 0;
}

/* Returns -ESRCH also if the process executed another program meanwhile: ignore the verdicts then. */
static int judge_image(const struct xp_sled_choice *choice, pid_t pid, uint8_t *verdicts)
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
		else if (xp_sleds_mapped(choice->object, pid, &mappings.list[m]))
			err = judge_mapping(choice, memory, &mappings.list[m], verdicts);
	}
	if (!err && mappings.count && xp_memory_window_gone(memory))
		err = -ESRCH;
	xp_memory_window_free(memory);
	xp_mappings_free(&mappings);
	return err;
}

/*
 * Raises the verdicts of the selected sleds to the worst verdict in the memory of process pid. Sets *patched_pid to pid
 * if it was 0 and sleds are patched there. Returns -ESRCH if the process has exited or keeps executing programs.
 */
static int judge_process(const struct xp_sled_choice *choice, pid_t pid, uint8_t *verdicts, pid_t *patched_pid)
{
	size_t count = choice->object->selected_count;
	uint8_t *here = malloc(count + 1);
	int err = here ? -ESRCH : -ENOMEM;

	for (int tries = 0; tries < IMAGE_TRIES && err == -ESRCH; tries++) {
		memset(here, VERDICT_INTACT, count);
		err = judge_image(choice, pid, here);
	}
	for (size_t i = 0; i < count && !err; i++) {
		verdicts[i] = XP_MAX(verdicts[i], here[i]);
		if (here[i] == VERDICT_PATCHED && !*patched_pid)
			*patched_pid = pid;
	}
	free(here);
	return err;
}

static int judge_all_processes(const struct xp_sled_choice *choice, uint8_t *verdicts, pid_t *patched_pid)
{
	DIR *list = xp_target_list(0);
	int err = 0;
	pid_t pid;

	if (!list)
		return -errno;
	while (!err && (pid = xp_target_next(list))) {
		err = judge_process(choice, pid, verdicts, patched_pid);
		/* It has exited, or is exiting and refuses access. */
		if (err == -ESRCH || err == -EACCES || err == -EPERM || err == -E2BIG)
			err = 0;
	}
	closedir(list);
	return err;
}

static int judge_all(const struct xp_sled_choice *choice, uint8_t *verdicts, pid_t *patched_pid)
{
	*patched_pid = 0;
	return choice->pid ? judge_process(choice, choice->pid, verdicts, patched_pid)
			   : judge_all_processes(choice, verdicts, patched_pid);
}

/* ---- attaching ---- */

/*
 * Locks the sleds, but continues if another recording holds the lock: most probes do no harm, and the check finds the
 * others.
 */
static int lock_to_probe(const struct xp_attach *attach, const struct xp_object *object)
{
	int lock = attach ? xp_sled_lock(object) : -ENOLCK;

	if (lock == -EBUSY)
		xp_debug("%s: another recording has attached to it for 10 s", object->path);
	return lock;
}

struct work {
	struct xp_attach *attach;
	const struct xp_sled_choice *choice;
	uint8_t *verdicts;	  /* a verdict for each selected sled of the object */
	struct xp_uprobe *probes; /* as many */
	pid_t patched_pid;	  /* see struct xp_sled_result */
	int lock;
};

/* Returns 0 or -errno. The caller ends the work in any case. */
static int begin(struct work *work, struct xp_attach *attach, const struct xp_sled_choice *choice)
{
	size_t room = choice->object->selected_count + 1;

	*work = (struct work){
		.attach = attach,
		.choice = choice,
		.verdicts = calloc(room, sizeof(*work->verdicts)),
		.probes = malloc(room * sizeof(*work->probes)),
		.lock = lock_to_probe(attach, choice->object),
	};
	if (!work->verdicts || !work->probes)
		return -ENOMEM;
	return work->lock == -ECANCELED ? work->lock : judge_all(choice, work->verdicts, &work->patched_pid);
}

static void end(struct work *work)
{
	xp_sled_unlock(work->choice->object, work->lock);
	free(work->verdicts);
	free(work->probes);
}

/* Returns whether the i-th selected sled is chosen and intact. */
static bool may_attach(const struct work *work, size_t i)
{
	const struct xp_object *object = work->choice->object;

	return work->verdicts[i] == VERDICT_INTACT &&
	       is_chosen(work->choice, &object->table->sleds[object->selected[i]]);
}

/* The BPF programs for sleds: one per kind, and one for conditional tail exits. */
enum group {
	GROUP_CONDITIONAL = XP_SLED_KINDS,
	GROUPS,
};

/*
 * Entries are attached last and detached first. So each recorded call has its exit. And the cheap entry probes cannot
 * flood the rings before or after the time in which the expensive exit probes slow the target down.
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

static enum xp_event_kind go_kind(const struct xp_sled *sled)
{
	return sled->kind == XP_SLED_ENTRY ? XP_EVENT_GO_ENTRY : XP_EVENT_GO_EXIT;
}

struct xp_uprobe xp_sled_uprobe(const struct xp_object *object, const struct xp_sled *sled)
{
	uint64_t cookie = object->fn_base + sled->function_id;

	for (int i = 0; i < 3; i++)
		cookie |= (uint64_t)(sled->operands[i] & 0xf) << (32 + 4 * i);
	cookie |= (uint64_t)(sled->condition & 0xf) << 48;
	if (xp_plan_table_is_go(object->plan))
		cookie |= (uint64_t)go_kind(sled) << XP_FN_BITS | (sled->conditional ? XP_COOKIE_HAS_CONDITION : 0);
	return (struct xp_uprobe){ .offset = sled->file_offset, .cookie = cookie };
}

/* Returns the offset in the file of bytes of an entry sled that are never executed, 0 if it has none. */
static uint64_t unused_bytes(const struct xp_object *object, const struct xp_sled *sled)
{
	uint8_t bytes[XP_SLED_BYTES_MAX];
	size_t unused = pread(object->fd, bytes, sizeof(bytes), (off_t)sled->file_offset) == sizeof(bytes)
			    ? xp_sled_unused(bytes)
			    : 0;

	return unused ? sled->file_offset + unused : 0;
}

/* Returns the offset in the file of the anchor: in an entry sled; in a Go program, its first instruction. 0: none. */
static uint64_t find_anchor(const struct work *work)
{
	const struct xp_object *object = work->choice->object;

	if (xp_plan_table_is_go(object->plan)) {
		const struct xp_planned *planned = &object->plan->planned;

		return planned->start ? planned->start - planned->code.vaddr + planned->code.offset : 0;
	}
	for (size_t i = 0; i < object->selected_count; i++) {
		const struct xp_sled *sled = &object->table->sleds[object->selected[i]];

		if (may_attach(work, i) && (sled->kind == XP_SLED_ENTRY || sled->kind == XP_SLED_ENTRY_ARGS))
			return unused_bytes(object, sled);
	}
	return 0;
}

/*
 * Attaches the anchor of a process without one (a probe in its dynamic linker would be an anchor), to bytes that are
 * executed never or only once. Errors do not end attaching.
 */
static void anchor(const struct work *work, int program_fd)
{
	const struct xp_object *object = work->choice->object;
	uint64_t offset = find_anchor(work);
	int err =
	    offset ? xp_attach_anchor(work->attach, program_fd, object->fd, work->choice->pid, offset) : -EOPNOTSUPP;

	if (err)
		xp_debug("%s: no anchor at the offset %#" PRIx64 ": %s", object->path, offset, strerror(-err));
}

/* Attaches the first `count` probes. */
static int attach_probes(const struct work *work, int program_fd, size_t count)
{
	const struct xp_uprobe_set uprobes = {
		.program_fd = program_fd,
		.file_fd = work->choice->object->fd,
		.pid = work->choice->pid,
		.list = work->probes,
		.count = count,
	};

	return xp_attach_uprobes(work->attach, &uprobes);
}

static int attach_group(const struct work *work, const struct xp_programs *programs, enum group group, size_t *attached)
{
	const struct xp_sled_choice *choice = work->choice;
	const struct xp_object *object = choice->object;
	bool conditional = group == GROUP_CONDITIONAL;
	enum xp_event_kind kind = conditional ? XP_EVENT_TAIL_EXIT : (enum xp_event_kind)group;
	size_t count = 0;
	int err;

	for (size_t i = 0; i < object->selected_count; i++) {
		const struct xp_sled *sled = &object->table->sleds[object->selected[i]];

		if (group_of(sled, choice->all_args) == group && may_attach(work, i))
			work->probes[count++] = xp_sled_uprobe(object, sled);
	}
	*attached += count;
	if (!count || !work->attach)
		return 0;
	if (xp_plan_table_is_go(object->plan))
		kind = XP_EVENT_GO_ENTRY; /* one BPF program for all probes: the cookie has the kind */
	err = attach_probes(work, xp_programs_sled_fd(programs, kind, conditional), count);
	if (err)
		*attached -= count;
	return err;
}

int xp_sleds_attach(struct xp_attach *attach, const struct xp_programs *programs, const struct xp_sled_choice *choice,
		    struct xp_sled_result *result)
{
	const struct xp_object *object = choice->object;
	struct work work;
	int err = begin(&work, attach, choice);

	*result = (struct xp_sled_result){ .patched = object->patched_in_file, .patched_pid = work.patched_pid };
	for (size_t i = 0; i < object->selected_count && work.verdicts; i++) {
		result->patched += work.verdicts[i] == VERDICT_PATCHED;
		result->unreadable += work.verdicts[i] == VERDICT_UNREADABLE;
	}
	if (attach && !err)
		anchor(&work, programs->fds.link_map);
	for (int i = 0; i < GROUPS && !err; i++)
		err = attach_group(&work, programs, attach_order[i], &result->attached);
	result->begin_tsc = xp_clock_now_tsc();
	end(&work);
	return err;
}

size_t xp_sleds_overwritten(const struct xp_object *object, pid_t pid)
{
	const struct xp_sled_choice all = { .object = object, .pid = pid };
	uint8_t *verdicts = calloc(object->selected_count + 1, sizeof(*verdicts));
	size_t overwritten = 0;
	pid_t patched_pid;

	if (verdicts && !judge_all(&all, verdicts, &patched_pid))
		for (size_t i = 0; i < object->selected_count; i++)
			overwritten += verdicts[i] == VERDICT_PATCHED;
	free(verdicts);
	return overwritten;
}
