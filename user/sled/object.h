/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The instrumented objects (binaries) of a recording: executables and shared libraries with XRay sleds, or with
 * functions that can be patched. Each file is one object, even if several processes map it. An object gets a range of
 * function IDs of the recording (event.h) when it is first seen, and keeps it to the end.
 */
#ifndef XPROF_SLED_OBJECT_H
#define XPROF_SLED_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/stat.h>

#include "elf/sled_table.h"

enum xp_call_mode {
	XP_SLEDS_PROBED,  /* a uprobe on each sled */
	XP_SLEDS_PATCHED, /* sleds call a stub, see patch.h */
};

/* The ways of recording a call. Each has its own cost. */
enum xp_call_way {
	XP_CALLS_PROBED, /* by uprobes on the sleds */
	XP_CALLS_STUB,	 /* by the uprobe on the stub, in patch mode */
	XP_CALLS_CHILD,	 /* by the stub's uprobe in a forked child */
	XP_CALLS_MEMORY, /* in memory, see call_rings.h */
	XP_CALL_WAYS,
};

/*
 * State of the patched sleds of a function, see struct xp_function_budget. Any other value n: calls are only counted,
 * by counter n - 1 of the stub (stub.h).
 */
#define XP_EXCLUDED_NOT 0
#define XP_EXCLUDED_OUT 255

/* The state of a function in a budget (budget/throttle.h). */
struct xp_function_budget {
	uint64_t
	    out_tsc; /* when the sleds were restored in all processes (atomic; UINT64_MAX: some processes have them) */
	uint32_t calls[XP_CALL_WAYS]; /* entries recorded since the last reading */
	uint32_t memory_ns;	      /* cost of a call that is recorded in memory */
	uint8_t excluded;	      /* how its patched sleds are, or are about to be (atomic) */
};

struct xp_object {
	struct xp_object *next;
	dev_t dev; /* from fstat() of the file itself */
	ino_t inode;
	struct timespec changed;
	off_t size;
	char *path; /* path in the first process that mapped it */
	/* Keeps the inode alive, and is the file for uprobes; -1 if there is no table. */
	int fd;
	/*
	 * If fd is a copy, because the file's file system may block in the kernel and so must not be probed
	 * (chosen_file.h): name of the file system's type. Otherwise NULL.
	 */
	const char *original;
	struct xp_sled_table *table; /* NULL: not instrumented, or malformed */
	/* How to patch functions without sleds: the table lists their sites. NULL: functions have sleds. */
	struct xp_plan_table *plan;
	/* The last numbers of sites left out that xp_follow_warn_refused() told, of functions without sleds. */
	struct {
		bool any;
		size_t faulting, patched;
	} told;
	uint32_t fn_base; /* function id i of the table has the number fn_base + i */
	/* Indices of the sleds to attach, by file offset: those that match --functions and are intact in the file. */
	uint32_t *selected;
	size_t selected_count;
	size_t patched_in_file;		   /* selected, but the file does not have the bytes of an unpatched sled */
	bool is_main;			   /* the executable of a process, see xp_objects.plans */
	uint32_t unpatchable;		   /* functions left out by xp_objects.only_patchable */
	bool conditional_probed;	   /* its conditional tail exits, in all processes; set by the caller */
	struct xp_function_budget *budget; /* by function id; owned by the budget, NULL without one */
	/* By function ID: 1 plus the index in xp_objects.watched, or 0. NULL: no function is watched. */
	uint8_t *watched;
};

struct xp_objects {
	struct xp_object *first; /* newest first */
	uint32_t fn_end;	 /* fn_base of the next object */
	const char **patterns;	 /* --functions, without objects, borrowed; see xp_objects_select() */
	char **pattern_objects;	 /* globs of their objects; NULL: the executable, and objects with sleds */
	size_t pattern_count;
	bool plans;	     /* record functions without sleds, in executables and in objects that patterns name */
	bool only_patchable; /* omit functions with a sled that cannot be patched */
	struct xp_pattern_uses *pattern_uses; /* NULL: not counted; freed with the objects, as is pattern_objects */
	/* Globs of functions to watch, borrowed; the first that matches is used. At most 255. */
	const char *const *watched;
	size_t watched_count;
	struct xp_pattern_uses *watched_uses;
};

/* An open file, owned by the caller, its name for messages, and a process that has mapped it (0: none). */
struct xp_object_file {
	int fd;
	const char *path;
	pid_t pid;
};

/*
 * Finds or adds the object of a file. Files without sleds are remembered, too (table NULL). *refused: why a new file
 * has no table, with a message (why.h): the error of xp_sled_table_open(); -EINVAL: a broken map. Returns 0 or -errno:
 * -ENOMEM, -ENOSPC if there are more than 2^28 functions, -ECANCELED (interrupt.h), or the error of fstat().
 */
int xp_objects_add(struct xp_objects *objects, struct xp_object **object, const struct xp_object_file *file,
		   int *refused);
static inline bool xp_object_has(const struct xp_object *object, uint32_t fn)
{
	return fn > object->fn_base && fn - object->fn_base <= object->table->function_count;
}

/* Returns the index in `selected` of the first sled at or after this file offset. */
size_t xp_object_selected_from(const struct xp_object *object, uint64_t file_offset);

/* Returns the size of the pages with selected sleds, which become private memory of a process. */
uint64_t xp_object_page_bytes(const struct xp_object *object);

/* Returns the object with this function ID; NULL: none. */
struct xp_object *xp_objects_find(const struct xp_objects *objects, uint32_t fn);
void xp_objects_free(struct xp_objects *objects);

struct xp_pattern_uses;
/*
 * Sets the patterns, [!][OBJECT:]GLOB: OBJECT is a glob for the name or the path of a file. Borrows the strings.
 * Returns 0 or -ENOMEM.
 */
int xp_objects_select(struct xp_objects *objects, const char *const *texts, size_t count);
/*
 * Returns whether patterns select a function of the object (elf/function_patterns.h). The last pattern that matches one
 * of its names decides; a leading '!' excludes. If no pattern matches, functions with sleds are selected if the first
 * pattern excludes.
 */
bool xp_function_wanted(const struct xp_objects *objects, const struct xp_object *object, const char *const *names,
			size_t count);

#endif
