/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The values of a page over time: the samples, calls or waits in each time slot of the recording. The number of slots
 * is limited so that a page has at most a few megabytes.
 */
#ifndef XPROF_EXPORT_HTML_SLOTS_H
#define XPROF_EXPORT_HTML_SLOTS_H

#include <stdio.h>

#include "model/model.h"

/* Returns the index of a state; an unknown state has the index of the last state. */
uint32_t xp_html_state_index(uint32_t state, const uint32_t *states, size_t count);

/*
 * Writes members of an object of JSON, from a comma on: slotNs, slotFromNs (when the first slot begins), entries, and
 *slots, in which each entry is
 *
 *	slot - that of the entry before; node - that of the entry before, signed; index of the state, if there are
 *states; value[0]; value[1] - value[0] * period, signed
 *
 * Writes nothing if the model keeps no slots. node_of, states: of the model's samples. max: number of entries; slots
 * become longer to have fewer. Returns 0 or -ENOMEM.
 */
int xp_html_put_slots(FILE *out, const struct xp_model *model, const uint32_t *node_of, const uint32_t *states,
		      size_t state_count, size_t max);

#endif
