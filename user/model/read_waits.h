/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A model of the waits of a recording (model.h): its samples are waits with the stack where the thread waited. Their
 * values are a number of waits and their time in ns, both as many as the recorded ones stand for (wait_record.h), so
 * that sums are those of all waits.
 *
 * A wait is two samples: the blocked part in the state of the thread, and the part in which it was runnable and had no
 * CPU in state XP_WAIT_PREEMPTED. It counts as one, in the first part that it has.
 */
#ifndef XPROF_MODEL_READ_WAITS_H
#define XPROF_MODEL_READ_WAITS_H

#include "model/read_samples.h"

/* As xp_model_read_samples(), for a model of kind XP_MODEL_WAITS. -ENODATA also if there is no perf.data. */
int xp_waits_read(struct xp_model *model, const struct xp_model_source *source, bool *broken);

/* Of the time that a wait stands for, the part in which the thread was runnable. At most its period. */
uint64_t xp_waits_runnable_ns(const struct xp_wait_record *wait);

/* What it waited for: XP_WAIT_PREEMPTED if it was runnable all the time. States that have one name are one. */
uint32_t xp_waits_known_state(const struct xp_wait_record *wait);

/* The state of a sample of such a model, for people: "sleeping", ..., "runnable". */
const char *xp_waits_state(uint32_t state);

/*
 * Who ended a wait: "refresher (17903)", "timer or interrupt", "-" if that is not known, ... flags: XP_WAIT_LAST and so
 * on. name: clean. Returns to.
 */
#define XP_WAKER_BYTES 96
const char *xp_waits_waker(char to[XP_WAKER_BYTES], uint32_t flags, const char *name, uint32_t tid);

#endif
