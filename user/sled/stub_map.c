// SPDX-License-Identifier: BSD-2-Clause
#include "sled/stub_map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/code_places.h"
#include "base/util.h"
#include "base/why.h"
#include "sled/call_rings.h"
#include "sled/remote_memfd.h"
#include "target/address_gap.h"
#include "target/room.h"
#include "target/status.h"
#include "target/target.h"

/* Writes the stub into a new memfd, and seals it. */
static int fill(int fd)
{
	uint8_t page[XP_STUB_BYTES];
	int err;

	xp_stub_make(page);
	err = xp_pwrite_all(fd, page, sizeof(page), 0);
	if (!err && fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		err = -errno;
	/* Another process may have written to the memfd before it was sealed. */
	return err || xp_stub_verify(fd) ? err : -EPERM;
}

/* Maps the page of the flag, which the process cannot write, and the counters. *end: end of the part mapped so far. */
static int map_data(struct xp_remote *remote, uint64_t address, bool share_counters, size_t *end)
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
				       (share_counters ? MAP_SHARED : MAP_PRIVATE) | MAP_ANONYMOUS |
					   MAP_FIXED_NOREPLACE,
				       -1ull,
				       0 };
	const uint64_t wipe_end = share_counters ? XP_STUB_COUNTERS : XP_STUB_ROOM;
	const uint64_t wipe[6] = { address + XP_STUB_FLAG, wipe_end - XP_STUB_FLAG, MADV_WIPEONFORK };
	int err = xp_remote_map(remote, flag);

	if (!err) {
		*end = XP_STUB_COUNTERS;
		err = xp_remote_map(remote, counters);
	}
	if (!err) {
		*end = XP_STUB_ROOM;
		err = XP_MIN((int)xp_remote_call(remote, SYS_madvise, wipe), 0);
	}
	return err ? err : xp_remote_write(remote, address + XP_STUB_FLAG, "\1", 1);
}

/* Maps all pages of the stub, or none. */
static int map_all(struct xp_remote *remote, uint64_t address, int remote_fd, bool share_counters)
{
	const uint64_t args[6] = {
		address, XP_STUB_BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED_NOREPLACE, remote_fd, 0
	};
	size_t end = XP_STUB_BYTES;
	int err = xp_remote_map(remote, args);

	if (err)
		return err;
	err = map_data(remote, address, share_counters, &end);
	if (err)
		xp_remote_call(remote, SYS_munmap, (uint64_t[6]){ address, end });
	return err;
}

/* Creates a file for call rings and maps it at that address. */
static int map_new_rings(struct xp_stub_place *place, struct xp_remote *remote, uint64_t name, uint64_t address)
{
	int remote_fd, err = 0;
	uint64_t args[6] = { address, XP_CALL_RINGS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE };

	place->rings = xp_remote_memfd(remote, name, &remote_fd);
	if (place->rings < 0)
		return place->rings;
	if (ftruncate(place->rings, (off_t)XP_CALL_RINGS_BYTES) ||
	    fcntl(place->rings, F_ADD_SEALS, XP_STUB_RINGS_SEALS))
		err = -errno;
	args[4] = (uint64_t)remote_fd;
	if (!err)
		err = xp_remote_map(remote, args);
	return xp_remote_close(remote, remote_fd) ?: err;
}

/* Maps the call rings of another stub again: mremap() from size 0 maps the same pages. */
static int map_same_rings(struct xp_remote *remote, uint64_t from, uint64_t address)
{
	const uint64_t args[6] = { from, 0, XP_CALL_RINGS_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, address };
	int64_t mapped = xp_remote_call(remote, SYS_mremap, args);

	return mapped < 0 ? (int)mapped : (uint64_t)mapped == address ? 0 : -EPROTO;
}

