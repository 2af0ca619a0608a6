/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A recording as stacks with values: what every export, tree and comparison is made of. Two kinds of recordings have
 * the same form:
 *
 *			samples (XP_MODEL_SAMPLES)	   calls (XP_MODEL_CALLS)
 *	stack		where a sample hit		   the open calls of a thread
 *	values[0]	number of samples		   number of calls of the innermost function
 *	values[1]	ns that they represent		   ns in it without its callees, of the calls that ended
 *
 * So the sum of values[1] over all stacks with a function is the time in it, callees included.
 *
 *	readers (read_samples.h)  -->  model  -->  names (location_names.h)  -->  report, export, diff, explain
 *
 * A reader interns locations and stacks, and adds samples. It knows addresses only. xp_model_name() then names each
 * location once. After that the model does not change, and needs no file but for the texts that it keeps itself.
 *
 * Everything is an index into an array, which grows: keep no pointers to elements while the model is made. Index 0 of
 * stacks is the empty stack. Functions that add return 0 or -errno: -ENOMEM, or -E2BIG beyond a limit below. Values
 * beyond a limit are counted in `dropped`.
 *
 * Memory: 8 bytes and a slot of 8 a stack, 40 a sample, 104 a wait. Samples with the same stack, thread and CPU are
 * added up unless keep_times is set.
 *
 * A file may claim any values: each of the two sums over all samples ends at INT64_MAX, so that no sum of some of them
 * can overflow. Values beyond that are omitted.
 */
#ifndef XPROF_MODEL_MODEL_H
#define XPROF_MODEL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "format/wait_record.h"
#include "model/durations.h"
#include "model/symbolize.h"

#define XP_MODEL_LOCATIONS_MAX (4u << 20)
#define XP_MODEL_STACKS_MAX (16u << 20)
#define XP_MODEL_SAMPLES_MAX (64u << 20)
#define XP_MODEL_WAITS_MAX (4u << 20)
#define XP_MODEL_HITS_MAX (1u << 20)
#define XP_MODEL_THREADS_MAX (4u << 20)
#define XP_MODEL_SLOTTED_MAX (2u << 20) /* with more samples or waits, slot_ns becomes 0 */

enum xp_model_kind { XP_MODEL_SAMPLES, XP_MODEL_CALLS, XP_MODEL_WAITS };

/* Returns "samples", "calls" or "waits". */
const char *xp_model_kind_name(enum xp_model_kind kind);

enum xp_code_kind {
	XP_CODE_USER,
	XP_CODE_KERNEL,
	XP_CODE_JIT,
	XP_CODE_UNKNOWN,  /* in no object */
	XP_CODE_RECORDER, /* what the recording costs (recorder.h) */
	XP_CODE_WAKER,	  /* no code: what ended a wait (read_waits.h) */
	XP_CODE_RARE,	  /* no code: stacks that a page has no space for (xp_model_tree_bound()) */
	XP_CODE_KINDS,
};

/* A program image: what one process ran from one exec to the next. */
struct xp_model_process {
	uint64_t pid;	/* 0: unknown, or all kernel threads together */
	uint32_t image; /* 1, increased by each exec in the recording */
	/* not identity */
	const char *name;   /* clean: its comm; "": unknown */
	const char *cgroup; /* clean: path of its cgroup; NULL: unknown */
};

struct xp_model_thread {
	uint64_t tid; /* 0: unknown */
	uint32_t process;
	/* not identity */
	const char *name; /* clean: its last comm; "": unknown */
};

/* A file, or other place, that contains code. */
struct xp_model_object {
	const char *path; /* clean: path in the recorded process, or a name such as "[kernel]" */
	uint32_t file;	  /* number in the symbolizer; XP_MODEL_NONE: none */
	enum xp_code_kind kind;
	/* not identity */
	const char *name; /* clean, for display: as in the tables of `xprof report`, such as "libc.so.6" or "kernel" */
	uint8_t build_id[64];
	size_t build_id_bytes;			 /* 0: unknown */
	const struct xp_recorded_binary *binary; /* NULL: not in the recording's list */
};

#define XP_MODEL_NONE UINT32_MAX
#define XP_MODEL_CPU_UNKNOWN UINT32_MAX

struct xp_model_function {
	const char *name;   /* clean: demangled; object+0xaddress for code without a name */
	const char *symbol; /* clean: name in the file (mangled); same as name if there is no other */
	const char *file;   /* clean: source file; NULL: unknown */
	uint32_t object;
	/* not identity */
	const char *shown; /* clean: the name, shortened by xp_short_name() unless full_names is set */
	enum xp_code_kind kind;
	bool has_name; /* false: the name is an address */
};

