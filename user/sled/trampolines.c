// SPDX-License-Identifier: BSD-2-Clause
#include "sled/trampolines.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "arch/x86_64/stub.h"
#include "base/array.h"
#include "base/code_places.h"
#include "base/util.h"
#include "base/why.h"
#include "elf/build.h"
#include "sled/remote_memfd.h"
#include "sled/stub_map.h"
#include "target/memory_window.h"
#include "target/remote_stacks.h"
#include "target/target.h"

#define PAGE_BYTES 4096u
#define SEALS (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/*
 * The sections after the mapped part: .eh_frame, which covers the mapped bytes, and the list of jumps. CFA = rsp + 8,
 * and the return address is at CFA - 8: see stub.c.
 */
#define EH_FRAME_BYTES 56
/* clang-format off */
static const uint8_t eh_frame[EH_FRAME_BYTES] = {
	0x14, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, /* pcrel, sdata4 */
	0x0c, 7, 8, 0x90, 1, 0, 0, /* CFA, the return address */
	0x10, 0, 0, 0, 0x1c, 0, 0, 0, /* the entry: its start and size follow */
};
/* clang-format on */
#define FDE_START 32 /* offset of the start */

struct header {
	char magic[16];
	uint64_t mapped_bytes;
	uint64_t jump_count;
};

static const char magic[16] = "xprof jumps 1\n";

/* The stub occupies one page. */
uint64_t xp_trampolines_room(uint64_t code_bytes)
{
	return XP_MAX((XP_TRAMPOLINES_CODE + code_bytes + PAGE_BYTES - 1) / PAGE_BYTES, (uint64_t)2) * PAGE_BYTES;
}

/* ---- finding them ---- */

static bool may_be(const struct xp_mapping *mapping)
{
	return xp_stub_is_named(mapping->path) && !mapping->shared && !mapping->file_offset &&
	       mapping->end - mapping->start >= 2 * PAGE_BYTES;
}

static bool read_at(int fd, void *to, size_t bytes, uint64_t offset)
{
	return pread(fd, to, bytes, (off_t)offset) == (ssize_t)bytes;
}

/* Counts the pages with jumps. Returns false if the jumps are not sorted. */
static bool count_pages(struct xp_trampolines *trampolines)
{
	trampolines->pages = 0;
	for (size_t i = 0; i < trampolines->count; i++) {
		uint64_t address = trampolines->jumps[i].address, before = i ? trampolines->jumps[i - 1].address : 0;

		if (i && address <= before)
			return false;
		trampolines->pages += !i || address / PAGE_BYTES != before / PAGE_BYTES;
	}
	return true;
}

bool xp_trampolines_may_add(const struct xp_trampolines_list *list, const struct xp_trampolines *more)
{
	struct xp_trampolines sum = *more;

	if (!count_pages(&sum))
		return false;
	for (size_t i = 0; i < list->count; i++) {
		sum.count += list->all[i].count;
		sum.pages += list->all[i].pages;
	}
	return list->count < XP_TRAMPOLINES_MAX && sum.count <= XP_TRAMPOLINES_JUMPS_MAX &&
	       sum.pages <= XP_TRAMPOLINES_PAGES_MAX;
}

/* Returns 0, -ENOMEM, or -ENOENT if the mapping is of another file. */
static int read_file(struct xp_trampolines *trampolines, int fd, const struct xp_mapping *mapping)
{
	const uint64_t header_at = mapping->end - mapping->start + EH_FRAME_BYTES;
	struct header header;
	struct stat st;

	*trampolines = (struct xp_trampolines){ .start = mapping->start, .end = mapping->end };
	if (fstat(fd, &st) || fcntl(fd, F_GET_SEALS) != SEALS || !read_at(fd, &header, sizeof(header), header_at) ||
	    memcmp(header.magic, magic, sizeof(magic)) != 0 || header.mapped_bytes != mapping->end - mapping->start ||
	    header.jump_count > XP_TRAMPOLINES_JUMPS_MAX)
		return -ENOENT;
	trampolines->inode = st.st_ino;
	trampolines->jumps = malloc((header.jump_count + 1) * sizeof(*trampolines->jumps));
	if (!trampolines->jumps)
		return -ENOMEM;
	trampolines->count = header.jump_count;
	if (read_at(fd, trampolines->jumps, header.jump_count * sizeof(*trampolines->jumps),
		    header_at + sizeof(header)) &&
	    count_pages(trampolines))
		return 0;
	free(trampolines->jumps);
	return -ENOENT;
}