/* Maps call rings after a new stub. A child of fork() that is not recorded must not write to them. */
static int map_rings(struct xp_stub_place *place, struct xp_remote *remote, uint64_t name,
		     const struct xp_stub_request *request)
{
	uint64_t address = place->address + XP_STUB_RINGS;
	const uint64_t keep[6] = { address, XP_CALL_RINGS_BYTES, MADV_DONTFORK };
	const uint64_t no_dump[6] = { address, XP_CALL_RINGS_BYTES, MADV_DONTDUMP };
	int err = request->rings_at ? map_same_rings(remote, request->rings_at, address)
				    : map_new_rings(place, remote, name, address);

	if (err)
		return err;
	if (!request->inherit_rings)
		err = XP_MIN((int)xp_remote_call(remote, SYS_madvise, keep), 0);
	if (!err)
		err = XP_MIN((int)xp_remote_call(remote, SYS_madvise, no_dump), 0);
	address += XP_CALL_TABLES + request->table * XP_CALL_TABLE_BYTES;
	if (!err)
		err = xp_remote_write(remote, place->address + XP_STUB_TABLE, &address, sizeof(address));
	if (err)
		xp_remote_call(remote, SYS_munmap,
			       (uint64_t[6]){ place->address + XP_STUB_RINGS, XP_CALL_RINGS_BYTES });
	place->rings_inherited = !err && request->inherit_rings;
	return err;
}

static uint64_t locked_kib(pid_t pid)
{
	struct xp_target_status status;

	xp_thread_status(&status, pid, pid);
	return status.locked_kib;
}

/*
 * Returns whether the process locks all future mappings (mlockall(MCL_FUTURE)): its own limit and its cgroup would be
 * charged for the call rings. Tests it with a page that is mapped at that address for a moment.
 */
static bool locks_all(struct xp_remote *remote, pid_t pid, uint64_t address)
{
	const uint64_t page[6] = { address, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1ull };
	uint64_t before_kib = locked_kib(pid);
	bool locks;

	if (xp_remote_map(remote, page))
		return false;
	locks = locked_kib(pid) > before_kib;
	xp_remote_call(remote, SYS_munmap, (uint64_t[6]){ address, 4096 });
	return locks;
}

/* Maps call rings after the stub, or stores why not. */
static int add_rings(struct xp_stub_place *place, struct xp_remote *remote, uint64_t name,
		     const struct xp_stub_request *request)
{
	bool locks = locks_all(remote, request->pid, place->address + XP_STUB_RINGS);
	int err = locks ? -EOPNOTSUPP : map_rings(place, remote, name, request);

	if (locks)
		snprintf(request->no_rings, XP_NO_RINGS_BYTES,
			 "it locks the memory that it maps (mlockall), and call rings are 71 MiB");
	else if (err)
		snprintf(request->no_rings, XP_NO_RINGS_BYTES, "it cannot map 71 MiB of shared memory: %s",
			 strerror(-err));
	if (err && place->rings >= 0) {
		close(place->rings);
		place->rings = -1;
	}
	return err;
}

/* name: address of XP_STUB_NAME in the process. */
static int make_there(struct xp_stub_place *place, struct xp_remote *remote, uint64_t name,
		      const struct xp_stub_request *request)
{
	const bool locks = locks_all(remote, request->pid, place->address);
	int remote_fd, err;

	place->fd = xp_remote_memfd(remote, name, &remote_fd);
	if (place->fd < 0)
		return place->fd;
	err = fill(place->fd);
	if (!err)
		err = map_all(remote, place->address, remote_fd, request->share_counters);
	if (!err && locks)
		xp_remote_call(remote, SYS_munlock, (uint64_t[6]){ place->address, XP_STUB_ROOM });
	err = xp_remote_close(remote, remote_fd) ?: err;
	if (err || !request->rings)
		return err;
	err = add_rings(place, remote, name, request);
	if (err == -ETIMEDOUT || err == -ECANCELED || err == -ESRCH || err == -EPROTO)
		return err;
	/* The stub works without call rings. */
	if (err && request->rings_only)
		xp_remote_call(remote, SYS_munmap, (uint64_t[6]){ place->address, XP_STUB_ROOM });
	return err && request->rings_only ? -EOPNOTSUPP : 0;
}

