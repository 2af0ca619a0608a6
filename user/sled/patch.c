// SPDX-License-Identifier: BSD-2-Clause
#include "sled/patch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arch/x86_64/sled_bytes.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/interrupt.h"
#include "base/util.h"
#include "base/why.h"
#include "sled/patch_check.h"
#include "sled/patch_work.h"
#include "sled/sled_lock.h"
#include "sled/unpatch.h"
#include "target/memory.h"
#include "target/memory_window.h"

/* A vfork() child exits or executes a program soon. */
#define CHECK_TRIES 5
#define CHECK_PAUSE_US 20000

int xp_patch_new(struct xp_patch **result, const struct xp_patch_options *options)
{
	struct xp_patch *patch = calloc(1, sizeof(*patch));

	if (!patch)
		return -ENOMEM;
	patch->options = *options;
	if (options->budget && xp_target_memory_new(&patch->memory)) {
		free(patch);
		return -ENOMEM;
	}
	*result = patch;
	return 0;
}

static struct patched *find_patched(const struct xp_patch_work *work)
{
	const struct xp_patch *patch = work->patch;

	for (size_t i = 0; i < patch->count; i++)
		if (patch->list[i].pid == work->pid && patch->list[i].object == work->object)
			return &patch->list[i];
	return NULL;
}

static int remember(struct xp_patch_work *work)
{
	struct xp_patch *patch = work->patch;

	if (find_patched(work))
		return 0;
	return XP_ARRAY_ADD(patch->list, patch->count, patch->room, (struct patched){ work->pid, work->object, 0 });
}

/* Records when the object was patched: a later exec event means that the patches are gone, an earlier one does not. */
static void note_patched(const struct xp_patch_work *work, uint64_t tsc)
{
	struct patched *patched = find_patched(work);

	patched->since_tsc = patched->since_tsc ?: tsc;
}

static int check_process(struct xp_patch_work *work)
{
	int err;

	for (int tries = CHECK_TRIES;; usleep(CHECK_PAUSE_US)) {
		err = xp_patch_check(work->pid, work->held ? getpid() : 0);
		if (err != -EBUSY || --tries == 0)
			return err;
	}
}

static uint32_t function_of(const struct xp_patch_work *work, const struct xp_text_patch *text_patch)
{
	return work->object->table->sleds[text_patch->sled].function_id;
}

/* Selects the sleds from `first` on that are written in one stop. Splits a function only if it has too many sleds. */
static struct xp_text_patches next_piece(const struct xp_patch_work *work, const struct xp_text_patches *text_patches,
					 size_t first)
{
	size_t left = text_patches->count - first;
	struct xp_text_patches piece = *text_patches;

	piece.list += first;
	piece.count = XP_MIN(left, XP_SLEDS_PER_STOP);
	while (piece.count < XP_MIN(left, 2 * XP_SLEDS_PER_STOP) &&
	       function_of(work, &piece.list[piece.count]) == function_of(work, &piece.list[piece.count - 1]))
		piece.count++;
	return piece;
}

/*
 * Writes in several short stops. The process runs in between, and an interrupt of xprof ends the work, unless put_back.
 */
static int write_stopped(struct xp_patch_work *work, int (*what)(void *arg, struct xp_remote *remote), bool put_back)
{
	size_t written = 0;
	int err = 0;

	if (work->sites <= XP_SLEDS_PER_STOP)
		return xp_patch_stopped(work, what, work);
	for (size_t i = 0; i < work->count && !err; i++) {
		struct xp_text_patches piece;

		for (size_t first = 0; first < work->text_patches[i].count && !err; first += piece.count) {
			struct xp_patch_work part = *work;

			piece = next_piece(work, &work->text_patches[i], first);
			part.text_patches = &piece;
			part.count = 1;
			part.written = 0;
			err = !put_back && xp_interrupted() ? -ECANCELED : xp_patch_stopped(&part, what, &part);
			written += part.written;
		}
	}
	work->written = written;
	return err;
}

/* Functions without sleds are compared with the file, so this first restores what a killed xprof has left. */
static int restore_left(struct xp_patch_work *work)
{
	const struct xp_patch *patch = work->patch;
	struct xp_unpatched unpatched;

	if (!work->object->plan)
		return 0;
	for (size_t i = 0; i < patch->count; i++)
		if (patch->list[i].pid == work->pid)
			return 0;
	return xp_unpatch_process(work->pid, true, &unpatched);
}

