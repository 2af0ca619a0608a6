/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stubs in the memory of a process: those that are there, and how one gets there. A recording that patches sleds holds
 * a lock on the file of each stub that they lead to, which goes with it however it ends; the stub itself stays, for a
 * thread may come back to it whenever the handler of a signal that has interrupted it there returns. A later recording
 * uses it again.
 */
#ifndef XPROF_STUB_MAP_H
#define XPROF_STUB_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "target/remote.h"
#include "arch/x86_64/stub.h"

struct xp_stub_place {
	uint64_t address;
	ino_t inode;
	bool alive; /* its flag is set: not so in a child by fork(), where it is of no use any more */
	int fd;	    /* the stub's file, what uprobes are attached through */
};

struct xp_stub_map {
	struct xp_stub_place *list;
	size_t count;
};

/* The stubs that process pid has mapped. -ESRCH, -ENOMEM. The caller frees, which closes their files. */
int xp_stub_map_read(struct xp_stub_map *map, pid_t pid);
void xp_stub_map_free(struct xp_stub_map *map);
/* Whether this is the address of a slot of one of them. */
bool xp_stub_map_has(const struct xp_stub_map *map, uint64_t address);

/*
 * Takes the stub for this xprof, as xp_file_lock() does. -EBUSY: another one has it; its sleds must be left to it. The
 * lock belongs to the open file: taken once, not again through another descriptor of the same inode.
 */
int xp_stub_lock(const struct xp_stub_place *place, pid_t *holder);

/* Whether a stopped process has a stub at this address, of its own: it may have executed another program since. */
bool xp_stub_map_is_there(struct xp_remote *remote, uint64_t address);
/*
 * Has a stopped process map a new stub within reach of [start, end). scratch: see xp_remote_begin_calls(). Errors, with
 * a sentence in why: those of the calls, -ENOSPC no room within reach, -EPERM and -EPROTO somebody interferes.
 *
 * The number of the new file is the process's word, and who shares its files can put any other there, also one that it
 * may not write to itself (O_PATH, or read only). So it is opened with O_PATH, which has no effect on any file, and
 * written to only if it is what memfd_create(2) makes: on the kernel's own mount for such files, without a name, empty,
 * not sealed, and of the user of the thread that was to make it. Through that descriptor it is opened again, so that
 * nobody can exchange it in between; it is sealed and read back before it is used. What races are left meet only such
 * files: another empty memfd of the same user becomes a stub that nobody uses. What is mapped is looked at when no call
 * is to follow; whoever maps something else there later leads none but the process itself astray.
 */
int xp_stub_map_new(struct xp_stub_place *place, struct xp_remote *remote, pid_t pid, uint64_t start, uint64_t end,
		    uint64_t scratch, char *why, size_t why_size);

#endif
