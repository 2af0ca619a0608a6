// SPDX-License-Identifier: BSD-2-Clause
/* The names of the ends of stack walks, in files and for people. */
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
};

const char *xp_unwind_end_key(enum xp_unwind_end end)
{
	return words[end].key;
}

const char *xp_unwind_end_text(enum xp_unwind_end end)
{
	return words[end].text;
}
