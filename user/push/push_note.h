/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef XPROF_PUSH_PUSH_NOTE_H
#define XPROF_PUSH_PUSH_NOTE_H

#include "push/push_config.h"
#include "push/push_loop.h"

/*
 * Sets the member "push" in the manifest of a recording: the engine, its URL, and the counts of this run so far. A
 * manifest that cannot be replaced stays as it is.
 */
void xp_push_note(const char *directory, const struct xp_push_config *config, const struct xp_push_counts *counts);

#endif
