// SPDX-License-Identifier: BSD-2-Clause
#include "format/perfdata_head.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <time.h>

#define SAMPLE_TYPE                                                                                                    \
	(PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD |                  \
	 PERF_SAMPLE_CALLCHAIN)

int xp_perfdata_conversion(struct xp_perfdata_conversion *conversion, uint64_t hz, uint64_t tsc, uint64_t ns)
{
	unsigned int shift = 33;
	unsigned __int128 mult;

	if (!hz || hz >> 62)
		return -ERANGE;
	do
		mult = (((unsigned __int128)1000000000 << --shift) + hz / 2) / hz;
	while (shift && mult > UINT32_MAX);
	if (!mult || mult > UINT32_MAX)
		return -ERANGE;
	*conversion = (struct xp_perfdata_conversion){ shift, mult, 0 };
	conversion->zero = ns - xp_perfdata_ns(conversion, tsc);
	return 0;
}

static void fill_attr(uint8_t *to, const struct xp_perfdata_options *options)
{
	struct perf_event_attr attr = {
		.type = options->event_type,
		.size = XP_PERFDATA_ATTR_BYTES,
		.config = options->event_config,
		.sample_period = options->period,
		.sample_type = SAMPLE_TYPE,
		.mmap = 1,
		.comm = 1,
		.task = 1,
		.sample_id_all = 1,
		.exclude_guest = 1,
		.mmap2 = 1,
		.comm_exec = 1,
		.context_switch = options->switches,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
	};

	_Static_assert(sizeof(attr) >= XP_PERFDATA_ATTR_BYTES, "perf_event_attr");
	if (xp_perfdata_head_count(options) > 1)
		attr.sample_type |= PERF_SAMPLE_IDENTIFIER;
	memcpy(to, &attr, XP_PERFDATA_ATTR_BYTES);
}

/*
 * Fills in an event with raw data: waits, or USDT probes. The event of waits has the name that perf record --off-cpu
 * uses, but not the type BPF_OUTPUT: since Linux 6.15, perf expects its own sample format in a BPF_OUTPUT event of that
 * name, and would reject the file. Side-band records belong to the first event.
 */
static void fill_raw_attr(uint8_t *to, uint64_t config)
{
	const struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = XP_PERFDATA_ATTR_BYTES,
		.config = config,
		.sample_period = 1,
		.sample_type = SAMPLE_TYPE | PERF_SAMPLE_RAW | PERF_SAMPLE_IDENTIFIER,
		.sample_id_all = 1,
		.exclude_guest = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
	};

	memcpy(to, &attr, XP_PERFDATA_ATTR_BYTES);
}

size_t xp_perfdata_head_bytes(const struct xp_perfdata_options *options)
{
	size_t count = xp_perfdata_head_count(options), ids = count > 1 ? count * sizeof(uint64_t) : 0;

	return offsetof(struct xp_perfdata_head, events) + count * sizeof(struct xp_perfdata_head_event) + ids;
}

void xp_perfdata_head_fill(struct xp_perfdata_head *head, const struct xp_perfdata_options *options)
{
	size_t events = xp_perfdata_head_count(options);

	head->header = (struct xp_perfdata_header){
		.magic = XP_PERFDATA_MAGIC,
		.size = sizeof(head->header),
		.attr_size = sizeof(head->events[0]),
		.attrs = { offsetof(struct xp_perfdata_head, events), events * sizeof(head->events[0]) },
		.data = { xp_perfdata_head_bytes(options), 0 },
	};
	fill_attr(head->events[XP_PERFDATA_EVENT_SAMPLES].attr, options);
	head->events[XP_PERFDATA_EVENT_SAMPLES].ids.offset = sizeof(head->header);
	if (events == 1)
		return;
	if (options->waits)
		fill_raw_attr(head->events[XP_PERFDATA_EVENT_WAITS].attr, PERF_COUNT_SW_CONTEXT_SWITCHES);
	if (options->usdt)
		fill_raw_attr(head->events[xp_perfdata_head_usdt(options)].attr, PERF_COUNT_SW_BPF_OUTPUT);
	for (size_t i = 0; i < events; i++) {
		uint64_t id = i + 1, at = xp_perfdata_head_bytes(options) - (events - i) * sizeof(id);

		memcpy((uint8_t *)head + at, &id, sizeof(id));
		head->events[i].ids = (struct xp_perfdata_section){ at, sizeof(id) };
	}
}