static int add(struct xp_trampolines_list *list, pid_t pid, const struct xp_mapping *mapping)
{
	struct xp_trampolines one;
	int err, fd = xp_mapping_open(pid, mapping);

	if (fd < 0)
		return 0;
	err = read_file(&one, fd, mapping);
	close(fd);
	if (err)
		return err == -ENOENT ? 0 : err;
	err =
	    xp_trampolines_may_add(list, &one) ? XP_ARRAY_ADD(list->all, list->count, list->room, one) : -EKEYREJECTED;
	if (err)
		free(one.jumps);
	return err;
}

int xp_trampolines_read(struct xp_trampolines_list *list, pid_t pid)
{
	struct xp_mappings mappings;
	int err = xp_mappings_read_all(&mappings, pid);

	*list = (struct xp_trampolines_list){ 0 };
	if (err)
		return err;
	for (size_t i = 0, found = 0; i < mappings.count && !err; i++)
		if (may_be(&mappings.list[i]))
			err = ++found > XP_TRAMPOLINES_MAX ? -EKEYREJECTED : add(list, pid, &mappings.list[i]);
	xp_mappings_free(&mappings);
	return err;
}

void xp_trampolines_free(struct xp_trampolines_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->all[i].jumps);
	free(list->all);
}

/* ---- mapping them ---- */

/* Makes the section with the header and the jumps. The caller frees it. */
static uint8_t *list_section(const struct xp_trampolines *trampolines, uint64_t mapped_bytes, size_t *bytes)
{
	struct header header = { .mapped_bytes = mapped_bytes, .jump_count = trampolines->count };
	size_t jump_bytes = trampolines->count * sizeof(*trampolines->jumps);
	uint8_t *list = malloc(sizeof(header) + jump_bytes);

	if (!list)
		return NULL;
	memcpy(header.magic, magic, sizeof(magic));
	memcpy(list, &header, sizeof(header));
	memcpy(list + sizeof(header), trampolines->jumps, jump_bytes);
	*bytes = sizeof(header) + jump_bytes;
	return list;
}

static int write_elf(int fd, uint64_t mapped, const uint8_t *text, const uint8_t *list, size_t list_bytes)
{
	const uint32_t size = (uint32_t)(mapped - XP_TRAMPOLINES_CODE);
	const int32_t start = (int32_t)(XP_TRAMPOLINES_CODE - (mapped + FDE_START));
	uint8_t frame[EH_FRAME_BYTES];
	const struct xp_elf_section sections[] = {
		{ .name = ".text",
		  .type = SHT_PROGBITS,
		  .flags = SHF_ALLOC | SHF_EXECINSTR,
		  .addr = XP_TRAMPOLINES_CODE,
		  .size = size,
		  .align = XP_TRAMPOLINES_CODE,
		  .bytes = text,
		  .is_loaded = true },
		{ .name = ".eh_frame",
		  .type = SHT_PROGBITS,
		  .flags = SHF_ALLOC,
		  .addr = mapped,
		  .size = sizeof(frame),
		  .align = 8,
		  .bytes = frame },
		{ .name = ".xprof.jumps", .type = SHT_PROGBITS, .size = list_bytes, .align = 8, .bytes = list },
	};

	memcpy(frame, eh_frame, sizeof(frame));
	memcpy(frame + FDE_START, &start, sizeof(start));
	memcpy(frame + FDE_START + sizeof(start), &size, sizeof(size));
	return xp_elf_write(fd, sections, XP_ARRAY_SIZE(sections));
}

static int fill(int fd, const struct xp_trampolines *trampolines, const struct xp_trampolines_code *code)
{
	const uint64_t mapped = xp_trampolines_room(code->count);
	size_t list_bytes = 0;
	uint8_t *text = malloc(mapped), *list = list_section(trampolines, mapped, &list_bytes);
	int err = -ENOMEM;

	if (text && list) {
		memset(text, 0xcc, mapped); /* int3 */
		memcpy(text, code->bytes, code->count);
		err = write_elf(fd, mapped, text, list, list_bytes);
	}
	free(text);
	free(list);
	return err || !fcntl(fd, F_ADD_SEALS, SEALS) ? err : -errno;
}

