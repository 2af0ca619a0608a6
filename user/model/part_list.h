/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The parts of a recording (record --rotate) that a command line names: DIR: a recording, or all parts in DIR.
 * DIR@FROM: the parts in DIR from a time on, or of a whole day. DIR@FROM..TO: the parts between two times, limited to
 * these times.
 */
#ifndef XPROF_MODEL_PART_LIST_H
#define XPROF_MODEL_PART_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/moment.h"

struct xp_facts;
struct xp_recorded;
struct xp_select;

struct xp_part_list {
	char **paths; /* in the order of their times */
	size_t count;
	struct xp_part_times times;
	/* private */
	uint64_t start_ns; /* start of the first part */
	size_t room;
};

/*
 * times: --from and --to. now_s: since 1970. *list: zeroed; the caller frees it, also after an error. Returns 0,
 * -ENOMEM, or -EINVAL after a message: a time is invalid, or no part is from that time.
 */
int xp_part_list_make(struct xp_part_list *list, const char *name, const struct xp_moment times[2], uint64_t now_s);
void xp_part_list_free(struct xp_part_list *list);
/* Sets the selected times of a part. Call it for the parts in order. facts: NULL: the part's times are unknown. */
void xp_part_list_select(struct xp_part_list *list, const struct xp_facts *facts, struct xp_select *select);

/*
 * Adds all parts to a recording, and sets the selected times: since the start of the first part. *broken: one of
 * several parts cannot be read, which was reported. Returns as xp_recorded_add().
 */
int xp_part_list_add(struct xp_part_list *list, struct xp_recorded *recorded, struct xp_select *select, bool *broken);

#endif
