// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/u64_map.h"
#include "base/util.h"
#include "model/timeline.h"

static const char *const argument_names[XP_PERFETTO_ARGUMENTS_MAX] = {
	"arg1", "arg2", "arg3", "arg4", "arg5", "arg6", "arg7", "arg8", "arg9", "arg10", "arg11", "arg12"
};

static int compare_hits(const void *a, const void *b)
{
	const struct xp_model_hit *x = a, *y = b;

	return xp_compare(x->thread, y->thread) ?: xp_compare(x->time_ns, y->time_ns);
}

/* Splits "arg1=5 arg2=-1 arg3=?". The values are those of arg1, arg2 and so on. Negative numbers and "?" are texts. */
static void add_arguments(struct xp_perfetto_event *event, char *text)
{
	char *rest = NULL;

	for (char *word = strtok_r(text, " ", &rest); word && event->argument_count < XP_PERFETTO_ARGUMENTS_MAX;
	     word = strtok_r(NULL, " ", &rest)) {
		size_t index = event->argument_count++;
		const char *value = strchr(word, '=');
		char *end;

		value = value ? value + 1 : word;
		event->arguments[index] = (struct xp_perfetto_argument){
			.name = { index + 1, argument_names[index] },
			.number = strtoull(value, &end, 10),
			.text = value,
		};
		if (end > value && !*end && *value != '-')
			event->arguments[index].text = NULL;
	}
}

static int put_hit(struct xp_perfetto *perfetto, uint32_t sequence, const struct xp_model_hit *hit, uint64_t name_id,
		   uint64_t start_ns)
{
	char *arguments = strdup(hit->arguments);
	struct xp_perfetto_event event = {
		.type = XP_PERFETTO_INSTANT,
		.time_ns = start_ns + hit->time_ns,
		.name = { name_id, hit->probe },
	};
	int err = arguments ? 0 : -ENOMEM;

	if (!err) {
		add_arguments(&event, arguments);
		err = xp_perfetto_event(perfetto, sequence, &event);
	}
	free(arguments);
	return err;
}

static int begin_thread(const struct xp_model *model, struct xp_perfetto *perfetto, uint32_t index, uint32_t *sequence)
{
	const struct xp_model_thread *thread = &model->threads[index];
	uint32_t pid = (uint32_t)model->processes[thread->process].pid, tid = (uint32_t)thread->tid;

	xp_perfetto_end_sequences(perfetto);
	return xp_perfetto_sequence(perfetto, pid ? pid : tid, tid, sequence);
}

int xp_timeline_hits_write(struct xp_model *model, struct xp_perfetto *perfetto, uint64_t start_ns)
{
	struct xp_u64_map names = { 0 }; /* by the address of the text: its ID */
	uint32_t sequence = 0;
	int err = 0;

	if (model->hit_count)
		qsort(model->hits, model->hit_count, sizeof(*model->hits), compare_hits);
	for (size_t i = 0; !err && i < model->hit_count; i++) {
		const struct xp_model_hit *hit = &model->hits[i];
		const uint32_t *name = xp_u64_map_add(&names, (uintptr_t)hit->probe, (uint32_t)names.count + 1);

		if (!name)
			err = -ENOMEM;
		else if (!i || hit->thread != hit[-1].thread)
			err = begin_thread(model, perfetto, hit->thread, &sequence);
		err = err ?: put_hit(perfetto, sequence, hit, *name, start_ns);
	}
	xp_perfetto_end_sequences(perfetto);
	xp_u64_map_free(&names);
	return err;
}