/* Restores what was written before this error. Keeps the error's message. */
static void undo(struct xp_patch_work *work, int err)
{
	char *why = xp_why_has(err) ? strdup(xp_why(err)) : NULL;
	struct xp_unpatched unpatched;

	if (work->object->plan) {
		xp_unpatch_process(work->pid, true, &unpatched);
	} else {
		xp_patch_encode_heads(work);
		write_stopped(work, xp_patch_write_back, true);
	}
	xp_why_clear();
	if (why)
		xp_why_set(err, "%s", why);
	free(why);
}

static int patch_sleds(struct xp_patch_work *work)
{
	uint64_t before;
	int err = xp_patch_get_stub(work);

	if (!err)
		xp_patch_prepare_rings(work);
	if (!err)
		err = xp_patch_attach(work);
	if (!err && !work->object->plan)
		err = xp_patch_encode_all(work);
	if (!err)
		err = restore_left(work);
	if (!err)
		err = remember(work);
	if (err)
		return err;
	before = xp_clock_now_tsc();
	err = work->object->plan ? xp_patch_write_jumps(work) : write_stopped(work, xp_patch_write, false);
	if (!err)
		note_patched(work, before);
	if (err && work->written)
		undo(work, err);
	return err;
}

/* Returns whether the work failed because the process has executed another program. */
static bool is_gone(const struct xp_patch_work *work)
{
	struct xp_patch_work now = { .patch = work->patch, .object = work->object, .pid = work->pid };
	bool gone = xp_patch_find_sites(&now, NULL, 0) || now.low != work->low || now.high != work->high;

	xp_patch_work_free(&now);
	return gone;
}

/*
 * Locks the sleds; *lock is for xp_sled_unlock(). Unlike for probes, a lock of another recording is an error: a probe
 * on a patched sled crashes the process, while two probes do no harm.
 */
static int lock_to_patch(struct xp_patch_work *work, int *lock)
{
	*lock = work->patch->options.attach ? xp_sled_lock(work->object) : -ENOLCK;
	if (*lock == -EBUSY)
		return xp_why_set(*lock, "another recording has attached to its file for 10 s");
	return *lock >= 0 || *lock == -ENOLCK ? 0 : *lock;
}

int xp_patch_object(struct xp_patch *patch, const struct xp_patch_place *place, struct xp_sled_result *result)
{
	struct xp_patch_work work = {
		.patch = patch,
		.object = place->object,
		.pid = place->pid,
		.held = place->held,
	};
	int lock = -ENOENT, err;
	size_t sites;

	*result = (struct xp_sled_result){ .mode = XP_SLEDS_PATCHED, .patched = place->object->patched_in_file };
	xp_why_clear();
	if (xp_patch_inherited(patch, place, result))
		return 0;
	err = check_process(&work);
	if (!err)
		err = lock_to_patch(&work, &lock);
	if (!err)
		err = xp_stub_map_read(&work.stubs, place->pid);
	if (!err)
		err = xp_patch_find_sites(&work, NULL, 0);
	if (!err && !work.count)
		err = -ESRCH;
	if (!err && !place->object->plan)
		err = xp_patch_check_bytes(&work);
	if (!err && patch->options.attach)
		err = xp_patch_own_stubs(&work);
	sites = xp_patch_count_sites(&work);
	if (!err && patch->options.attach && sites)
		err = patch_sleds(&work);
	xp_sled_unlock(place->object, lock);
	if (!err) {
		size_t written;

		if (!patch->options.attach) {
			work.faulting = xp_patch_count_faulting(place->object, place->pid);
			work.written = sites - work.faulting;
		}
		written = work.written;
		result->memory = patch->options.attach ? work.stub && work.stub->rings : patch->options.memory;
		result->attached = written + work.probed;
		result->patched += sites - written - work.faulting;
		result->faulting = work.faulting;
		result->begin_tsc = xp_clock_now_tsc();
	} else if ((err == -ESRCH && !xp_why_has(err)) || (work.count && is_gone(&work))) {
		err = xp_why_set(-ESRCH, "process %d runs another program now, or has unloaded it", place->pid);
	} else if (err == -EKEYREJECTED && !xp_why_has(err)) {
		xp_why_set(err, "it has mapped more than %d stubs of xprof, which xprof did not make", XP_STUBS_MAX);
	} else if (err == -EIO && !xp_why_has(err)) {
		xp_why_set(err, "it unloads the file while its sleds are patched");
	}
	xp_patch_work_free(&work);
	return err;
}

