/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a finished recording left: its profiles and logs, put together by process, with what manifest.json says of them.
 * Works without a manifest, and with files of other makers.
 */
#ifndef XPROF_RECORDED_H
#define XPROF_RECORDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/u64_map.h"

/* A larger manifest is passed over. */
#define XP_RECORDED_MANIFEST_BYTES_MAX (64u << 20)

/* A file whose functions have ids in the log. */
struct xp_recorded_object {
	char *path;
	uint8_t build_id[64];
	size_t build_id_bytes; /* 0: not known */
	uint32_t first_id;
	uint32_t functions;
};

/* A function that the recording's budget took out for a while. */
struct xp_recorded_taken_out {
	uint32_t id; /* in the log */
	double out_s;
	double counted_s; /* of these, its calls were counted */
	uint64_t calls;
};

struct xp_recorded_process {
	char *name;	     /* clean: "COMM (PID)" or, without a manifest, the files' name without its suffix */
	char *directory;     /* of its files */
	char *stem;	     /* of their names; of the log's, where there is one */
	uint64_t pid;	     /* with a manifest; 0: not known, or the kernel */
	uint64_t image;	     /* program of the process: 1, and one more at each exec */
	char *profile;	     /* path of the gperftools profile; NULL: none */
	char *log;	     /* path of the FDR log; NULL: none */
	unsigned int flight; /* which log of its flight recorder that is, from 1; 0: it is no such */
	char *stacks;	     /* a sentence about user stacks that lack their outer frames; NULL: none does */
	struct xp_recorded_object *objects;
	size_t object_count;
	struct xp_recorded_taken_out *taken_out;
	size_t taken_out_count;
	double duration_s; /* of the recording; 0: not known */
};

struct xp_recorded {
	struct xp_recorded_process *processes;
	size_t process_count;
	char **headings; /* clean: a line about each directory with a manifest */
	size_t heading_count;
	/* its own */
	size_t process_room;
	struct xp_number_map by_stem, by_pid; /* the newest process of each */
	size_t bytes;			      /* of what the manifests say that is kept */
	bool is_full;
};

/*
 * Adds the files of a directory, or one file. -ENOENT: there is nothing to add, which has been reported then; -ENOMEM.
 * *recorded is zeroed at first; the caller frees with xp_recorded_free().
 */
int xp_recorded_add(struct xp_recorded *recorded, const char *path);
void xp_recorded_free(struct xp_recorded *recorded);

#endif
