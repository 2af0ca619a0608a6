// SPDX-License-Identifier: BSD-2-Clause
#include "trace/thread_sums.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/util.h"

void xp_thread_sums_add(struct xp_thread_sums *sums, const struct xp_thread *thread)
{
	/* There is extra space for threads, in addition to stacks. */
	size_t most = thread->first == thread ? XP_THREAD_SUMMARIES_MAX : XP_THREAD_SUMMARIES_MAX / 2;
	struct xp_thread_summary summary = {
		.tid = thread->tid,
		.stack_of = thread->first != thread ? thread->first->tid : 0,
		.serial = thread->serial,
		.counts = thread->counts,
	};

	xp_counts_add(&sums->counts, &thread->counts);
	sums->clamped += thread->clamped;
	sums->ended_tsc = XP_MAX(sums->ended_tsc, thread->last_tsc);
	if (thread->first == thread)
		sums->thread_count++;
	else
		sums->stack_count++;
	memcpy(summary.name, thread->name, sizeof(thread->name));
	/* Without memory for it, the sums above include it anyway. */
	if (sums->summary_count < most)
		(void)XP_ARRAY_ADD(sums->summaries, sums->summary_count, sums->summary_room, summary);
}

void xp_thread_sums_synthesized(struct xp_thread_sums *sums, uint32_t fn_id, uint32_t function_count)
{
	/* Objects may still be added: the array has the current number of functions, and grows if necessary. */
	if (fn_id >= sums->synthesized_room) {
		uint32_t room = function_count + 1;
		uint32_t *counts = realloc(sums->synthesized, room * sizeof(*counts));

		if (!counts)
			return; /* the sum is counted elsewhere */
		memset(counts + sums->synthesized_room, 0, (room - sums->synthesized_room) * sizeof(*counts));
		sums->synthesized = counts;
		sums->synthesized_room = room;
	}
	sums->synthesized[fn_id]++;
}

void xp_thread_sums_free(struct xp_thread_sums *sums)
{
	free(sums->synthesized);
	free(sums->summaries);
}

void xp_thread_sums_begin_part(struct xp_thread_sums *sums)
{
	uint64_t ended_tsc = sums->ended_tsc;

	xp_thread_sums_free(sums);
	*sums = (struct xp_thread_sums){ .ended_tsc = ended_tsc };
}
