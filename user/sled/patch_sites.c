// SPDX-License-Identifier: BSD-2-Clause
/* The sleds of an object in a process: where they are, whether they can be patched, and the bytes to write. */
#include <errno.h>
#include <stdlib.h>

#include "arch/x86_64/patch_bytes.h"
#include "arch/x86_64/sled_bytes.h"
#include "base/array.h"
#include "base/interrupt.h"
#include "base/util.h"
#include "base/why.h"
#include "sled/patch_check.h"
#include "sled/patch_work.h"
#include "target/memory_window.h"

/* Number of sleds between two interrupt checks, scanned in a few ms. */
#define MAPPINGS_PER_LOOK 256
#define SLEDS_PER_LOOK 65536

void xp_patch_work_free(struct xp_patch_work *work)
{
	for (size_t i = 0; i < work->count; i++)
		xp_text_patches_free(&work->text_patches[i]);
	free(work->text_patches);
	xp_stub_map_free(&work->stubs);
}

static int compare_ids(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* Returns whether the ID is wanted. ids NULL: all functions. */
static bool wants(const uint32_t *ids, size_t count, uint32_t id)
{
	return !ids || bsearch(&id, ids, count, sizeof(*ids), compare_ids);
}

static int add_mapping(struct xp_patch_work *work, const struct xp_mapping *mapping)
{
	return XP_ARRAY_ADD(work->text_patches, work->count, work->room, xp_text_patches_in(mapping, work->object->fd));
}

/* Adds the sleds of these functions in the mapping, without bytes yet. */
int xp_patch_add_sites(struct xp_patch_work *work, const struct xp_mapping *mapping, const uint32_t *ids,
		       size_t id_count)
{
	const struct xp_object *object = work->object;
	int err = add_mapping(work, mapping);

	for (size_t i = xp_object_selected_from(object, mapping->file_offset); i < object->selected_count && !err;
	     i++) {
		const struct xp_sled *sled = &object->table->sleds[object->selected[i]];
		uint64_t into = sled->file_offset - mapping->file_offset;
		struct xp_text_patch text_patch = { mapping->start + into, object->selected[i], sled->kind, .size = 1 };

		if (into >= mapping->end - mapping->start)
			break;
		if (!wants(ids, id_count, sled->function_id))
			continue;
		if (!xp_patch_possible(sled)) {
			work->probed++;
			continue;
		}
		if (++work->sites > XP_PATCH_MAX)
			return xp_why_set(-EOPNOTSUPP, "it has more than 2 000 000 sleds");
		work->low = XP_MIN(work->low, text_patch.address);
		work->high = XP_MAX(work->high, text_patch.address + XP_SLED_BYTES_MAX);
		err = xp_text_patches_add(&work->text_patches[work->count - 1], &text_patch);
	}
	return err;
}

int xp_patch_find_sites(struct xp_patch_work *work, const uint32_t *ids, size_t id_count)
{
	struct xp_mappings mappings;
	int err = xp_mappings_read(&mappings, work->pid);

	work->low = UINT64_MAX;
	if (err)
		return err;
	for (size_t i = 0; i < mappings.count && !err; i++) {
		if (i % MAPPINGS_PER_LOOK == MAPPINGS_PER_LOOK - 1 && xp_interrupted())
			err = -ECANCELED;
		if (err || !xp_sleds_mapped(work->object, work->pid, &mappings.list[i]))
			continue;
		err = mappings.list[i].shared ? xp_why_set(-EOPNOTSUPP, "its text is shared with its file")
					      : xp_patch_add_sites(work, &mappings.list[i], ids, id_count);
	}
	xp_mappings_free(&mappings);
	/* Functions without sleds: sites are ordinary instructions, so there is nothing to check here. */
	for (size_t i = 0; i < work->count && !err && !work->object->plan; i++)
		if (xp_text_patches_sort(&work->text_patches[i]))
			err = xp_why_set(-EOPNOTSUPP, "sleds overlap");
	return err;
}

size_t xp_patch_count_sites(const struct xp_patch_work *work)
{
	size_t sites = 0;

	for (size_t i = 0; i < work->count; i++)
		sites += work->text_patches[i].count;
	return sites;
}

static bool is_in_stub(const struct xp_patch_work *work, uint64_t slot)
{
	const struct xp_patch *patch = work->patch;

	for (size_t i = 0; i < patch->stub_count; i++)
		if (patch->stubs[i].pid == work->pid && xp_stub_is_slot(slot - patch->stubs[i].place.address))
			return true;
	/* A dry run does not lock the stub. */
	return xp_stub_map_has(&work->stubs, slot);
}

static bool leads_to_stub(const void *work, const struct xp_text_patch *text_patch, const uint8_t *now)
{
	uint64_t slot;

	return xp_patch_decode((enum xp_sled_kind)text_patch->kind, now, text_patch->address, &slot) &&
	       is_in_stub(work, slot);
}

bool xp_patch_is_ours(const struct xp_patch_work *work, const struct xp_text_patch *text_patch, const uint8_t *now)
{
	uint64_t slot;

	if (xp_patch_decode_remains((enum xp_sled_kind)text_patch->kind, now, text_patch->address, &slot))
		return is_in_stub(work, slot);
	return leads_to_stub(work, text_patch, now);
}

/* Accepts an unpatched sled, or one that a killed xprof has patched. */
static bool may_be_patched(const void *arg, const struct xp_text_patch *text_patch, const uint8_t *now)
{
	return xp_sled_intact((enum xp_sled_kind)text_patch->kind, now) || leads_to_stub(arg, text_patch, now);
}

/*
 * Accepts only patched sleds. xp_patch_object() patches programs and objects that were loaded meanwhile: a single
 * patched function would make the whole object look patched.
 */
static bool was_patched(const void *arg, const struct xp_text_patch *text_patch, const uint8_t *now)
{
	return xp_patch_is_ours(arg, text_patch, now);
}

/* A sled with other bytes refuses the object: XRay's runtime or another tool's probes have changed it. */
int xp_patch_check_bytes(struct xp_patch_work *work)
{
	struct xp_memory_window *memory;
	uint8_t now[XP_SLED_BYTES_MAX];
	int err = xp_memory_window_open(&memory, work->pid);

	if (err)
		return err;
	for (size_t i = 0; i < work->count && !err; i++) {
		xp_memory_window_set(memory, work->text_patches[i].start, work->text_patches[i].end);
		for (size_t j = 0; j < work->text_patches[i].count && !err; j++) {
			const struct xp_text_patch *text_patch = &work->text_patches[i].list[j];

			if (j % SLEDS_PER_LOOK == SLEDS_PER_LOOK - 1 && xp_interrupted())
				err = -ECANCELED;
			else if (!xp_memory_window_read(memory, now, text_patch->address,
							xp_sled_bytes((enum xp_sled_kind)text_patch->kind)))
				err = xp_memory_window_gone(memory)
					  ? -ESRCH
					  : xp_why_set(-EOPNOTSUPP, "its text cannot be read");
			else if (!may_be_patched(work, text_patch, now))
				err = xp_why_set(-EOPNOTSUPP, "%s",
						 now[0] == 0xcc ? "there are probes or breakpoints on its sleds"
								: "its sleds are patched already");
		}
	}
	xp_memory_window_free(memory);
	return err;
}

static size_t encode(const struct xp_patch_work *work, struct xp_text_patch *text_patch)
{
	const struct xp_object *object = work->object;
	const struct xp_sled *sled = &object->table->sleds[text_patch->sled];
	enum xp_sled_kind kind = (enum xp_sled_kind)text_patch->kind;
	uint64_t stub = work->stub->place.address;
	uint32_t excluded = object->budget ? object->budget[sled->function_id].excluded : XP_EXCLUDED_NOT;
	size_t size;

	if (excluded != XP_EXCLUDED_NOT && excluded != XP_EXCLUDED_OUT &&
	    (kind == XP_SLED_ENTRY || kind == XP_SLED_ENTRY_ARGS))
		return xp_patch_encode_count(sled, excluded - 1, text_patch->address, stub, text_patch->bytes);
	size = xp_patch_encode(sled, object->fn_base + sled->function_id, text_patch->address,
			       stub + xp_patch_entry(work, kind), text_patch->bytes);
	/* A restored sled keeps the rest of its patch, by which a later patch recognizes the sled as ours. */
	if (excluded != XP_EXCLUDED_NOT)
		xp_patch_head(kind, text_patch->bytes);
	return size;
}

int xp_patch_encode_all(struct xp_patch_work *work)
{
	for (size_t i = 0; i < work->count; i++) {
		for (size_t j = 0; j < work->text_patches[i].count; j++) {
			struct xp_text_patch *text_patch = &work->text_patches[i].list[j];

			text_patch->size = encode(work, text_patch);
			if (!text_patch->size)
				return xp_why_set(-ENOSPC, "the stub is out of reach");
		}
	}
	return 0;
}

static int write_where(struct xp_patch_work *work, struct xp_remote *remote,
		       bool (*fits)(const void *arg, const struct xp_text_patch *text_patch, const uint8_t *now))
{
	int err = 0;

	work->written = 0;
	for (size_t i = 0; i < work->count && !err; i++)
		err = xp_text_patches_write(&work->text_patches[i], remote, fits, work, &work->written);
	return err;
}

/*
 * Does not write if a running process shares the memory: it may be in the middle of a sled. If the process has executed
 * another program, the sleds of that program may be at the same addresses: only the stub distinguishes the two.
 */
static int write_leading_to_stub(struct xp_patch_work *work, struct xp_remote *remote,
				 bool (*fits)(const void *arg, const struct xp_text_patch *text_patch,
					      const uint8_t *now))
{
	int err = xp_patch_check_sharing(work->pid);

	work->written = 0;
	if (!err && !xp_stub_map_is_there(remote, work->stub->place.address, !work->inherits))
		err = -ESRCH;
	return err ? err : write_where(work, remote, fits);
}

int xp_patch_write(void *work, struct xp_remote *remote)
{
	struct xp_patch_work *patch_work = work;

	if (xp_stub_map_is_there(remote, patch_work->stub->place.address, true))
		xp_patch_bind_threads(patch_work);
	return write_leading_to_stub(work, remote, may_be_patched);
}

int xp_patch_write_ours(void *work, struct xp_remote *remote)
{
	return write_leading_to_stub(work, remote, was_patched);
}

int xp_patch_write_back(void *work, struct xp_remote *remote)
{
	return write_where(work, remote, leads_to_stub);
}

/* Encodes the first bytes of unpatched sleds instead of patches. */
void xp_patch_encode_heads(struct xp_patch_work *work)
{
	for (size_t i = 0; i < work->count; i++)
		for (size_t j = 0; j < work->text_patches[i].count; j++) {
			struct xp_text_patch *text_patch = &work->text_patches[i].list[j];

			text_patch->size = xp_patch_head((enum xp_sled_kind)text_patch->kind, text_patch->bytes);
		}
}
