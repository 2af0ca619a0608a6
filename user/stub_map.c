// SPDX-License-Identifier: BSD-2-Clause
#include "stub_map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memory_window.h"
#include "target.h"
#include "util.h"
#include "vacancy.h"

/* Linux 6.3, commit 105ff5339f49: asked for where vm.memfd_noexec is set. Debian 12's headers do not have it. */
#define MEMFD_EXEC 0x10u

static int add(struct xp_stub_map *map, const struct xp_stub_place *place)
{
	struct xp_stub_place *list = realloc(map->list, (map->count + 1) * sizeof(*list));

	if (!list)
		return -ENOMEM;
	map->list = list;
	list[map->count++] = *place;
	return 0;
}

static bool is_alive(pid_t pid, uint64_t address)
{
	struct xp_memory_window *memory;
	uint8_t flag = 0;

	if (xp_memory_window_open(&memory, pid))
		return false;
	if (!xp_memory_window_read(memory, &flag, address + XP_STUB_FLAG, sizeof(flag)))
		flag = 0;
	xp_memory_window_free(memory);
	return flag == 1;
}

int xp_stub_map_read(struct xp_stub_map *map, pid_t pid)
{
	struct xp_mappings mappings;
	int err = xp_mappings_read_all(&mappings, pid);

	memset(map, 0, sizeof(*map));
	if (err)
		return err;
	for (size_t i = 0; i < mappings.count && !err; i++) {
		const struct xp_mapping *mapping = &mappings.list[i];
		struct xp_stub_place place = { .address = mapping->start, .inode = mapping->inode };

		if (!xp_stub_is_named(mapping->path) || mapping->shared || mapping->file_offset ||
		    mapping->end - mapping->start != XP_STUB_BYTES)
			continue;
		place.fd = xp_mapping_open(pid, mapping);
		if (place.fd < 0)
			continue;
		place.alive = is_alive(pid, place.address);
		err = xp_stub_verify(place.fd) ? add(map, &place) : 1;
		if (err)
			close(place.fd);
		err = XP_MIN(err, 0);
	}
	xp_mappings_free(&mappings);
	if (err)
		xp_stub_map_free(map);
	return err;
}

void xp_stub_map_free(struct xp_stub_map *map)
{
	for (size_t i = 0; i < map->count; i++)
		if (map->list[i].fd >= 0)
			close(map->list[i].fd);
	free(map->list);
	memset(map, 0, sizeof(*map));
}

bool xp_stub_map_has(const struct xp_stub_map *map, uint64_t address)
{
	for (size_t i = 0; i < map->count; i++)
		if (xp_stub_is_slot(address - map->list[i].address))
			return true;
	return false;
}

int xp_stub_lock(const struct xp_stub_place *place)
{
	if (!flock(place->fd, LOCK_EX | LOCK_NB))
		return 0;
	return errno == EWOULDBLOCK ? -EBUSY : -errno;
}

bool xp_stub_map_is_there(struct xp_remote *remote, uint64_t address)
{
	/* Of the page, what is before the code: that has probes. */
	uint8_t page[XP_STUB_BYTES], now[XP_STUB_TEXT], flag = 0;

	xp_stub_make(page);
	return !xp_remote_read(remote, address, now, sizeof(now)) && !memcmp(now, page, sizeof(now)) &&
	       !xp_remote_read(remote, address + XP_STUB_FLAG, &flag, sizeof(flag)) && flag == 1;
}

/* A system call of the process, its error as ours. */
static int64_t call(struct xp_remote *remote, uint64_t at, long number, const uint64_t args[6])
{
	int64_t result;
	int err = xp_remote_syscall(remote, at, number, args, &result);

	return err ? err : result;
}

