/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * perf.data files of one sampling event: the writer.
 *
 * Sources of the format: Linux, tools/perf/Documentation/perf.data-file-format.txt; include/uapi/linux/perf_event.h
 * for the event's attributes and the records below 64; tools/lib/perf/include/perf/event.h and tools/perf/util/header.c
 * for the records from 64 on and the features.
 *
 * The file is valid at any moment (of one with compressed samples, but for some microseconds in a second): records go out in whole pieces, and the header is told of a piece only when it is
 * out. So a recording that was cut off, or a disk that filled up, leaves what perf reads up to there.
 *
 * Times are given as TSCs and written in ns by the conversion of the file's first record (TIME_CONV), with which
 * `perf inject --jit` converts the TSCs of jitdumps. The event says that its clock is CLOCK_MONOTONIC, so that a
 * jitdump with that clock's times is taken as well. TSC 0 stands for "before everything": perf takes such a record at
 * once, where it stands in the file.
 *
 * Records need not be in order of time: perf sorts them. So that it need not keep all of them for that, a
 * FINISHED_ROUND is written every so often (see late_ns).
 *
 * Samples may be compressed (fmt_perfdata_zstd.h), and then come behind other records of up to a second. Those stay as
 * they are: `perf inject --jit` looks for mappings, and takes no look into compressed records, which it passes on
 * before all others. So of records with the same time as a sample, perf may take the sample first.
 *
 * Errors: 0 or a negative errno. After one, the writer does nothing more and says the same again.
 */
#ifndef XPROF_FMT_PERFDATA_H
#define XPROF_FMT_PERFDATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define XP_PERFDATA_CHAIN_MAX 4096 /* addresses of a sample: a record has 16 bits for its size */
#define XP_PERFDATA_PATH_MAX 4096  /* perf's PATH_MAX, the terminating zero included */
#define XP_PERFDATA_BUILD_ID_BYTES 20

/* ns = zero + (tsc * mult >> shift), as perf computes it (tools/perf/util/tsc.c). */
struct xp_perfdata_conversion {
	uint16_t shift; /* at most 32 */
	uint32_t mult;
	uint64_t zero;
};

/* Such that `tsc` is at `ns`. hz: TSC ticks in a second of the clock; -ERANGE when it is none (0, or above 2^62). */
int xp_perfdata_conversion(struct xp_perfdata_conversion *conversion, uint64_t hz, uint64_t tsc, uint64_t ns);

static inline uint64_t xp_perfdata_ns(const struct xp_perfdata_conversion *conversion, uint64_t tsc)
{
	uint64_t rest = tsc & ((1ull << conversion->shift) - 1);

	return conversion->zero + (tsc >> conversion->shift) * conversion->mult +
	       (rest * conversion->mult >> conversion->shift);
}

struct xp_perfdata_options {
	uint32_t event_type;   /* PERF_TYPE_HARDWARE, PERF_TYPE_SOFTWARE */
	uint64_t event_config; /* PERF_COUNT_* */
	uint64_t period;       /* what each sample stands for: cycles, ns of cpu-clock */
	struct xp_perfdata_conversion conversion;
	/*
	 * A record may be so much older than one that was written before. What comes later still gets the earliest
	 * time that perf sorts in.
	 */
	uint64_t late_ns;
	unsigned int compression_level; /* of samples, by zstd: 1 to 22; 0: none */
};

struct xp_perfdata_sample {
	uint64_t tsc;
	pid_t pid;
	pid_t tid;
	uint32_t cpu;
	/* Leaf first: addresses of the kernel, then of the process; at least one of both. */
	const uint64_t *kernel;
	size_t kernel_count;
	const uint64_t *user;
	size_t user_count;
};

/* Something that a process has mapped executable. */
struct xp_perfdata_map {
	pid_t pid;
	pid_t tid;
	uint64_t start;
	uint64_t bytes;
	uint64_t file_offset;
	uint64_t dev; /* makedev(); it and the next two are not written when there is a build id */
	uint64_t inode;
	uint64_t generation;
	const uint8_t *build_id;
	size_t build_id_bytes; /* 0: not known; at most XP_PERFDATA_BUILD_ID_BYTES */
	const char *path;
};

