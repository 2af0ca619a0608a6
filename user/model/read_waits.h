/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The waits of a model (model.h), and a tree of them: with their stacks as samples. The values of these are a number of
 * waits and their time in ns, both as many as the recorded ones stand for (wait_record.h), so that sums are those of
 * all waits.
 *
 * A wait is two samples: the blocked part in the state of the thread, and the part in which it was runnable and had no
 * CPU in state XP_WAIT_PREEMPTED. It counts as one, in the first part that it has.
 */
#ifndef XPROF_MODEL_READ_WAITS_H
#define XPROF_MODEL_READ_WAITS_H

#include "model/read_samples.h"

/* Adds a wait that ends with this sample. Returns 0, -ENOMEM or -E2BIG. */
int xp_waits_add(struct xp_model *model, const struct xp_model_sample *sample, const struct xp_wait_record *wait);
/* What it waited for: XP_WAIT_PREEMPTED if it was runnable all the time. States that have one name are one. */
uint32_t xp_waits_known_state(const struct xp_wait_record *wait);
/* Replaces the samples of a model by its waits, and makes it one of XP_MODEL_WAITS. Returns 0 or -ENOMEM. */
int xp_waits_as_samples(struct xp_model *model);
/* The state of a sample of such a model, for people: "sleeping", ..., "runnable". */
const char *xp_waits_state(uint32_t state);

/*
 * Who ended a wait: "refresher (17903)", "timer or interrupt", "-" if that is not known, ... flags: XP_WAIT_LAST and so
 * on. name: clean. Returns to.
 */
#define XP_WAKER_BYTES 96
const char *xp_waits_waker(char to[XP_WAKER_BYTES], uint32_t flags, const char *name, uint32_t tid);

#endif
