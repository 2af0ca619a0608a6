// SPDX-License-Identifier: BSD-2-Clause
/* The stub that the sleds of an object call, and the uprobes on it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arch/x86_64/patch_bytes.h"
#include "arch/x86_64/sled_bytes.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/util.h"
#include "base/why.h"
#include "sled/patch_check.h"
#include "sled/patch_work.h"
#include "sled/plan_table.h"
#include "sled/trampolines.h"
#include "sled/unpatch.h"
#include "target/memory.h"
#include "target/room.h"
#include "target/stopped.h"
#include "target/target.h"

#define STUB_MAPPINGS 5 /* code, flag, counters, call rings, and the kernel's mapping for uprobes */
/* The stubs of a process whose call rings are to be unmapped. */
struct unmapping_work {
	pid_t pid;
	struct xp_stub_map stubs;
	struct xp_trampolines_list trampolines; /* trampolines without a jump to them */
};

/* A process with this many stubs gets no further stub just because call rings do not fit after one of them. */
#define STUBS_ENOUGH 4
#define REACH_BYTES ((1ull << 31) - (1ull << 16))

static struct xp_patch_stub *find_stub(const struct xp_patch *patch, pid_t pid, uint64_t address)
{
	for (size_t i = 0; i < patch->stub_count; i++)
		if (patch->stubs[i].pid == pid && patch->stubs[i].place.address == address)
			return &patch->stubs[i];
	return NULL;
}

int xp_patch_read_counters(struct xp_patch *patch, const struct xp_patch_stub *stub, pid_t pid,
			   uint32_t counters[XP_STUB_COUNTERS_MAX])
{
	uint32_t shards[XP_STUB_SHARDS][XP_STUB_COUNTERS_MAX];
	int err =
	    xp_target_memory_read(patch->memory, pid, stub->place.address + XP_STUB_COUNTERS, shards, sizeof(shards));

	_Static_assert(sizeof(shards) == XP_STUB_COUNTERS_BYTES, "as the stub has them");
	memset(counters, 0, XP_STUB_COUNTERS_MAX * sizeof(*counters));
	for (int shard = 0; shard < XP_STUB_SHARDS && !err; shard++)
		for (int i = 0; i < XP_STUB_COUNTERS_MAX; i++)
			counters[i] += shards[shard][i];
	return err;
}

/* Returns whether all processes of a family share counters: a child may exit before xprof reads its own. */
static bool shares_counters(const struct xp_patch *patch)
{
	return patch->options.budget && patch->options.children;
}

static int refuse_busy(pid_t holder)
{
	if (holder)
		return xp_why_set(-EBUSY, "another xprof (process %d) is recording it, or its parent", holder);
	return xp_why_set(-EBUSY, "an xprof that has ended still holds its stub: try again in a moment");
}

static struct xp_call_rings *find_rings(const struct xp_patch *patch, pid_t pid)
{
	for (size_t i = 0; i < patch->stub_count; i++)
		if (patch->stubs[i].pid == pid && patch->stubs[i].rings)
			return patch->stubs[i].rings;
	return NULL;
}

const char *xp_patch_no_rings(const struct xp_patch *patch, pid_t pid)
{
	for (size_t i = 0; i < patch->stub_count; i++)
		if (patch->stubs[i].pid == pid && patch->stubs[i].no_rings[0])
			return patch->stubs[i].no_rings;
	return "";
}

struct xp_call_rings *xp_patch_rings(const struct xp_patch *patch, pid_t pid)
{
	struct xp_call_rings *rings = find_rings(patch, pid);

	return rings && !rings->given_up ? xp_call_rings_share(rings) : NULL;
}

/*
 * Returns whether the stub discards short calls. Not with a budget, which counts all calls of a function; nor with
 * arguments, because the entries are not in the rings. Then xprof discards short calls when it reads them.
 */
static bool takes_back(const struct xp_patch *patch)
{
	return patch->options.min_ticks && !patch->options.budget && !patch->options.args;
}

/* Returns the call rings for a stub: those after another stub of the process, or new ones. NULL: none. */
static struct xp_call_rings *open_rings(struct xp_patch_work *work, struct xp_stub_place *place)
{
	const struct xp_call_rings *others = find_rings(work->patch, work->pid);
	struct xp_call_rings *rings = xp_patch_rings(work->patch, work->pid);
	int fd = place->rings;

