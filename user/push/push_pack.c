// SPDX-License-Identifier: BSD-2-Clause
#include "push/push_pack.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/util.h"
#include "export/export.h"
#include "model/input.h"
#include "model/model.h"
#include "model/read_waits.h"
#include "push/base64.h"
#include "push/push_labels.h"
#include "push/push_queue.h"

/*
 * ---- the bodies of requests, in JSON ----
 *
 * From the published protocols:
 *
 * Pyroscope (grafana/pyroscope, api/push/v1/push.proto, api/types/v1/types.proto), as JSON of the Connect protocol:
 *	{"series": [{"labels": [{"name": N, "value": V}, ...], "samples": [{"rawProfile": BASE64, "ID": UUID}]}]}
 * It requires the labels __name__ and service_name, and by default rejects profiles of more than 16 000 samples or 4
 * MiB before compression, and those older than an hour.
 *
 * Parca (parca-dev/parca, proto/parca/profilestore/v1alpha1/profilestore.proto), as JSON of its gRPC gateway:
 *	{"series": [{"labels": {"labels": [{"name": N, "value": V}, ...]}, "samples": [{"rawProfile": BASE64}]}],
 *	 "normalized": true}
 * It requires the label __name__, and ids in a profile that count from 1. normalized: addresses are those of the files.
 *
 * Both show a profile as __name__:TYPE:UNIT:PERIOD_TYPE:PERIOD_UNIT. The names here are those of other agents:
 * process_cpu:cpu:nanoseconds:cpu:nanoseconds, off_cpu:off_cpu:nanoseconds::, calls:wall:nanoseconds::.
 */

struct body_parts {
	const struct xp_push_config *config;
	enum xp_model_kind kind;
	const char *service; /* a label's value */
	const char *host;    /* likewise */
	const void *profile; /* pprof, compressed */
	size_t profile_bytes;
};

static const char *const names[] = {
	[XP_MODEL_SAMPLES] = "process_cpu",
	[XP_MODEL_CALLS] = "calls",
	[XP_MODEL_WAITS] = "off_cpu",
};

static bool add_label(json_t *labels, const char *name, const char *value)
{
	return !json_array_append_new(labels, json_pack("{ssss}", "name", name, "value", value));
}

/* Without two labels of one name: the user's come first. */
static json_t *labels_of(const struct body_parts *body)
{
	const struct xp_push_config *config = body->config;
	json_t *labels = json_array();
	bool is_done = labels && add_label(labels, "__name__", names[body->kind]);

	if (is_done && !xp_push_config_label(config, "service_name"))
		is_done = add_label(labels, "service_name", body->service);
	if (is_done && !xp_push_config_label(config, "host"))
		is_done = add_label(labels, "host", body->host);
	for (size_t i = 0; is_done && i < config->label_count; i++)
		is_done = add_label(labels, config->labels[i].name, config->labels[i].value);
	if (is_done)
		return labels;
	json_decref(labels);
	return NULL;
}

