/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes perf.data files of one sampling event, and of waits (wait_record.h).
 *
 * Sources of the format: Linux, tools/perf/Documentation/perf.data-file-format.txt; include/uapi/linux/perf_event.h for
 * the event's attributes and the records below 64; tools/lib/perf/include/perf/event.h and tools/perf/util/header.c for
 * the records from 64 on and the features.
 *
 * The file is valid at any moment (with compressed samples, except for some microseconds per second). Records are
 * written in complete pieces, and the header is updated only after a piece is written. So perf can read a recording
 * that was interrupted, or one that filled the disk, up to that point.
 *
 * Times are given as TSCs and written in ns by the conversion in the file's first record (TIME_CONV). `perf inject
 * --jit` converts the TSCs of jitdumps with it. The event says that its clock is CLOCK_MONOTONIC, so jitdumps with
 * times of that clock are accepted too. TSC 0 means "before everything": perf processes such a record
 * immediately, at its place in the file.
 *
 * Records need not be in time order: perf sorts them. A FINISHED_ROUND is written regularly, so that perf need not keep
 * all of them for sorting (see late_ns).
 *
 * Samples may be compressed (perfdata_zstd.h), from some size of the file on: perf reads files with both. So may SWITCH
 * records and those that name BPF programs, which can be far more than the samples. Compressed records are written up
 * to a second later than others. The others stay uncompressed: `perf inject --jit` looks for mappings, does not look
 * into compressed records, and passes those on before all others. So if a record has the same time as a sample, perf
 * may process the sample first.
 *
 * Functions return 0 or -errno. After an error, the writer does nothing more and returns the same error again.
 */
#ifndef XPROF_FORMAT_PERFDATA_H
#define XPROF_FORMAT_PERFDATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "format/wait_record.h"

#define XP_PERFDATA_CHAIN_MAX 4096 /* addresses per sample: a record has a 16-bit size */
#define XP_PERFDATA_PATH_MAX 4096  /* perf's PATH_MAX, including the terminator */
#define XP_PERFDATA_BUILD_ID_BYTES 20

/* ns = zero + (tsc * mult >> shift), as perf computes it (tools/perf/util/tsc.c). */
struct xp_perfdata_conversion {
	uint16_t shift; /* at most 32 */
	uint32_t mult;
	uint64_t zero;
};

/*
 * Makes a conversion that maps `tsc` to `ns`. hz: TSC ticks per second of the clock. Returns 0 or -ERANGE if hz is
 * invalid (0, or 2^62 and above).
 */
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
	uint64_t period;       /* cycles, or ns of cpu-clock, that each sample represents */
	struct xp_perfdata_conversion conversion;
	/*
	 * A record may be this much older than one that was written before it. An even older record gets the earliest
	 * time that perf still sorts in.
	 */
	uint64_t late_ns;
	bool waits;			/* add a second event, for the samples of xp_perfdata_wait() */
	bool switches;			/* announce SWITCH records: perf report --latency checks this */
	uint64_t plain_bytes;		/* number of bytes of records before the first compressed one */
	unsigned int compression_level; /* zstd level of samples: 1 to 22; 0: not compressed */
};

struct xp_perfdata_sample {
	uint64_t tsc;
	pid_t pid;
	pid_t tid;
	uint32_t cpu;
	/* Leaf first: kernel addresses, then user addresses; at least one address in total. */
	const uint64_t *kernel;
	size_t kernel_count;
	const uint64_t *user;
	size_t user_count;
};

/* An executable mapping of a process. */
struct xp_perfdata_map {
	pid_t pid;
	pid_t tid;
	uint64_t start;
	uint64_t bytes;
	uint64_t file_offset;
	uint64_t dev; /* makedev(); it and the next two are not written if there is a build id */
	uint64_t inode;
	uint64_t generation;
	const uint8_t *build_id;
	size_t build_id_bytes; /* 0: unknown; at most XP_PERFDATA_BUILD_ID_BYTES */
	const char *path;
};

/* A context switch: PERF_RECORD_SWITCH. */
struct xp_perfdata_switch {
	uint64_t tsc;
	pid_t pid;
	pid_t tid;
	uint32_t cpu;
	bool out;	/* the thread leaves the CPU; otherwise it gets the CPU */
	bool preempted; /* out: the thread could continue */
};

struct xp_perfdata;

/*
 * fd is an empty regular file, open for writing, which the caller keeps. Returns 0 or -errno: -EINVAL for a period of 0
 * or a level above 22; -ENOMEM.
 */
int xp_perfdata_new(struct xp_perfdata **perfdata, int fd, const struct xp_perfdata_options *options);
/* The kernel text, from the address of its symbol _text (or _stext) on. */
int xp_perfdata_kernel(struct xp_perfdata *perfdata, uint64_t start, uint64_t bytes);
/* A kernel module. path: of the .ko, or its name in brackets. */
int xp_perfdata_module(struct xp_perfdata *perfdata, uint64_t start, uint64_t bytes, const char *path);
/* Code of the kernel that appears or goes at run time: KSYMBOL of enum perf_event_type. */
struct xp_perfdata_symbol {
	uint64_t start;
	uint32_t bytes;
	uint16_t type;	/* PERF_RECORD_KSYMBOL_TYPE_BPF, ... */
	uint16_t flags; /* PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER */
	const char *name;
};

int xp_perfdata_symbol(struct xp_perfdata *perfdata, uint64_t tsc, const struct xp_perfdata_symbol *symbol);
/* A BPF program was loaded or unloaded: BPF_EVENT. type: PERF_BPF_EVENT_PROG_LOAD, ... */
#define XP_PERFDATA_BPF_TAG_BYTES 8
int xp_perfdata_bpf(struct xp_perfdata *perfdata, uint64_t tsc, uint16_t type, uint32_t id,
		    const uint8_t tag[XP_PERFDATA_BPF_TAG_BYTES]);
/*
 * A mapping of a process. -EINVAL is returned for a bad build id, and for a jitdump that the process writes: perf would
 * read it, fail if it is gone, and write images next to it, where the process may have placed links. -ENAMETOOLONG is
 * returned for the path. Both leave the writer unchanged.
 */
int xp_perfdata_map(struct xp_perfdata *perfdata, uint64_t tsc, const struct xp_perfdata_map *map);
/* A thread's name, truncated to 15 bytes. exec: its process has executed a new program. */
int xp_perfdata_comm(struct xp_perfdata *perfdata, uint64_t tsc, pid_t pid, pid_t tid, const char *comm, bool exec);
/* A new process (tid == pid) or thread. It starts with its parent's name. */
struct xp_perfdata_birth {
	pid_t pid;
	pid_t tid;
	pid_t ppid;
	uint64_t tsc; /* may be long before the time of the record */
	bool maps;    /* starts with its parent's mappings, too */
};

int xp_perfdata_fork(struct xp_perfdata *perfdata, uint64_t tsc, const struct xp_perfdata_birth *birth);
int xp_perfdata_exit(struct xp_perfdata *perfdata, uint64_t tsc, pid_t pid, pid_t tid, pid_t ppid);
/* Returns -EINVAL, with nothing changed, for no addresses or more than XP_PERFDATA_CHAIN_MAX. */
int xp_perfdata_sample(struct xp_perfdata *perfdata, const struct xp_perfdata_sample *sample);
/* A wait; its chance is not 0. Errors as above, and -EINVAL without the option `waits`. */
int xp_perfdata_wait(struct xp_perfdata *perfdata, const struct xp_perfdata_sample *sample,
		     const struct xp_wait_record *wait);
/* Compressed like a sample. */
int xp_perfdata_switch(struct xp_perfdata *perfdata, const struct xp_perfdata_switch *event);
/*
 * Makes `perf inject --jit` read a jitdump. path is absolute and ends in /jit-NUMBER.dump. tsc: after the start of the
 * process, whose FORK makes perf forget what it knew of that number. Returns 0 or -errno: -EINVAL, -ENAMETOOLONG.
 */
int xp_perfdata_jit(struct xp_perfdata *perfdata, uint64_t tsc, const char *path);

struct xp_perfdata_build_id {
	const uint8_t *build_id;
	size_t build_id_bytes; /* 1..XP_PERFDATA_BUILD_ID_BYTES */
	bool kernel;
	const char *path; /* "[kernel.kallsyms]" for the kernel */
};

/* The description of the recording that follows the records. A text that is NULL or a number that is 0 is omitted. */
struct xp_perfdata_features {
	const char *hostname;
	const char *release; /* of the kernel */
	const char *version; /* of the recording program */
	const char *arch;
	const char *cpu; /* model name */
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

/* Writes all records so far, in case the file is never finished. */
int xp_perfdata_sync(struct xp_perfdata *perfdata);
/* Writes the remaining records and the features. An error in the features leaves a valid file without features. */
int xp_perfdata_finish(struct xp_perfdata *perfdata, const struct xp_perfdata_features *features);
/* Bytes of records so far. */
uint64_t xp_perfdata_bytes(const struct xp_perfdata *perfdata);
/* Whether there may be compressed samples. */
bool xp_perfdata_is_compressed(const struct xp_perfdata *perfdata);
/* Without xp_perfdata_finish(), records that are still buffered are lost. */
void xp_perfdata_free(struct xp_perfdata *perfdata);

#endif
