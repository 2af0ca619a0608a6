// SPDX-License-Identifier: BSD-2-Clause
#include "sled/unpatch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arch/x86_64/patch_bytes.h"
#include "arch/x86_64/sled_bytes.h"
#include "base/array.h"
#include "base/interrupt.h"
#include "base/util.h"
#include "base/why.h"
#include "elf/sled_table.h"
#include "sled/patch_check.h"
#include "sled/stub_map.h"
#include "sled/text_patches.h"
#include "sled/trampolines.h"
#include "target/memory_window.h"
#include "target/remote_stacks.h"
#include "target/stopped.h"
#include "target/target.h"

/* Maximum number of searches for children that patched children have forked meanwhile. Any that remain do no harm. */
#define PASSES_MAX 16

struct search {
	pid_t pid; /* with `tails` */
	struct xp_stub_map stubs;
	struct xp_trampolines_list trampolines;
	struct xp_memory_window *memory;
	struct xp_text_patches *text_patches; /* one for each mapping with patched sleds */
	size_t count, room;
	size_t written;
	bool tails; /* search for sleds whose first instruction is restored, but not the bytes after it */
};

/*
 * Returns whether these are the bytes of a sled or a jump that calls a stub; with `tails`: of a sled that did so
 * before.
 */
static bool is_patched(const void *arg, const struct xp_text_patch *text_patch, const uint8_t *now)
{
	const struct search *search = arg;
	const enum xp_sled_kind kind = (enum xp_sled_kind)text_patch->kind;
	uint64_t slot;

	if (text_patch->kind >= XP_JUMP_WINDOW)
		return !memcmp(now, text_patch->jump.from, xp_text_patch_bytes(text_patch));
	return (search->tails ? xp_patch_decode_remains : xp_patch_decode)(kind, now, text_patch->address, &slot) &&
	       xp_stub_map_has(&search->stubs, slot);
}

/* Chooses the bytes to write. Returns false if the file has no unpatched sled there. */
static bool choose_bytes(const struct search *search, struct xp_text_patch *text_patch, int fd, uint64_t file_offset)
{
	const enum xp_sled_kind kind = (enum xp_sled_kind)text_patch->kind;

	text_patch->size =
	    search->tails ? (uint8_t)xp_sled_bytes(kind) : (uint8_t)xp_patch_head(kind, text_patch->bytes);
	return !search->tails ||
	       (pread(fd, text_patch->bytes, text_patch->size, (off_t)file_offset) == text_patch->size &&
		xp_sled_intact(kind, text_patch->bytes));
}

static int look_at_sleds(struct search *search, struct xp_text_patches *text_patches, const struct xp_mapping *mapping,
			 const struct xp_sled_table *table)
{
	uint8_t now[XP_SLED_BYTES_MAX];
	int err = 0;

	xp_memory_window_set(search->memory, mapping->start, mapping->end);
	for (size_t i = 0; i < table->sled_count && !err; i++) {
		const struct xp_sled *sled = &table->sleds[i];
		uint64_t into = sled->file_offset - mapping->file_offset;
		struct xp_text_patch text_patch = { .address = mapping->start + into, .sled = i, .kind = sled->kind };

		if (sled->file_offset < mapping->file_offset || into >= mapping->end - mapping->start)
			continue;
		if (!xp_memory_window_read(search->memory, now, text_patch.address,
					   xp_sled_bytes((enum xp_sled_kind)sled->kind)) ||
		    !is_patched(search, &text_patch, now))
			continue;
		if (choose_bytes(search, &text_patch, text_patches->file_fd, sled->file_offset))
			err = xp_text_patches_add(text_patches, &text_patch);
	}
	return err;
}

/* Finds the patched sleds of one mapping. Files without sleds, and unreadable files, have none. */
static int look_at(struct search *search, pid_t pid, const struct xp_mapping *mapping)
{
	struct xp_sled_table *table;
	struct xp_text_patches text_patches;
	int err, fd;

	if (mapping->shared)
		return 0;
	fd = xp_mapping_open(pid, mapping);
	if (fd < 0)
		return 0;
	err = xp_sled_table_open(&table, fd);
	if (err) {
		close(fd);
		return err == -ENOMEM || err == -ECANCELED ? err : 0;
	}
	text_patches = xp_text_patches_in(mapping, fd);
	err = look_at_sleds(search, &text_patches, mapping, table);
	xp_sled_table_free(table);
	if (!err && text_patches.count)
		err = xp_text_patches_sort(&text_patches) == -EINVAL ? -EUCLEAN : 0;
	if (!err && text_patches.count)
		err = XP_ARRAY_ADD(search->text_patches, search->count, search->room, text_patches);
	if (err || !text_patches.count) {
		xp_text_patches_free(&text_patches);
		close(fd);
	}
	return err;
}

