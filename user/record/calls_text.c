// SPDX-License-Identifier: BSD-2-Clause
#include "record/calls_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elf/demangle.h"

const char *xp_function_symbol(const struct xp_functions *functions, uint32_t fn_id)
{
	for (size_t i = 0; i < functions->range_count; i++) {
		const struct xp_range *range = &functions->ranges[i];

		if (fn_id > range->fdr_base && fn_id - range->fdr_base <= range->function_count)
			return range->object->table->functions[fn_id - range->fdr_base - 1].name;
	}
	return NULL;
}

static const char *text_of(struct xp_short_text *to, const char *symbol, uint32_t id)
{
	char *demangled = symbol && *symbol ? xp_demangle(symbol) : NULL;
	char name[XP_DEMANGLED_BYTES_MAX];

	if (symbol && *symbol)
		xp_short_name(name, sizeof(name), demangled ? demangled : symbol);
	else
		snprintf(name, sizeof(name), "function %" PRIu32, id);
	free(demangled);
	return xp_short_text(to, name);
}

static const char *function_text(struct xp_short_text *to, const struct xp_functions *functions, uint32_t fn_id)
{
	return text_of(to, xp_function_symbol(functions, fn_id), fn_id);
}

const char *xp_object_function_text(struct xp_short_text *to, const struct xp_object *object, uint32_t id)
{
	return text_of(to, object->table->functions[id - 1].name, id);
}

/* Appends to the text; cuts off text that does not fit. */
static void __attribute__((format(printf, 3, 4))) add(char *to, size_t size, const char *format, ...)
{
	size_t used = strlen(to);
	va_list args;

	va_start(args, format);
	vsnprintf(to + used, size - used, format, args);
	va_end(args);
}

static void put_open_calls(char *to, size_t size, const struct xp_process *process, const struct xp_flight_log *log)
{
	size_t count = log->threads.count;
	struct xp_short_text name;

	for (size_t i = 0; i < count && i < XP_FLIGHT_THREADS_MAX; i++) {
		const struct xp_flight_thread *thread = &log->threads.first[i];

		add(to, size, "%s in %s", i ? "," : "", function_text(&name, &process->functions, thread->calls[0]));
		if (count > 1)
			add(to, size, " (thread %d)", thread->tid);
	}
	if (count > XP_FLIGHT_THREADS_MAX)
		add(to, size, " and in calls of %zu more thread%s", count - XP_FLIGHT_THREADS_MAX,
		    xp_plural_s(count - XP_FLIGHT_THREADS_MAX));
	if (count == 1 && log->threads.first[0].call_count > 1)
		add(to, size, ", called by %s",
		    function_text(&name, &process->functions, log->threads.first[0].calls[1]));
}

static void put_slow_call(char *to, size_t size, const struct xp_process *process, const struct xp_flight_log *log)
{
	const struct xp_flight_slow_call *slow = &log->slow;
	const struct xp_processes *all = process->all;
	struct xp_short_text name, given;

	if (!slow->calls)
		return;
	add(to, size, "%s took %.4g ms", function_text(&name, &process->functions, slow->in.calls[0]),
	    xp_clock_ns(all->clock, slow->end_tsc - slow->begin_tsc) / 1e6);
	if (slow->delay_ticks > (slow->end_tsc - slow->begin_tsc) / 100)
		add(to, size, ", runnable without a CPU for %.4g ms of it",
		    xp_clock_ns(all->clock, slow->delay_ticks) / 1e6);
	if (slow->in.call_count > 1)
		add(to, size, ", called by %s", function_text(&name, &process->functions, slow->in.calls[1]));
	add(to, size, " (--trigger '%s')", xp_short_text(&given, all->triggers.list[slow->trigger].text));
}

void xp_flight_text(char *to, size_t size, const struct xp_process *process, const struct xp_flight_log *log)
{
	to[0] = 0;
	if (log->cause == XP_FLIGHT_TRIGGER)
		put_slow_call(to, size, process, log);
	else
		put_open_calls(to, size, process, log);
}
