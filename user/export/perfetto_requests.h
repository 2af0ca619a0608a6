/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes the slowest requests of a recording, and the work of other threads for them, into a Perfetto trace. */
#ifndef XPROF_EXPORT_PERFETTO_REQUESTS_H
#define XPROF_EXPORT_PERFETTO_REQUESTS_H

#include "explain/explain.h"
#include "format/perfetto.h"

#define XP_PERFETTO_REQUESTS_MAX 100

/* start_ns: start of the recording, on the trace's clock. Returns 0 or -errno like xp_perfetto_event(). */
int xp_perfetto_put_requests(struct xp_perfetto *perfetto, const struct xp_explanation *why, uint64_t start_ns);

#endif
