/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where the code of the recorded processes can be read today: the objects that the gperftools profiles of a recording
 * list. The recorder has chosen them: a binary that this host can open by its path, or a file in sym/ with a copy of it
 * or with the names of the kernel's, the vDSO's or JIT code.
 */
#ifndef XPROF_MODEL_CODE_PLACES_H
#define XPROF_MODEL_CODE_PLACES_H

#include "model/model.h"
#include "model/objects.h"
#include "model/recorded.h"

struct xp_code_places {
	const struct xp_recorded *recorded; /* outlives this */
	struct xp_report_objects *of;	    /* of each process of the recording */

	/* private */
	struct xp_u64_map by_pid; /* the index plus one of the last process with this pid */
	uint32_t *next;		  /* the same of the next one; 0: none */
};

/* Code at an address. */
struct xp_code_place {
	const struct xp_report_object *object;
	bool is_sym;	  /* the file is in sym/ */
	uint64_t address; /* as linked */
};

/*
 * Reads the lists of objects of all profiles. *broken: one is malformed; that is reported and what precedes it counts.
 * The caller calls xp_code_places_free(), also after an error. Returns 0 or -ENOMEM.
 */
int xp_code_places_read(struct xp_code_places *places, const struct xp_recorded *recorded,
			struct xp_symbolizer *symbolizer, bool *broken);
void xp_code_places_free(struct xp_code_places *places);

/* Finds the code at an address (of the kernel: moved by xp_gperf_kernel_pc()) of a process of the recording. */
bool xp_code_places_find(const struct xp_code_places *places, const struct xp_symbolizer *symbolizer, size_t process,
			 uint64_t address, struct xp_code_place *place);
/* The same for all processes with this pid. */
bool xp_code_places_find_pid(const struct xp_code_places *places, const struct xp_symbolizer *symbolizer, uint64_t pid,
			     uint64_t address, struct xp_code_place *place);
/* The same for all processes. */
bool xp_code_places_find_any(const struct xp_code_places *places, const struct xp_symbolizer *symbolizer,
			     uint64_t address, struct xp_code_place *place);

/* The model's object for a place. Returns 0 or -errno. */
int xp_code_places_object(struct xp_model *model, const struct xp_code_place *place, uint32_t *object);

#endif
