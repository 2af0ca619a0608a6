// SPDX-License-Identifier: BSD-2-Clause
#include "sled/breakpoints.h"

#include <errno.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arch/x86_64/stub.h"
#include "base/array.h"
#include "base/util.h"
#include "base/why.h"
#include "elf/sled_table.h"
#include "kernel/attach.h"
#include "kernel/preflight.h"
#include "sled/stub_map.h"
#include "target/link_map.h"
#include "target/memory_window.h"
#include "target/status.h"
#include "target/target.h"

#define INT3 0xcc

/* The breakpoints in one mapping of a file. */
struct piece {
	int fd;
	struct xp_uprobe *list;
	size_t count, room;
};

struct search {
	pid_t pid;
	struct xp_memory_window *memory;
	struct xp_stub_map stubs;
	struct piece *pieces;
	size_t count, room;
};

static bool is_breakpoint(struct search *search, const struct xp_mapping *mapping, int fd, uint64_t offset)
{
	uint64_t into = offset - mapping->file_offset;
	uint8_t here, there;

	return offset >= mapping->file_offset && into < mapping->end - mapping->start &&
	       xp_memory_window_read(search->memory, &here, mapping->start + into, 1) && here == INT3 &&
	       pread(fd, &there, 1, (off_t)offset) == 1 && there != INT3;
}

static int look_at(struct search *search, const struct xp_mapping *mapping, struct piece *piece, uint64_t offset)
{
	int err;

	if (!is_breakpoint(search, mapping, piece->fd, offset))
		return 0;
	err = XP_ARRAY_RESERVE(piece->list, piece->room, piece->count + 1);
	if (!err)
		piece->list[piece->count++] = (struct xp_uprobe){ .offset = offset };
	return err;
}

/* At the first byte of each sled, and at the anchor (attach.h) behind it. */
static int look_at_sleds(struct search *search, const struct xp_mapping *mapping, struct piece *piece)
{
	uint8_t bytes[XP_SLED_BYTES_MAX];
	struct xp_sled_table *table;
	int err = xp_sled_table_open(&table, piece->fd);

	if (err)
		return err == -ENOMEM || err == -ECANCELED ? err : 0;
	for (size_t i = 0; i < table->sled_count && !err; i++) {
		uint64_t offset = table->sleds[i].file_offset;
		bool entry = table->sleds[i].kind == XP_SLED_ENTRY || table->sleds[i].kind == XP_SLED_ENTRY_ARGS;
		size_t unused = 0;

		err = look_at(search, mapping, piece, offset);
		if (entry && pread(piece->fd, bytes, sizeof(bytes), (off_t)offset) == sizeof(bytes))
			unused = xp_sled_unused(bytes);
		if (!err && unused)
			err = look_at(search, mapping, piece, offset + unused);
	}
	xp_sled_table_free(table);
	return err;
}

static bool is_stub(const struct search *search, const struct xp_mapping *mapping)
{
	for (size_t i = 0; i < search->stubs.count; i++)
		if (search->stubs.list[i].id.inode == mapping->inode && search->stubs.list[i].address == mapping->start)
			return true;
	return false;
}

static int look_into(struct search *search, const struct xp_mapping *mapping, struct piece *piece)
{
	uint64_t offset;
	int err = 0;

	xp_memory_window_set(search->memory, mapping->start, mapping->end);
	if (is_stub(search, mapping)) {
		for (offset = 0; offset < XP_STUB_BYTES && !err; offset++)
			err = look_at(search, mapping, piece, offset);
		return err;
	}
	if (xp_link_map_is_linker(mapping->path) && !xp_link_map_offset(piece->fd, &offset))
		err = look_at(search, mapping, piece, offset);
	return err ? err : look_at_sleds(search, mapping, piece);
}

/* Files that cannot be opened have no probes. */
static int look_for(struct search *search, const struct xp_mapping *mapping)
{
	struct piece piece = { .fd = mapping->shared ? -1 : xp_mapping_open(search->pid, mapping) };
	int err;

	if (piece.fd < 0)
		return 0;
	err = look_into(search, mapping, &piece);
	if (!err && piece.count)
		err = XP_ARRAY_RESERVE(search->pieces, search->room, search->count + 1);
	if (err || !piece.count) {
		free(piece.list);
		close(piece.fd);
		return err;
	}
	search->pieces[search->count++] = piece;
	return 0;
}

static void free_pieces(struct search *search)
{
	for (size_t i = 0; i < search->count; i++) {
		free(search->pieces[i].list);
		close(search->pieces[i].fd);
	}
	free(search->pieces);
	search->pieces = NULL;
	search->count = search->room = 0;
}

/* Returns how many breakpoints there are, or -errno. */
static ssize_t find(struct search *search)
{
	struct xp_mappings mappings;
	int err = xp_mappings_read(&mappings, search->pid);
	size_t found = 0;

	free_pieces(search);
	if (err)
		return err;
	for (size_t i = 0; i < mappings.count && !err; i++)
		err = look_for(search, &mappings.list[i]);
	xp_mappings_free(&mappings);
	for (size_t i = 0; i < search->count; i++)
		found += search->pieces[i].count;
	return err ? err : (ssize_t)found;
}

/* Probes of a program that does nothing. */
static int attach_and_detach(const struct search *search, bool multi)
{
	int program_fd = xp_load_nothing(BPF_PROG_TYPE_KPROBE, multi ? XP_TRACE_UPROBE_MULTI : 0);
	struct xp_attach *attach = NULL;
	int err = program_fd < 0 ? program_fd : xp_attach_new(&attach, multi);

	for (size_t i = 0; i < search->count && !err; i++)
		err = xp_attach_uprobes(attach, &(struct xp_uprobe_set){
						    .program_fd = program_fd,
						    .file_fd = search->pieces[i].fd,
						    .pid = search->pid,
						    .list = search->pieces[i].list,
						    .count = search->pieces[i].count,
						});
	xp_attach_free(attach);
	if (program_fd >= 0)
		close(program_fd);
	return err;
}

static int remove_found(struct search *search, size_t *removed)
{
	ssize_t found = find(search), left;
	int err;

	if (found <= 0)
		return (int)found;
	err = attach_and_detach(search, true);
	if (err == -EINVAL || err == -EOPNOTSUPP)
		err = attach_and_detach(search, false);
	if (err)
		return err;
	left = find(search);
	*removed = left < found ? (size_t)(found - XP_MAX(left, (ssize_t)0)) : 0;
	return (int)XP_MIN(left, (ssize_t)0);
}

int xp_breakpoints_remove(pid_t pid, size_t *removed)
{
	struct search search = { .pid = pid };
	struct xp_target_status status;
	int err = xp_thread_status(&status, pid, pid);

	*removed = 0;
	/* A debugger's breakpoints are not the kernel's. */
	if (!err && status.tracer)
		return 0;
	if (!err)
		err = xp_stub_map_read(&search.stubs, pid);
	if (!err)
		err = xp_memory_window_open(&search.memory, pid);
	if (!err)
		err = remove_found(&search, removed);
	if (err)
		err = xp_why_set(err == -EPERM ? -EACCES : err, "cannot remove the breakpoints of process %d: %s", pid,
				 strerror(-err));
	free_pieces(&search);
	xp_memory_window_free(search.memory);
	xp_stub_map_free(&search.stubs);
	return err;
}
