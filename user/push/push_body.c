// SPDX-License-Identifier: BSD-2-Clause
#include "push/push_body.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <jansson.h>

#include "base/util.h"
#include "push/base64.h"

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
static json_t *labels_of(const struct xp_push_body *body)
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

static json_t *body_of(const struct xp_push_body *body, const char *profile, const char *uuid)
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

int xp_push_body_write(const struct xp_push_body *body, int fd)
{
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
