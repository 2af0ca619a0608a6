/* SPDX-License-Identifier: BSD-2-Clause */
/* The mapped objects of a profile and the functions of a log: where an address or a function ID belongs. */
#ifndef XPROF_MODEL_OBJECTS_H
#define XPROF_MODEL_OBJECTS_H

#include "base/interval_map.h"
#include "format/gperf_reader.h"
#include "model/recorded.h"
#include "model/symbolize.h"

/* Further lines of a profile are ignored. */
#define XP_REPORT_OBJECTS_MAX (1u << 20)

struct xp_report_object {
	uint32_t file;	  /* number in the symbolizer */
	const char *name; /* clean, for display */
	uint64_t start;	  /* address of the mapping */
	uint64_t offset;  /* file offset of the mapped bytes */
};

/* Empty if zeroed. */
struct xp_report_objects {
	struct xp_report_object *all;
	size_t count;
	size_t room;
	struct xp_interval_map intervals;
};

/* Reads the lines after the records. Returns 0, -EBADMSG with *violation set, or -ENOMEM. */
int xp_report_objects_read(struct xp_report_objects *objects, struct xp_gperf_reader *reader,
			   const struct xp_recorded_process *process, struct xp_symbolizer *symbolizer,
			   struct xp_violation *violation);
void xp_report_objects_free(struct xp_report_objects *objects);

/* The object at an address; NULL: none. *vaddr: the address as linked. */
const struct xp_report_object *xp_report_objects_find(const struct xp_report_objects *objects,
						      const struct xp_symbolizer *symbolizer, uint64_t address,
						      uint64_t *vaddr);

/* The path's part behind its last slash; the path itself if nothing is there. */
const char *xp_object_base_name(const char *path);

/* Whether the file is in a directory sym/, like those that a recording makes. */
bool xp_report_is_sym_file(const char *path);

/* Functions of a log with an ID above this have no names. */
#define XP_REPORT_FUNCTIONS_MAX (4u << 20)

/* A function of a log. */
struct xp_report_function {
	const char *object; /* clean; NULL: unknown */
	bool has_place;
	uint32_t place; /* in the symbolizer */
	uint32_t file;	/* and its file there */
};

/* Indexed by ID, up to count; ID 0 is not used. Empty if zeroed. */
struct xp_report_functions {
	struct xp_report_function *all;
	size_t count;
};

/*
 * Finds the functions 1..count of a process's log: in the file instr_map, if it is not NULL; otherwise in the objects
 * that the manifest names, in the log's side ELF, or in the first object of the profile with the same number of
 * functions. Returns 0 or -ENOMEM.
 */
int xp_report_functions_find(struct xp_report_functions *functions, size_t count,
			     const struct xp_recorded_process *process, const struct xp_report_objects *objects,
			     const char *instr_map, struct xp_symbolizer *symbolizer);
/* What to say of a file that cannot be an instr_map. */
#define XP_REPORT_NO_INSTR_MAP "not a program or library with sleds, nor a NAME.xray.so of a recording"
/* Whether this file can be an instr_map: an object with sleds or a side ELF. */
bool xp_report_instr_map_is_good(const char *path, struct xp_symbolizer *symbolizer);
void xp_report_functions_free(struct xp_report_functions *functions);

#endif
