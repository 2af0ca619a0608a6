/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes XRay Flight Data Recorder logs.
 *
 * Source of the format: LLVM's "XRay Flight Data Recorder Trace Format" (version 1) and, for versions 2 to 5 and typed
 * events, what llvm-xray 14 to 19 read (llvm/lib/XRay/FileHeaderReader.cpp, RecordInitializer.cpp, BlockVerifier.cpp).
 *
 * A log is written in two steps, so memory use does not depend on the length of a recording:
 *  1. xp_fdr_enc_* encode one thread's records into chunks. Each chunk starts with a NewCPUId record, so it can be
 *     read without the one before it. The caller keeps the chunks on disk (spool.h).
 *  2. xp_fdr_layout_* put the chunks of all threads, in any order of arrival, at their place in the final file: at
 *     most 16 buffers per thread (llvm-xray account and stack fail on more), in version 1 all of the same size.
 *
 * Functions return 0 or -errno. Nothing here prints or depends on libbpf.
 */
#ifndef XPROF_FORMAT_FDR_H
#define XPROF_FORMAT_FDR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define XP_FDR_HEADER_BYTES 32
#define XP_FDR_FUNCTION_BYTES 8
#define XP_FDR_METADATA_BYTES 16
#define XP_FDR_FUNCTION_ID_MAX 0x0fffffffu /* 28 bits */
#define XP_FDR_EVENT_BYTES_MAX 4096	   /* longest payload that the encoder accepts */
#define XP_FDR_NAME_BYTES_MAX 256	   /* maximum size of a thread name; longer names are truncated */

enum xp_fdr_function_kind {
	XP_FDR_ENTER = 0,
	XP_FDR_EXIT = 1,
	XP_FDR_TAIL_EXIT = 2,
	XP_FDR_ENTER_ARGS = 3,
};

enum xp_fdr_metadata_kind {
	XP_FDR_NEW_BUFFER = 0,
	XP_FDR_END_OF_BUFFER = 1,
	XP_FDR_NEW_CPU_ID = 2,
	XP_FDR_TSC_WRAP = 3,
	XP_FDR_WALL_CLOCK = 4,
	XP_FDR_CUSTOM_EVENT = 5,
	XP_FDR_CALL_ARGUMENT = 6,
	XP_FDR_BUFFER_EXTENTS = 7,
	XP_FDR_TYPED_EVENT = 8,
	XP_FDR_PID = 9,
};

struct xp_fdr_header {
	uint16_t version; /* 1 or 5 */
	bool constant_tsc;
	bool nonstop_tsc;
	uint64_t cycle_hz;     /* never 0 */
	uint64_t buffer_bytes; /* size of each buffer (version 5: of the longest block); set by the layout */
};

/*
 * The encoder of one thread. It owns no memory: the caller provides buf, and stores the chunk when it is full. Each
 * call that adds a record returns -ENOSPC and changes nothing if the record does not fit. The caller then stores the
 * chunk (buf, len) and begins a new one.
 *
 * Each event is preceded by a record that sets the base to the event's own TSC: TSCWrap, or NewCPUId if the CPU
 * changed. So the event has the same meaning in version 1, where events do not advance the base of the delta, and in
 * version 5, where they do. Chunks contain version 1's custom events; the layout converts them when it writes version
 * 5.
 */
struct xp_fdr_enc {
	uint8_t *buf;
	size_t cap;
	size_t len;
	uint64_t base_tsc; /* base of the next delta */
	uint16_t cpu;
	bool has_typed; /* true: the chunk contains a typed event and requires version 5 */
};

/* Minimum size of a chunk, so that every single record fits: see xp_fdr_enc_custom() for the largest. */
#define XP_FDR_CHUNK_MIN 8192

/* Starts a chunk: NewCPUId(cpu, tsc). */
void xp_fdr_enc_begin(struct xp_fdr_enc *enc, uint8_t *buf, size_t cap, uint16_t cpu, uint64_t tsc);

/*
 * Adds a function record, preceded by NewCPUId if cpu changed, or by TSCWrap if the delta exceeds 32 bits or is
 * negative. Also returns -EINVAL if fn_id exceeds XP_FDR_FUNCTION_ID_MAX.
 */
int xp_fdr_enc_function(struct xp_fdr_enc *enc, uint16_t cpu, uint64_t tsc, uint32_t fn_id,
			enum xp_fdr_function_kind kind);

/* Adds an entry with arguments: the function record of kind 3 and all of its CallArgument records, or nothing. */
int xp_fdr_enc_args(struct xp_fdr_enc *enc, uint16_t cpu, uint64_t tsc, uint32_t fn_id, const uint64_t *args,
		    unsigned int count);