	place->rings = -1;
	if (fd < 0 || (others && others->given_up) || !work->patch->options.memory || !place->alive ||
	    (rings && !xp_stub_same_file(fd, rings->fd))) {
		xp_call_rings_free(rings);
		rings = NULL;
	} else if (!rings) {
		int err = xp_call_rings_new(&rings, work->pid, fd, place->address + XP_STUB_RINGS,
					    work->patch->options.programs);

		if (!err) {
			rings->min_ticks = takes_back(work->patch) ? work->patch->options.min_ticks : 0;
			return rings;
		}
		snprintf(work->no_rings, sizeof(work->no_rings), "xprof cannot map it: %s", strerror(-err));
		return NULL;
	}
	if (fd >= 0)
		close(fd);
	return rings;
}

/*
 * Returns the rings of the parent, which are after the stub that a child has inherited. NULL: the child has no table
 * there.
 */
static struct xp_call_rings *inherited_rings(const struct xp_patch_work *work, const struct xp_stub_place *place)
{
	const struct xp_patch_stub *first = place->alive ? NULL : xp_patch_first_stub(work->patch, &place->id);

	if (!first || !first->rings || place->rings < 0 || !xp_stub_same_file(place->rings, first->rings->fd) ||
	    xp_call_rings_table(first->rings, work->pid) < 0)
		return NULL;
	return xp_call_rings_share(first->rings);
}

static struct xp_call_rings *get_rings(struct xp_patch_work *work, struct xp_stub_place *place)
{
	struct xp_call_rings *inherited = inherited_rings(work, place), *rings = open_rings(work, place);

	if (inherited)
		return inherited;
	for (size_t i = 0; rings && i < rings->stub_count; i++)
		if (rings->stubs[i] == place->address)
			return rings;
	if (rings && place->rings_inherited && rings->stub_count < XP_STUBS_MAX)
		rings->stubs[rings->stub_count++] = place->address;
	return rings;
}

/* Locks the stub's file and keeps it open. Takes over the files of the place, also after an error. */
static int own_stub(struct xp_patch_work *work, struct xp_stub_place *place)
{
	struct xp_patch *patch = work->patch;
	int err = XP_ARRAY_RESERVE(patch->stubs, patch->stub_room, patch->stub_count + 1);
	const struct xp_patch_stub *same = xp_patch_first_stub(patch, &place->id);
	struct xp_patch_stub *stub;
	pid_t holder;

	/* A parent and its child share the file: one lock, which ends with the last descriptor. */
	if (!err && same)
		err = dup3(same->place.fd, place->fd, O_CLOEXEC) < 0 ? -errno : 0;
	else if (!err)
		err = xp_stub_lock(place, work->pid, &holder);
	if (err) {
		xp_stub_close(place);
		return err == -EBUSY	      ? refuse_busy(holder)
		       : err == -EKEYREJECTED ? xp_why_set(err, "its stub is locked, and not by an xprof")
					      : err;
	}
	stub = &patch->stubs[patch->stub_count];
	*stub = (struct xp_patch_stub){ .pid = work->pid,
					.rings = get_rings(work, place),
					.had_rings = same && (same->rings || same->had_rings),
					.group = same ? same->group : 0 };
	stub->place = *place;
	place->fd = -1;
	if (patch->memory)
		stub->unread = xp_patch_read_counters(patch, stub, work->pid, stub->counted);
	patch->stub_count++;
	return 0;
}

/* Takes over the stubs that an earlier recording left. */
int xp_patch_own_stubs(struct xp_patch_work *work)
{
	int err = 0;

	for (size_t i = 0; i < work->stubs.count && !err; i++) {
		struct xp_stub_place *place = &work->stubs.list[i];

		if (find_stub(work->patch, work->pid, place->address))
			continue;
		place->shares_counters &= shares_counters(work->patch);
		err = own_stub(work, place);
	}
	return err;
}

bool xp_patch_reaches(const struct xp_patch_work *work, uint64_t address)
{
	return (address > work->low ? address - work->low : work->low - address) < REACH_BYTES &&
	       (address > work->high ? address - work->high : work->high - address) < REACH_BYTES;
}

struct xp_patch_stub *xp_patch_choose_stub(const struct xp_patch_work *work)
{
	struct xp_patch_stub *chosen = NULL;

	for (size_t i = 0; i < work->patch->stub_count; i++) {
		struct xp_patch_stub *stub = &work->patch->stubs[i];

		if (stub->pid == work->pid && stub->place.alive && xp_patch_reaches(work, stub->place.address) &&
		    stub->place.shares_counters == shares_counters(work->patch) && (!chosen || stub->rings))
			chosen = stub;
	}
	return chosen;
}

