/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stubs in the memory of a process: finds existing stubs, and maps new ones. A recording that patches sleds locks the
 * file of each stub that the sleds call; the lock ends with the recording in any case. The stub itself stays: a thread
 * that a signal interrupted in the stub may return to it whenever the handler returns. A later recording reuses the
 * stub.
 */
#ifndef XPROF_SLED_STUB_MAP_H
#define XPROF_SLED_STUB_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "arch/x86_64/stub.h"
#include "target/remote.h"

struct xp_mapping;

/* Limit of mappings in a process with the name of a stub. Each 2 GiB of text and each call mode needs one. */
#define XP_STUBS_MAX 32

/* The file of a stub. */
struct xp_stub_id {
	dev_t dev;
	ino_t inode;
};

static inline bool xp_stub_same(const struct xp_stub_id *a, const struct xp_stub_id *b)
{
	return a->inode == b->inode && a->dev == b->dev;
}

struct xp_stub_place {
	uint64_t address;
	struct xp_stub_id id;
	bool alive;	      /* its flag is set; false in a fork() child, where the stub is unusable */
	bool shares_counters; /* with children of fork() */
	bool rings_inherited; /* by children of fork(): this recording has mapped them that way */
	int fd;		      /* the stub's file, to which uprobes are attached */
	int rings;	      /* the file of the call rings that are mapped after it (call_rings.h); -1: none */
};

struct xp_stub_map {
	struct xp_stub_place *list;
	size_t count, room;
};

/*
 * Finds the stubs of process pid. Returns 0, -ESRCH, -ENOMEM, or -EKEYREJECTED if there are more than XP_STUBS_MAX: the
 * process has forged them. The caller frees the map, which closes the files. Stubs of one file share an open file, and
 * so its lock.
 */
int xp_stub_map_read(struct xp_stub_map *map, pid_t pid);
void xp_stub_map_free(struct xp_stub_map *map);
/* Returns whether two descriptors refer to the same file. */
bool xp_stub_same_file(int fd, int other);
/* Closes the files of a stub. */
void xp_stub_close(struct xp_stub_place *place);
/* Returns whether this is the address of a slot of one of the stubs. */
bool xp_stub_map_has(const struct xp_stub_map *map, uint64_t address);

/*
 * Locks the stub of process pid for this xprof. Waits while an xprof that has exited still holds it, as xp_file_lock()
 * does. Returns 0 or -errno: -EBUSY if another xprof records the process (*holder, 0: unknown), or -EKEYREJECTED if a
 * process that cannot be an xprof holds the lock: the process itself, or one without privileges.
 */
int xp_stub_lock(const struct xp_stub_place *place, pid_t pid, pid_t *holder);
/* Checks without waiting whether another xprof may hold the stub of process pid. Errors as above. */
int xp_stub_check_lock(const struct xp_stub_place *place, pid_t pid, pid_t *holder);

/*
 * Returns whether a stopped process has its stub at this address, or an inherited one (alive: false). It may have
 * executed another program since.
 */
bool xp_stub_map_is_there(struct xp_remote *remote, uint64_t address, bool alive);
/* Returns whether a mapping may be a stub, by its size and name. */
bool xp_stub_is_mapping(const struct xp_mapping *mapping);
#define XP_STUB_RINGS_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
/*
 * Opens the file that is mapped where the call rings of the stub at this address would be, if it looks like call rings;
 * otherwise -ENOENT, or -errno. xprof will write to the file, so the process must be able to write to it, too: it may
 * have mapped the memfd of another user. text: mappings of the process.
 */
int xp_stub_open_rings(pid_t pid, const char *text, uint64_t stub);
/* A stub that a stopped process is to map. */
struct xp_stub_request {
	pid_t pid;
	uint64_t start; /* within reach of [start, end) */
	uint64_t end;
	uint64_t scratch;    /* see xp_remote_begin_calls() */
	bool share_counters; /* with children of fork() */
	bool rings;	     /* map call rings, if possible */
	bool inherit_rings;  /* map them for children of fork(), too */
	bool rings_only;     /* make no stub without call rings */
	char *no_rings;	     /* out: XP_NO_RINGS_BYTES for a message, if call rings are not possible */
	uint64_t rings_at;   /* address of the call rings after another stub; 0: make new ones */
	size_t table;	     /* number of the process's table in these rings */
};
#define XP_NO_RINGS_BYTES 160

/*
 * Makes a stopped process map a new stub, in a memfd that it creates (remote_memfd.h) and that xprof seals and reads
 * back before use. If call rings are not possible, makes a stub without them. Returns 0 or -errno with a message
 * (why.h): the errors of the calls, -ENOSPC if there is no space within reach, -EPERM or -EPROTO if another process
 * interferes. xprof checks the mapping after the last call. A process that maps other memory there later misleads only
 * itself.
 */
int xp_stub_map_new(struct xp_stub_place *place, struct xp_remote *remote, const struct xp_stub_request *request);

/*
 * Maps call rings after a stub of a stopped process that has none, and sets place->rings. Returns 0 or -errno with a
 * message in request->no_rings or of why.h: -EEXIST if the process has mapped other memory there, -ESRCH if it no
 * longer has the stub, -EAGAIN if a thread is in the stub: try again.
 */
int xp_stub_map_rings(struct xp_stub_place *place, struct xp_remote *remote, const struct xp_stub_request *request);
/*
 * Unmaps the call rings after a stub of a stopped process that no sled calls. A signal handler may have interrupted a
 * thread anywhere in the stub, so this replaces the instructions that access the rings with nops. Returns 0, also if
 * the process no longer has this stub or these rings, or -errno: -EAGAIN if a thread is in the stub: try again.
 */
int xp_stub_unmap_rings(const struct xp_stub_place *place, struct xp_remote *remote, pid_t pid);

#endif