/* A function at a location, or a function inlined there. */
struct xp_model_frame {
	uint32_t function;
	uint32_t line; /* 0: unknown */
};

/* An instruction: the sampled one, or any byte of a call instruction. */
struct xp_model_location {
	uint64_t address; /* address as linked; of JIT functions and unknown code: in memory */
	uint32_t object;
	uint32_t jit; /* number of its JIT function in the source; XP_MODEL_NONE: not JIT */
	/* not identity */
	/* Set by naming: its frames are frames[first_frame...], the innermost first; the last one is not inlined. */
	uint32_t first_frame;
	uint32_t frame_count; /* at least 1 after naming */
};

/* The stack of a location and its callers. The callers have a lower index. */
struct xp_model_stack {
	uint32_t callers; /* 0: none */
	uint32_t location;
};

struct xp_model_sample {
	uint32_t stack; /* 0: unknown */
	uint32_t thread;
	uint32_t cpu;	  /* XP_MODEL_CPU_UNKNOWN */
	uint32_t state;	  /* for waits: enum xp_wait_state; otherwise 0 */
	uint64_t time_ns; /* since the start of the recording; a multiple of slot_ns; 0 unless keep_times or slot_ns */
	/* not identity */
	uint64_t values[2];
};

/*
 * A wait (format/wait_record.h): first blocked, then runnable. Unless keep_times is set, waits with the same thread,
 * stack, CPU, state, waker and slots are one element.
 */
struct xp_model_wait {
	uint32_t thread;
	uint32_t stack;			/* 0: unknown */
	uint32_t cpu;			/* on which it ran again */
	uint32_t state;			/* one that known_state() in read_waits.c returns */
	uint32_t flags;			/* XP_WAIT_LAST, XP_WAIT_HARDIRQ, XP_WAIT_SOFTIRQ */
	uint32_t waker_tid;		/* 0: unknown, or none */
	uint64_t lock;			/* address of the futex; 0: unknown, or none */
	uint32_t first_slot, last_slot; /* 0 unless slot_ns */
	/* not identity */
	const char *waker_name; /* clean; "" */
	uint32_t variable;	/* location of the data at that address; XP_MODEL_NONE: unknown */
	int32_t syscall;
	uint32_t chance;
	/* Of the longest wait, since the start of the recording. */
	uint64_t begin_ns, end_ns, runnable_ns;
	/* Of all waits. The last three members are scaled by the weights. */
	uint64_t recorded;
	double count;
	uint64_t total_ns, total_runnable_ns;
};

static inline uint64_t xp_model_wait_blocked_until(const struct xp_model_wait *wait)
{
	return wait->end_ns - wait->runnable_ns;
}

/*
 * A hit of a USDT probe (record --usdt). Unless keep_times is set, the hits of a probe by one thread on one CPU are one
 * element.
 */
struct xp_model_hit {
	const char *probe; /* clean: PROVIDER:NAME */
	uint32_t thread;
	uint32_t cpu; /* XP_MODEL_CPU_UNKNOWN */
	/* not identity */
	const char *arguments; /* clean: "arg1=5 arg2=?"; "": none */
	uint64_t time_ns;      /* since the start of the recording, of the first one */
	uint64_t count;
};

/* The calls of a function that ended, callees included, in cycles. */
struct xp_model_call_times {
	struct xp_durations durations;
	double cycles; /* their sum */
};

struct xp_model {
	enum xp_model_kind kind;
	bool keep_times;
	uint64_t slot_ns;    /* what happens in different slots of this length is kept apart; 0: nothing is */
	uint64_t first_slot; /* of the recording: slot_ns times this is when it begins, at the latest */
	bool keep_waits;     /* always if kind is XP_MODEL_WAITS, which has no samples until xp_waits_as_samples() */
	bool keep_hits;	     /* of USDT probes */
	bool keep_durations; /* of calls */
	bool name_locks;     /* name locks by the variables at their addresses */
	bool only_jit_names; /* other code gets no names, and no binary is opened */
	bool full_names;     /* show full names, not shortened by xp_short_name() */
	bool has_threads;    /* the source distinguishes threads */
	bool has_cpus;	     /* the source distinguishes CPUs */
	uint64_t period_ns;  /* period of samples; 0: unknown */
	uint64_t start_ns;   /* start of the recording, CLOCK_REALTIME; 0: unknown */
	uint64_t length_ns;  /* length of the recording; 0: unknown */
	const char *comment; /* the version and the command that recorded; NULL: unknown */
	uint64_t dropped;    /* number of samples or calls beyond a limit */
	uint64_t dropped_waits;
	uint64_t dropped_hits;
	size_t stack_max; /* at most XP_MODEL_STACKS_MAX; set before stacks are added */

