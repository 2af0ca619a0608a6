/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads the waits of a recording into a model (model.h) as samples, and makes a tree of them. Their values are the
 * number of waits and their time in ns, multiplied by the weight of each wait (wait_record.h). A wait becomes up to two
 * samples: its blocked part, in the state of the thread, and its runnable part without a CPU, in state
 * XP_WAIT_PREEMPTED. The first sample counts as one wait, the second as none.
 */
#ifndef XPROF_MODEL_READ_WAITS_H
#define XPROF_MODEL_READ_WAITS_H

#include "model/read_samples.h"

/*
 * Adds a wait that ends with this sample. variable: location of the data at the address of its lock, or XP_MODEL_NONE.
 * Returns 0, -ENOMEM or -E2BIG.
 */
int xp_waits_add(struct xp_model *model, const struct xp_model_sample *sample, const struct xp_wait_record *wait,
		 uint32_t variable);
/*
 * Finds which waits in futex(2) are for a lock, by the names of functions in their stacks: waits for condition
 * variables use the same system call. All waits for the same address are for the same lock. The other waits get the
 * state XP_WAIT_FUTEX. Call it after naming. Returns 0 or -ENOMEM.
 */
int xp_waits_find_locks(struct xp_model *model);
/* Returns the name of the global variable that is, or contains, the lock. NULL: unknown. */
const char *xp_waits_variable(const struct xp_model *model, const struct xp_model_wait *wait);
/*
 * Adds what ended each wait to its stack, as innermost frame: "woken by refresher", "woken by a timer or an interrupt".
 * Call it after naming. Returns 0 or -ENOMEM.
 */
int xp_waits_add_wakers(struct xp_model *model);
/* Replaces the samples of a model by its waits; its kind becomes XP_MODEL_WAITS. Returns 0 or -ENOMEM. */
int xp_waits_as_samples(struct xp_model *model);
/* Returns the state of a sample of such a model as text: "sleeping", ..., "runnable". */
const char *xp_waits_state(uint32_t state);

/*
 * Formats the waker of a wait: "refresher (17903)", "timer or interrupt", "-" if it is unknown, ... flags: XP_WAIT_LAST
 * and so on. name: clean. Returns to.
 */
#define XP_WAKER_BYTES 96
const char *xp_waits_waker(char to[XP_WAKER_BYTES], uint32_t flags, const char *name, uint32_t tid);

#endif
