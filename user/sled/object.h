/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The instrumented objects of a recording: executables and shared objects with XRay sleds, each file once, however
 * many processes map it. An object gets a range of function numbers of the recording (record.h) when it is first seen
 * and keeps it to the end.
 */
#ifndef XPROF_OBJECT_H
#define XPROF_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "elf/sled_table.h"

enum xp_sled_mode {
	XP_SLEDS_PROBED,  /* a uprobe on each */
	XP_SLEDS_PATCHED, /* they lead to a stub, see patch.h */
	XP_SLED_MODES,
};

/* What a budget has made of a function; other values: it is counted, by counter n - 1 of the stub (stub.h). */
#define XP_TAKEN_NOT 0
#define XP_TAKEN_OUT 255

struct xp_object {
	struct xp_object *next;
	dev_t dev; /* as fstat has it, of the file itself */
	ino_t inode;
	struct timespec changed;
	off_t size;
	char *path;   /* as the first process saw it */
	int fd;	      /* keeps the inode, and is what uprobes are attached through; -1 when there is no table */
	bool is_copy; /* fd's, of a file that must not be probed: to read it may make the kernel wait (chosen_file.h) */
	struct xp_sled_table *table; /* NULL: not instrumented, or malformed */
	uint32_t fn_base;	     /* function id i of the table has two numbers, see xp_object_number() */
	uint32_t *selected; /* indices of the sleds to attach, by file offset: --functions, intact in the file */
	size_t selected_count;
	/*
	 * With a budget only, NULL without; index: function id. Entries recorded since it was last looked, the numbers
	 * in use, what becomes of patched sleds, and since when these are put back (atomic; UINT64_MAX: they are not).
	 */
	uint32_t *calls[XP_SLED_MODES];
	bool *alias;
	uint8_t *taken;
	uint64_t *out_tsc;
	size_t patched_in_file; /* wanted, but not the bytes of an unpatched sled */
};

struct xp_objects {
	struct xp_object *first;     /* newest first */
	uint32_t fn_end;	     /* the next object's fn_base */
	const char *const *patterns; /* --functions, borrowed */
	size_t pattern_count;
};

/*
 * The object behind an open file, which stays the caller's; path is how the user knows it. Files without sleds are
 * remembered too (table NULL). *malformed, when not NULL, is set and a sentence put in why the first time that a broken
 * instrumentation map is met. -ENOMEM, -ENOSPC (more than 2^27 functions), -ECANCELED (interrupt.h), errors of fstat.
 */
int xp_objects_add(struct xp_objects *objects, struct xp_object **object, int fd, const char *path, bool *malformed,
		   char *why, size_t why_size);
/*
 * The number that a function's records bear. The second one, the alias, tells the records of new probes from those of
 * old ones while both are attached.
 */
static inline uint32_t xp_object_number(const struct xp_object *object, uint32_t function_id, bool alias)
{
	return object->fn_base + (alias ? (uint32_t)object->table->function_count : 0) + function_id;
}

static inline bool xp_object_has(const struct xp_object *object, uint32_t fn)
{
	return fn > object->fn_base && fn - object->fn_base <= 2 * object->table->function_count;
}

/* Of a number that it has. */
static inline uint32_t xp_object_function_id(const struct xp_object *object, uint32_t fn, bool *alias)
{
	uint32_t id = fn - object->fn_base;

	*alias = id > object->table->function_count;
	return *alias ? id - (uint32_t)object->table->function_count : id;
}

/* The index in `selected` of the first sled from this file offset on. */
size_t xp_object_selected_from(const struct xp_object *object, uint64_t file_offset);

/* The object that has this function number; NULL: none. */
struct xp_object *xp_objects_find(const struct xp_objects *objects, uint32_t fn);
void xp_objects_free(struct xp_objects *objects);

/*
 * Whether a function is wanted: the patterns are globs on the demangled or the mangled name, in their order, the last
 * that matches decides; '!' in front excludes. When the first one excludes, all others are wanted; otherwise none.
 */
bool xp_function_wanted(const char *const *patterns, size_t count, const char *name);

#endif
