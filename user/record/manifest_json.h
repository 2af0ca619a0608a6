/* SPDX-License-Identifier: BSD-2-Clause */
/* The values of manifest.json: objects and lists of them. */
#ifndef XPROF_RECORD_MANIFEST_JSON_H
#define XPROF_RECORD_MANIFEST_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/util.h"
#include "record/manifest_text.h"

#define NS_PER_S 1000000000ull

static inline json_t *number_value(uint64_t number)
{
	return json_integer((json_int_t)XP_MIN(number, (uint64_t)INT64_MAX));
}

/*
 * An object under construction. Every step can only fail if out of memory. The first failure is kept, and done() then
 * returns NULL, which in turn makes the enclosing object fail.
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
	put(section, key, xp_manifest_text(text));
}

static inline void put_number(struct section *section, const char *key, uint64_t number)
{
	put(section, key, number_value(number));
}

static inline void put_bool(struct section *section, const char *key, bool value)
{
	put(section, key, json_boolean(value));
}

/* Makes a list of count values; item() gets the index. */
static inline json_t *list(size_t count, json_t *(*item)(const void *arg, size_t index), const void *arg)
{
	json_t *array = json_array();

	for (size_t i = 0; i < count; i++)
		if (json_array_append_new(array, item(arg, i))) {
			json_decref(array);
			return NULL;
		}
	return array;
}

#endif
