/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The directory of the parts of a recording (record --rotate): which parts are deleted, so that it does not grow beyond
 * what --keep allows or the disk has. Only directories that xprof made are deleted, through their descriptors, without
 * following links; never one that is recorded or ended, nor the newest XP_PARTS_KEPT.
 */
#ifndef XPROF_RECORD_PARTS_H
#define XPROF_RECORD_PARTS_H

#include <stdbool.h>
#include <stdint.h>

/* The one that is recorded, and those that may be ending. */
#define XP_PARTS_KEPT 3
/* So much of the disk is to be free before recording goes on after the disk was full. */
#define XP_PARTS_FREE_BYTES (16ull << 20)

struct xp_parts_limits {
	uint64_t now_ns;    /* CLOCK_REALTIME */
	uint64_t keep_ns;   /* parts that ended earlier are deleted; 0: no limit */
	int shared_fd;	    /* the names that the parts share (sym_shared.h), which count once */
	uint64_t max_bytes; /* of all parts together; 0: no limit */
	bool is_full;	    /* the disk: the oldest parts are deleted until XP_PARTS_FREE_BYTES are free */
};

/* Deletes the oldest parts, as far as the limits require. Returns their number, or -errno. */
int xp_parts_clean(int parts_fd, const struct xp_parts_limits *limits);
/* Whether so much of the disk is free that it is worth to go on. */
bool xp_parts_have_room(int parts_fd);

#endif