/* Moves lists that are not empty to the search. */
static int keep_jumps(struct search *search, struct xp_text_patches lists[XP_JUMP_PLACES])
{
	int err = XP_ARRAY_RESERVE(search->text_patches, search->room, search->count + XP_JUMP_PLACES);

	for (size_t i = 0; i < XP_JUMP_PLACES; i++) {
		int fd = err || !lists[i].count ? -1 : fcntl(lists[i].file_fd, F_DUPFD_CLOEXEC, 0);

		if (fd >= 0 && !xp_text_patches_sort(&lists[i])) {
			lists[i].file_fd = fd;
			search->text_patches[search->count++] = lists[i];
			continue;
		}
		if (fd >= 0)
			close(fd);
		err = err ?: lists[i].count ? -EUCLEAN : 0;
		xp_text_patches_free(&lists[i]);
	}
	return err;
}

/* Finds the jumps of one mapping that lead to trampolines. */
static int look_at_jumps(struct search *search, pid_t pid, const struct xp_mapping *mapping)
{
	struct xp_text_patches lists[XP_JUMP_PLACES];
	int err = 0, fd;

	if (mapping->shared || search->tails ||
	    !xp_trampolines_have_jumps(&search->trampolines, mapping->start, mapping->end))
		return 0;
	fd = xp_mapping_open(pid, mapping);
	if (fd < 0)
		return 0;
	for (size_t i = 0; i < XP_JUMP_PLACES; i++)
		lists[i] = xp_text_patches_in(mapping, fd);
	for (size_t i = 0; i < search->trampolines.count && !err; i++)
		err = xp_trampolines_find_jumps(&search->trampolines.all[i], pid, lists);
	err = keep_jumps(search, lists) ?: err;
	close(fd);
	return err;
}

static int find_patched(struct search *search, pid_t pid)
{
	struct xp_mappings mappings;
	int err = xp_mappings_read(&mappings, pid);

	if (err)
		return err;
	for (size_t i = 0; i < mappings.count && !err; i++)
		err = look_at(search, pid, &mappings.list[i]);
	for (size_t i = 0; i < mappings.count && !err && search->trampolines.count; i++)
		err = look_at_jumps(search, pid, &mappings.list[i]);
	xp_mappings_free(&mappings);
	return err;
}

/* Omits sleds in which a thread may continue after the first instruction. */
static int spare_threads(struct xp_text_patches *text_patches, struct xp_remote *remote)
{
	struct xp_code_pointers pointers = { .start = text_patches->start, .end = text_patches->end };
	int err = xp_code_pointers_find(&pointers, remote);

	for (size_t i = 0; i < text_patches->count && !err; i++) {
		struct xp_text_patch *text_patch = &text_patches->list[i];

		if (xp_code_pointers_are_in(&pointers, text_patch->address, text_patch->address + text_patch->size))
			text_patch->size = 0;
	}
	free(pointers.list);
	return err;
}

/*
 * Returns an error if a thread is between a short jump and its spring: with the spring restored, it would execute other
 * code.
 */
static int check_springs(const struct xp_text_patches *text_patches, struct xp_remote *remote)
{
	struct xp_code_pointers pointers = { .start = text_patches->start,
					     .end = text_patches->end,
					     .is_restoring = true };
	int err = xp_code_pointers_find(&pointers, remote);

	for (size_t i = 0; i < text_patches->count && !err; i++)
		if (xp_code_pointers_are_in(&pointers, text_patches->list[i].address - 1,
					    text_patches->list[i].address + XP_JUMP_BYTES))
			err = -EAGAIN;
	free(pointers.list);
	return err;
}

