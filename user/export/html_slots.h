/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * When the samples, calls or waits of a page were: their values in each part of the recording ("slot"), for as many
 * slots as a page of some megabytes has room for.
 */
#ifndef XPROF_EXPORT_HTML_SLOTS_H
#define XPROF_EXPORT_HTML_SLOTS_H

#include <stdio.h>

#include "model/model.h"

/* The index of a state; that of the last one if it is another. */
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
