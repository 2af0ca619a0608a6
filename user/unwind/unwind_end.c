// SPDX-License-Identifier: BSD-2-Clause
/* The names of the ends of stack walks, in files and for users. */
#include <inttypes.h>
#include <stdio.h>

#include "unwind/unwind.h"

static const struct {
	const char *key;
	const char *text;
} words[XP_UNWIND_ENDS] = {
	[XP_UNWIND_COMPLETE] = { "complete", "complete" },
	[XP_UNWIND_TRUNCATED] = { "truncated", "deeper than the copied part" },
	[XP_UNWIND_NOT_RESIDENT] = { "not_resident", "a page of the stack that is not in memory" },
	[XP_UNWIND_NO_DUMP] = { "no_snapshot", "no room in the ring for the stack" },
	[XP_UNWIND_NO_TABLE] = { "no_table", "code without unwind tables" },
	[XP_UNWIND_NO_RULE] = { "no_rule", "code not covered by its unwind tables" },
	[XP_UNWIND_TABLE_LATE] = { "table_late", "unwind table not built in time" },
	[XP_UNWIND_OTHER_STACK] = { "other_stack", "continued on another stack" },
	[XP_UNWIND_LOOP] = { "loop", "a loop in the stack" },
	[XP_UNWIND_DEEP] = { "too_deep", "more than 1024 frames" },
	[XP_UNWIND_BAD_RETURN] = { "bad_return", "a return address outside of code" },
	[XP_UNWIND_32_BIT] = { "32_bit", "a 32-bit process, of which xprof records no callers" },
};

const char *xp_unwind_end_key(enum xp_unwind_end end)
{
	return words[end].key;
}

static double sum_of(const uint64_t ends[XP_UNWIND_ENDS])
{
	double sum = 0; /* a double, because the numbers of a hostile manifest could overflow an integer */

	for (int end = 0; end < XP_UNWIND_ENDS; end++)
		sum += (double)ends[end];
	return sum;
}

/* Returns the most frequent incomplete end that is not yet reported, or XP_UNWIND_COMPLETE. */
static enum xp_unwind_end most_frequent(const uint64_t ends[XP_UNWIND_ENDS], const bool told[XP_UNWIND_ENDS])
{
	int most = XP_UNWIND_COMPLETE;

	for (int end = XP_UNWIND_COMPLETE + 1; end < XP_UNWIND_ENDS; end++)
		if (ends[end] && !told[end] && (most == XP_UNWIND_COMPLETE || ends[end] > ends[most]))
			most = end;
	return (enum xp_unwind_end)most;
}

const char *xp_unwind_ends_text(char to[XP_UNWIND_ENDS_TEXT_BYTES], const uint64_t ends[XP_UNWIND_ENDS])
{
	bool told[XP_UNWIND_ENDS] = { false };
	double sum = sum_of(ends);
	enum xp_unwind_end end;
	int length;

	if (!(sum > (double)ends[XP_UNWIND_COMPLETE]))
		return NULL;
	length = snprintf(to, XP_UNWIND_ENDS_TEXT_BYTES, "%.1f %% of %.0f user stacks are complete",
			  100 * (double)ends[XP_UNWIND_COMPLETE] / sum, sum);
	while ((end = most_frequent(ends, told)) != XP_UNWIND_COMPLETE) {
		told[end] = true;
		length += snprintf(to + length, (size_t)(XP_UNWIND_ENDS_TEXT_BYTES - length), "; %" PRIu64 ": %s",
				   ends[end], words[end].text);
	}
	return to;
}

bool xp_unwind_ends_lack_many(const uint64_t ends[XP_UNWIND_ENDS])
{
	double sum = sum_of(ends);

	return sum - (double)ends[XP_UNWIND_COMPLETE] > XP_UNWIND_LACK_MANY * sum;
}
