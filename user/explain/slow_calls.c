// SPDX-License-Identifier: BSD-2-Clause
#include "explain/slow_calls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/util.h"
#include "model/log_walk.h"

#define OPEN_MAX 8	/* nested calls of a thread that may be kept */
#define SLOW_SHARE 100	/* a slow call takes at least twice the median, and 1/100 of the slowest call */
#define USUAL_SHARE 900 /* thousandths of a function's calls, the shortest, that are typical */
#define NS_MAX 9e18	/* limit for clocks down to 1 Hz */
#define SEED 0x9e3779b97f4a7c15u

/* An open call that may be kept. */
struct open_call {
	size_t depth;
	struct xp_slow_call call;
};

/* The open calls of a thread. */
struct own {
	struct open_call *open[OPEN_MAX];
	size_t count;
	bool takes_arguments;
};

/* Calls that are open at the end of a part: its log has what they called until then. The next log has the rest. */
struct carried {
	uint64_t part_tsc; /* start of the part */
	struct xp_u64_map by_key;
	struct xp_slow_call *calls;
	size_t count, room;
};

struct reading {
	struct xp_slow_calls *calls;
	const struct xp_model_source *source;
	const struct xp_slow_calls_options *options;
	struct xp_log_visitor visitor;
	struct carried before, now; /* by the part before the current one, and by this one */
	double ns_per_cycle;
	uint64_t usual_seen;
	uint64_t random;
};

/* ---- functions ---- */

/* Extends calls->functions to all functions found in logs so far. */
static int reserve_functions(struct xp_slow_calls *calls)
{
	size_t count = calls->logged.count;

	if (calls->function_count == count)
		return 0;
	if (XP_ARRAY_RESERVE(calls->functions, calls->function_room, count))
		return -ENOMEM;
	while (calls->function_count < count)
		calls->functions[calls->function_count++] = (struct xp_call_function){ .name = "" };
	return 0;
}

/* ---- the first pass: durations ---- */

static void carried_free(struct carried *carried)
{
	xp_u64_map_free(&carried->by_key);
	free(carried->calls);
}

static int begin_log(void *arg, struct xp_file_view *view, struct xp_violation *violation)
{
	struct reading *reading = arg;

	(void)view;
	(void)violation;
	reading->ns_per_cycle = reading->visitor.hz ? (double)XP_NS_PER_S / (double)reading->visitor.hz : 0;
	if (reading->now.part_tsc != reading->visitor.part_tsc) {
		carried_free(&reading->before);
		reading->before = reading->now;
		reading->now = (struct carried){ .part_tsc = reading->visitor.part_tsc };
	}
	return 0;
}

/* Since the start of the first part. */
static uint64_t took_ns(const struct reading *reading, uint64_t begin_tsc, uint64_t end_tsc)
{
	double ns = (double)(end_tsc - XP_MIN(end_tsc, begin_tsc)) * reading->ns_per_cycle;

	return XP_MIN((uint64_t)XP_MIN(ns + 0.5, NS_MAX), xp_log_walk_ns(&reading->visitor, 0, end_tsc));
}

/* Within a request, a jump to a library and the request's next call could not be distinguished. */
static bool follows_tail(void *arg, const struct xp_walked_thread *thread)
{
	const struct xp_walked_call *caller = thread->depth > 1 ? &thread->calls[thread->depth - 2] : NULL;
	const struct reading *reading = arg;

	return !caller || caller->is_tail ||
	       (!reserve_functions(reading->calls) &&
		reading->calls->functions[caller->function].durations.count < XP_OFTEN_CALLED);
}

static int measure(void *arg, struct xp_walked_thread *thread, const struct xp_fdr_record *record)
{
	struct reading *reading = arg;
	struct xp_slow_calls *calls = reading->calls;
	const struct xp_walked_call *call = &thread->calls[thread->depth - 1];
	uint64_t ns = took_ns(reading, call->tsc, record->tsc);
	struct xp_call_function *function;

	if (reserve_functions(calls))
		return -ENOMEM;
	if (!xp_log_walk_selects(&reading->visitor, call->tsc))
		return 0;
	function = &calls->functions[call->function];
	function->ns += (double)ns;
	function->outermost +=
	    thread->depth == 1 || calls->functions[call[-1].function].durations.count < XP_OFTEN_CALLED;
	return xp_durations_add(&function->durations, &calls->memory, ns, 0, 0);
}