static bool is_event(enum xp_stub_slot slot)
{
	return slot == XP_STUB_CUSTOM || slot == XP_STUB_TYPED;
}

bool xp_patch_final_event(const struct xp_patch_work *work, enum xp_stub_slot slot)
{
	return is_event(slot) && work->stub->rings && takes_back(work->patch);
}

bool xp_patch_in_memory(const struct xp_patch_work *work, enum xp_stub_slot slot)
{
	return slot == XP_STUB_CALL && (work->stub->rings || work->stub->had_rings);
}

uint32_t xp_patch_entry(const struct xp_patch_work *work, enum xp_sled_kind kind)
{
	const struct xp_patch_options *options = &work->patch->options;
	enum xp_stub_slot slot = xp_patch_slot(kind, options->args);

	if (xp_patch_in_memory(work, slot) && kind != XP_SLED_ENTRY && takes_back(work->patch))
		return xp_stub_take_back_entry(work->patch->options.rdpid);
	if (xp_patch_in_memory(work, slot))
		return xp_stub_memory_entry(work->patch->options.rdpid);
	if (xp_patch_final_event(work, slot))
		return xp_stub_memory_event_entry(slot);
	return xp_stub_entry(slot);
}

/* Puts the uprobe on the slot. */
static int attach_slot(const struct xp_patch_work *work, enum xp_stub_slot slot)
{
	const struct xp_patch_options *options = &work->patch->options;
	uint64_t offset = xp_stub_probe(slot);
	int program_fd = options->programs->fds.stub[slot];

	/* Parent and child share the probe, which is attached for children. */
	if (options->children && is_event(slot))
		return 0;
	if (xp_patch_in_memory(work, slot)) {
		offset = xp_stub_memory_probe(work->patch->options.rdpid);
		program_fd = options->programs->fds.memory_call;
	} else if (xp_patch_final_event(work, slot)) {
		offset = xp_stub_memory_event_probe(slot);
	}
	return xp_attach_uprobe(options->attach, program_fd, work->stub->place.fd, work->pid, offset);
}

void xp_patch_prepare_rings(struct xp_patch_work *work)
{
	struct xp_call_rings *rings = work->stub->rings;

	if (rings && !rings->bound)
		xp_call_rings_prepare(rings, xp_target_threads(work->pid));
}

/* Gives call rings to threads. The caller traces all threads of the process. */
void xp_patch_bind_threads(struct xp_patch_work *work)
{
	struct xp_call_rings *rings = work->stub->rings;
	const struct xp_bpf_tracee *tracees;
	size_t count;

	if (!rings || rings->bound)
		return;
	rings->bound = true;
	count = xp_programs_tracees(work->patch->options.programs, &tracees);
	for (size_t i = 0; i < count; i++)
		if (!tracees[i].no_tsc)
			xp_call_rings_begin(rings, work->pid, (pid_t)tracees[i].tid, tracees[i].fs_base,
					    xp_clock_now_tsc());
}

/*
 * Finds bytes for scratch code. No thread executes the bytes after the first two of an unpatched sled. Not so in a
 * patched event sled: if the writing task is killed, its bytes may not be restored.
 */
static const struct xp_text_patch *find_scratch(const struct xp_text_patches *text_patches)
{
	for (size_t i = 0; i < text_patches->count; i++)
		if (text_patches->list[i].kind != XP_SLED_CUSTOM_EVENT &&
		    text_patches->list[i].kind != XP_SLED_TYPED_EVENT)
			return &text_patches->list[i];
	return NULL;
}

static struct xp_stub_request request_of(struct xp_patch_work *work)
{
	const struct xp_call_rings *rings = find_rings(work->patch, work->pid);

	return (struct xp_stub_request){ .pid = work->pid,
					 .start = work->low,
					 .end = work->high,
					 .share_counters = shares_counters(work->patch),
					 .rings = work->patch->options.memory,
					 .inherit_rings = work->patch->options.children,
					 .rings_only = work->stub,
					 .no_rings = work->no_rings,
					 .rings_at = rings ? rings->address : 0,
					 .table =
					     rings ? (size_t)XP_MAX(xp_call_rings_table(rings, work->pid), 0) : 0 };
}

