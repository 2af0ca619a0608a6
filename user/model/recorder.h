/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shows the cost of the recording in the target as one frame, "xprof's recording". The frame replaces the stub, the
 * kernel's code from the trap of a uprobe on, xprof's BPF programs, and everything that these call. Traps of other
 * tools' uprobes and of debuggers look the same, and become part of the frame.
 */
#ifndef XPROF_MODEL_RECORDER_H
#define XPROF_MODEL_RECORDER_H

#include "model/model.h"

#define XP_RECORDER_NAME "xprof's recording"

/* Call it after xp_model_name(). Returns 0 or -ENOMEM. */
int xp_model_join_recorder(struct xp_model *model);

#endif
