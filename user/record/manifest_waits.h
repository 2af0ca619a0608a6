/* SPDX-License-Identifier: BSD-2-Clause */
/* The waits of a recording (--off-cpu), as a value of manifest.json. */
#ifndef XPROF_RECORD_MANIFEST_WAITS_H
#define XPROF_RECORD_MANIFEST_WAITS_H

#include <jansson.h>

#include "record/off_cpu.h"

/* NULL if out of memory. */
json_t *xp_manifest_waits_value(const struct xp_off_cpu *off_cpu);

#endif