static int map(struct xp_trampolines *trampolines, struct xp_remote *remote, uint64_t name,
	       const struct xp_trampolines_code *code)
{
	uint64_t args[6] = { trampolines->start, xp_trampolines_room(code->count), PROT_READ | PROT_EXEC,
			     MAP_PRIVATE | MAP_FIXED_NOREPLACE };
	int remote_fd, err, fd = xp_remote_memfd(remote, name, &remote_fd);
	struct stat st;

	if (fd < 0)
		return fd;
	err = fill(fd, trampolines, code);
	args[4] = (uint64_t)remote_fd;
	if (!err)
		err = fstat(fd, &st) ? -errno : xp_remote_map(remote, args);
	if (!err) {
		trampolines->end = trampolines->start + args[1];
		trampolines->inode = st.st_ino;
	}
	close(fd);
	return xp_remote_close(remote, remote_fd) ?: err;
}

int xp_trampolines_map(struct xp_trampolines *trampolines, struct xp_remote *remote,
		       const struct xp_trampolines_code *code)
{
	uint64_t name;
	int err = xp_remote_begin_calls(remote, code->scratch, XP_STUB_NAME, &name);

	if (err)
		return err;
	err = map(trampolines, remote, name, code);
	xp_remote_end_calls(remote);
	return err && !xp_why_has(err) ? xp_why_set(err, "it cannot map the trampolines: %s", strerror(-err)) : err;
}

/* ---- restoring ---- */

static int add_jump(struct xp_text_patches lists[XP_JUMP_PLACES], const struct xp_trampoline_jump *jump)
{
	struct xp_text_patches *list = &lists[XP_JUMP_SHORT - jump->kind];
	struct xp_text_patch text_patch = { .address = jump->address, .kind = jump->kind };

	text_patch.size = (uint8_t)xp_text_patch_bytes(&text_patch);
	memcpy(text_patch.jump.from, jump->bytes, sizeof(jump->bytes));
	if (!read_at(list->file_fd, text_patch.jump.to, text_patch.size, jump->address - list->file_start))
		return 0;
	return xp_text_patches_add(list, &text_patch);
}

/* Returns the index of the first jump at or above this address. */
static size_t first_from(const struct xp_trampolines *trampolines, uint64_t address)
{
	return XP_FIND_FIRST(trampolines->count, i, trampolines->jumps[i].address < address);
}

bool xp_trampolines_have_jumps(const struct xp_trampolines_list *list, uint64_t start, uint64_t end)
{
	for (size_t i = 0; i < list->count; i++) {
		size_t first = first_from(&list->all[i], start);

		if (first < list->all[i].count && list->all[i].jumps[first].address < end)
			return true;
	}
	return false;
}

int xp_trampolines_find_jumps(const struct xp_trampolines *trampolines, pid_t pid,
			      struct xp_text_patches lists[XP_JUMP_PLACES])
{
	const uint64_t start = lists[0].start, bytes = lists[0].end - start;
	struct xp_memory_window *memory;
	int err = xp_memory_window_open(&memory, pid);

	if (err)
		return err;
	xp_memory_window_set(memory, start, lists[0].end);
	for (size_t i = first_from(trampolines, start); i < trampolines->count && !err; i++) {
		const struct xp_trampoline_jump *jump = &trampolines->jumps[i];
		const struct xp_text_patch like = { .kind = jump->kind };
		uint8_t now[XP_JUMP_BYTES];

		if (jump->address - start >= bytes)
			break;
		if (jump->kind < XP_JUMP_WINDOW || jump->kind >= XP_TEXT_PATCH_KINDS ||
		    jump->address - start > bytes - xp_text_patch_bytes(&like))
			continue;
		if (xp_memory_window_read(memory, now, jump->address, xp_text_patch_bytes(&like)) &&
		    !memcmp(now, jump->bytes, xp_text_patch_bytes(&like)))
			err = add_jump(lists, jump);
	}
	xp_memory_window_free(memory);
	return err;
}

/* ---- unmapping ---- */

static bool read_jump(struct xp_memory_window *memory, uint64_t address, uint8_t now[XP_JUMP_BYTES])
{
	uint64_t page = address / PAGE_BYTES * PAGE_BYTES;

	/* Reads only the mapping that contains the jump. */
	if (address + XP_JUMP_BYTES > page + PAGE_BYTES)
		xp_memory_window_set(memory, address, address + XP_JUMP_BYTES);
	else
		xp_memory_window_set(memory, page, page + PAGE_BYTES);
	return xp_memory_window_read(memory, now, address, XP_JUMP_BYTES);
}

/*
 * Returns whether any jump to the trampolines exists. Ignores the first byte of a jump, which may be another tool's
 * breakpoint. Unreadable memory contains no jump.
 */