static int find_room(uint64_t *address, const struct xp_stub_request *request, uint64_t bytes)
{
	char *text;
	int err = xp_mappings_text(&text, request->pid);

	if (err)
		return err;
	*address = xp_address_gap_find(text, request->start, request->end, bytes);
	free(text);
	if (*address)
		return 0;
	return xp_why_set(-ENOSPC, "no room for the stub within 2 GiB of its text");
}

/* Returns whether this file is mapped there: its descriptor may have referred to another file when it was mapped. */
static bool is_mapped(const struct xp_stub_place *place, pid_t pid)
{
	struct xp_mappings mappings;
	bool found = false;

	if (xp_mappings_read_all(&mappings, pid))
		return false;
	for (size_t i = 0; i < mappings.count && !found; i++)
		found = xp_stub_is_mapping(&mappings.list[i]) && mappings.list[i].start == place->address &&
			mappings.list[i].inode == place->id.inode && mappings.list[i].dev == place->id.dev;
	xp_mappings_free(&mappings);
	return found;
}

/* Opens the call rings that the process has mapped after the stub. Returns a descriptor or -errno. */
static int open_rings(const struct xp_stub_place *place, pid_t pid)
{
	char *text;
	int fd = xp_mappings_text(&text, pid);

	if (fd)
		return fd;
	fd = xp_stub_open_rings(pid, text, place->address);
	free(text);
	return fd;
}

/*
 * Keeps the call rings only if the process has mapped this file after the stub: the descriptor may have referred to
 * another file. If the process has mapped the rings of another stub again, opens those.
 */
static void verify_rings(struct xp_stub_place *place, pid_t pid)
{
	int mapped = open_rings(place, pid);

	if (place->rings < 0) {
		place->rings = XP_MAX(mapped, -1);
		return;
	}
	if (mapped < 0 || !xp_stub_same_file(place->rings, mapped)) {
		close(place->rings);
		place->rings = -1;
	}
	if (mapped >= 0)
		close(mapped);
}

static int explain(int err)
{
	switch (err) {
	case -EAGAIN:
		return xp_why_set(
		    -EOPNOTSUPP,
		    "it locks the memory that it maps (mlockall), and is at its limit of that (`ulimit -l`)");
	case -ETIMEDOUT:
		return xp_why_set(err, "a system call in it did not return in time: it is frozen, or gets no CPU time");
	case -EPERM:
	case -EPROTO:
	case -EEXIST:
		return xp_why_set(err, "another process interfered while it mapped the stub");
	default:
		return xp_why_set(err, "it cannot map the stub: %s", strerror(-err));
	}
}

/* Writes the instructions that access call rings: the stub's instructions, or nops. */
static int write_accesses(struct xp_remote *remote, uint64_t stub, bool nops)
{
	uint8_t page[XP_STUB_BYTES];
	uint32_t offset;
	size_t bytes;
	int err = 0;

	xp_stub_make(page);
	for (size_t i = 0; !err && (bytes = xp_stub_ring_access(i, &offset)); i++) {
		if (nops)
			memset(page + offset, XP_STUB_NOP, bytes);
		err = xp_remote_write(remote, stub + offset, page + offset, bytes);
	}
	return err;
}

/* Returns true, and stores the reason, if a limit of the process leaves no memory for call rings. */
static bool lacks_room(const struct xp_stub_request *request)
{
	int err = xp_target_check_room_for_rings(request->pid, XP_CALL_RINGS_BYTES);

	if (err)
		snprintf(request->no_rings, XP_NO_RINGS_BYTES, "%s", xp_why(err));
	xp_why_clear();
	return err;
}

