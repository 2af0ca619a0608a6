/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes perf.data files with one sampling event, and optionally waits (wait_record.h).
 *
 * Sources of the format: Linux, tools/perf/Documentation/perf.data-file-format.txt; include/uapi/linux/perf_event.h for
 * the event's attributes and the records below 64; tools/lib/perf/include/perf/event.h and tools/perf/util/header.c for
 * the records from 64 on and the features.
 *
 * The file is always valid, except for some microseconds per second if samples are compressed. The writer writes whole
 * records, and updates the header only after that. So perf can read an interrupted recording, or one that filled the
 * disk, up to that point.
 *
 * Callers pass times as TSC values. The writer converts them to ns; the first record of the file (TIME_CONV) describes
 * this conversion. `perf inject --jit` converts the TSC values of jitdumps with it. The clock of the event is
 * CLOCK_MONOTONIC, so perf also accepts jitdumps with times of CLOCK_MONOTONIC. TSC 0 means "before everything": perf
 * processes such a record immediately, at its place in the file.
 *
 * Records need not be in time order: perf sorts them. The writer adds FINISHED_ROUND records, so that perf does not
 * need memory for all records while it sorts (see late_ns).
 *
 * The writer can compress samples (perfdata_zstd.h) from a given size of the file on; perf reads files with compressed
 * and other records. It also compresses SWITCH records and the records that name BPF programs, because there can be
 * more of these than samples. It writes compressed records up to a second later than others. It does not compress
 * mappings: `perf inject --jit` does not find mappings in compressed records, and it copies compressed records before
 * all others. So perf may process a sample before another record with the same time.
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
	 * A record may be at most this much older than an earlier record. The writer raises the time of an even older
	 * record to the earliest time that perf still sorts.
	 */
	uint64_t late_ns;
	bool waits;			/* add a second event, for xp_perfdata_wait() */
	bool usdt;			/* add another event, for xp_perfdata_usdt() */
	bool switches;			/* SWITCH records may follow: perf report --latency checks this */
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
	uint64_t dev; /* makedev(); dev, inode and generation are not written if the build ID is known */
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
	bool preempted; /* with out: the thread was preempted, and stays runnable */
};

struct xp_perfdata;

/*
 * fd is an empty regular file, open for writing, which the caller keeps. Returns 0 or -errno: -EINVAL for a period of 0
 * or a level above 22; -ENOMEM.
 */
int xp_perfdata_new(struct xp_perfdata **perfdata, int fd, const struct xp_perfdata_options *options);
/* Writes the mapping of the kernel's code. start: address of the symbol _text or _stext. */
int xp_perfdata_kernel(struct xp_perfdata *perfdata, uint64_t start, uint64_t bytes);
/* Writes the mapping of a kernel module. path: the path of the .ko file, or the module's name in brackets. */
int xp_perfdata_module(struct xp_perfdata *perfdata, uint64_t start, uint64_t bytes, const char *path);
/* Kernel code that is loaded or unloaded at run time: PERF_RECORD_KSYMBOL. */
struct xp_perfdata_symbol {
	uint64_t start;
	uint32_t bytes;
	uint16_t type;	/* PERF_RECORD_KSYMBOL_TYPE_BPF, ... */
	uint16_t flags; /* PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER */
	const char *name;
};

int xp_perfdata_symbol(struct xp_perfdata *perfdata, uint64_t tsc, const struct xp_perfdata_symbol *symbol);
/* Writes that a BPF program was loaded or unloaded. type: PERF_BPF_EVENT_PROG_LOAD or PERF_BPF_EVENT_PROG_UNLOAD. */
#define XP_PERFDATA_BPF_TAG_BYTES 8
int xp_perfdata_bpf(struct xp_perfdata *perfdata, uint64_t tsc, uint16_t type, uint32_t id,
		    const uint8_t tag[XP_PERFDATA_BPF_TAG_BYTES]);
/*
 * Writes a mapping of a process. Returns -ENAMETOOLONG for a long path, and -EINVAL for a build ID that is too long or
 * for the path of a jitdump; both errors leave the writer unchanged. The process controls its own jitdump: perf would
 * read that file, fail if it does not exist, and write images next to it, where the process may have placed links.
 */
