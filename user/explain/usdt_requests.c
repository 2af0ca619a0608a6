// SPDX-License-Identifier: BSD-2-Clause
#include "explain/usdt_requests.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/util.h"

#define NAME "%63[a-zA-Z0-9_]"

/* A hit that begins or ends a request of a pair. */
struct half {
	const struct xp_model_hit *hit;
	uint32_t pair;
	uint32_t process;
	uint64_t key; /* the thread, or the argument */
	bool is_end;
};

struct finding {
	struct xp_usdt_requests *requests;
	const struct xp_model *model;
	struct half *halves;
	size_t count, room;
};

bool xp_usdt_pair_parse(struct xp_usdt_pair *pair, const char *text)
{
	char provider[64], begin[64], end[64];
	int used = 0, more = 0;

	*pair = (struct xp_usdt_pair){ .text = text };
	if (sscanf(text, NAME ":" NAME ".." NAME "%n", provider, begin, end, &used) != 3)
		return false;
	snprintf(pair->begin, sizeof(pair->begin), "%s:%s", provider, begin);
	snprintf(pair->end, sizeof(pair->end), "%s:%s", provider, end);
	if (!text[used])
		return true;
	return sscanf(text + used, "/arg%2u%n", &pair->argument, &more) == 1 && pair->argument && !text[used + more];
}

/* Finds a value in "arg1=5 arg2=?". Returns false if it is unknown. */
static bool find_argument(const char *arguments, unsigned int number, uint64_t *value)
{
	char name[16];
	const char *at;
	char *end;

	snprintf(name, sizeof(name), "arg%u=", number);
	at = strstr(arguments, name);
	if (!at)
		return false;
	at += strlen(name);
	*value = strtoull(at, &end, 10);
	return end > at;
}

static int add_half(struct finding *finding, uint32_t index, const struct xp_model_hit *hit)
{
	const struct xp_usdt_pair *pair = &finding->requests->pairs[index];
	struct half half = {
		.hit = hit,
		.pair = index,
		.process = finding->model->threads[hit->thread].process,
		.key = hit->thread,
		.is_end = !strcmp(hit->probe, pair->end),
	};

	if (!half.is_end && strcmp(hit->probe, pair->begin) != 0)
		return 0;
	if (pair->argument && !find_argument(hit->arguments, pair->argument, &half.key))
		return 0;
	if (XP_ARRAY_RESERVE(finding->halves, finding->room, finding->count + 1))
		return -ENOMEM;
	finding->halves[finding->count++] = half;
	return 0;
}

/* Hits of one time are in the order of the file. */
static int compare(const void *a, const void *b)
{
	const struct half *x = a, *y = b;

	return xp_compare(x->pair, y->pair) ?: xp_compare(x->process, y->process) ?: xp_compare(x->key, y->key)
		   ?: xp_compare(x->hit->time_ns, y->hit->time_ns) ?: xp_compare((uintptr_t)x->hit, (uintptr_t)y->hit);
}

/* Of several begins, the last one counts: a request that has no end is not over. */
static void join(struct finding *finding)
{
	struct xp_usdt_requests *requests = finding->requests;

	for (size_t i = 1; i < finding->count; i++) {
		const struct half *end = &finding->halves[i], *begin = end - 1;

		if (end->is_end && !begin->is_end && begin->pair == end->pair && begin->process == end->process &&
		    begin->key == end->key)
			requests->list[requests->count++] = (struct xp_usdt_request){
				end->pair, end->hit->thread, begin->hit->cpu, begin->hit->time_ns, end->hit->time_ns,
			};
	}
}

int xp_usdt_requests_find(struct xp_usdt_requests *requests, const struct xp_model *model)
{
	struct finding finding = { .requests = requests, .model = model };
	int err = 0;

	for (uint32_t p = 0; p < requests->pair_count; p++)
		for (size_t i = 0; !err && i < model->hit_count; i++)
			err = add_half(&finding, p, &model->hits[i]);
	requests->list = err ? NULL : malloc((finding.count + 1) * sizeof(*requests->list));
	if (requests->list && finding.count) {
		qsort(finding.halves, finding.count, sizeof(*finding.halves), compare);
		join(&finding);
	}
	free(finding.halves);
	return requests->list ? 0 : -ENOMEM;
}

void xp_usdt_requests_free(struct xp_usdt_requests *requests)
{
	free(requests->pairs);
	free(requests->list);
}