int xp_stub_map_rings(struct xp_stub_place *place, struct xp_remote *remote, const struct xp_stub_request *request)
{
	uint64_t name;
	int err;

	place->rings = -1;
	if (!xp_stub_map_is_there(remote, place->address, place->alive))
		return -ESRCH;
	/* A thread may be after the check of its ring, and would continue without a ring. */
	if (xp_remote_is_in(remote, place->address + XP_STUB_MEMORY, place->address + XP_STUB_BYTES)) {
		snprintf(request->no_rings, XP_NO_RINGS_BYTES, "a thread was in the stub at each try");
		return -EAGAIN;
	}
	if (lacks_room(request))
		return -EOPNOTSUPP;
	err = xp_remote_begin_calls(remote, place->address + XP_STUB_SCRATCH, XP_STUB_NAME, &name);
	if (err)
		return err;
	err = add_rings(place, remote, name, request);
	xp_remote_end_calls(remote);
	if (!err)
		err = write_accesses(remote, place->address, false);
	if (!err)
		verify_rings(place, request->pid);
	return err;
}

/*
 * Returns whether the stopped process still has this stub and these call rings after it. It may have executed another
 * program, or mapped other memory where an earlier try has unmapped the rings.
 */
static bool has_rings(const struct xp_stub_place *place, struct xp_remote *remote, pid_t pid)
{
	int mapped = xp_stub_map_is_there(remote, place->address, place->alive) ? open_rings(place, pid) : -ENOENT;
	bool same = mapped >= 0 && xp_stub_same_file(place->rings, mapped);

	if (mapped >= 0)
		close(mapped);
	return same;
}

int xp_stub_unmap_rings(const struct xp_stub_place *place, struct xp_remote *remote, pid_t pid)
{
	char text[XP_REMOTE_TEXT_BYTES] = "";
	uint64_t unused;
	int err;

	if (!has_rings(place, remote, pid))
		return 0;
	if (xp_remote_is_in(remote, place->address + XP_STUB_MEMORY, place->address + XP_STUB_BYTES))
		return -EAGAIN;
	err = xp_remote_begin_calls(remote, place->address + XP_STUB_SCRATCH, text, &unused);
	if (err)
		return err;
	err = write_accesses(remote, place->address, true);
	if (err)
		write_accesses(remote, place->address, false);
	else
		err = XP_MIN((int)xp_remote_call(remote, SYS_munmap,
						 (uint64_t[6]){ place->address + XP_STUB_RINGS, XP_CALL_RINGS_BYTES }),
			     0);
	xp_remote_end_calls(remote);
	return err;
}

int xp_stub_map_new(struct xp_stub_place *place, struct xp_remote *remote, const struct xp_stub_request *request)
{
	struct xp_stub_request wanted = *request;
	struct stat st;
	uint64_t name;
	int err;

	*place = (struct xp_stub_place){ .fd = -1, .rings = -1, .shares_counters = request->share_counters };
	if (wanted.rings && lacks_room(request)) {
		if (wanted.rings_only)
			return -EOPNOTSUPP;
		wanted.rings = false;
	}
	err = find_room(&place->address, &wanted, XP_STUB_ROOM + (wanted.rings ? XP_CALL_RINGS_BYTES : 0));
	if (err == -ENOSPC && wanted.rings) {
		wanted.rings = false;
		snprintf(wanted.no_rings, XP_NO_RINGS_BYTES, "no room for 71 MiB within 2 GiB of its text");
		xp_why_clear();
		err = find_room(&place->address, &wanted, XP_STUB_ROOM);
		if (!err && wanted.rings_only)
			err = -EOPNOTSUPP;
	}
	if (!err)
		err = xp_remote_begin_calls(remote, request->scratch, XP_STUB_NAME, &name);
	if (err)
		goto out;
	err = make_there(place, remote, name, &wanted);
	xp_remote_end_calls(remote);
	if (err == -EAGAIN)
		err = explain(err);
	if (!err)
		err = fstat(place->fd, &st) ? -errno : 0;
	if (!err)
		place->id = (struct xp_stub_id){ st.st_dev, st.st_ino };
	if (!err && !is_mapped(place, request->pid))
		err = -EPROTO;
	if (!err && wanted.rings)
		verify_rings(place, request->pid);
	place->alive = true;
out:
	if (err)
		xp_stub_close(place);
	return err && !xp_why_has(err) ? explain(err) : err;
}