static int measure_requests(struct reading *reading)
{
	const struct xp_usdt_requests *requests = reading->options->requests;
	struct xp_slow_calls *calls = reading->calls;
	int err = 0;

	for (size_t i = 0; !err && i < requests->pair_count; i++)
		err = xp_log_functions_add_named(&calls->logged, requests->pairs[i].text);
	err = err ?: reserve_functions(calls);
	for (size_t i = 0; !err && i < requests->count; i++) {
		uint64_t ns = requests->list[i].end_ns - requests->list[i].begin_ns;
		struct xp_call_function *function = &calls->functions[requests->list[i].pair];

		function->ns += (double)ns;
		function->outermost++;
		err = xp_durations_add(&function->durations, &calls->memory, ns, 0, 0);
	}
	return err;
}

static int name_functions(struct reading *reading)
{
	const struct xp_select *select = reading->source->select;
	struct xp_slow_calls *calls = reading->calls;
	int err = xp_log_functions_name(&calls->logged) ?: reserve_functions(calls);

	for (size_t i = 0; !err && i < calls->function_count; i++) {
		calls->functions[i].name = calls->logged.all[i].shown;
		calls->functions[i].is_wanted =
		    i < reading->options->requests->pair_count ||
		    (select->function_count && xp_select_marked(select, calls->logged.all[i].marks));
		calls->is_selected |= calls->functions[i].is_wanted;
	}
	return err;
}

/* ---- limits ---- */

static unsigned int thousandths(double share)
{
	return (unsigned int)XP_MIN(XP_MAX(1000 * share + 0.5, 1.0), 999.0);
}

static uint64_t margin(uint64_t percentile)
{
	return (uint64_t)(2 * XP_DURATIONS_ERROR * (double)percentile);
}

static void set_limits(struct xp_call_function *function, const struct xp_slow_calls_options *options)
{
	const struct xp_durations *durations = &function->durations;
	unsigned int usual = options->tail > 0 ? thousandths(options->against) : USUAL_SHARE;
	uint64_t high = xp_durations_percentile(durations, usual), above_ns = options->above_ns;
	uint64_t tail = xp_durations_percentile(durations, 1000 - thousandths(options->tail));

	/* Half of the calls may take exactly that long, and a percentile may be slightly wrong. */
	function->usual_ns = high + margin(high);
	function->slow_ns = XP_MAX(2 * function->median_ns, durations->max / SLOW_SHARE);
	if (options->tail > 0)
		function->slow_ns = tail - margin(tail);
	function->slow_ns = above_ns ? above_ns + 1 : XP_MIN(function->slow_ns, durations->max);
}

static int sum_up(struct reading *reading)
{
	struct xp_slow_calls *calls = reading->calls;
	int err = 0;

	for (size_t i = 0; i < calls->function_count; i++)
		calls->functions[i].median_ns = xp_durations_percentile(&calls->functions[i].durations, 500);
	if (!calls->is_selected)
		xp_slow_calls_choose(calls);
	for (size_t i = 0; !err && i < calls->function_count; i++) {
		struct xp_call_function *function = &calls->functions[i];

		set_limits(function, reading->options);
		if (function->is_wanted && !function->is_background)
			err = xp_durations_merge(&calls->all, &calls->memory, &function->durations);
	}
	return err;
}

/* ---- the second pass: calls ---- */

static void free_own(void *own)
{
	for (size_t i = 0; i < OPEN_MAX; i++)
		free(((struct own *)own)->open[i]);
	free(own);
}

static void note_callers(const struct xp_walked_thread *thread, struct xp_slow_call *call)
{
	size_t depth = thread->depth - 1;

	call->caller_count = depth;
	for (size_t i = 0; i < XP_MIN(depth, (size_t)XP_CALL_CALLERS_MAX); i++)
		call->callers[i] = thread->calls[depth - 1 - i].function;
}

static uint64_t key_of(const struct xp_walked_thread *thread, const struct xp_walked_call *call)
{
	return xp_hash_mix(xp_hash_mix((uint64_t)thread->pid << 32 | thread->tid, call->tsc), call->function);
}

