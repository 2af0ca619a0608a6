/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The directory of the parts of a recording (record --rotate): deletes old parts, so that the directory does not exceed
 * the limits of --keep or the disk. Deletes only directories that xprof made, through their descriptors, without
 * following links; never a part that is being recorded or ended, and never the newest XP_PARTS_KEPT.
 */
#ifndef XPROF_RECORD_PARTS_H
#define XPROF_RECORD_PARTS_H

#include <stdbool.h>
#include <stdint.h>

/* The part that is being recorded, and parts that may be ending. */
#define XP_PARTS_KEPT 3
/* After the disk was full, recording continues when this much space is free. */
#define XP_PARTS_FREE_BYTES (16ull << 20)

struct xp_parts_limits {
	uint64_t now_ns;    /* CLOCK_REALTIME */
	uint64_t keep_ns;   /* delete parts that ended before this time span; 0: no limit */
	int shared_fd;	    /* the names that the parts share (sym_shared.h), which count once */
	uint64_t max_bytes; /* limit of the size of all parts together; 0: no limit */
	bool is_full;	    /* the disk is full: delete the oldest parts until XP_PARTS_FREE_BYTES are free */
};

/* Deletes the oldest parts until the limits are met. Returns the number of deleted parts, or -errno. */
int xp_parts_clean(int parts_fd, const struct xp_parts_limits *limits);
/* Returns whether enough of the disk is free to continue. */
bool xp_parts_have_room(int parts_fd);

#endif
