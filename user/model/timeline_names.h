/* SPDX-License-Identifier: BSD-2-Clause */
/* The functions that the logs of a recording have, with their names, and which of them are selected. */
#ifndef XPROF_MODEL_TIMELINE_NAMES_H
#define XPROF_MODEL_TIMELINE_NAMES_H

#include "base/u64_map.h"
#include "model/read_samples.h"

/* Functions of all logs; further ones have no names. Their ids in a log end at XP_REPORT_FUNCTIONS_MAX, too. */
#define XP_TIMELINE_FUNCTIONS_MAX (4u << 20)

struct xp_timeline_names {
	/* private */
	const struct xp_model_source *source;
	bool full_names;
	struct xp_symbolizer *symbolizer;
	struct xp_u64_map of; /* by process and function id: the place plus one; 0: no name */
	const char **shown;   /* of each place */
	uint8_t *marks;
	uint32_t place_count;
};

/*
 * Reads all logs once. A log that is malformed counts up to there. The caller calls xp_timeline_names_free(), also
 * after an error. Returns 0 or -errno: -ENOMEM, -EAGAIN.
 */
int xp_timeline_names_read(struct xp_timeline_names *names, const struct xp_model_source *source, bool full_names,
			   bool *broken);
/* The same in three steps, for who reads the logs anyway: each function that is in one is added. Logs one by one. */
int xp_timeline_names_init(struct xp_timeline_names *names, const struct xp_model_source *source, bool full_names);
int xp_timeline_names_add(struct xp_timeline_names *names, size_t process, uint32_t id);
int xp_timeline_names_find(struct xp_timeline_names *names, bool *broken);
void xp_timeline_names_free(struct xp_timeline_names *names);

#define XP_TIMELINE_UNNAMED_BYTES 32

/*
 * The name of a function of a process's log, which lives as long as names, or is in room. *number: the same for the
 * same function of all logs, below 2^33, not 0. *marks: as of xp_select_marks().
 */
const char *xp_timeline_names_get(const struct xp_timeline_names *names, size_t process, uint32_t id,
				  char room[XP_TIMELINE_UNNAMED_BYTES], uint64_t *number, uint8_t *marks);

#endif
