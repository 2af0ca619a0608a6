/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests between two USDT probes: `--request PROVIDER:BEGIN..END[/argN]`.
 *
 * A request begins with a hit of BEGIN, and ends with the next hit of END on the same thread. With /argN, it ends with
 * the next hit of END in the same process whose argument N is the same, on whatever thread: for servers whose threads
 * handle several requests in turn. Such a request belongs to the thread that hits END.
 */
#ifndef XPROF_EXPLAIN_USDT_REQUESTS_H
#define XPROF_EXPLAIN_USDT_REQUESTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/model.h"

#define XP_USDT_PROBE_BYTES 160

struct xp_usdt_pair {
	const char *text;					   /* of the option */
	char begin[XP_USDT_PROBE_BYTES], end[XP_USDT_PROBE_BYTES]; /* PROVIDER:NAME */
	unsigned int argument;					   /* from 1; 0: by thread */
};

struct xp_usdt_request {
	uint32_t pair;
	uint32_t thread; /* of the model */
	uint32_t cpu;	 /* at its begin */
	uint64_t begin_ns, end_ns;
};

/* Empty if zeroed. */
struct xp_usdt_requests {
	struct xp_usdt_pair *pairs;
	size_t pair_count;
	struct xp_usdt_request *list; /* after xp_usdt_requests_find() */
	size_t count;
};

/* Returns whether the text is a pair of probes: no name of a function has this form. The text must outlive the pair. */
bool xp_usdt_pair_parse(struct xp_usdt_pair *pair, const char *text);

/* Finds the requests in a model with keep_hits and keep_times. Returns 0 or -ENOMEM. */
int xp_usdt_requests_find(struct xp_usdt_requests *requests, const struct xp_model *model);
void xp_usdt_requests_free(struct xp_usdt_requests *requests);

#endif