static bool has_jumps(const struct xp_trampolines *trampolines, struct xp_memory_window *memory)
{
	uint8_t now[XP_JUMP_BYTES];

	for (size_t i = 0; i < trampolines->count; i++) {
		const struct xp_trampoline_jump *jump = &trampolines->jumps[i];

		if (jump->kind != XP_JUMP_SHORT && read_jump(memory, jump->address, now) &&
		    !memcmp(now + 1, jump->bytes + 1, sizeof(now) - 1))
			return true;
	}
	return false;
}

int xp_trampolines_read_idle(struct xp_trampolines_list *list, pid_t pid)
{
	struct xp_memory_window *memory;
	int err = xp_trampolines_read(list, pid);
	size_t kept = 0;

	if (err || !list->count)
		return err;
	err = xp_memory_window_open(&memory, pid);
	if (err)
		return err;
	for (size_t i = 0; i < list->count; i++)
		if (has_jumps(&list->all[i], memory))
			free(list->all[i].jumps);
		else
			list->all[kept++] = list->all[i];
	list->count = kept;
	xp_memory_window_free(memory);
	return 0;
}

/* Finds the threads that may continue in these trampolines or stubs. */
static int find_users(struct xp_code_pointers *pointers, struct xp_remote *remote,
		      const struct xp_trampolines_list *list, const struct xp_stub_map *stubs)
{
	*pointers = (struct xp_code_pointers){ .start = UINT64_MAX };
	for (size_t i = 0; i < list->count; i++) {
		pointers->start = XP_MIN(pointers->start, list->all[i].start);
		pointers->end = XP_MAX(pointers->end, list->all[i].end);
	}
	for (size_t i = 0; i < stubs->count; i++) {
		pointers->start = XP_MIN(pointers->start, stubs->list[i].address);
		pointers->end = XP_MAX(pointers->end, stubs->list[i].address + XP_STUB_BYTES);
	}
	return xp_code_pointers_find(pointers, remote);
}

static bool is_used(const struct xp_code_pointers *pointers, uint64_t start, uint64_t end)
{
	return xp_code_pointers_are_in(pointers, start - 1, end);
}

/* Returns whether the trampolines are still mapped: the process may have executed another program. */
static bool is_mapped(const struct xp_trampolines *one, const struct xp_mappings *mappings)
{
	for (size_t i = 0; i < mappings->count; i++)
		if (may_be(&mappings->list[i]) && mappings->list[i].start == one->start &&
		    mappings->list[i].end == one->end && mappings->list[i].inode == one->inode)
			return true;
	return false;
}

/* Checks the stubs that the process still has: a thread in a stub will return to a trampoline. Returns 0 or -EAGAIN. */
static int check_stubs(const struct xp_stub_map *stubs, struct xp_remote *remote,
		       const struct xp_code_pointers *pointers, uint64_t *scratch)
{
	*scratch = 0;
	for (size_t i = 0; i < stubs->count; i++) {
		uint64_t stub = stubs->list[i].address;

		if (!xp_stub_map_is_there(remote, stub, stubs->list[i].alive))
			continue;
		*scratch = stub + XP_STUB_SCRATCH;
		if (is_used(pointers, stub, stub + XP_STUB_BYTES))
			return -EAGAIN;
	}
	return 0;
}

int xp_trampolines_unmap(const struct xp_trampolines_list *list, struct xp_remote *remote, pid_t pid,
			 const struct xp_stub_map *stubs)
{
	char text[XP_REMOTE_TEXT_BYTES] = "";
	struct xp_code_pointers pointers;
	struct xp_mappings mappings;
	uint64_t scratch, unused;
	int err = xp_mappings_read_all(&mappings, pid);

	if (err)
		return err;
	err = find_users(&pointers, remote, list, stubs) ?: check_stubs(stubs, remote, &pointers, &scratch);
	for (size_t i = 0; i < list->count && !err && scratch; i++) {
		const struct xp_trampolines *one = &list->all[i];

		if (!is_mapped(one, &mappings) || is_used(&pointers, one->start, one->end))
			continue;
		err = xp_remote_begin_calls(remote, scratch, text, &unused);
		if (err)
			break;
		err = XP_MIN(
		    (int)xp_remote_call(remote, SYS_munmap, (uint64_t[6]){ one->start, one->end - one->start }), 0);
		xp_remote_end_calls(remote);
	}
	free(pointers.list);
	xp_mappings_free(&mappings);
	return err;
}
