// SPDX-License-Identifier: BSD-2-Clause
/* Children of fork(), which are recorded through the patched sleds and the stub of their parent. */
#include <stdlib.h>

#include "arch/x86_64/patch_bytes.h"
#include "arch/x86_64/sled_bytes.h"
#include "base/array.h"
#include "base/clock.h"
#include "sled/patch_work.h"
#include "sled/unpatch.h"
#include "target/memory_window.h"

/* Groups from here on are those of stubs; the budget numbers its own groups from 1. */
#define GROUP_FIRST 0x80000000u

static struct xp_patch_stub *find_file(struct xp_patch_stub *stubs, size_t count, const struct xp_stub_id *id)
{
	for (size_t i = 0; i < count; i++)
		if (xp_stub_same(&stubs[i].place.id, id))
			return &stubs[i];
	return NULL;
}

struct xp_patch_stub *xp_patch_first_stub(const struct xp_patch *patch, const struct xp_stub_id *id)
{
	return find_file(patch->stubs, patch->stub_count, id) ?: find_file(patch->left, patch->left_count, id);
}

struct xp_patch_stub *xp_patch_inherited_stub(const struct xp_patch_work *work)
{
	struct xp_patch_stub *chosen = NULL;

	for (size_t i = 0; i < work->stubs.count; i++) {
		const struct xp_stub_place *place = &work->stubs.list[i];
		struct xp_patch_stub *stub = xp_patch_first_stub(work->patch, &place->id);

		if (stub && stub->group && !place->alive && place->address == stub->place.address &&
		    xp_patch_reaches(work, place->address) && (!chosen || stub->rings || stub->had_rings))
			chosen = stub;
	}
	return chosen;
}

/*
 * Returns whether the sled calls a stub that was made for a parent of this process and that records children; or did so
 * before a budget throttled its function.
 */
static bool leads_to_parent(const struct xp_patch_work *work, const struct xp_text_patch *text_patch,
			    const uint8_t *now)
{
	uint64_t slot;

	if (!xp_patch_decode((enum xp_sled_kind)text_patch->kind, now, text_patch->address, &slot) &&
	    !(work->object->budget &&
	      xp_patch_decode_remains((enum xp_sled_kind)text_patch->kind, now, text_patch->address, &slot)))
		return false;
	for (size_t i = 0; i < work->stubs.count; i++) {
		const struct xp_stub_place *place = &work->stubs.list[i];
		const struct xp_patch_stub *stub = xp_patch_first_stub(work->patch, &place->id);

		if (xp_stub_is_slot(slot - place->address))
			return !place->alive && stub && stub->group;
	}
	return false;
}

static bool all_lead_to_parent(const struct xp_patch_work *work, struct xp_memory_window *memory)
{
	uint8_t now[XP_SLED_BYTES_MAX];

	for (size_t i = 0; i < work->count; i++) {
		xp_memory_window_set(memory, work->text_patches[i].start, work->text_patches[i].end);
		for (size_t j = 0; j < work->text_patches[i].count; j++) {
			const struct xp_text_patch *text_patch = &work->text_patches[i].list[j];

			if (!xp_memory_window_read(memory, now, text_patch->address,
						   xp_sled_bytes((enum xp_sled_kind)text_patch->kind)) ||
			    !leads_to_parent(work, text_patch, now))
				return false;
		}
	}
	return true;
}

bool xp_patch_inherited(struct xp_patch *patch, const struct xp_patch_place *place, struct xp_sled_result *result)
{
	struct xp_patch_work work = { .patch = patch, .object = place->object, .pid = place->pid };
	struct xp_memory_window *memory = NULL;
	const struct xp_patch_stub *stub = NULL;
	size_t sites;

	if (!patch->options.children || !patch->options.attach || xp_stub_map_read(&work.stubs, place->pid))
		return false;
	if (work.stubs.count && !xp_patch_find_sites(&work, NULL, 0) && xp_patch_count_sites(&work) &&
	    !xp_memory_window_open(&memory, place->pid) && all_lead_to_parent(&work, memory))
		stub = xp_patch_inherited_stub(&work);
	sites = xp_patch_count_sites(&work);
	if (stub) {
		result->inherited_from = stub->pid;
		result->attached = sites + work.probed;
		result->begin_tsc = xp_clock_now_tsc();
	}
	xp_memory_window_free(memory);
	xp_patch_work_free(&work);
	return stub;
}