	struct xp_model_process *processes;
	size_t process_count;
	struct xp_model_thread *threads;
	size_t thread_count;
	struct xp_model_object *objects;
	size_t object_count;
	struct xp_model_location *locations;
	size_t location_count;
	struct xp_model_stack *stacks;
	size_t stack_count; /* at least 1 */
	struct xp_model_function *functions;
	size_t function_count;
	struct xp_model_frame *frames;
	size_t frame_count;
	struct xp_model_sample *samples;
	size_t sample_count;

	/* With keep_waits. */
	struct xp_model_wait *waits;
	size_t wait_count;
	/* With keep_hits. */
	struct xp_model_hit *hits;
	size_t hit_count;
	/* With keep_durations: of the first locations. Others have no calls. */
	struct xp_model_call_times *call_times;
	size_t call_time_count;
	struct xp_durations_memory durations_memory;
	uint64_t cycle_hz; /* 0: unknown */

	struct xp_symbolizer *symbolizer; /* owns all strings */

	/* private */
	uint64_t totals[2];  /* sums of the added samples */
	uint64_t slot_parts; /* number of slots over which values were spread */
	size_t wait_room, hit_room, process_room, thread_room, object_room, location_room, stack_room, function_room,
	    frame_room, sample_room, call_time_room;
	struct xp_hash by_process, by_thread, by_object, by_location, by_stack, by_function, by_sample, by_wait, by_hit;
};

/*
 * Makes an empty model, for names of this detail: source lines cost the most time. The caller frees it with
 * xp_model_free(), also after an error. Returns 0 or -ENOMEM.
 */
int xp_model_init(struct xp_model *model, enum xp_model_kind kind, enum xp_name_detail detail);
void xp_model_free(struct xp_model *model);

/* Returns the only copy of this string, cleaned; valid as long as the model. NULL: out of memory. */
const char *xp_model_text(struct xp_model *model, const char *text);

/* Sets the cgroup of a process before the process is added; path NULL: unknown. Returns 0 or -ENOMEM. */
int xp_model_cgroup(struct xp_model *model, const char *path, struct xp_model_process *process);

/*
 * These functions find or add an element. Two elements are the same if the members above the comment "not identity" in
 * their struct are equal. All strings must come from xp_model_text().
 */
int xp_model_process(struct xp_model *model, const struct xp_model_process *process, uint32_t *index);
int xp_model_thread(struct xp_model *model, const struct xp_model_thread *thread, uint32_t *index);
int xp_model_object(struct xp_model *model, const struct xp_model_object *object, uint32_t *index);
/* Like xp_model_object(), for code that is in no file. Accepts any strings. */
int xp_model_object_named(struct xp_model *model, const char *name, const char *path, enum xp_code_kind kind,
			  uint32_t *index);
int xp_model_location(struct xp_model *model, uint32_t object, uint64_t address, uint32_t jit, uint32_t *index);
int xp_model_stack(struct xp_model *model, uint32_t callers, uint32_t location, uint32_t *index);
/* Finds or adds a function, and sets its `shown`. */
int xp_model_function(struct xp_model *model, const struct xp_model_function *function, uint32_t *index);

/* Adds a sample, or adds its values to an equal one. */
int xp_model_sample(struct xp_model *model, const struct xp_model_sample *sample);

/* Adds a sample of the time from begin_ns on. Counts at its end; spreads values[1] over the slots in between. */
int xp_model_sample_over(struct xp_model *model, const struct xp_model_sample *sample, uint64_t begin_ns,
			 uint64_t end_ns);

/* Adds a wait, or adds its sums to an equal one. */
int xp_model_wait(struct xp_model *model, const struct xp_model_wait *wait);
/* Adds a hit. If the model has the same hit, adds to its count. */
int xp_model_hit(struct xp_model *model, const struct xp_model_hit *hit);
/* Adds a call of the function of a location. Returns 0 or -ENOMEM. */
int xp_model_call(struct xp_model *model, uint32_t location, uint64_t cycles);

/* The locations of a stack, the innermost first: for (s = stack; s; s = model->stacks[s].callers) */

/* Removes all samples from the model and returns them. The caller adds them again, and frees the array. */
struct xp_model_sample *xp_model_take_samples(struct xp_model *model, size_t *count);

/* The sums over all samples. */
void xp_model_totals(const struct xp_model *model, uint64_t totals[2]);

#endif
