/* SPDX-License-Identifier: BSD-2-Clause */
/* What the header of a perf.data says of the machine. */
#ifndef XPROF_PERF_MACHINE_H
#define XPROF_PERF_MACHINE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/utsname.h>

#include "format/perfdata.h"

struct xp_perf_machine {
	struct utsname names;
	char cpu[128]; /* its model; "" when it is not known */
	uint8_t kernel_id[XP_PERFDATA_BUILD_ID_BYTES];
	struct xp_perfdata_build_id kernel; /* build_id_bytes 0: not known */
};

void xp_perf_machine_read(struct xp_perf_machine *machine);
/* Sets what is known; the texts are the machine's, which must outlive the features. */
void xp_perf_machine_features(const struct xp_perf_machine *machine, struct xp_perfdata_features *features);

#endif
