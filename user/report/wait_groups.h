/* SPDX-License-Identifier: BSD-2-Clause */
/* All waits of a recording by stack and state: what there is to explain where no calls are recorded. */
#ifndef XPROF_REPORT_WAIT_GROUPS_H
#define XPROF_REPORT_WAIT_GROUPS_H

#include "model/thread_times.h"

struct xp_wait_group {
	const struct xp_timed_wait *longest;
	double count; /* waits that these stand for (wait_record.h) */
	double blocked_ns, runnable_ns;
};

/* Zeroed: empty. */
struct xp_wait_groups {
	struct xp_wait_group *list; /* that with the longest wait first */
	size_t count;
	/* private */
	size_t room;
	struct xp_u64_map by_key;
};

/*
 * Of waits that take longer than above_ns, and with a function in their stack that the selection asks for. The caller
 * frees it in every case. Returns 0 or -ENOMEM.
 */
int xp_wait_groups_make(struct xp_wait_groups *groups, const struct xp_thread_times *times,
			const struct xp_select *select, uint64_t above_ns);
void xp_wait_groups_free(struct xp_wait_groups *groups);

#endif