uint64_t xp_patch_since(const struct xp_patch *patch, pid_t pid)
{
	uint64_t since = UINT64_MAX;
	bool begun = false;

	for (size_t i = 0; i < patch->stub_count; i++)
		begun |= patch->stubs[i].pid == pid;
	for (size_t i = 0; i < patch->count; i++) {
		if (patch->list[i].pid == pid && patch->list[i].since_tsc)
			since = XP_MIN(since, patch->list[i].since_tsc);
	}
	return since != UINT64_MAX ? since : begun;
}

bool xp_patch_has(struct xp_patch *patch, const struct xp_object *object, pid_t pid, const struct xp_mapping *mapping)
{
	struct xp_patch_work work = { .patch = patch, .object = object, .pid = pid, .low = UINT64_MAX };
	struct xp_memory_window *memory = NULL;
	uint8_t now[XP_SLED_BYTES_MAX];
	bool has = true; /* unreadable, or without sleds: assume that it is patched */

	if (object->plan || xp_patch_add_sites(&work, mapping, NULL, 0) || !work.text_patches[0].count ||
	    xp_memory_window_open(&memory, pid))
		goto out;
	has = false;
	xp_memory_window_set(memory, mapping->start, mapping->end);
	for (size_t i = 0; i < work.text_patches[0].count && !has; i++) {
		const struct xp_text_patch *text_patch = &work.text_patches[0].list[i];

		has = xp_memory_window_read(memory, now, text_patch->address,
					    xp_sled_bytes((enum xp_sled_kind)text_patch->kind)) &&
		      xp_patch_is_ours(&work, text_patch, now);
	}
out:
	xp_memory_window_free(memory);
	xp_patch_work_free(&work);
	return has;
}

int xp_patch_functions(struct xp_patch *patch, const struct xp_patch_place *place, const uint32_t *ids, size_t count)
{
	struct xp_patch_work work = {
		.patch = patch,
		.object = place->object,
		.pid = place->pid,
		.held = place->held,
		.once = true,
		.inherits = place->inherits,
	};
	int lock, err;

	xp_why_clear();
	err = lock_to_patch(&work, &lock);
	if (!err)
		err = xp_patch_find_sites(&work, ids, count);
	if (!err && place->inherits)
		err = xp_stub_map_read(&work.stubs, place->pid);
	work.stub = place->inherits ? xp_patch_inherited_stub(&work) : xp_patch_choose_stub(&work);
	if (err || !work.stub || !xp_patch_count_sites(&work))
		goto out;
	/* A forked child has the probes of its parent. */
	err = place->inherits ? 0 : xp_patch_attach(&work);
	if (!err)
		err = xp_patch_encode_all(&work);
	if (!err)
		err = xp_patch_stopped(&work, xp_patch_write_ours, &work);
out:
	xp_sled_unlock(place->object, lock);
	xp_patch_work_free(&work);
	return err;
}

static int add_counts(struct xp_patch *patch, struct xp_patch_stub *stub, pid_t pid,
		      uint64_t counts[XP_STUB_COUNTERS_MAX])
{
	uint32_t now[XP_STUB_COUNTERS_MAX];
	int err = xp_patch_read_counters(patch, stub, pid, now);

	if (err)
		return err == -ESRCH ? 0 : err;
	for (int counter = 0; counter < XP_STUB_COUNTERS_MAX && !stub->unread; counter++)
		counts[counter] += now[counter] - stub->counted[counter];
	memcpy(stub->counted, now, sizeof(now));
	err = stub->unread ? -EAGAIN : 0;
	stub->unread = false;
	return err;
}

int xp_patch_counts(struct xp_patch *patch, pid_t pid, uint64_t counts[XP_STUB_COUNTERS_MAX])
{
	int err = 0;

	/* An inherited stub belongs to the parent. */
	for (size_t i = 0; i < patch->stub_count; i++)
		if (patch->stubs[i].pid == pid && patch->stubs[i].place.alive)
			err = add_counts(patch, &patch->stubs[i], pid, counts) ?: err;
	return err;
}

int xp_patch_counts_left(struct xp_patch *patch, pid_t pid, pid_t child, uint64_t counts[XP_STUB_COUNTERS_MAX])
{
	int err = 0;

	for (size_t i = 0; i < patch->left_count; i++)
		if (patch->left[i].pid == pid && patch->left[i].place.shares_counters)
			err = add_counts(patch, &patch->left[i], child, counts) ?: err;
	return err;
}