static int carry(struct carried *carried, const struct xp_walked_thread *thread, const struct xp_slow_call *call)
{
	const struct xp_walked_call *walked = &thread->calls[thread->depth - 1];

	if (XP_ARRAY_RESERVE(carried->calls, carried->room, carried->count + 1) ||
	    !xp_u64_map_add(&carried->by_key, key_of(thread, walked), (uint32_t)carried->count))
		return -ENOMEM;
	carried->calls[carried->count++] = *call;
	return 0;
}

/* Adds what the part before has of a call that it began. */
static void go_on(const struct carried *before, const struct xp_walked_thread *thread, struct xp_slow_call *call)
{
	const uint32_t *index = xp_u64_map_find(&before->by_key, key_of(thread, &thread->calls[thread->depth - 1]));
	uint32_t process = call->process;

	if (!index)
		return;
	*call = before->calls[*index];
	call->process = process;
}

static int begin_call(void *arg, struct xp_walked_thread *thread, const struct xp_fdr_record *record)
{
	struct reading *reading = arg;
	struct own *own = thread->own;
	uint32_t function = thread->calls[thread->depth - 1].function;
	struct open_call *open;

	if (own)
		own->takes_arguments = false;
	if (reserve_functions(reading->calls))
		return -ENOMEM; /* the file may have changed since the first pass */
	if (!reading->calls->functions[function].is_wanted || !xp_log_walk_selects(&reading->visitor, record->tsc))
		return 0;
	if (!own)
		own = thread->own = calloc(1, sizeof(*own));
	if (!own)
		return -ENOMEM;
	if (own->count == OPEN_MAX)
		return 0;
	if (!own->open[own->count])
		own->open[own->count] = malloc(sizeof(*open));
	open = own->open[own->count];
	if (!open)
		return -ENOMEM;
	open->depth = thread->depth;
	open->call.callee_count = open->call.arg_count = 0;
	open->call.further = (struct xp_call_callee){ 0 };
	open->call.function = function;
	open->call.process = (uint32_t)reading->visitor.process;
	open->call.pid = thread->pid;
	open->call.tid = thread->tid;
	open->call.begin_ns = xp_log_walk_ns(&reading->visitor, 0, record->tsc);
	open->call.cpu = record->cpu;
	own->count++;
	own->takes_arguments = true;
	note_callers(thread, &open->call);
	if (record->tsc < reading->visitor.part_tsc)
		go_on(&reading->before, thread, &open->call);
	return 0;
}

static int note_argument(void *arg, struct xp_walked_thread *thread, uint64_t value)
{
	struct own *own = thread->own;
	struct xp_slow_call *call;

	(void)arg;
	if (!own || !own->takes_arguments)
		return 0;
	call = &own->open[own->count - 1]->call;
	if (call->arg_count < XP_CALL_ARGS_MAX)
		call->args[call->arg_count++] = value;
	return 0;
}

/* Handles the end of a call that was made directly by a call to keep. */
static void note_callee(struct xp_slow_call *call, uint32_t function, uint64_t ns)
{
	struct xp_call_callee *callee = &call->further;

	for (size_t i = 0; i < call->callee_count && callee == &call->further; i++)
		if (call->callees[i].function == function)
			callee = &call->callees[i];
	if (callee == &call->further && call->callee_count < XP_CALL_CALLEES_MAX) {
		callee = &call->callees[call->callee_count++];
		*callee = (struct xp_call_callee){ .function = function };
	}
	callee->calls++;
	callee->ns += ns;
}

static void sift_down(struct xp_slow_call *heap, size_t count)
{
	for (size_t i = 0, least; 2 * i + 1 < count; i = least) {
		struct xp_slow_call call = heap[i];

		least = 2 * i + 1;
		if (least + 1 < count && xp_slow_call_ns(&heap[least + 1]) < xp_slow_call_ns(&heap[least]))
			least++;
		if (xp_slow_call_ns(&call) <= xp_slow_call_ns(&heap[least]))
			return;
		heap[i] = heap[least];
		heap[least] = call;
	}
}

