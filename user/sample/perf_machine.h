/* SPDX-License-Identifier: BSD-2-Clause */
/* The facts about the machine in the header of a perf.data file. */
#ifndef XPROF_SAMPLE_PERF_MACHINE_H
#define XPROF_SAMPLE_PERF_MACHINE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/utsname.h>

#include "format/perfdata.h"

struct xp_perf_machine {
	struct utsname names;
	char cpu[128]; /* the model; "" if unknown */
	uint8_t kernel_id[XP_PERFDATA_BUILD_ID_BYTES];
	struct xp_perfdata_build_id kernel; /* build_id_bytes 0: unknown */
};

void xp_perf_machine_read(struct xp_perf_machine *machine);
/* Sets the known features. Their texts point into machine, which must outlive them. */
void xp_perf_machine_features(const struct xp_perf_machine *machine, struct xp_perfdata_features *features);

#endif