/* Maps call rings after the stub of an earlier recording. */
static int map_rings(void *arg, struct xp_remote *remote)
{
	struct xp_patch_work *work = arg;
	const struct xp_stub_request request = request_of(work);

	return xp_stub_map_rings(&work->stub->place, remote, &request);
}

/*
 * Returns scratch space after the end of the code: the last page of a segment is mapped, but the bytes after the code
 * are never executed.
 */
static uint64_t scratch_behind_code(const struct xp_patch_work *work)
{
	const struct xp_elf_segment *code = &work->object->plan->planned.code;
	uint64_t end = work->text_patches[0].file_start + code->offset + code->bytes;

	return end >= work->text_patches[0].start && end <= work->text_patches[0].end &&
		       work->text_patches[0].end - end >= XP_REMOTE_SCRATCH_BYTES
		   ? end
		   : 0;
}

/* Finds text that no thread executes. Returns 0 or -errno. */
static int get_scratch(struct xp_patch_work *work, struct xp_remote *remote, uint64_t *scratch)
{
	const struct xp_text_patch *text_patch = NULL;
	uint8_t now[XP_SLED_BYTES_MAX];
	int err;

	if (work->object->plan) {
		*scratch = work->count ? scratch_behind_code(work) : 0;
		return *scratch ? 0 : xp_why_set(-EOPNOTSUPP, "no room behind its code");
	}
	for (size_t i = 0; i < work->count && !text_patch; i++)
		text_patch = find_scratch(&work->text_patches[i]);
	if (!text_patch)
		return xp_why_set(-EOPNOTSUPP, "it has only sleds of events");
	*scratch = text_patch->address + 2;
	err = xp_remote_read(remote, text_patch->address, now, xp_sled_bytes((enum xp_sled_kind)text_patch->kind));
	if (!err && !xp_sled_intact((enum xp_sled_kind)text_patch->kind, now))
		err = xp_why_set(-EOPNOTSUPP, "its sleds are patched already");
	return err;
}

static int make_stub(void *arg, struct xp_remote *remote)
{
	struct xp_patch_work *work = arg;
	struct xp_stub_request request = request_of(work);
	int err = get_scratch(work, remote, &request.scratch);

	return err ? err : xp_stub_map_new(&work->made, remote, &request);
}

int xp_patch_stopped(struct xp_patch_work *work, int (*what)(void *arg, struct xp_remote *remote), void *arg)
{
	struct xp_stopped stopped = { .pid = work->pid, .held = work->held, .once = work->once };
	int err = xp_stopped_do(&stopped, what, arg);

	work->patch->stopped_ns += work->held ? 0 : stopped.ns;
	if (!work->held)
		work->patch->longest_ns = XP_MAX(work->patch->longest_ns, stopped.ns);
	return err;
}

/* Stores the reason. Mapping rings is not tried again in this recording. */
static void note_no_rings(struct xp_patch_work *work, const char *why)
{
	for (size_t i = 0; i < work->patch->stub_count; i++)
		if (work->patch->stubs[i].pid == work->pid)
			snprintf(work->patch->stubs[i].no_rings, sizeof(work->patch->stubs[i].no_rings), "%s",
				 why[0] ? why : "xprof has no memory for it");
}

int xp_patch_get_stub(struct xp_patch_work *work)
{
	int err;

	work->stub = xp_patch_choose_stub(work);
	if (work->stub && (work->stub->rings || !work->patch->options.memory || work->stub->no_rings[0]))
		return 0;
	err = work->stub ? 0 : xp_target_check_room(work->pid, XP_STUB_ROOM, STUB_MAPPINGS);
	if (err)
		return err;
	err = work->stub ? xp_patch_stopped(work, map_rings, work) : -EEXIST;
	if (!err) {
		work->stub->rings = get_rings(work, &work->stub->place);
		goto out;
	}
	/* The process has mapped other memory after the stub. */
	if (err == -EEXIST && (!work->stub || work->stubs.count < STUBS_ENOUGH))
		err = xp_patch_stopped(work, make_stub, work);
	/* Without call rings, the stub still records through the kernel. */
	if (err && work->stub && err != -ESRCH && err != -ENOMEM && err != -ECANCELED) {
		note_no_rings(work, work->no_rings[0] ? work->no_rings : xp_why(err));
		xp_why_clear();
		return 0;
	}
	if (!err)
		err = own_stub(work, &work->made);
	if (!err)
		work->stub = xp_patch_choose_stub(work);
out:
	if (!err && work->patch->options.memory && !work->stub->rings)
		note_no_rings(work, work->no_rings);
	return err;
}