int xp_perfdata_map(struct xp_perfdata *perfdata, uint64_t tsc, const struct xp_perfdata_map *map);
/* Writes the name of a thread, truncated to 15 bytes. exec: the process has executed a new program. */
int xp_perfdata_comm(struct xp_perfdata *perfdata, uint64_t tsc, pid_t pid, pid_t tid, const char *comm, bool exec);
/* A new process (tid == pid) or thread. It inherits the name of its parent. */
struct xp_perfdata_birth {
	pid_t pid;
	pid_t tid;
	pid_t ppid;
	uint64_t tsc; /* may be long before the time of the record */
	bool maps;    /* the process also inherits the mappings of its parent */
};

int xp_perfdata_fork(struct xp_perfdata *perfdata, uint64_t tsc, const struct xp_perfdata_birth *birth);
int xp_perfdata_exit(struct xp_perfdata *perfdata, uint64_t tsc, pid_t pid, pid_t tid, pid_t ppid);
/* Writes a sample. Returns -EINVAL and writes nothing unless it has 1 to XP_PERFDATA_CHAIN_MAX addresses. */
int xp_perfdata_sample(struct xp_perfdata *perfdata, const struct xp_perfdata_sample *sample);
/* Writes a wait, whose chance is not 0. Returns errors like xp_perfdata_sample(), and -EINVAL without the option
 * `waits`. */
int xp_perfdata_wait(struct xp_perfdata *perfdata, const struct xp_perfdata_sample *sample,
		     const struct xp_wait_record *wait);
/*
 * Writes a hit of a USDT probe, as a sample of the event XP_PERFDATA_USDT_EVENT with this text as raw data: of type
 * BPF_OUTPUT, because perf script prints such data. Returns errors like xp_perfdata_sample(), and -EINVAL without the
 * option `usdt`, or for a text of XP_PERFDATA_USDT_BYTES or more.
 */
#define XP_PERFDATA_USDT_EVENT "usdt"
#define XP_PERFDATA_USDT_BYTES 1020
int xp_perfdata_usdt(struct xp_perfdata *perfdata, const struct xp_perfdata_sample *sample, const char *text);
/* Writes a context switch. */
int xp_perfdata_switch(struct xp_perfdata *perfdata, const struct xp_perfdata_switch *event);
/*
 * Makes `perf inject --jit` read a jitdump. path is absolute and ends in /jit-NUMBER.dump. tsc: a time after the FORK
 * record of the process, at which perf drops earlier mappings of that number. Returns 0 or -errno: -EINVAL,
 * -ENAMETOOLONG.
 */
int xp_perfdata_jit(struct xp_perfdata *perfdata, uint64_t tsc, const char *path);

struct xp_perfdata_build_id {
	const uint8_t *build_id;
	size_t build_id_bytes; /* 1..XP_PERFDATA_BUILD_ID_BYTES */
	bool kernel;
	const char *path; /* "[kernel.kallsyms]" for the kernel */
};

/* The description of the recording, after the records. Strings that are NULL and numbers that are 0 are omitted. */
struct xp_perfdata_features {
	const char *hostname;
	const char *release; /* kernel release */
	const char *version; /* version of the recorder */
	const char *arch;
	const char *cpu; /* model name */
	uint32_t cpus;
	uint32_t cpus_online;
	uint64_t memory_kb;
	char *const *argv; /* NULL-terminated */
	const char *event; /* name of the sampling event */
	/* CLOCK_REALTIME and CLOCK_MONOTONIC at the same moment. */
	uint64_t wall_ns;
	uint64_t mono_ns;
	const struct xp_perfdata_build_id *build_ids;
	size_t build_id_count;
};

/* Writes all pending records, so that an interruption does not lose them. */
int xp_perfdata_sync(struct xp_perfdata *perfdata);
/* Writes the pending records and the features. If the features cannot be written, the file is valid without them. */
int xp_perfdata_finish(struct xp_perfdata *perfdata, const struct xp_perfdata_features *features);
/* Returns the bytes of records so far, including pending ones. */
uint64_t xp_perfdata_bytes(const struct xp_perfdata *perfdata);
/* Returns whether the file can contain compressed samples. */
bool xp_perfdata_is_compressed(const struct xp_perfdata *perfdata);
/* Loses pending records unless xp_perfdata_finish() was called. */
void xp_perfdata_free(struct xp_perfdata *perfdata);

#endif
