/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The bodies of requests, in JSON. From the published protocols:
 *
 * Pyroscope (grafana/pyroscope, api/push/v1/push.proto, api/types/v1/types.proto), as JSON of the Connect protocol:
 *	{"series": [{"labels": [{"name": N, "value": V}, ...], "samples": [{"rawProfile": BASE64, "ID": UUID}]}]}
 * It requires the labels __name__ and service_name, and by default rejects profiles of more than 16 000 samples or 4
 *MiB before compression, and those older than an hour.
 *
 * Parca (parca-dev/parca, proto/parca/profilestore/v1alpha1/profilestore.proto), as JSON of its gRPC gateway:
 *	{"series": [{"labels": {"labels": [{"name": N, "value": V}, ...]}, "samples": [{"rawProfile": BASE64}]}],
 *	 "normalized": true}
 * It requires the label __name__, and ids in a profile that count from 1. normalized: addresses are those of the files.
 *
 * Both show a profile as __name__:TYPE:UNIT:PERIOD_TYPE:PERIOD_UNIT. The names here are those of other agents:
 * process_cpu:cpu:nanoseconds:cpu:nanoseconds, off_cpu:off_cpu:nanoseconds::, calls:wall:nanoseconds::.
 */
#ifndef XPROF_PUSH_PUSH_BODY_H
#define XPROF_PUSH_PUSH_BODY_H

#include <stddef.h>

#include "model/model.h"
#include "push/push_config.h"

struct xp_push_body {
	const struct xp_push_config *config;
	enum xp_model_kind kind;
	const char *service; /* a label's value */
	const char *host;    /* likewise */
	const void *profile; /* pprof, compressed */
	size_t profile_bytes;
};

/* Writes the body to a file. Returns 0 or -errno. */
int xp_push_body_write(const struct xp_push_body *body, int fd);

#endif
