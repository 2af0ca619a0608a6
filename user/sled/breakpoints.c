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

struct search {
	pid_t pid;
	struct xp_memory_window *memory;
	struct xp_stub_map stubs;
	/* The breakpoints in one mapping of a file. */
	struct xp_uprobe *list;
	size_t count, room;
	size_t found; /* in all mappings */
	/* Probes of a program that does nothing are attached to them; NULL: they are only counted. */
	struct xp_attach *attach;
	int program_fd;
};

static bool is_breakpoint(struct search *search, const struct xp_mapping *mapping, int fd, uint64_t offset)
{
	uint64_t into = offset - mapping->file_offset;
	uint8_t here, there;

	return offset >= mapping->file_offset && into < mapping->end - mapping->start &&
	       xp_memory_window_read(search->memory, &here, mapping->start + into, 1) && here == INT3 &&
	       pread(fd, &there, 1, (off_t)offset) == 1 && there != INT3;
}

static int look_at(struct search *search, const struct xp_mapping *mapping, int fd, uint64_t offset)
{
	int err;

	if (!is_breakpoint(search, mapping, fd, offset))
		return 0;
	err = XP_ARRAY_ADD(search->list, search->count, search->room, (struct xp_uprobe){ .offset = offset });
	return err;
}

/* At the first byte of each sled, and at the anchor (attach.h) behind it. */
static int look_at_sleds(struct search *search, const struct xp_mapping *mapping, int fd)
{
	uint8_t bytes[XP_SLED_BYTES_MAX];
	struct xp_sled_table *table;
	int err = xp_sled_table_open(&table, fd);

	if (err)
		return err == -ENOMEM || err == -ECANCELED ? err : 0;
	for (size_t i = 0; i < table->sled_count && !err; i++) {
		uint64_t offset = table->sleds[i].file_offset;
		bool entry = table->sleds[i].kind == XP_SLED_ENTRY || table->sleds[i].kind == XP_SLED_ENTRY_ARGS;
		size_t unused = 0;

		err = look_at(search, mapping, fd, offset);
		if (entry && pread(fd, bytes, sizeof(bytes), (off_t)offset) == sizeof(bytes))
			unused = xp_sled_unused(bytes);
		if (!err && unused)
			err = look_at(search, mapping, fd, offset + unused);
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

static int look_into(struct search *search, const struct xp_mapping *mapping, int fd)
{
	uint64_t offset;
	int err = 0;

	xp_memory_window_set(search->memory, mapping->start, mapping->end);
	if (is_stub(search, mapping)) {
		for (offset = 0; offset < XP_STUB_BYTES && !err; offset++)
			err = look_at(search, mapping, fd, offset);
		return err;
	}
	if (xp_link_map_is_linker(mapping->path) && !xp_link_map_offset(fd, &offset))
		err = look_at(search, mapping, fd, offset);
	return err ? err : look_at_sleds(search, mapping, fd);
}

/* Skips files that cannot be opened: they have no probes. */
static int look_for(struct search *search, const struct xp_mapping *mapping)
{
	int fd = mapping->shared ? -1 : xp_mapping_open(search->pid, mapping);
	int err;

	if (fd < 0)
		return 0;
	search->count = 0;
	err = look_into(search, mapping, fd);
	search->found += search->count;
	if (!err && search->count && search->attach)
		err = xp_attach_uprobes(search->attach, &(struct xp_uprobe_set){
							    .program_fd = search->program_fd,
							    .file_fd = fd,
							    .pid = search->pid,
							    .list = search->list,
							    .count = search->count,
							});
	close(fd);
	return err;
}

static int find(struct search *search)
{
	struct xp_mappings mappings;
	int err = xp_mappings_read(&mappings, search->pid);

	search->found = 0;
	if (err)
		return err;
	for (size_t i = 0; i < mappings.count && !err; i++)
		err = look_for(search, &mappings.list[i]);
	xp_mappings_free(&mappings);
	return err;
}

static int attach_and_detach(struct search *search, bool multi)
{
	int err;

	search->program_fd = xp_load_nothing(BPF_PROG_TYPE_KPROBE, multi ? XP_TRACE_UPROBE_MULTI : 0);
	if (search->program_fd < 0)
		return search->program_fd;
	err = xp_attach_new(&search->attach, multi) ?: find(search);
	xp_attach_free(search->attach);
	search->attach = NULL;
	close(search->program_fd);
	return err;
}

static int remove_found(struct search *search, size_t *removed)
{
	int err = find(search);
	size_t found = search->found;

	if (err || !found)
		return err;
	err = attach_and_detach(search, true);
	if (err == -EINVAL || err == -EOPNOTSUPP)
		err = attach_and_detach(search, false);
	err = err ?: find(search);
	if (!err)
		*removed = found - XP_MIN(search->found, found);
	return err;
}

int xp_breakpoints_remove(pid_t pid, size_t *removed)
{
	struct search search = { .pid = pid };
	struct xp_target_status status;
	int err = xp_thread_status(&status, pid, pid);

	*removed = 0;
	/* Leave a debugger's breakpoints alone: the kernel did not set them. */
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
	free(search.list);
	xp_memory_window_free(search.memory);
	xp_stub_map_free(&search.stubs);
	return err;
}
