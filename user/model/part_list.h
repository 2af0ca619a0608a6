/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A recording as a command line names it, as the list of its parts (record --rotate):
 *
 *	DIR		a recording, or all parts in DIR
 *	DIR@FROM	the parts in DIR from a time on; a day is all of it
 *	DIR@FROM..TO	the parts, and of them what is between two times
 *
 * A time is [DAY T] HH:MM[:SS] or DAY, in UTC. DAY is YYYY-MM-DD, today or yesterday; without one, FROM is today, and
 *TO on the day of FROM.
 */
#ifndef XPROF_MODEL_PART_LIST_H
#define XPROF_MODEL_PART_LIST_H

#include <stddef.h>
#include <stdint.h>

#include "model/facts.h"
#include "model/select.h"

struct xp_part_list {
	char **paths; /* in the order of their times */
	size_t count;
	uint64_t from_s, to_s; /* since 1970 in UTC; to_s UINT64_MAX: to the end */
	/* private */
	size_t room;
};

/*
 * now_s: since 1970. *list: zeroed; the caller frees it, also after an error. Returns 0, -ENOMEM, or -EINVAL after a
 * message: the time is none, or there is no part of that time.
 */
int xp_part_list_make(struct xp_part_list *list, const char *name, uint64_t now_s);
/* The same for a command that reads a single part: -EINVAL, with a message that names one, if there are more. */
int xp_part_list_one(struct xp_part_list *list, const char *name, uint64_t now_s);
void xp_part_list_free(struct xp_part_list *list);
/* Sets the times of a part that are selected. facts: of the part; NULL: its times are not known. */
void xp_part_list_select(const struct xp_part_list *list, const struct xp_facts *facts, struct xp_select *select);

/* Parses FROM or FROM..TO, for tests. Returns 0 or -EINVAL. */
int xp_part_times_parse(const char *text, uint64_t now_s, uint64_t *from_s, uint64_t *to_s);

#endif