struct xp_perfdata;

/* fd: an empty regular file, open for writing, which stays the caller's. -EINVAL: a period of 0, a level of 23. */
int xp_perfdata_new(struct xp_perfdata **perfdata, int fd, const struct xp_perfdata_options *options);
/* The text of the kernel, from the address of its symbol _text (or _stext) on. */
int xp_perfdata_kernel(struct xp_perfdata *perfdata, uint64_t start, uint64_t bytes);
/* A module of the kernel. path: of the .ko, or its name in brackets. */
int xp_perfdata_module(struct xp_perfdata *perfdata, uint64_t start, uint64_t bytes, const char *path);
/*
 * -ENAMETOOLONG: the path; -EINVAL: the build id, or a jitdump that the process writes itself: perf would read it, fail
 * where it is gone, and write images beside it, where the process may have put links. Both leave the writer as it was.
 */
int xp_perfdata_map(struct xp_perfdata *perfdata, uint64_t tsc, const struct xp_perfdata_map *map);
/* A thread's name, at most 15 bytes of it. exec: its process runs a new program. */
int xp_perfdata_comm(struct xp_perfdata *perfdata, uint64_t tsc, pid_t pid, pid_t tid, const char *comm, bool exec);
/*
 * A new process (tid == pid) or thread. born_tsc: when, which may be long before. It begins with its parent's name;
 * maps: also with what its parent has mapped.
 */
int xp_perfdata_fork(struct xp_perfdata *perfdata, uint64_t tsc, uint64_t born_tsc, pid_t pid, pid_t tid, pid_t ppid,
		     bool maps);
int xp_perfdata_exit(struct xp_perfdata *perfdata, uint64_t tsc, pid_t pid, pid_t tid, pid_t ppid);
/* -EINVAL, and nothing has changed: no address at all, or more than XP_PERFDATA_CHAIN_MAX. */
int xp_perfdata_sample(struct xp_perfdata *perfdata, const struct xp_perfdata_sample *sample);
/* Makes `perf inject --jit` read a jitdump: path is absolute and ends in /jit-NUMBER.dump. -EINVAL, -ENAMETOOLONG. */
int xp_perfdata_jit(struct xp_perfdata *perfdata, const char *path);

struct xp_perfdata_build_id {
	const uint8_t *build_id;
	size_t build_id_bytes; /* 1..XP_PERFDATA_BUILD_ID_BYTES */
	bool kernel;
	const char *path; /* "[kernel.kallsyms]" of the kernel */
};

/* What is said of the recording behind the records. A text that is NULL, a number that is 0: left out. */
struct xp_perfdata_features {
	const char *hostname;
	const char *release; /* of the kernel */
	const char *version; /* of the recording program */
	const char *arch;
	const char *cpu; /* its model, in words */
	uint32_t cpus;
	uint32_t cpus_online;
	uint64_t memory_kb;
	char *const *argv; /* NULL-terminated */
	const char *event; /* its name */
	/* CLOCK_REALTIME and CLOCK_MONOTONIC at the same moment. */
	uint64_t wall_ns;
	uint64_t mono_ns;
	const struct xp_perfdata_build_id *build_ids;
	size_t build_id_count;
};

/* Writes what has come so far, for the case that no end is written. */
int xp_perfdata_sync(struct xp_perfdata *perfdata);
/* Writes what is left, and the features. An error of the latter leaves a valid file without any. */
int xp_perfdata_finish(struct xp_perfdata *perfdata, const struct xp_perfdata_features *features);
/* Bytes of records so far. */
uint64_t xp_perfdata_bytes(const struct xp_perfdata *perfdata);
/* Without xp_perfdata_finish(), what was not written out yet is missing. */
void xp_perfdata_free(struct xp_perfdata *perfdata);

#endif
