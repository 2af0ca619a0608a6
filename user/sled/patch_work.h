/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by patch.c, patch_sites.c and patch_stubs.c only: one object in one process. */
#ifndef XPROF_SLED_PATCH_WORK_H
#define XPROF_SLED_PATCH_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sled/call_rings.h"
#include "sled/patch.h"
#include "sled/stub_map.h"
#include "sled/text_patches.h"

/* A stub that a process has mapped. */
struct xp_patch_stub {
	pid_t pid;
	struct xp_stub_place place;		/* the file is locked */
	unsigned int probed;			/* 1u << enum xp_stub_slot */
	uint32_t counted[XP_STUB_COUNTERS_MAX]; /* the counters when they were last read */
	bool unread;				/* could not be read yet; the values may be from an earlier recording */
	struct xp_call_rings *rings; /* shared by the stubs of a process; NULL: calls are recorded through the uprobe */
	bool had_rings;		     /* another process with its stub had rings, so sleds may call these slots, too */
	uint32_t group;		     /* group of its uprobes for children (attach.h); 0: none */
	char no_rings[XP_NO_RINGS_BYTES]; /* why there are no rings; "": there are, or they were not requested */
};

/* An object that is patched in a process. */
struct patched {
	pid_t pid;
	const struct xp_object *object;
	uint64_t since_tsc; /* 0: patching has not completed */
};

struct xp_patch {
	struct xp_patch_options options;
	struct xp_patch_stub *stubs;
	size_t stub_count, stub_room;
	struct xp_patch_stub *left; /* of processes that are forgotten, for their children */
	size_t left_count, left_room;
	pid_t *children; /* whose sleds xp_patch_restore() has restored */
	size_t child_count;
	uint32_t last_group;
	struct patched *list;
	size_t count, room;
	struct xp_target_memory *memory; /* for the counters, with a budget */
	struct xp_moved_code **moved;	 /* patch_jumps.c */
	size_t moved_count;
	size_t moved_room;
	uint64_t stopped_ns;
	uint64_t longest_ns;
	bool cleared; /* see xp_patch_clear() */
};

/* Limit on the sleds of an object in a process, over all its mappings. */
#define XP_PATCH_MAX 2000000u

/* One object in one process. */
struct xp_patch_work {
	struct xp_patch *patch;
	const struct xp_object *object;
	pid_t pid;
	bool held;
	bool once;     /* see stopped.h */
	bool inherits; /* its sleds call a stub of its parent */

	struct xp_stub_map stubs;	      /* stubs that the process had before */
	struct xp_text_patches *text_patches; /* one for each mapping */
	size_t count, room;
	size_t sites; /* sum over all mappings */
	uint64_t low; /* all text patches are in [low, high) */
	uint64_t high;
	struct xp_patch_stub *stub; /* the stub that the sleds will call */
	struct xp_stub_place made;
	char no_rings[XP_NO_RINGS_BYTES]; /* why the stub has no call rings */
	size_t probed; /* number of sites that need probes: conditional sleds, exits of functions without sleds */
	size_t written;
	size_t faulting; /* number of sites of functions that stay unpatched, see struct xp_sled_result */
};

void xp_patch_work_free(struct xp_patch_work *work);

/* patch_sites.c */

/* Finds the sleds of these functions (sorted ids; NULL: all functions) in all mappings of the object. */
int xp_patch_find_sites(struct xp_patch_work *work, const uint32_t *ids, size_t id_count);
/* Like xp_patch_find_sites(), for one mapping. */
int xp_patch_add_sites(struct xp_patch_work *work, const struct xp_mapping *mapping, const uint32_t *ids,
		       size_t id_count);
size_t xp_patch_count_sites(const struct xp_patch_work *work);
/* Returns whether the bytes of a sled call a stub of the process, or did so before the sled was restored. */
bool xp_patch_is_ours(const struct xp_patch_work *work, const struct xp_text_patch *text_patch, const uint8_t *now);
/* Refuses the object if a sled has other bytes than an unpatched sled or a patch that calls a stub. */
int xp_patch_check_bytes(struct xp_patch_work *work);
/* Encodes the bytes to write: a patch as object->budget requires, or the first bytes of an unpatched sled. */
int xp_patch_encode_all(struct xp_patch_work *work);
void xp_patch_encode_heads(struct xp_patch_work *work);
/* These functions write the bytes, for xp_patch_stopped(). */
int xp_patch_write(void *work, struct xp_remote *remote);
int xp_patch_write_ours(void *work, struct xp_remote *remote); /* only sleds that were patched before */
int xp_patch_write_back(void *work, struct xp_remote *remote);