/* Add an event. size is 0..4096. Readers fail on a size of 0, so an empty payload is written as one zero byte. */
int xp_fdr_enc_custom(struct xp_fdr_enc *enc, uint16_t cpu, uint64_t tsc, const void *data, uint32_t size);
int xp_fdr_enc_typed(struct xp_fdr_enc *enc, uint16_t cpu, uint64_t tsc, uint16_t type, const void *data,
		     uint32_t size);

/*
 * A state of the encoder. xprof returns to it if a call is shorter than --min-duration (XRay's
 * func_duration_threshold_us).
 */
struct xp_fdr_mark {
	size_t len;
	uint64_t base_tsc;
	uint16_t cpu;
};
static inline struct xp_fdr_mark xp_fdr_enc_mark(const struct xp_fdr_enc *enc)
{
	return (struct xp_fdr_mark){ enc->len, enc->base_tsc, enc->cpu };
}
static inline void xp_fdr_enc_rewind(struct xp_fdr_enc *enc, struct xp_fdr_mark mark)
{
	enc->len = mark.len;
	enc->base_tsc = mark.base_tsc;
	enc->cpu = mark.cpu;
}

struct xp_fdr_chunk_stats {
	uint64_t functions; /* function records of every kind */
	uint64_t arguments; /* CallArgument records */
	uint64_t events;    /* custom and typed */
	uint64_t typed;	    /* the typed ones among them */
};

/*
 * Scans a chunk that the encoder made. Returns 0 or -errno: -EBADMSG unless the chunk begins with NewCPUId and holds
 * only complete records that may occur inside a buffer. Adds to stats if it is not NULL.
 */
int xp_fdr_chunk_scan(const uint8_t *chunk, size_t len, struct xp_fdr_chunk_stats *stats);
/* Returns the TSC of the NewCPUId record at the start of a chunk of at least 16 bytes. */
uint64_t xp_fdr_chunk_tsc(const uint8_t *chunk);
/* Returns the CPU of the NewCPUId record at the start of a chunk. */
uint16_t xp_fdr_chunk_cpu(const uint8_t *chunk);
/*
 * Calls visit for each function record of a chunk that xp_fdr_chunk_scan() has accepted. Stops when visit returns
 * non-zero, and returns that value.
 */
int xp_fdr_chunk_calls(const uint8_t *chunk, size_t len,
		       int (*visit)(void *arg, uint32_t fn_id, enum xp_fdr_function_kind kind), void *arg);
/* Converts the custom events of a chunk that xp_fdr_chunk_scan() has accepted from version 1's form to version 5's. */
void xp_fdr_chunk_to_v5(uint8_t *chunk, size_t len);

/* The facts about a thread that the layout needs before the first chunk is placed. Each (pid, tid) occurs once. */
struct xp_fdr_thread {
	int32_t pid;
	int32_t tid;
	uint64_t chunk_bytes;	  /* sum of the chunks' lengths */
	uint32_t chunk_bytes_max; /* longest chunk */
	const char *name;	  /* payload of the custom event at the start of the thread's first buffer */
	uint64_t first_tsc;	  /* TSC of its first record: of the TSCWrap after that event */
};

/*
 * The final file. Each thread's first buffer begins NewBuffer WallClock [Pid] NewCPUId(start_tsc) CustomEvent(name)
 * TSCWrap(first_tsc). `llvm-xray account` assumes that the first TSC in the file is the lowest; start_tsc, the start of
 * the recording, is. A recording without threads gets one empty buffer for `pid`, because a log without blocks is
 * unreadable.
 */
struct xp_fdr_layout;

struct xp_fdr_layout_options {
	struct xp_fdr_header header;
	int32_t pid;	    /* the process, for the version 5 Pid record and for an empty log */
	uint64_t start_tsc; /* start of the recording: T0 */
	uint64_t wall_ns;   /* CLOCK_REALTIME at start_tsc */
	/* Called on ENOSPC: may free space and return 0 to try again, or return the error. NULL: no retries. */
	int (*retry)(void *arg);
	void *retry_arg;
};

/*
 * fd is an empty regular file, open for reading and writing; the caller keeps it open. Copies threads and their names.
 */
int xp_fdr_layout_new(struct xp_fdr_layout **layout, int fd, const struct xp_fdr_layout_options *options,
		      const struct xp_fdr_thread *threads, size_t count);
/*
 * Places the next chunk of threads[index]. The chunks of a thread must come in order. Version 5 modifies the chunk in
 * place. Returns 0 or -errno: -EBADMSG if it is not a chunk, -EINVAL if it exceeds the announced sizes.
 */
int xp_fdr_layout_chunk(struct xp_fdr_layout *layout, size_t index, uint8_t *chunk, size_t len);
/* Closes all buffers. Returns -EINVAL if announced bytes are missing. */
int xp_fdr_layout_finish(struct xp_fdr_layout *layout);
void xp_fdr_layout_free(struct xp_fdr_layout *layout);

#endif