static uint32_t child_probe(const struct xp_patch_work *work, enum xp_stub_slot slot)
{
	return xp_patch_final_event(work, slot) ? xp_stub_memory_event_probe(slot) : xp_stub_child_probe(slot);
}

static int attach_child_slot(const struct xp_patch_work *work, enum xp_stub_slot slot)
{
	const struct xp_patch_options *options = &work->patch->options;
	const bool in_memory = xp_patch_in_memory(work, slot);
	const struct xp_uprobe probe = { .offset = in_memory ? xp_stub_memory_child_probe(options->rdpid)
							     : child_probe(work, slot) };
	const struct xp_uprobe_set uprobes = {
		.program_fd = in_memory ? options->programs->fds.memory_call : options->programs->fds.stub[slot],
		.file_fd = work->stub->place.fd,
		.group = work->stub->group,
		.list = &probe,
		.count = 1,
	};

	return xp_attach_uprobes(options->attach, &uprobes);
}

/* A child without a dynamic linker inherits no other probe. */
static int attach_anchor(const struct xp_patch_work *work)
{
	const struct xp_patch_options *options = &work->patch->options;
	const struct xp_uprobe probe = { .offset = XP_STUB_ANCHOR };
	const struct xp_uprobe_set uprobes = {
		.program_fd = options->programs->fds.link_map,
		.file_fd = work->stub->place.fd,
		.group = work->stub->group,
		.list = &probe,
		.count = 1,
		.anchor = true,
	};

	return xp_attach_uprobes(options->attach, &uprobes);
}

int xp_patch_attach_children(const struct xp_patch_work *work, unsigned int slots)
{
	int err = 0;

	if (!work->stub->group) {
		work->stub->group = GROUP_FIRST + work->patch->last_group++;
		err = attach_anchor(work);
	}
	for (int slot = 0; slot < XP_STUB_SLOTS && !err; slot++)
		if (slots & 1u << slot)
			err = attach_child_slot(work, (enum xp_stub_slot)slot);
	return err;
}

void xp_patch_leave_stub(struct xp_patch *patch, struct xp_patch_stub *stub)
{
	if (stub->group && stub->place.alive && !XP_ARRAY_ADD(patch->left, patch->left_count, patch->left_room, *stub))
		return;
	xp_call_rings_free(stub->rings);
	xp_stub_close(&stub->place);
}

bool xp_patch_left(const struct xp_patch *patch)
{
	return patch->left_count;
}

void xp_patch_release(struct xp_patch *patch, const struct xp_patch_heir *heirs, size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < patch->left_count; i++) {
		struct xp_patch_stub *stub = &patch->left[i];
		bool used = false;

		for (size_t j = 0; j < count && !used; j++)
			used = heirs[j].inherits_from == stub->pid ||
			       xp_unpatch_has_stub(heirs[j].pid, &stub->place.id, 1);
		if (used) {
			patch->left[kept++] = *stub;
			continue;
		}
		xp_attach_detach_group(patch->options.attach, stub->group);
		xp_call_rings_free(stub->rings);
		xp_stub_close(&stub->place);
	}
	patch->left_count = kept;
}

struct xp_stub_id *xp_patch_stub_ids(const struct xp_patch *patch, size_t *count)
{
	struct xp_stub_id *ids = malloc((patch->stub_count + patch->left_count + 1) * sizeof(*ids));

	*count = 0;
	for (size_t i = 0; ids && i < patch->stub_count; i++)
		ids[(*count)++] = patch->stubs[i].place.id;
	for (size_t i = 0; ids && i < patch->left_count; i++)
		ids[(*count)++] = patch->left[i].place.id;
	return ids;
}

bool xp_patch_knows(const struct xp_patch *patch, pid_t pid)
{
	size_t count;
	struct xp_stub_id *ids = xp_patch_stub_ids(patch, &count);
	bool known = count && xp_unpatch_has_stub(pid, ids, count);

	free(ids);
	return known;
}
