/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The files of a finished recording: its profiles and logs, grouped by process, with the information from
 * manifest.json. Works without a manifest, and for files of other programs.
 */
#ifndef XPROF_MODEL_RECORDED_H
#define XPROF_MODEL_RECORDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/u64_map.h"
#include "model/binaries.h"
#include "model/facts.h"

/* A file with functions that have IDs in the log. */
struct xp_recorded_object {
	char *path;
	uint8_t build_id[64];
	size_t build_id_bytes; /* 0: unknown */
	uint32_t first_id;
	uint32_t functions;
	uint32_t selection; /* number of this set of functions without sleds; 0: they have sleds */
	const struct xp_recorded_binary *binary; /* NULL: unknown */
};

/* A function that the budget throttled. */
struct xp_recorded_taken_out {
	uint32_t id; /* ID in the log */
	double out_s;
	double counted_s; /* part of out_s in which calls were counted */
	uint64_t calls;
};

struct xp_recorded_process {
	char *name;	 /* clean: "COMM (PID)" or, without a manifest, the file name without suffix */
	char *directory; /* directory of its files */
	char *stem;	 /* stem of the file names; if there is a log, of the log's name */
	uint64_t pid;	 /* from the manifest; 0: unknown, or the kernel */
	uint64_t image;	 /* image of the process: 1, increased by each exec */
	char *profile;	 /* path of the gperftools profile; NULL: none */
	char *log;	 /* path of the FDR log; NULL: none */
	/* Number of this log among the logs of the flight recorder, from 1; 0: not from a flight recorder. */
	unsigned int flight;
	const struct xp_recorded_binaries *binaries; /* binaries of the recording */
	char *stacks; /* a sentence about user stacks that lack outer frames; NULL: all are complete */
	struct xp_recorded_object *objects;
	size_t object_count;
	struct xp_recorded_taken_out *taken_out;
	size_t taken_out_count;
	double duration_s; /* duration of the recording; 0: unknown */
};

/* A directory, and the facts from its manifest. */
struct xp_recorded_directory {
	struct xp_recorded_binaries *binaries;
	struct xp_facts *facts;
	/* When it began, since the first directory. 0: that is unknown. */
	uint64_t offset_ns;
};

struct xp_recorded {
	struct xp_recorded_process *processes;
	size_t process_count;
	char **headings; /* clean: one line per directory with a manifest */
	size_t heading_count;
	bool has_perf_data; /* a directory has one */
	struct xp_recorded_directory *directories;
	size_t directory_count;
	/* Private. */
	size_t directory_room;
	size_t process_room, heading_room;
	struct xp_u64_map by_stem, by_pid; /* the newest process of each stem and PID */
	size_t bytes;			   /* size of the stored data from the manifests */
	bool is_full;
};

/*
 * Adds the files of a directory, or one file. *recorded must be zeroed at first; the caller frees
 * it with xp_recorded_free(). Returns 0, -ENOENT if there is nothing to add (already reported), or -ENOMEM.
 */
int xp_recorded_add(struct xp_recorded *recorded, const char *path);
/* Returns the binaries of the recording in this directory. NULL: the directory has not been added. */
const struct xp_recorded_binaries *xp_recorded_binaries_of(const struct xp_recorded *recorded, const char *directory);
/* Returns the facts from the manifest of this directory, or NULL if the directory has not been added. */
const struct xp_facts *xp_recorded_facts(const struct xp_recorded *recorded, const char *directory);
/* Returns the offset_ns of this directory, or 0 if the directory has not been added. */
uint64_t xp_recorded_offset_ns(const struct xp_recorded *recorded, const char *directory);
void xp_recorded_free(struct xp_recorded *recorded);

#endif
