/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The functions in the FDR logs of a recording: one table for all logs, so a function of several logs is one entry.
 * log_walk.h converts the function IDs of each log to indexes of this table. Only functions in logs are named. Their
 * addresses come from the binaries that the manifest lists, or from the file of --instr-map; a confined process lists
 * the sleds of each binary once. Memory: 64 bytes per function, and 8 bytes per function of each binary, up to the
 * limits below.
 */
#ifndef XPROF_MODEL_LOG_FUNCTIONS_H
#define XPROF_MODEL_LOG_FUNCTIONS_H

#include "base/u64_map.h"
#include "model/read_samples.h"

/* Limits: calls of further functions are dropped; functions with higher IDs have no names. */
#define XP_LOG_FUNCTIONS_MAX (4u << 20)
#define XP_LOG_FUNCTION_IDS_MAX (4u << 20)

struct xp_log_function {
	uint32_t id;	    /* ID in the first log that contains the function */
	uint32_t place;	    /* index in the symbolizer; XP_MODEL_NONE: the address is unknown */
	uint32_t file;	    /* the file in the symbolizer */
	const char *object; /* clean: name of the binary; NULL: unknown */
	/* Set by xp_log_functions_name(). */
	const char *name;  /* clean: demangled; fn_<id>: unknown */
	const char *shown; /* clean: the same, shortened by xp_short_name() unless source->full_names is set */
	uint8_t marks;	   /* result of xp_select_marks() */
};

struct xp_log_functions {
	struct xp_log_function *all;
	size_t count;
	struct xp_symbolizer *symbolizer;
	/* private */
	const struct xp_model_source *source;
	const char *instr_map; /* NULL: none */
	bool owns_symbolizer;
	size_t room, named;
	struct xp_u64_map known;   /* index by place, or by object and ID */
	struct xp_u64_map objects; /* a number for the name of each object */
	struct xp_u64_map lists;   /* struct xp_elf_functions by file */
	size_t listed;		   /* functions in all lists */
	/* The log that was read last: */
	size_t process;
	struct xp_log_ids *ranges; /* by first ID */
	size_t range_count;
	uint32_t side_file; /* NAME.xray.so in the symbolizer; XP_MODEL_NONE: none */
	uint32_t *by_id;    /* index plus one by ID; 0: not known yet */
	size_t id_room;
};

/*
 * symbolizer NULL: makes one. Reports and ignores an unusable --instr-map, and sets *broken. The caller calls
 * xp_log_functions_free(), also after an error. Returns 0 or -ENOMEM.
 */
int xp_log_functions_init(struct xp_log_functions *functions, const struct xp_model_source *source,
			  struct xp_symbolizer *symbolizer, bool *broken);
void xp_log_functions_free(struct xp_log_functions *functions);

/*
 * Finds the index of a function in the log of this process. Call it for all functions of a log before those of the next
 * log. Returns 0, -ENOMEM, or -E2BIG beyond XP_LOG_FUNCTIONS_MAX.
 */
int xp_log_functions_find(struct xp_log_functions *functions, size_t process, uint32_t id, uint32_t *index);
/* Adds an entry that is no function of a log, before any other. Returns 0 or -ENOMEM. The name must outlive it. */
int xp_log_functions_add_named(struct xp_log_functions *functions, const char *name);
/* Names the functions found since the last call. Returns 0, -ENOMEM, or an error of xp_symbolizer_run(). */
int xp_log_functions_name(struct xp_log_functions *functions);

#endif
