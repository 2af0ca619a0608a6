// SPDX-License-Identifier: BSD-2-Clause
#include "sled/stub_map.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/array.h"
#include "base/code_places.h"
#include "base/util.h"
#include "sled/call_rings.h"
#include "sled/remote_memfd.h"
#include "target/chosen_file.h"
#include "target/memory_window.h"
#include "target/target.h"

static bool is_alive(pid_t pid, uint64_t address)
{
	struct xp_memory_window *memory;
	uint8_t flag = 0;

	if (xp_memory_window_open(&memory, pid))
		return false;
	xp_memory_window_set(memory, address + XP_STUB_FLAG, address + XP_STUB_COUNTERS);
	if (!xp_memory_window_read(memory, &flag, address + XP_STUB_FLAG, sizeof(flag)))
		flag = 0;
	xp_memory_window_free(memory);
	return flag == 1;
}

bool xp_stub_is_mapping(const struct xp_mapping *mapping)
{
	return xp_stub_is_named(mapping->path) && !mapping->shared && !mapping->file_offset &&
	       mapping->end - mapping->start == XP_STUB_BYTES;
}

bool xp_stub_same_file(int fd, int other)
{
	struct stat a, b;

	return !fstat(fd, &a) && !fstat(other, &b) && a.st_ino == b.st_ino && a.st_dev == b.st_dev;
}

/* Opens the mapped stub. If xprof has a copy (chosen_file.h), it is another file with such a name. */
static int open_stub(pid_t pid, const struct xp_mapping *mapping)
{
	int fd = xp_mapping_open(pid, mapping);
	struct stat st;

	if (fd < 0 || (!fstat(fd, &st) && !xp_chosen_original(&st)))
		return fd;
	close(fd);
	return -ESTALE;
}

/* Returns whether the process has mapped this file (NULL: any) there as shared and writable. */
static bool maps_to_write(const char *mappings, uint64_t start, uint64_t end, const struct stat *st)
{
	unsigned int dev_major, dev_minor;
	const char *line;
	uint64_t inode;
	char wanted[64];
	int length = snprintf(wanted, sizeof(wanted), "%08" PRIx64 "-%08" PRIx64 " rw-s ", start, end);

	/* The kernel escapes newlines in paths. */
	line = strstr(mappings, wanted);
	if (!line || (line != mappings && line[-1] != '\n'))
		return false;
	return !st || (sscanf(line + length, "%*x %x:%x %" SCNu64, &dev_major, &dev_minor, &inode) == 3 &&
		       inode == st->st_ino && makedev(dev_major, dev_minor) == st->st_dev);
}

int xp_stub_open_rings(pid_t pid, const char *text, uint64_t stub)
{
	uint64_t address = stub + XP_STUB_RINGS, end = address + XP_CALL_RINGS_BYTES;
	int place = xp_mapping_open_exact(pid, address, end, 0);
	struct stat st;
	int fd;

	if (place < 0)
		return place;
	if (fcntl(place, F_GET_SEALS) != XP_STUB_RINGS_SEALS || fstat(place, &st) ||
	    !maps_to_write(text, address, end, &st) || (uint64_t)st.st_size != XP_CALL_RINGS_BYTES) {
		close(place);
		return -ENOENT;
	}
	fd = xp_memfd_reopen(place);
	close(place);
	return fd;
}

/* Opens the file. If an earlier stub is the same file, shares its descriptor. */
static int open_once(const struct xp_stub_map *map, struct xp_stub_place *place, pid_t pid,
		     const struct xp_mapping *mapping)
{
	struct stat st;
	int fd = open_stub(pid, mapping), shared;

	if (fd < 0 || fstat(fd, &st))
		return fd;
	place->id = (struct xp_stub_id){ st.st_dev, st.st_ino };
	for (size_t i = 0; i < map->count; i++)
		if (xp_stub_same(&map->list[i].id, &place->id)) {
			shared = fcntl(map->list[i].fd, F_DUPFD_CLOEXEC, 0);
			close(fd);
			return shared;
		}
	return fd;
}

/* text: the mappings of the process. */
static int add_stub(struct xp_stub_map *map, pid_t pid, const struct xp_mapping *mapping, const char *text)
{
	struct xp_stub_place place = { .address = mapping->start, .rings = -1 };
	int err;

	place.fd = open_once(map, &place, pid, mapping);
	if (place.fd < 0)
		return 0;
	if (!xp_stub_verify(place.fd)) {
		xp_stub_close(&place);
		return 0;
	}
	place.alive = is_alive(pid, place.address);
	place.rings = XP_MAX(xp_stub_open_rings(pid, text, place.address), -1);
	place.shares_counters =
	    maps_to_write(text, place.address + XP_STUB_COUNTERS, place.address + XP_STUB_ROOM, NULL);
	err = XP_ARRAY_ADD(map->list, map->count, map->room, place);
	if (err)
		xp_stub_close(&place);
	return err;
}

static int read_mappings(struct xp_mappings *mappings, char **text, pid_t pid)
{
	char *lines = NULL;
	int err = xp_mappings_text(text, pid);

	if (err)
		return err;
	lines = strdup(*text);
	err = lines ? xp_mappings_parse(mappings, lines, true) : -ENOMEM;
	free(lines);
	if (err)
		free(*text);
	return err;
}

int xp_stub_map_read(struct xp_stub_map *map, pid_t pid)
{
	struct xp_mappings mappings;
	size_t found = 0;
	char *text;
	int err = read_mappings(&mappings, &text, pid);

	memset(map, 0, sizeof(*map));
	if (err)
		return err;
	for (size_t i = 0; i < mappings.count && !err; i++) {
		if (!xp_stub_is_mapping(&mappings.list[i]))
			continue;
		err = ++found > XP_STUBS_MAX ? -EKEYREJECTED : add_stub(map, pid, &mappings.list[i], text);
	}
	xp_mappings_free(&mappings);
	free(text);
	if (err)
		xp_stub_map_free(map);
	return err;
}

void xp_stub_close(struct xp_stub_place *place)
{
	if (place->fd >= 0)
		close(place->fd);
	if (place->rings >= 0)
		close(place->rings);
	place->fd = place->rings = -1;
}

void xp_stub_map_free(struct xp_stub_map *map)
{
	for (size_t i = 0; i < map->count; i++)
		xp_stub_close(&map->list[i]);
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

bool xp_stub_map_is_there(struct xp_remote *remote, uint64_t address, bool alive)
{
	/* The bytes of the page before the code; the code has probes. */
	uint8_t page[XP_STUB_BYTES], now[XP_STUB_TEXT], flag = 0;

	xp_stub_make(page);
	return !xp_remote_read(remote, address, now, sizeof(now)) && !memcmp(now, page, sizeof(now)) &&
	       !xp_remote_read(remote, address + XP_STUB_FLAG, &flag, sizeof(flag)) && flag == alive;
}
