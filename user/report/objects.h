/* SPDX-License-Identifier: BSD-2-Clause */
/* The mapped objects of a profile, and the functions of a log: where an address or an id belongs. */
#ifndef XPROF_REPORT_OBJECTS_H
#define XPROF_REPORT_OBJECTS_H

#include "format/gperf_reader.h"
#include "report/recorded.h"
#include "base/interval_map.h"
#include "report/symbolize.h"

/* More lines of a profile than this are passed over. */
#define XP_REPORT_OBJECTS_MAX (1u << 20)

struct xp_report_object {
	uint32_t file;	  /* of the symbolizer */
	const char *name; /* clean, for tables */
	uint64_t start;	  /* where it is mapped */
	uint64_t offset;  /* of the file's bytes that are there */
};

/* Zeroed: empty. */
struct xp_report_objects {
	struct xp_report_object *all;
	size_t count;
	size_t room;
	struct xp_spans spans;
};

/* Reads the lines behind the records; -EBADMSG with *violation; -ENOMEM. */
int xp_report_objects_read(struct xp_report_objects *objects, struct xp_gperf_reader *reader,
			   const struct xp_recorded_process *process, struct xp_symbolizer *symbolizer,
			   struct xp_violation *violation);
void xp_report_objects_free(struct xp_report_objects *objects);

/* The object at an address, NULL: none; *vaddr: the address as linked. */
const struct xp_report_object *xp_report_objects_find(const struct xp_report_objects *objects,
						      const struct xp_symbolizer *symbolizer, uint64_t address,
						      uint64_t *vaddr);

/* A function of a log. */
struct xp_report_function {
	const char *object; /* clean; NULL: not known */
	bool has_place;
	uint32_t place; /* of the symbolizer */
};

/* functions[id], up to count; id 0 is nobody's. Zeroed: empty. */
struct xp_report_functions {
	struct xp_report_function *all;
	size_t count;
};

/*
 * Finds the functions 1..count of a process's log: in the objects that the manifest names, in the log's side ELF, or in
 * the first object of the profile that has as many. -ENOMEM.
 */
int xp_report_functions_find(struct xp_report_functions *functions, size_t count,
			     const struct xp_recorded_process *process, const struct xp_report_objects *objects,
			     struct xp_symbolizer *symbolizer);
void xp_report_functions_free(struct xp_report_functions *functions);

#endif