/* RFC 9562, version 4. */
static int make_uuid(char text[37])
{
	uint8_t bytes[16];
	char *at = text;

	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		return -EIO;
	bytes[6] = (uint8_t)((bytes[6] & 0x0f) | 0x40);
	bytes[8] = (uint8_t)((bytes[8] & 0x3f) | 0x80);
	for (size_t i = 0; i < sizeof(bytes); i++)
		at += sprintf(at, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", bytes[i]);
	return 0;
}

static json_t *body_of(const struct body_parts *body, const char *profile, const char *uuid)
{
	json_t *labels = labels_of(body);

	if (!labels)
		return NULL;
	if (body->config->engine == XP_PUSH_PYROSCOPE)
		return json_pack("{s[{sos[{ssss}]}]}", "series", "labels", labels, "samples", "rawProfile", profile,
				 "ID", uuid);
	return json_pack("{s[{s{so}s[{ss}]}]sb}", "series", "labels", "labels", labels, "samples", "rawProfile",
			 profile, "normalized", 1);
}

/* Writes the body to a file. Returns 0 or -errno. */
static int write_body(void *arg, int fd)
{
	const struct body_parts *body = arg;
	char uuid[37], *profile, *text = NULL;
	json_t *json = NULL;
	int err = make_uuid(uuid);

	if (err)
		return err;
	profile = xp_base64(body->profile, body->profile_bytes);
	if (profile)
		json = body_of(body, profile, uuid);
	if (json)
		text = json_dumps(json, JSON_COMPACT);
	err = text ? xp_write_all(fd, text, strlen(text)) : -ENOMEM;
	json_decref(json);
	free(profile);
	free(text);
	return err;
}

/* ---- recordings ---- */

struct service {
	const char *name; /* from the model, which has one copy of each text */
	uint64_t weight;
	bool is_other;
};

struct packing {
	const struct xp_push_config *config;
	int queue_fd;
	uint64_t *unstored;
	int unstored_why;
	unsigned int number; /* number of profiles so far */
	char host[XP_PUSH_VALUE_BYTES_MAX + 1];
	struct xp_model *model;
	struct service *services; /* by name */
	size_t service_count;
	const char **names;		 /* service of each process */
	struct xp_model_sample *samples; /* sorted by service and stack */
	size_t sample_count;
};

/* ---- services ---- */

static int by_name(const void *a, const void *b)
{
	return xp_compare((uintptr_t)((const struct service *)a)->name, (uintptr_t)((const struct service *)b)->name);
}

static int by_weight(const void *a, const void *b)
{
	return xp_compare(((const struct service *)b)->weight, ((const struct service *)a)->weight);
}

static int name_services(struct packing *packing)
{
	struct xp_model *model = packing->model;
	const char *given = xp_push_config_label(packing->config, "service_name");
	char name[XP_PUSH_VALUE_BYTES_MAX + 1];

	packing->names = calloc(model->process_count + 1, sizeof(*packing->names));
	packing->services = calloc(model->process_count + 1, sizeof(*packing->services));
	if (!packing->names || !packing->services)
		return -ENOMEM;
	for (size_t i = 0; i < model->process_count; i++) {
		if (given)
			xp_push_label_value(name, given);
		else
			xp_push_service(name, model->processes[i].cgroup, model->processes[i].name);
		packing->names[i] = xp_model_text(model, name);
		if (!packing->names[i])
			return -ENOMEM;
		packing->services[i].name = packing->names[i];
	}
	qsort(packing->services, model->process_count, sizeof(*packing->services), by_name);
	for (size_t i = 0; i < model->process_count; i++)
		if (!i || packing->services[i].name != packing->services[i - 1].name)
			packing->services[packing->service_count++].name = packing->services[i].name;
	return 0;
}

static struct service *find_service(const struct packing *packing, const char *name)
{
	const struct service key = { .name = name };

	return bsearch(&key, packing->services, packing->service_count, sizeof(key), by_name);
}

static const char *name_of(const struct packing *packing, const struct xp_model_sample *sample)
{
	return packing->names[packing->model->threads[sample->thread].process];
}

/* Gives the services with the least time a common name. */
static int bound_services(struct packing *packing)
{
	const char *other = xp_model_text(packing->model, XP_PUSH_OTHER);

	if (packing->service_count <= XP_PUSH_SERVICES_MAX)
		return 0;
	if (!other)
		return -ENOMEM;
	for (size_t i = 0; i < packing->model->sample_count; i++) {
		const struct xp_model_sample *sample = &packing->model->samples[i];

		xp_add_capped(&find_service(packing, name_of(packing, sample))->weight, sample->values[1]);
	}
	qsort(packing->services, packing->service_count, sizeof(*packing->services), by_weight);
	for (size_t i = 0; i < packing->service_count; i++)
		packing->services[i].is_other = i >= XP_PUSH_SERVICES_MAX - 1;
	qsort(packing->services, packing->service_count, sizeof(*packing->services), by_name);
	for (size_t i = 0; i < packing->model->process_count; i++)
		if (find_service(packing, packing->names[i])->is_other)
			packing->names[i] = other;
	return 0;
}

/* ---- samples ---- */

static int by_service_and_stack(const void *a, const void *b, void *arg)
{
	const struct packing *packing = arg;
	const struct xp_model_sample *x = a, *y = b;

	return xp_compare((uintptr_t)name_of(packing, x), (uintptr_t)name_of(packing, y))
		   ?: xp_compare(x->stack, y->stack)
		   ?: xp_compare(x->state, y->state);
}

static int add_up(struct packing *packing)
{
	const struct xp_model *model = packing->model;
	struct xp_model_sample *samples = malloc((model->sample_count + 1) * sizeof(*samples)), *last = NULL;

	packing->samples = samples;
	if (!samples)
		return -ENOMEM;
	memcpy(samples, model->samples, model->sample_count * sizeof(*samples));
	qsort_r(samples, model->sample_count, sizeof(*samples), by_service_and_stack, packing);
	for (size_t i = 0; i < model->sample_count; i++) {
		if (!last || by_service_and_stack(last, &samples[i], packing)) {
			last = &samples[packing->sample_count++];
			*last = samples[i];
			continue;
		}
		xp_add_capped(&last->values[0], samples[i].values[0]);
		xp_add_capped(&last->values[1], samples[i].values[1]);
	}
	return 0;
}

/* ---- profiles ---- */

static int write_profile(struct packing *packing, const struct xp_model_sample *samples, size_t count)
{
	struct body_parts body = {
		.config = packing->config,
		.kind = packing->model->kind,
		.service = name_of(packing, samples),
		.host = packing->host,
	};
	char *profile = NULL;
	FILE *out = open_memstream(&profile, &body.profile_bytes);
	int err;

	if (!out)
		return -ENOMEM;
	err = xp_export_pprof_samples(out, packing->model, XP_MODEL_BY_NONE, samples, count);
	if (fclose(out) && !err)
		err = -ENOMEM;
	body.profile = profile;
	if (!err)
		err = xp_push_queue_put(packing->queue_fd, packing->config->engine, packing->number++ % 1000000,
					write_body, &body);
	free(profile);
	return err;
}

/* A profile that cannot be made or stored, for example because the disk is full, is dropped. */
static void put_profiles(struct packing *packing)
{
	for (size_t first = 0, end; first < packing->sample_count; first = end) {
		const struct xp_model_sample *samples = packing->samples;
		int err;

		for (end = first + 1; end < packing->sample_count && end - first < XP_PUSH_SAMPLES_MAX; end++)
			if (name_of(packing, &samples[end]) != name_of(packing, &samples[first]))
				break;
		err = write_profile(packing, &samples[first], end - first);
		*packing->unstored += !!err;
		packing->unstored_why = err ? err : packing->unstored_why;
	}
}

static int pack_model(struct packing *packing, struct xp_model *model)
{
	int err;

	packing->model = model;
	model->comment = NULL; /* the command line, which may contain secrets */
	err = name_services(packing) ?: bound_services(packing) ?: add_up(packing);
	if (!err)
		put_profiles(packing);
	free(packing->names);
	free(packing->services);
	free(packing->samples);
	packing->names = NULL;
	packing->services = NULL;
	packing->samples = NULL;
	packing->service_count = packing->sample_count = 0;
	return err;
}

/* ---- a recording ---- */

/* Waits are in the model of samples. */
static int pack_kind(struct packing *packing, struct xp_model_input *input, enum xp_model_kind kind)
{
	const struct xp_select all = { 0 };
	struct xp_model_source source = xp_model_input_source(input);
	struct xp_model model;
	int err;

	source.select = &all;
	err = xp_model_input_read(&model, input, &source, kind, XP_MODEL_KEEP_SUMS);
	if (!err && kind == XP_MODEL_SAMPLES)
		err = xp_model_join_kernel_threads(&model, input->facts);
	err = err ?: pack_model(packing, &model);
	if (!err && model.wait_count)
		err = xp_waits_as_samples(&model) ?: xp_model_input_bound(&model) ?: pack_model(packing, &model);
	xp_model_free(&model);
	return err;
}

static bool has_logs(const struct xp_recorded *recorded)
{
	for (size_t i = 0; i < recorded->process_count; i++)
		if (recorded->processes[i].log)
			return true;
	return false;
}

int xp_push_pack(const char *directory, int queue_fd, const struct xp_push_config *config, uint64_t *unstored)
{
	struct packing packing = { .config = config, .queue_fd = queue_fd, .unstored = unstored };
	struct xp_model_input input = { 0 };
	char host[256] = "";
	int err;

	gethostname(host, sizeof(host) - 1);
	xp_push_label_value(packing.host, *host ? host : "unknown");
	err = xp_model_input_open(&input, directory);
	if (!err && input.recorded.has_perf_data)
		err = pack_kind(&packing, &input, XP_MODEL_SAMPLES);
	if (!err && has_logs(&input.recorded))
		err = pack_kind(&packing, &input, XP_MODEL_CALLS);
	xp_model_input_close(&input);
	if (packing.unstored_why)
		xp_error("cannot queue profiles of %s: %s; they are dropped", directory,
			 strerror(-packing.unstored_why));
	if (err && err != -ENOENT)
		xp_error("cannot make the profiles of %s: %s", directory, strerror(-err));
	return err;
}
