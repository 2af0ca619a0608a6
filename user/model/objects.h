/* SPDX-License-Identifier: BSD-2-Clause */
/* The functions of a log: where a function ID belongs; and how files are shown. */
#ifndef XPROF_MODEL_OBJECTS_H
#define XPROF_MODEL_OBJECTS_H

#include "model/recorded.h"
#include "model/symbolize.h"

/* The path's part behind its last slash; the path itself if nothing is there. */
const char *xp_object_base_name(const char *path);

/*
 * The name of a file in tables: that of the real file, since profiles may contain links for the sake of their readers;
 * of a file in sym/, that of the code. NULL: out of memory.
 */
const char *xp_object_display_name(struct xp_symbolizer *symbolizer, uint32_t file);

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
 * that the manifest names, or in the log's side ELF. Returns 0 or -ENOMEM.
 */
int xp_report_functions_find(struct xp_report_functions *functions, size_t count,
			     const struct xp_recorded_process *process, const char *instr_map, struct xp_symbolizer *symbolizer);
/* What to say of a file that cannot be an instr_map. */
#define XP_REPORT_NO_INSTR_MAP "not a program or library with sleds, nor a NAME.xray.so of a recording"
/* Whether this file can be an instr_map: an object with sleds or a side ELF. */
bool xp_report_instr_map_is_good(const char *path, struct xp_symbolizer *symbolizer);
void xp_report_functions_free(struct xp_report_functions *functions);

#endif
