/* SPDX-License-Identifier: BSD-2-Clause */
/* The values of manifest.json: objects, lists and texts. */
#ifndef XPROF_RECORD_MANIFEST_JSON_H
#define XPROF_RECORD_MANIFEST_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/util.h"

/* Maximum number of threads that are listed per process; further threads are only counted. */
#define XP_MANIFEST_THREADS_MAX 1000

static inline json_t *number_value(uint64_t number)
{
	return json_integer((json_int_t)XP_MIN(number, (uint64_t)INT64_MAX));
}

/* Targets choose many of the texts, so this cleans them (base/text.h). */
static inline json_t *text_value(const char *text)
{
	size_t size = strlen(text) + 1;
	char *clean = malloc(size);
	json_t *value;

	if (!clean)
		return NULL;
	xp_clean_text(clean, size, text);
	value = json_string(clean);
	free(clean);
	return value;
}

static inline json_t *hex_value(const uint8_t *bytes, size_t count)
{
	char text[2 * 64 + 1] = "";

	for (size_t i = 0; i < XP_MIN(count, (size_t)64); i++)
		snprintf(text + 2 * i, 3, "%02x", bytes[i]);
	return json_string(text);
}

/*
 * An object under construction. A step fails only if out of memory. The first failure is stored, and done() then
 * returns NULL, which makes the enclosing object fail, too.
 */
struct section {
	json_t *json;
	bool failed;
};

static inline struct section begin(void)
{
	return (struct section){ .json = json_object() };
}

static inline json_t *done(struct section *section)
{
	if (!section->failed)
		return section->json;
	json_decref(section->json);
	return NULL;
}

/* Takes ownership of value, which is NULL after a failure. */
static inline void put(struct section *section, const char *key, json_t *value)
{
	section->failed |= json_object_set_new(section->json, key, value) != 0;
}

static inline void put_text(struct section *section, const char *key, const char *text)
{
	put(section, key, text_value(text));
}

static inline void put_number(struct section *section, const char *key, uint64_t number)
{
	put(section, key, number_value(number));
}

static inline void put_bool(struct section *section, const char *key, bool value)
{
	put(section, key, json_boolean(value));
}

static inline void put_seconds(struct section *section, const char *key, double ns)
{
	put(section, key, json_real(ns / XP_NS_PER_S));
}

/* Appends a value to a list, and takes ownership of the value. After a failure, the list is NULL, and remains NULL. */
static inline void append(json_t **list, json_t *value)
{
	if (!json_array_append_new(*list, value))
		return;
	json_decref(*list);
	*list = NULL;
}

/* Makes a list of `count` values; item() gets the index. */
static inline json_t *list(size_t count, json_t *(*item)(const void *arg, size_t index), const void *arg)
{
	json_t *array = json_array();

	for (size_t i = 0; i < count; i++)
		append(&array, item(arg, i));
	return array;
}

#endif