static int unmap_all(void *arg, struct xp_remote *remote)
{
	const struct unmapping_work *unmapping = arg;
	int err = xp_patch_check_sharing(unmapping->pid);

	for (size_t i = 0; i < unmapping->stubs.count && !err; i++)
		if (unmapping->stubs.list[i].rings >= 0)
			err = xp_stub_unmap_rings(&unmapping->stubs.list[i], remote, unmapping->pid);
	if (!err && unmapping->trampolines.count)
		err = xp_trampolines_unmap(&unmapping->trampolines, remote, unmapping->pid, &unmapping->stubs);
	return err;
}

void xp_patch_clear_process(pid_t pid)
{
	struct unmapping_work unmapping = { .pid = pid };
	struct xp_stopped stopped = { .pid = pid };
	bool has_rings = false;
	int err;

	xp_unpatch_tails(pid);
	err = xp_stub_map_read(&unmapping.stubs, pid);
	if (!err)
		err = xp_trampolines_read_idle(&unmapping.trampolines, pid);
	for (size_t i = 0; i < unmapping.stubs.count && !err; i++)
		has_rings |= unmapping.stubs.list[i].rings >= 0;
	if (!err && (has_rings || unmapping.trampolines.count))
		err = xp_stopped_do(&stopped, unmap_all, &unmapping);
	if (err)
		xp_debug("process %d: its call rings or trampolines stay mapped: %s", pid, xp_why(err));
	xp_trampolines_free(&unmapping.trampolines);
	xp_stub_map_free(&unmapping.stubs);
}

/* Attaches uprobes to the slots that these sleds need. xp_patch_attach() attaches the others. */
static int attach_slots(struct xp_patch_work *work)
{
	const struct xp_patch_options *options = &work->patch->options;
	struct xp_patch_stub *stub = work->stub;
	unsigned int needed = 0;
	int err;

	for (size_t i = 0; i < work->count; i++)
		for (size_t j = 0; j < work->text_patches[i].count; j++)
			needed |=
			    1u << xp_patch_slot((enum xp_sled_kind)work->text_patches[i].list[j].kind, options->args);
	/* The anchor of a program without a dynamic linker. */
	err = xp_attach_anchor(options->attach, options->programs->fds.link_map, stub->place.fd, work->pid,
			       XP_STUB_ANCHOR);
	for (int slot = 0; slot < XP_STUB_SLOTS && !err; slot++) {
		if (!(needed & ~stub->probed & 1u << slot))
			continue;
		err = options->children ? xp_patch_attach_children(work, 1u << slot) : 0;
		if (!err)
			err = attach_slot(work, (enum xp_stub_slot)slot);
		if (!err)
			stub->probed |= 1u << slot;
	}
	return err;
}

/* Attaches uprobes to the sites that cannot be patched (conditional or others), once per offset. */
static int attach_probed(struct xp_patch_work *work, bool conditional)
{
	const struct xp_patch_options *options = &work->patch->options;
	const struct xp_object *object = work->object;
	struct xp_uprobe_set uprobes = {
		.program_fd = xp_programs_sled_fd(options->programs, XP_EVENT_TAIL_EXIT, conditional),
		.file_fd = object->fd,
		.pid = work->pid,
	};
	struct xp_uprobe *probes = malloc(object->selected_count * sizeof(*probes));
	int err;

	if (!probes)
		return -ENOMEM;
	for (size_t i = 0; i < object->selected_count; i++) {
		const struct xp_sled *sled = &object->table->sleds[object->selected[i]];
		bool is_twice = uprobes.count && probes[uprobes.count - 1].offset == sled->file_offset;

		if (!is_twice && !xp_patch_possible(sled) && sled->conditional == conditional &&
		    !xp_patch_leaves_out(object, work->pid, sled->function_id))
			probes[uprobes.count++] = xp_sled_uprobe(object, sled);
	}
	uprobes.list = probes;
	err = uprobes.count ? xp_attach_uprobes(options->attach, &uprobes) : 0;
	free(probes);
	work->probed += uprobes.count;
	return err;
}

int xp_patch_attach(struct xp_patch_work *work)
{
	int err = attach_slots(work);

	if (err || !work->probed || work->patch->options.children)
		return err;
	work->probed = 0;
	return attach_probed(work, true) ?: attach_probed(work, false);
}
