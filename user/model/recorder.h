/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes what the recording costs the target one frame, "xprof's recording". It stands for the stub, the
 * kernel's path from the trap of a uprobe on, xprof's BPF programs, and all that these call. Traps of other tools'
 * uprobes and of debuggers look the same, and count as well.
 */
#ifndef XPROF_MODEL_RECORDER_H
#define XPROF_MODEL_RECORDER_H

#include "model/model.h"

#define XP_RECORDER_NAME "xprof's recording"

/* Call it after xp_model_name(). Returns 0 or -ENOMEM. */
int xp_model_join_recorder(struct xp_model *model);

#endif