/* Writes the stub into the file that the process has just made, and seals it. Our own descriptor, or -errno. */
static int fill(pid_t tid, int remote_fd)
{
	uint8_t page[XP_STUB_BYTES];
	char path[64];
	int err, fd;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", tid, remote_fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	xp_stub_make(page);
	err = xp_pwrite_all(fd, page, sizeof(page), 0);
	if (!err && fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		err = -errno;
	if (err) {
		close(fd);
		return err;
	}
	return fd;
}

static int map_there(struct xp_remote *remote, uint64_t at, const uint64_t args[6])
{
	int64_t mapped = call(remote, at, SYS_mmap, args);

	return mapped < 0 ? (int)mapped : (uint64_t)mapped == args[0] ? 0 : -EEXIST;
}

/* The flag's page, which the process itself cannot write, and the counters. */
static int map_data(struct xp_remote *remote, uint64_t at, uint64_t address)
{
	const uint64_t flag[6] = { address + XP_STUB_FLAG,
				   XP_STUB_COUNTERS - XP_STUB_FLAG,
				   PROT_READ,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
				   -1ull,
				   0 };
	const uint64_t counters[6] = { address + XP_STUB_COUNTERS,
				       XP_STUB_COUNTERS_BYTES,
				       PROT_READ | PROT_WRITE,
				       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
				       -1ull,
				       0 };
	const uint64_t wipe[6] = { address + XP_STUB_FLAG, XP_STUB_ROOM - XP_STUB_FLAG, MADV_WIPEONFORK };
	int err = map_there(remote, at, flag);

	if (!err)
		err = map_there(remote, at, counters);
	if (!err)
		err = XP_MIN((int)call(remote, at, SYS_madvise, wipe), 0);
	return err ? err : xp_remote_write(remote, address + XP_STUB_FLAG, "\1", 1);
}

static int map_file(struct xp_remote *remote, uint64_t at, uint64_t address, int remote_fd)
{
	const uint64_t args[6] = {
		address, XP_STUB_BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED_NOREPLACE, remote_fd, 0
	};

	return map_there(remote, at, args);
}

/* name: the address of XP_STUB_NAME in the process; at: that of a syscall instruction. */
static int make_there(struct xp_stub_place *place, struct xp_remote *remote, uint64_t at, uint64_t name)
{
	const uint64_t with_exec[6] = { name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MEMFD_EXEC };
	const uint64_t without[6] = { name, MFD_CLOEXEC | MFD_ALLOW_SEALING };
	int64_t remote_fd = call(remote, at, SYS_memfd_create, with_exec);
	uint64_t close_args[6] = { 0 };
	int64_t closed;
	int err;

	if (remote_fd == -EINVAL)
		remote_fd = call(remote, at, SYS_memfd_create, without);
	if (remote_fd < 0)
		return (int)remote_fd;
	place->fd = fill(xp_remote_caller(remote), (int)remote_fd);
	err = place->fd < 0 ? place->fd : map_file(remote, at, place->address, (int)remote_fd);
	if (!err)
		err = map_data(remote, at, place->address);
	close_args[0] = remote_fd;
	closed = call(remote, at, SYS_close, close_args);
	return err ? err : XP_MIN((int)closed, 0);
}

static int find_room(uint64_t *address, pid_t pid, uint64_t start, uint64_t end, char *why, size_t why_size)
{
	char *text;
	int err = xp_mappings_text(&text, pid);

	if (err)
		return err;
	*address = xp_vacancy_find(text, start, end, XP_STUB_ROOM);
	free(text);
	if (*address)
		return 0;
	snprintf(why, why_size, "no room for the stub within 2 GiB of its text");
	return -ENOSPC;
}

int xp_stub_map_new(struct xp_stub_place *place, struct xp_remote *remote, pid_t pid, uint64_t start, uint64_t end,
		    uint64_t scratch, char *why, size_t why_size)
{
	static const uint8_t borrowed[] = "\x0f\x05" XP_STUB_NAME; /* syscall, and the name of the file */
	uint8_t before[sizeof(borrowed)];
	struct stat st;
	int err, restored;

	_Static_assert(sizeof(borrowed) <= XP_STUB_SCRATCH_BYTES, "scratch");
	*place = (struct xp_stub_place){ .fd = -1 };
	err = find_room(&place->address, pid, start, end, why, why_size);
	if (!err)
		err = xp_remote_read(remote, scratch, before, sizeof(before));
	if (!err)
		err = xp_remote_write(remote, scratch, borrowed, sizeof(borrowed));
	if (err)
		goto out;
	err = make_there(place, remote, scratch, scratch + 2);
	restored = xp_remote_write(remote, scratch, before, sizeof(before));
	err = err ? err : restored;
	if (!err)
		err = fstat(place->fd, &st) ? -errno : 0;
	if (!err)
		place->inode = st.st_ino;
	place->alive = true;
out:
	if (err && place->fd >= 0)
		close(place->fd);
	if (err && !why[0])
		snprintf(why, why_size, "it cannot map the stub: %s", strerror(-err));
	return err;
}
