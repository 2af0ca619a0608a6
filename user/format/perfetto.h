/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes Perfetto's traces (protos/perfetto/trace/trace.proto, whose comments are the specification): threads, their
 * calls as slices, instants, and samples of stacks.
 *
 * The writer collects about 500 KB of packets, compresses them and writes them as one packet (compressed_packets), so
 * memory use does not grow with the trace. The events of each thread are a sequence with its own names and an
 * incremental clock: an event needs about 10 bytes, or 4 after compression. Samples are in sequence 1.
 *
 * Times are ns, converted from the TSC. In the trace, this clock has the name CLOCK_MONOTONIC.
 *
 * Functions return 0 or -errno: -ENOMEM, or an error of writing. After an error, the writer does nothing more and
 * returns the same error again.
 */
#ifndef XPROF_FORMAT_PERFETTO_H
#define XPROF_FORMAT_PERFETTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define XP_PERFETTO_ARGUMENTS_MAX 12

/* Strings are UTF-8. Strings that are NULL are omitted. */
struct xp_perfetto_options {
	uint64_t start_ns;
	uint64_t realtime_ns; /* CLOCK_REALTIME at start_ns; 0: unknown */
	const char *maker;
	const char *release; /* kernel release */
	const char *machine;
};

struct xp_perfetto_thread {
	uint32_t pid, tid; /* tid 0: unknown, the first thread */
	const char *process_name;
	const char *name;
};

/* Within a sequence, the same ID always has the same string. */
struct xp_perfetto_name {
	uint64_t id; /* 0: no name */
	const char *text;
};

struct xp_perfetto_argument {
	struct xp_perfetto_name name;
	const char *text; /* NULL: the argument is a number */
	uint64_t number;
};

enum xp_perfetto_event_type {
	XP_PERFETTO_BEGIN = 1, /* starts a slice */
	XP_PERFETTO_END = 2,   /* ends the innermost slice */
	XP_PERFETTO_INSTANT = 3,
};

struct xp_perfetto_event {
	enum xp_perfetto_event_type type;
	uint64_t time_ns;
	struct xp_perfetto_name name; /* ID 0: an end */
	struct xp_perfetto_argument arguments[XP_PERFETTO_ARGUMENTS_MAX];
	size_t argument_count;
	/* ID of an arrow that starts or ends here; its other end can be in another sequence. 0: none. */
	uint64_t flow_begin, flow_end;
};

/* The strings that frames refer to. The caller chooses the IDs, from 1, for each kind separately. */
enum xp_perfetto_text { XP_PERFETTO_FUNCTION, XP_PERFETTO_SOURCE, XP_PERFETTO_PATH };

enum xp_perfetto_kind { XP_PERFETTO_UNKNOWN = 0, XP_PERFETTO_NATIVE = 1, XP_PERFETTO_KERNEL = 2, XP_PERFETTO_JIT = 4 };

struct xp_perfetto_frame {
	uint64_t id, function, mapping;
	uint64_t source; /* 0: unknown */
	uint64_t address;
	uint32_t line; /* 0: unknown */
	enum xp_perfetto_kind kind;
	bool is_inlined;
};

#define XP_PERFETTO_CPU_UNKNOWN UINT32_MAX

struct xp_perfetto_sample {
	uint64_t time_ns;
	uint32_t pid, tid, cpu;
	uint64_t callstack; /* 0: unknown */
	bool in_kernel;
	uint64_t weight_ns;
};

struct xp_perfetto;

/* Starts a trace. The caller keeps `out`, and calls xp_perfetto_free(), also after an error. */
int xp_perfetto_new(struct xp_perfetto **perfetto, FILE *out, const struct xp_perfetto_options *options);

/* Writes the names of a thread and its process. Readers use the names that were written last. */
int xp_perfetto_thread(struct xp_perfetto *perfetto, const struct xp_perfetto_thread *thread);
/* Starts a sequence for the events of a thread, after xp_perfetto_thread(). Sets *sequence to its number. */
int xp_perfetto_sequence(struct xp_perfetto *perfetto, uint32_t pid, uint32_t tid, uint32_t *sequence);
/*
 * Like xp_perfetto_sequence(), for events with a separate track below the track of the thread. A thread can have one
 * such track.
 */
int xp_perfetto_sequence_beside(struct xp_perfetto *perfetto, uint32_t pid, uint32_t tid, const char *name,
				uint32_t *sequence);
/*
 * Starts a sequence for a track, numbered from 1, that belongs to no thread. parent: number of the track above; 0:
 * none.
 */
int xp_perfetto_sequence_below(struct xp_perfetto *perfetto, uint64_t track, uint64_t parent, const char *name,
			       uint32_t *sequence);
/* Writes an event. A time before the previous event of the sequence is raised to the time of that event. */
int xp_perfetto_event(struct xp_perfetto *perfetto, uint32_t sequence, const struct xp_perfetto_event *event);
/* Ends all sequences, and frees the memory for their names. */
void xp_perfetto_end_sequences(struct xp_perfetto *perfetto);

int xp_perfetto_text(struct xp_perfetto *perfetto, enum xp_perfetto_text kind, uint64_t id, const char *text);
/* Writes a mapping. path: the ID of an XP_PERFETTO_PATH. */
int xp_perfetto_mapping(struct xp_perfetto *perfetto, uint64_t id, uint64_t path, const uint8_t *build_id,
			size_t build_id_bytes);
int xp_perfetto_frame(struct xp_perfetto *perfetto, const struct xp_perfetto_frame *frame);
/* Writes a stack. frames: IDs, the outermost first. */
int xp_perfetto_callstack(struct xp_perfetto *perfetto, uint64_t id, uint64_t *frames, size_t count);
int xp_perfetto_sample(struct xp_perfetto *perfetto, const struct xp_perfetto_sample *sample);

/* Writes the pending packets. */
int xp_perfetto_finish(struct xp_perfetto *perfetto);
void xp_perfetto_free(struct xp_perfetto *perfetto);

#endif
