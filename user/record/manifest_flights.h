/* SPDX-License-Identifier: BSD-2-Clause */
/* What flight recorders have written, as values of manifest.json. */
#ifndef XPROF_RECORD_MANIFEST_FLIGHTS_H
#define XPROF_RECORD_MANIFEST_FLIGHTS_H

#include <jansson.h>

#include "record/manifest.h"

/* Of the array of struct xp_manifest_flight, or struct xp_manifest_trigger, that begins at arg. */
json_t *xp_manifest_flight_value(const void *arg, size_t index);
json_t *xp_manifest_trigger_value(const void *arg, size_t index);

#endif
