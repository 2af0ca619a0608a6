/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stubs in the memory of a process: finds existing ones, and maps new ones. A recording that patches sleds locks the
 * file of each stub that the sleds call; the lock ends with the recording, however that ends. The stub itself stays: a
 * thread that a signal interrupted in the stub may return to it whenever the handler returns. A later recording reuses
 * the stub.
 */
#ifndef XPROF_SLED_STUB_MAP_H
#define XPROF_SLED_STUB_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "arch/x86_64/stub.h"
#include "target/remote.h"

struct xp_stub_place {
	uint64_t address;
	ino_t inode;
	bool alive; /* its flag is set; not so in a fork() child, where the stub is unusable */
	int fd;	    /* the stub's file, to which uprobes are attached */
};

struct xp_stub_map {
	struct xp_stub_place *list;
	size_t count;
};

/*
 * The stubs that process pid has mapped. Returns 0, -ESRCH or -ENOMEM. The caller frees the map, which closes the
 * files.
 */
int xp_stub_map_read(struct xp_stub_map *map, pid_t pid);
void xp_stub_map_free(struct xp_stub_map *map);
/* Whether this is the address of a slot of one of the stubs. */
bool xp_stub_map_has(const struct xp_stub_map *map, uint64_t address);

/*
 * Locks the stub for this xprof, as xp_file_lock() does. Returns -EBUSY if another xprof has it: leave its sleds to
 * that one. The lock belongs to the open file: it is taken once, and not again through another descriptor of the same
 * inode.
 */
int xp_stub_lock(const struct xp_stub_place *place, pid_t *holder);

/* Whether a stopped process has its stub at this address. It may have executed another program since. */
bool xp_stub_map_is_there(struct xp_remote *remote, uint64_t address);
/*
 * Makes a stopped process map a new stub within reach of [start, end). scratch: see xp_remote_begin_calls(). Returns 0
 * or -errno, with a sentence in `why`: the errors of the calls, -ENOSPC if there is no room within reach, -EPERM or
 * -EPROTO if another process interferes.
 *
 * The descriptor number of the new file is untrusted: it comes from the process, and another process that shares its
 * files can put any file there, even one that it may not write to (opened with O_PATH, or read-only). So xprof opens
 * that number with O_PATH, which has no effect on any file. xprof writes to the file only if it looks like the result
 * of memfd_create(2): on the kernel's own mount for such files, unnamed, empty, unsealed, and owned by the user of the
 * thread that was to create it. xprof reopens it through that O_PATH descriptor, so that nobody can swap it in between,
 * then seals it and reads it back before use. The races that remain affect only such files: another empty memfd of the
 * same user becomes an unused stub. xprof checks the mapping after the last call. A process that maps something else
 * there later misleads only the process itself.
 */
int xp_stub_map_new(struct xp_stub_place *place, struct xp_remote *remote, pid_t pid, uint64_t start, uint64_t end,
		    uint64_t scratch, char *why, size_t why_size);

#endif