static void sift_up(struct xp_slow_call *heap, size_t i)
{
	for (; i && xp_slow_call_ns(&heap[i]) < xp_slow_call_ns(&heap[(i - 1) / 2]); i = (i - 1) / 2) {
		struct xp_slow_call call = heap[i];

		heap[i] = heap[(i - 1) / 2];
		heap[(i - 1) / 2] = call;
	}
}

/* While calls are read, the heap has the fastest of the kept calls first. */
static void keep_slow(struct xp_call_heap *heap, const struct xp_slow_call *call)
{
	if (heap->count < heap->max) {
		heap->list[heap->count] = *call;
		sift_up(heap->list, heap->count++);
	} else if (xp_slow_call_ns(call) > xp_slow_call_ns(&heap->list[0])) {
		heap->list[0] = *call;
		sift_down(heap->list, heap->count);
	}
}

/* xorshift64*, with a fixed seed: each run chooses the same calls. */
static uint64_t next_random(struct reading *reading)
{
	reading->random ^= reading->random >> 12;
	reading->random ^= reading->random << 25;
	reading->random ^= reading->random >> 27;
	return reading->random * 0x2545f4914f6cdd1du;
}

/* Algorithm R: each typical call has the same probability to be kept. */
static void keep_usual(struct reading *reading, const struct xp_slow_call *call)
{
	struct xp_slow_calls *calls = reading->calls;
	uint64_t place = calls->usual_count;

	if (place == XP_USUAL_CALLS_MAX)
		place = next_random(reading) % (reading->usual_seen + 1);
	else
		calls->usual_count++;
	if (place < XP_USUAL_CALLS_MAX)
		calls->usual[place] = *call;
	reading->usual_seen++;
}

static void keep(struct reading *reading, const struct xp_slow_call *call)
{
	uint64_t ns = xp_slow_call_ns(call), above_ns = reading->options->above_ns;
	struct xp_slow_calls *calls = reading->calls;
	struct xp_call_function *function = &calls->functions[call->function];
	bool is_slow = ns >= function->slow_ns;

	function->slow += is_slow;
	function->extra_ns += is_slow ? ns - XP_MIN(ns, function->median_ns) : 0;
	if (function->is_background) {
		if (is_slow)
			keep_slow(&calls->background, call);
		return;
	}
	if (ns <= function->usual_ns && (!above_ns || ns <= above_ns))
		keep_usual(reading, call);
	if (above_ns && ns <= above_ns)
		return;
	calls->above++;
	if (is_slow || reading->options->slowest)
		keep_slow(&calls->slow, call);
}

static int end_call(void *arg, struct xp_walked_thread *thread, const struct xp_fdr_record *record)
{
	struct reading *reading = arg;
	struct own *own = thread->own;
	const struct xp_walked_call *ended = &thread->calls[thread->depth - 1];
	uint64_t ns = took_ns(reading, ended->tsc, record->tsc);
	struct open_call *open = own && own->count ? own->open[own->count - 1] : NULL;

	if (open && open->depth == thread->depth) {
		own->count--;
		open->call.end_ns = open->call.begin_ns + ns;
		keep(reading, &open->call);
		open = own->count ? own->open[own->count - 1] : NULL;
	}
	if (open && open->depth + 1 == thread->depth)
		note_callee(&open->call, ended->function, ns);
	return 0;
}

/* Of the program that ran last under this PID; the number of processes: none. */
static uint32_t find_process(const struct xp_recorded *recorded, uint64_t pid)
{
	size_t i = recorded->process_count;

	while (i && recorded->processes[i - 1].pid != pid)
		i--;
	return (uint32_t)(i ? i - 1 : recorded->process_count);
}

static void keep_requests(struct reading *reading)
{
	const struct xp_usdt_requests *requests = reading->options->requests;
	const struct xp_model *model = reading->options->model;

	for (size_t i = 0; i < requests->count; i++) {
		const struct xp_usdt_request *request = &requests->list[i];
		const struct xp_model_thread *thread = &model->threads[request->thread];
		uint64_t pid = model->processes[thread->process].pid;
		const struct xp_slow_call call = {
			.function = request->pair,
			.process = find_process(reading->source->recorded, pid),
			.pid = pid,
			.tid = thread->tid,
			.begin_ns = request->begin_ns,
			.end_ns = request->end_ns,
			.cpu = (uint16_t)request->cpu,
		};

		keep(reading, &call);
	}
}