static int write_all(void *arg, struct xp_remote *remote)
{
	struct search *search = arg;
	/* A running process that shares the memory may be in a sled. */
	int err = search->tails ? xp_patch_check_sharing(search->pid) : 0;

	search->written = 0;
	for (size_t i = 0; i < search->count && !err && search->tails; i++)
		err = spare_threads(&search->text_patches[i], remote);
	for (size_t i = 0; i < search->count && !err; i++)
		if (search->text_patches[i].list[0].kind == XP_JUMP_SPRING)
			err = check_springs(&search->text_patches[i], remote);
	for (size_t i = 0; i < search->count && !err; i++)
		err = xp_text_patches_write(&search->text_patches[i], remote, is_patched, search, &search->written);
	return err;
}

/*
 * Restores in one stop, or in several if there are many sleds. The process runs between stops, with the remaining sleds
 * patched.
 */
static int put_back(struct search *search, struct xp_stopped *stopped, struct xp_unpatched *unpatched)
{
	size_t sleds = 0;
	int err = 0;

	for (size_t i = 0; i < search->count; i++)
		sleds += search->text_patches[i].count;
	if (sleds <= XP_SLEDS_PER_STOP) {
		err = xp_stopped_do(stopped, write_all, search);
		*unpatched = (struct xp_unpatched){ search->written, search->count, stopped->ns, stopped->ns };
		return err;
	}
	unpatched->objects = search->count;
	for (size_t i = 0; i < search->count && !err; i++)
		for (size_t first = 0; first < search->text_patches[i].count && !err; first += XP_SLEDS_PER_STOP) {
			struct xp_text_patches piece = search->text_patches[i];
			struct search part = *search;

			piece.list += first;
			piece.count = XP_MIN(piece.count - first, XP_SLEDS_PER_STOP);
			part.text_patches = &piece;
			part.count = 1;
			err = xp_stopped_do(stopped, write_all, &part);
			unpatched->sleds += part.written;
			unpatched->ns += stopped->ns;
			unpatched->longest_ns = XP_MAX(unpatched->longest_ns, stopped->ns);
		}
	return err;
}

/* Returns an error if a stub belongs to another xprof. */
static int check_owner(const struct xp_stub_map *stubs, pid_t pid)
{
	for (size_t i = 0; i < stubs->count; i++) {
		pid_t holder;
		int err = xp_stub_lock(&stubs->list[i], pid, &holder);

		if (err == -EBUSY && holder)
			return xp_why_set(
			    err, "process %d is being recorded by another xprof (process %d): end that recording", pid,
			    holder);
		if (err == -EBUSY)
			return xp_why_set(
			    err, "process %d: an xprof that has ended still holds its stub: try again in a moment",
			    pid);
		if (err == -EKEYREJECTED)
			return xp_why_set(err, "process %d: its stub is locked, and not by an xprof", pid);
		if (err)
			return xp_why_set(err, "process %d: cannot lock its stub: %s", pid, strerror(-err));
	}
	return 0;
}

int xp_unpatch_owner(pid_t pid, pid_t *holder)
{
	struct xp_stub_map stubs;
	int err = xp_stub_map_read(&stubs, pid);

	*holder = 0;
	if (err)
		return err;
	err = stubs.count ? 0 : -ENOENT;
	for (size_t i = 0; i < stubs.count && !err; i++)
		err = xp_stub_check_lock(&stubs.list[i], pid, holder);
	xp_stub_map_free(&stubs);
	return err;
}

static void free_search(struct search *search)
{
	for (size_t i = 0; i < search->count; i++) {
		close(search->text_patches[i].file_fd);
		xp_text_patches_free(&search->text_patches[i]);
	}
	free(search->text_patches);
	xp_memory_window_free(search->memory);
	xp_trampolines_free(&search->trampolines);
	xp_stub_map_free(&search->stubs);
}

int xp_unpatch_process(pid_t pid, bool ours, struct xp_unpatched *unpatched)
{
	struct xp_stopped stopped = { .pid = pid, .patient = true };
	struct search search = { 0 };
	int err;

	*unpatched = (struct xp_unpatched){ 0 };
	xp_why_clear();
	err = xp_stub_map_read(&search.stubs, pid);
	if (err || !search.stubs.count)
		goto out;
	err = xp_trampolines_read(&search.trampolines, pid);
	if (err == -EKEYREJECTED)
		xp_why_set(err, "process %d has mapped more trampolines of xprof than xprof makes", pid);
	if (!err && !ours)
		err = check_owner(&search.stubs, pid);
	if (!err)
		err = xp_memory_window_open(&search.memory, pid);
	if (!err)
		err = find_patched(&search, pid);
	if (err || !search.count)
		goto out;
	err = put_back(&search, &stopped, unpatched);
out:
	if (err == -EKEYREJECTED && !xp_why_has(err))
		xp_why_set(err, "process %d has mapped more than %d stubs of xprof, which xprof did not make", pid,
			   XP_STUBS_MAX);
	else if (err && !xp_why_has(err))
		xp_why_set(err, "cannot restore the sleds of process %d: %s", pid, strerror(-err));
	free_search(&search);
	return err;
}

