/* SPDX-License-Identifier: BSD-2-Clause */
/* What perf needs to name the code of BPF programs: the records KSYMBOL and BPF_EVENT. */
#ifndef XPROF_SAMPLE_PERF_BPF_H
#define XPROF_SAMPLE_PERF_BPF_H

#include "format/perfdata.h"
#include "kernel/sideband.h"
#include "store/ksym.h"

/*
 * Writes the records of all loaded BPF programs. describe(arg) names their functions. Returns 0 or the writer's error.
 * Without the permission to list BPF programs, writes nothing.
 */
int xp_perf_bpf_write_all(struct xp_perfdata *perfdata, xp_ksym_describe *describe, void *arg);
/* Writes the record of this event, of kind SYMBOL or BPF. Returns 0 or the writer's error. */
int xp_perf_bpf_write(struct xp_perfdata *perfdata, const struct xp_sideband_event *event);

#endif
