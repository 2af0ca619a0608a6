// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The maps of common.bpf.h. */
#include "births.bpf.h"
#include "common.bpf.h"
#include "thread.bpf.h"

struct rings rings SEC(".maps");
struct counters counters SEC(".maps");
struct targets targets SEC(".maps");
struct told_threads told_threads SEC(".maps");
struct call_headers call_headers SEC(".maps");
struct ending_tasks ending_tasks SEC(".maps");

const volatile bool has_call_rings = false;
const volatile bool watches_births = false;
__u32 births = 0;

__u64 told_round = 0;
__u64 call_headers_round = 0;
__u64 ringless[RINGLESS_THREADS] = {};
__u64 no_tsc_flag = 0;
__u64 tasks_lost = 0;