size_t xp_patch_overwritten(struct xp_patch *patch, const struct xp_object *object, pid_t pid)
{
	struct xp_patch_work work = { .patch = patch, .object = object, .pid = pid };
	struct xp_memory_window *memory = NULL;
	uint8_t now[XP_SLED_BYTES_MAX];
	size_t overwritten = 0;

	if (object->plan || xp_patch_find_sites(&work, NULL, 0) || xp_memory_window_open(&memory, pid))
		goto out;
	for (size_t i = 0; i < work.count; i++) {
		xp_memory_window_set(memory, work.text_patches[i].start, work.text_patches[i].end);
		for (size_t j = 0; j < work.text_patches[i].count; j++) {
			const struct xp_text_patch *text_patch = &work.text_patches[i].list[j];

			overwritten += xp_memory_window_read(memory, now, text_patch->address,
							     xp_sled_bytes((enum xp_sled_kind)text_patch->kind)) &&
				       !xp_patch_is_ours(&work, text_patch, now);
		}
	}
out:
	xp_memory_window_free(memory);
	xp_patch_work_free(&work);
	return overwritten;
}

void xp_patch_forget(struct xp_patch *patch, pid_t pid)
{
	size_t kept = 0;

	XP_ARRAY_KEEP(patch->list, patch->count, i, patch->list[i].pid != pid);
	for (size_t i = 0; i < patch->stub_count; i++) {
		if (patch->stubs[i].pid == pid)
			xp_patch_leave_stub(patch, &patch->stubs[i]);
		else
			patch->stubs[kept++] = patch->stubs[i];
	}
	patch->stub_count = kept;
}

static void restore_process(struct xp_patch *patch, pid_t pid)
{
	struct xp_unpatched unpatched;
	int err = xp_unpatch_process(pid, true, &unpatched);

	patch->stopped_ns += unpatched.ns;
	patch->longest_ns = XP_MAX(patch->longest_ns, unpatched.longest_ns);
	if (err && err != -ESRCH)
		xp_warn("cannot restore the sleds of process %d: %s; each call costs some ns more until you run `xprof "
			"restore -p %d`",
			pid, xp_why(err), pid);
	else
		xp_debug("process %d: restored %zu sled%s", pid, unpatched.sleds, xp_plural_s(unpatched.sleds));
}

void xp_patch_restore(struct xp_patch *patch)
{
	pid_t *done = malloc((patch->count + 1) * sizeof(*done));
	size_t stub_count, done_count = 0;
	struct xp_stub_id *stubs = xp_patch_stub_ids(patch, &stub_count);

	if (!done || !stubs)
		goto out;
	for (size_t i = 0; i < patch->count; i++) {
		if (done_count && done[done_count - 1] == patch->list[i].pid)
			continue;
		done[done_count++] = patch->list[i].pid;
		restore_process(patch, patch->list[i].pid);
	}
	free(patch->children);
	patch->children = xp_unpatch_children(stubs, stub_count, done, done_count, &patch->child_count);
	for (size_t i = 0; i < patch->stub_count; i++)
		if (patch->stubs[i].rings)
			xp_call_rings_stop(patch->stubs[i].rings, patch->stubs[i].pid);
	patch->count = 0;
out:
	free(done);
	free(stubs);
}

void xp_patch_clear(struct xp_patch *patch)
{
	pid_t last = 0;

	for (size_t i = 0; i < patch->stub_count && !patch->cleared; i++) {
		if (patch->stubs[i].pid != last)
			xp_patch_clear_process(patch->stubs[i].pid);
		last = patch->stubs[i].pid;
	}
	for (size_t i = 0; i < patch->child_count && !patch->cleared; i++)
		xp_patch_clear_process(patch->children[i]);
	patch->cleared = true;
}

uint64_t xp_patch_stopped_ns(const struct xp_patch *patch, uint64_t *longest_ns)
{
	*longest_ns = patch->longest_ns;
	return patch->stopped_ns;
}

void xp_patch_free(struct xp_patch *patch)
{
	if (!patch)
		return;
	if (patch->count || patch->left_count)
		xp_patch_restore(patch);
	xp_patch_clear(patch);
	while (patch->stub_count)
		xp_patch_forget(patch, patch->stubs[0].pid);
	for (size_t i = 0; i < patch->left_count; i++) {
		xp_call_rings_free(patch->left[i].rings);
		xp_stub_close(&patch->left[i].place);
	}
	free(patch->left);
	free(patch->children);
	free(patch->stubs);
	free(patch->list);
	for (size_t i = 0; i < patch->moved_count; i++)
		free(patch->moved[i]);
	free(patch->moved);
	xp_target_memory_free(patch->memory);
	free(patch);
}
