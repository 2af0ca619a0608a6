/* SPDX-License-Identifier: BSD-2-Clause */
/* What patch.c, patch_sites.c and patch_stubs.c share: one object in one process. For nobody else. */
#ifndef XPROF_PATCH_WORK_H
#define XPROF_PATCH_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sled/text_patches.h"
#include "sled/patch.h"
#include "sled/stub_map.h"

/* A stub that a process has mapped. */
struct xp_patch_stub {
	pid_t pid;
	struct xp_stub_place place;		/* the file is locked */
	unsigned int probed;			/* 1u << enum xp_stub_slot */
	uint32_t counted[XP_STUB_COUNTERS_MAX]; /* what its counters were when they were last looked at */
	bool unread;				/* they could not be read yet, and may be an earlier recording's */
};

/* An object that is patched in a process. */
struct patched {
	pid_t pid;
	const struct xp_object *object;
	uint64_t since_tsc; /* 0: as far as that went */
};

struct xp_patch {
	struct xp_patch_options options;
	struct xp_patch_stub *stubs;
	size_t stub_count;
	struct patched *list;
	size_t count;
	struct xp_target_memory *memory; /* for the counters, with a budget */
	uint64_t stopped_ns;
	uint64_t longest_ns;
};

/* Sleds of an object in a process, in all its mappings. */
#define XP_PATCH_MAX 2000000u

/* One object in one process. */
struct xp_patch_work {
	struct xp_patch *patch;
	const struct xp_object *object;
	pid_t pid;
	bool held;
	bool once; /* see stopped.h */
	char *why;
	size_t why_size;

	struct xp_stub_map stubs; /* those that it had before */
	struct xp_edits *edits;	  /* one for each mapping */
	size_t count;
	size_t sites; /* in all of them */
	uint64_t low; /* all edits are in [low, high) */
	uint64_t high;
	struct xp_patch_stub *stub; /* that the sleds will lead to */
	struct xp_stub_place made;
	size_t conditional;
	size_t written;
};

void xp_patch_work_free(struct xp_patch_work *work);
/* Leaves the sentence, returns err. */
int xp_patch_refuse(struct xp_patch_work *work, int err, const char *text);

/* patch_sites.c */

/* Finds the sleds of these functions (NULL: of all) in all mappings of the object. */
int xp_patch_find_sites(struct xp_patch_work *work, const uint32_t *ids, size_t id_count);
/* The same of one mapping. */
int xp_patch_add_sites(struct xp_patch_work *work, const struct xp_mapping *mapping, const uint32_t *ids,
		       size_t id_count);
size_t xp_patch_count_sites(const struct xp_patch_work *work);
/* Whether the bytes of a sled lead to a stub of the process. */
bool xp_patch_leads_to_stub(const struct xp_patch_work *work, const struct xp_edit *edit, const uint8_t *now);
/* The same, or did before it was put back. */
bool xp_patch_is_ours(const struct xp_patch_work *work, const struct xp_edit *edit, const uint8_t *now);
/* Refuses the object when any sled has other bytes than an unpatched one, or one that leads to a stub. */
int xp_patch_check_bytes(struct xp_patch_work *work);
/* What is to be written: a patch, as object->taken has it, or the first bytes of an unpatched sled. */
int xp_patch_encode_all(struct xp_patch_work *work);
void xp_patch_encode_heads(struct xp_patch_work *work);
/* Write it, for xp_patch_stopped(). */
int xp_patch_write(void *work, struct xp_remote *remote);
int xp_patch_write_ours(void *work, struct xp_remote *remote); /* where there was one of ours before */
int xp_patch_write_back(void *work, struct xp_remote *remote);

/* patch_stubs.c */

/* Takes over the stubs that earlier recordings have left. -EBUSY: they are another xprof's. */
int xp_patch_own_stubs(struct xp_patch_work *work);
/* The stub within reach of all sites; NULL: there is none. */
struct xp_patch_stub *xp_patch_choose_stub(const struct xp_patch_work *work);
/* What its counters are, of all shards together. -ESRCH and others, then they are zeroed. */
int xp_patch_read_counters(struct xp_patch *patch, const struct xp_patch_stub *stub,
			   uint32_t counters[XP_STUB_COUNTERS_MAX]);
/* work->stub: that one, or a new one. */
int xp_patch_get_stub(struct xp_patch_work *work);
/* Uprobes on the slots that the sites need, and on conditional sleds themselves. */
int xp_patch_attach(struct xp_patch_work *work);
/* Does it while the process stands still, and adds up how long that was. */
int xp_patch_stopped(struct xp_patch_work *work, int (*what)(void *arg, struct xp_remote *remote), void *arg);

#endif
