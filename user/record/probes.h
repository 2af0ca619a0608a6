/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns everything that xprof attached to the targets: the probes, the patched sleds, the budget that throttles
 * functions, and the list of binaries and processes that have them.
 */
#ifndef XPROF_RECORD_PROBES_H
#define XPROF_RECORD_PROBES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "budget/throttle.h"
#include "kernel/attach.h"
#include "kernel/programs.h"
#include "record/usdt_probes.h"
#include "sled/object.h"
#include "sled/patch.h"

/* An object with probes on its sleds, in one process, or in all (pid 0). */
struct xp_attached {
	const struct xp_object *object;
	pid_t pid;
	struct xp_sled_result sleds;
};

/* A dynamic linker with a probe. */
struct xp_linker {
	dev_t dev;
	ino_t inode;
	pid_t pid;
};

struct xp_probes {
	struct xp_attach *attach;     /* NULL with --dry-run: nothing is attached, only checked */
	struct xp_patch *patch;	      /* NULL: sleds are probed */
	struct xp_throttle *throttle; /* --max-overhead; NULL: no budget */
	struct xp_attached *attached;
	size_t attached_count, attached_room;
	struct xp_linker *linkers;
	size_t linker_count, linker_room;
	struct xp_usdt_probes_on usdt; /* --usdt */
	size_t busy;		       /* objects in a process that the kernel refused to probe with EBUSY */
	bool any_attached;	       /* ever */
	bool told_again;	       /* that an object was loaded again, and calls are missing */
	bool told_late;		       /* that programs are recorded only some milliseconds after they start */
	bool stopped;		       /* nothing is attached any more, only the ring buffers are read */
	uint64_t attach_ns;	       /* time spent attaching, and detaching */
	uint64_t detach_ns;
	uint64_t stopped_ns;	  /* how long targets were stopped to patch sleds, in total */
	uint64_t longest_stop_ns; /* the longest stop */
};

/* Returns the sleds of the object in the process, or in all processes; NULL if there are none. */
const struct xp_attached *xp_probes_find(const struct xp_probes *probes, const struct xp_object *object, pid_t pid);
/* Returns the sleds of the object in any process, or NULL. */
const struct xp_attached *xp_probes_find_any(const struct xp_probes *probes, const struct xp_object *object);
/* Lists probes that were attached. Returns 0 or -ENOMEM. */
int xp_probes_add(struct xp_probes *probes, const struct xp_attached *attached);
/*
 * Attaches the probe that reports changes of the list of objects to this dynamic linker, unless the process (0: all)
 * has it. fd: the linker's file. Without the probe, objects loaded later are not noticed. Returns 0, -ENOMEM, or an
 * error of attaching.
 */
int xp_probes_add_linker(struct xp_probes *probes, const struct xp_programs *programs, int fd, const struct stat *st,
			 pid_t pid);
/* Detaches all probes that belong to the process. multi: they are uprobe_multi links. */
void xp_probes_drop_process(struct xp_probes *probes, pid_t pid, bool multi);

/* The sum over all objects and processes; its mode means nothing. */
struct xp_sled_result xp_probes_sum(const struct xp_probes *probes);

/* Frees the lists, and detaches what is still attached. Safe on a zeroed struct. */
void xp_probes_free(struct xp_probes *probes);

#endif