/* patch_jumps.c */

/* Patches functions of an object without sleds. Sets work->written to the number of patched sites. */
int xp_patch_write_jumps(struct xp_patch_work *work);
/* Returns whether this function stays unpatched because the process handles faults; and the number of such sites. */
bool xp_patch_leaves_out(const struct xp_object *object, pid_t pid, uint32_t function_id);
size_t xp_patch_count_faulting(const struct xp_object *object, pid_t pid);

/* patch_children.c */

/*
 * Returns whether all sleds of the object call a stub that the process inherited, and through which children are
 * recorded. Such a process needs no patching.
 */
bool xp_patch_inherited(struct xp_patch *patch, const struct xp_patch_place *place, struct xp_sled_result *result);
/* Returns the first stub made from this file, whose uprobes for children serve all users of the file; NULL: none. */
struct xp_patch_stub *xp_patch_first_stub(const struct xp_patch *patch, const struct xp_stub_id *id);
/* Returns the files of all stubs, also of forgotten processes. The caller frees them. NULL: out of memory. */
struct xp_stub_id *xp_patch_stub_ids(const struct xp_patch *patch, size_t *count);
/* Call after xp_stub_map_read(): returns the parent's stub that the sites of a child call; NULL: none. */
struct xp_patch_stub *xp_patch_inherited_stub(const struct xp_patch_work *work);
/* Attaches uprobes for children to these slots (1u << enum xp_stub_slot). */
int xp_patch_attach_children(const struct xp_patch_work *work, unsigned int slots);
/* Closes a stub of a forgotten process, or keeps it for the children. */
void xp_patch_leave_stub(struct xp_patch *patch, struct xp_patch_stub *stub);

/* patch_stubs.c */

/* Takes over the stubs that earlier recordings left. Returns -EBUSY if another xprof has them. */
int xp_patch_own_stubs(struct xp_patch_work *work);
/* Returns whether all sites reach the stub. */
bool xp_patch_reaches(const struct xp_patch_work *work, uint64_t address);
/* Returns a stub that all sites reach; NULL: none. */
struct xp_patch_stub *xp_patch_choose_stub(const struct xp_patch_work *work);
/* Reads the counters of a process, summed over all shards. Returns 0 or -errno, such as -ESRCH; then they are 0. */
int xp_patch_read_counters(struct xp_patch *patch, const struct xp_patch_stub *stub, pid_t pid,
			   uint32_t counters[XP_STUB_COUNTERS_MAX]);
/* Sets work->stub to an existing or a new stub. */
int xp_patch_get_stub(struct xp_patch_work *work);
/* Allocates the pages of the call rings that xp_patch_bind_threads() gives to threads. */
void xp_patch_prepare_rings(struct xp_patch_work *work);
/* Gives the threads of the stopped process their call rings. */
void xp_patch_bind_threads(struct xp_patch_work *work);
/* Returns whether this slot records calls in memory. */
bool xp_patch_in_memory(const struct xp_patch_work *work, enum xp_stub_slot slot);
/* Returns whether the slot is for events, before which no call may be discarded. */
bool xp_patch_final_event(const struct xp_patch_work *work, enum xp_stub_slot slot);
/* Returns the offset in the stub of the slot for a sled of this kind. */
uint32_t xp_patch_entry(const struct xp_patch_work *work, enum xp_sled_kind kind);
/* Attaches uprobes to the slots that the sites need, and to the sites that cannot be patched. */
int xp_patch_attach(struct xp_patch_work *work);
/* Calls `what` while the process is stopped, and adds to the time of stops. */
int xp_patch_stopped(struct xp_patch_work *work, int (*what)(void *arg, struct xp_remote *remote), void *arg);

#endif