static int drop_call(void *arg, struct xp_walked_thread *thread, const struct xp_fdr_record *record)
{
	struct reading *reading = arg;
	struct own *own = thread->own;

	if (!own || !own->count || own->open[own->count - 1]->depth != thread->depth)
		return 0;
	own->count--;
	return record || !reading->visitor.goes_on_tsc ? 0 : carry(&reading->now, thread, &own->open[own->count]->call);
}

static int by_callee_ns(const void *a, const void *b)
{
	const struct xp_call_callee *left = a, *right = b;

	return (left->ns < right->ns) - (left->ns > right->ns);
}

static int by_call_ns(const void *a, const void *b)
{
	return xp_compare(xp_slow_call_ns(b), xp_slow_call_ns(a));
}

static void sort(struct xp_call_heap *heap)
{
	qsort(heap->list, heap->count, sizeof(*heap->list), by_call_ns);
	for (size_t i = 0; i < heap->count; i++)
		qsort(heap->list[i].callees, heap->list[i].callee_count, sizeof(heap->list[i].callees[0]),
		      by_callee_ns);
}

static int heap_make(struct xp_call_heap *heap, size_t max)
{
	heap->list = calloc(max, sizeof(*heap->list));
	heap->max = max;
	return heap->list ? 0 : -ENOMEM;
}

static int read_calls(struct reading *reading)
{
	struct xp_slow_calls *calls = reading->calls;
	int err = heap_make(&calls->slow, XP_SLOW_CALLS_MAX) ?: heap_make(&calls->background, XP_SLOW_BACKGROUND_MAX);

	calls->usual = calloc(XP_USUAL_CALLS_MAX, sizeof(*calls->usual));
	if (err || !calls->usual)
		return -ENOMEM;
	reading->visitor = (struct xp_log_visitor){
		.follows_tail = follows_tail,
		.begin = begin_log,
		.enter = begin_call,
		.argument = note_argument,
		.leave = end_call,
		.abandon = drop_call,
		.free_own = free_own,
		.arg = reading,
		.functions = &calls->logged,
	};
	/* If all requests are between probes, no call is one. */
	if (reading->source->select->function_count || !reading->options->requests->pair_count)
		err = xp_log_walk_parts(&reading->visitor, reading->source, NULL);
	carried_free(&reading->before);
	carried_free(&reading->now);
	keep_requests(reading);
	sort(&calls->slow);
	sort(&calls->background);
	/* Removes calls that are not slow and exceed the requested number. */
	while (calls->slow.count > reading->options->slowest &&
	       !xp_slow_call_is_slow(calls, &calls->slow.list[calls->slow.count - 1]))
		calls->slow.count--;
	return err;
}

static int read_all(struct reading *reading, bool *broken)
{
	struct xp_slow_calls *calls = reading->calls;
	int err = xp_log_functions_init(&calls->logged, reading->source, NULL, broken);

	reading->visitor = (struct xp_log_visitor){
		.follows_tail = follows_tail,
		.begin = begin_log,
		.leave = measure,
		.arg = reading,
		.functions = &calls->logged,
	};
	err = err ?: measure_requests(reading) ?: xp_log_walk_parts(&reading->visitor, reading->source, broken);
	err = err ?: name_functions(reading) ?: sum_up(reading);
	return err || !calls->all.count ? err : read_calls(reading);
}

int xp_slow_calls_read(struct xp_slow_calls *calls, const struct xp_model_source *source,
		       const struct xp_slow_calls_options *options, bool *broken)
{
	struct reading reading = {
		.calls = calls,
		.source = source,
		.options = options,
		.random = SEED,
	};

	*calls = (struct xp_slow_calls){ .memory.max = XP_DURATIONS_BYTES_MAX };
	return read_all(&reading, broken);
}

void xp_slow_calls_free(struct xp_slow_calls *calls)
{
	for (size_t i = 0; i < calls->function_count; i++)
		xp_durations_free(&calls->functions[i].durations, &calls->memory);
	xp_durations_free(&calls->all, &calls->memory);
	xp_log_functions_free(&calls->logged);
	free(calls->functions);
	free(calls->slow.list);
	free(calls->background.list);
	free(calls->usual);
}