void xp_unpatch_tails(pid_t pid)
{
	struct xp_stopped stopped = { .pid = pid };
	struct search search = { .pid = pid, .tails = true };
	struct xp_unpatched unpatched;
	int err = xp_stub_map_read(&search.stubs, pid);

	if (!err && search.stubs.count)
		err = xp_memory_window_open(&search.memory, pid);
	if (!err && search.stubs.count)
		err = find_patched(&search, pid);
	if (!err && search.count)
		err = put_back(&search, &stopped, &unpatched);
	if (err)
		xp_debug("process %d: bytes of sleds that are never executed stay changed: %s", pid, xp_why(err));
	free_search(&search);
}

bool xp_unpatch_has_stub(pid_t pid, const struct xp_stub_id *stubs, size_t count)
{
	struct xp_mappings mappings;
	bool found = false;

	if (xp_mappings_read_all(&mappings, pid))
		return false;
	for (size_t i = 0; i < mappings.count && !found; i++)
		for (size_t j = 0; j < count && !found; j++)
			found = mappings.list[i].inode == stubs[j].inode && mappings.list[i].dev == stubs[j].dev &&
				xp_stub_is_named(mappings.list[i].path);
	xp_mappings_free(&mappings);
	return found;
}

static bool is_in(const pid_t *pids, size_t count, pid_t pid)
{
	for (size_t i = 0; i < count; i++)
		if (pids[i] == pid)
			return true;
	return false;
}

/* Children that have been restored. */
struct done {
	pid_t *pids;
	size_t count, room;
};

static void restore_child(pid_t pid)
{
	struct xp_unpatched unpatched;
	int err = xp_unpatch_process(pid, true, &unpatched);

	if (err && err != -ESRCH)
		xp_warn("cannot restore the sleds of process %d, which was forked during the recording: %s; each call "
			"costs some ns more until you run `xprof restore -p %d`",
			pid, xp_why(err), pid);
}

/* Returns the number of children found, or -ENOMEM. */
static int restore_children(const struct xp_stub_id *stubs, size_t count, struct done *done)
{
	DIR *list = xp_target_list(0);
	int found = 0, err = 0;
	pid_t pid;

	while (list && !err && !xp_interrupted() && (pid = xp_target_next(list))) {
		if (is_in(done->pids, done->count, pid) || !xp_unpatch_has_stub(pid, stubs, count))
			continue;
		err = XP_ARRAY_RESERVE(done->pids, done->room, done->count + 1);
		if (err)
			break;
		done->pids[done->count++] = pid;
		found++;
		restore_child(pid);
	}
	if (list)
		closedir(list);
	if (xp_interrupted())
		xp_warn("interrupted: sleds of children that were forked during the recording may stay patched until "
			"you run `xprof restore -p PID`");
	return err ? err : found;
}

pid_t *xp_unpatch_children(const struct xp_stub_id *stubs, size_t count, const pid_t *done, size_t done_count,
			   size_t *child_count)
{
	struct done all = { 0 };
	int found = count ? XP_ARRAY_RESERVE(all.pids, all.room, done_count + 1) : -ENOENT;

	if (!found) {
		memcpy(all.pids, done, done_count * sizeof(*done));
		all.count = done_count;
		found = 1;
	}
	/*
	 * A child that was forked before its parent was restored may appear in /proc after its position there was read.
	 */
	for (int pass = 0; pass < PASSES_MAX && found > 0; pass++)
		found = restore_children(stubs, count, &all);
	*child_count = all.count - XP_MIN(done_count, all.count);
	if (*child_count)
		memmove(all.pids, all.pids + done_count, *child_count * sizeof(*all.pids));
	return all.pids;
}
