// SPDX-License-Identifier: BSD-2-Clause
#include "record/recovered.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/file_name.h"
#include "format/manifest_reader.h"
#include "record/manifest.h"
#include "record/manifest_json.h"
#include "record/recovered_flights.h"

#define OBJECTS_MAX 65536 /* of a log */
#define IMAGES_MAX 4096
#define NOTICE                                                                                                         \
	"The recording was interrupted, and xprof recover made its logs from the data on disk. The numbers of seen, "  \
	"filtered and lost events are unknown, and up to a second of calls before the interruption is missing."

/* ---- the logs ---- */

struct xp_recovered_log *xp_recovered_add(struct xp_recovered *recovered)
{
	struct xp_recovered_log *log = calloc(1, sizeof(*log));

	if (log)
		log->all = recovered;
	if (log && XP_ARRAY_RESERVE(recovered->logs, recovered->room, recovered->count + 1)) {
		free(log);
		return NULL;
	}
	if (log)
		recovered->logs[recovered->count++] = log;
	return log;
}

static size_t object_bytes(const struct xp_spool_object *object)
{
	return sizeof(*object) + strlen(object->path) + 1;
}

void xp_recovered_drop(struct xp_recovered *recovered)
{
	struct xp_recovered_log *log = recovered->logs[--recovered->count];

	for (size_t i = 0; i < log->object_count; i++) {
		recovered->object_bytes -= object_bytes(log->objects[i]);
		free(log->objects[i]);
	}
	free(log->objects);
	free(log);
}

void xp_recovered_free(struct xp_recovered *recovered)
{
	while (recovered->count)
		xp_recovered_drop(recovered);
	free(recovered->logs);
	*recovered = (struct xp_recovered){ 0 };
}

int xp_recovered_take_note(void *arg, const uint8_t *bytes, size_t size)
{
	struct xp_recovered_log *log = arg;
	struct xp_spool_object *object;
	size_t length;

	if (size <= sizeof(*object) || size > sizeof(*object) + PATH_MAX)
		return 0;
	length = strnlen((const char *)bytes + sizeof(*object), size - sizeof(*object));
	size = sizeof(*object) + length + 1;
	if (log->object_count == OBJECTS_MAX || size > XP_RECOVERED_OBJECT_BYTES_MAX - log->all->object_bytes)
		return 0;
	if (XP_ARRAY_RESERVE(log->objects, log->object_room, log->object_count + 1))
		return -ENOMEM;
	object = malloc(size);
	if (!object)
		return -ENOMEM;
	memcpy(object, bytes, size - 1);
	((char *)object)[size - 1] = 0;
	log->all->object_bytes += size;
	object->build_id_bytes = XP_MIN(object->build_id_bytes, (uint32_t)sizeof(object->build_id));
	log->objects[log->object_count++] = object;
	return 0;
}

/* ---- JSON ---- */

static json_t *object_value(const struct xp_spool_object *object)
{
	struct section section = begin();

	put_text(&section, "path", object->path);
	if (object->build_id_bytes)
		put(&section, "build_id", hex_value(object->build_id, object->build_id_bytes));
	put_number(&section, "first_id", object->first_id);
	put_number(&section, "functions", object->functions);
	return done(&section);
}

static json_t *objects_value(const struct xp_recovered_log *log)
{
	json_t *objects = json_array();

	for (size_t i = 0; i < log->object_count; i++)
		append(&objects, object_value(log->objects[i]));
	return objects;
}

/* The number of the process's program, which the name of the log tells. */
static unsigned int image_of(const struct xp_recovered_log *log)
{
	char base[XP_FILE_BASE_BYTES];

	for (unsigned int image = 1; image < IMAGES_MAX; image++) {
		size_t length;

		xp_file_base_name(base, sizeof(base), log->result.comm, log->result.pid, image);
		length = strlen(base);
		if (!strncmp(log->result.final_name, base, length) &&
		    !strcmp(log->result.final_name + length, XP_LOG_SUFFIX))
			return image;
	}
	return 1;
}

static json_t *process_value(const struct xp_recovered_log *log)
{
	struct section section = begin();

	put_number(&section, "pid", log->result.pid);
	put_number(&section, "image", image_of(log));
	put_text(&section, "comm", log->result.comm);
	put_text(&section, "exe", log->result.exe);
	put(&section, "objects", objects_value(log));
	put_bool(&section, "recovered", true);
	return done(&section);
}

/* The process of this log in a manifest that could not be completed. */
static json_t *find_process(json_t *processes, const struct xp_recovered_log *log)
{
	unsigned int image = image_of(log);

	for (size_t i = 0; i < json_array_size(processes); i++) {
		json_t *process = json_array_get(processes, i);

		if (json_integer_value(json_object_get(process, "pid")) == log->result.pid &&
		    json_integer_value(json_object_get(process, "image")) == image && !json_object_get(process, "log"))
			return process;
	}
	return NULL;
}

/* The same, added or completed. NULL: out of memory. */
static json_t *get_process(json_t *processes, const struct xp_recovered_log *log)
{
	json_t *process = find_process(processes, log), *known = process_value(log);

	if (!process) {
		process = known;
		return json_array_append_new(processes, known) ? NULL : process;
	}
	/* Of one of a flight recorder, only the names of its logs may have been known. */
	if (!known || json_object_update_missing(process, known))
		process = NULL;
	json_decref(known);
	return process;
}

static bool add_log(json_t *manifest, const struct xp_recovered_log *log)
{
	json_t *process, *file;

	if (xp_recovered_flights_is_log(log->result.final_name))
		return true;
	process = get_process(json_object_get(manifest, "processes"), log);
	if (!process || !log->result.file_bytes)
		return process;
	file = json_pack("{s:o, s:s, s:I}", "name", text_value(log->result.final_name), "kind", "fdr", "bytes",
			 (json_int_t)log->result.file_bytes);
	json_object_del(process, "error");
	return !json_array_append_new(json_object_get(manifest, "files"), file) &&
	       !json_object_set_new(process, "log", text_value(log->result.final_name)) &&
	       !json_object_set_new(process, "records",
				    json_integer((json_int_t)(log->result.stats.functions + log->result.stats.events)));
}

/* ---- the manifest ---- */

/* The manifest of a recording that ended, but without this log. NULL: there is none; another one is replaced. */
static json_t *load(int dir_fd)
{
	json_t *manifest;

	xp_manifest_load(&manifest, dir_fd, XP_MANIFEST_NAME);
	if (manifest && json_is_array(json_object_get(manifest, "processes")) &&
	    json_is_array(json_object_get(manifest, "files")))
		return manifest;
	json_decref(manifest);
	return NULL;
}

/* Started with the first of its processes, if there is a spool that tells. */
static json_t *new_manifest(const struct xp_recovered *recovered)
{
	json_t *manifest =
	    json_pack("{s:i, s:s, s:b, s:[], s:[], s:[s]}", "manifest_version", XP_MANIFEST_VERSION, "xprof_version",
		      XPROF_VERSION, "recovered", 1, "processes", "files", "notices", NOTICE);
	uint64_t wall_ns = UINT64_MAX;
	char started[XP_ISO_TIME_BYTES];

	if (!recovered->count)
		return manifest;
	for (size_t i = 0; i < recovered->count; i++)
		wall_ns = XP_MIN(wall_ns, recovered->logs[i]->result.wall_ns);
	xp_iso_time(started, wall_ns);
	if (manifest && json_object_set_new(manifest, "started", json_string(started))) {
		json_decref(manifest);
		return NULL;
	}
	return manifest;
}

static int write_manifest(const json_t *manifest, int dir_fd)
{
	char *text = json_dumps(manifest, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
	int fd, err;

	if (!text)
		return -ENOMEM;
	fd = xp_manifest_reserve(dir_fd, 1);
	err = fd < 0 ? fd : xp_manifest_file_write(dir_fd, fd, text);
	free(text);
	return err;
}

/* A recording that ended has named its logs, and of a newer xprof nothing is changed. */
static bool lacks_flights(const json_t *manifest)
{
	return json_is_true(json_object_get(manifest, "recovered")) &&
	       xp_manifest_number(manifest, "manifest_version") == XP_MANIFEST_VERSION;
}

int xp_recovered_write(const struct xp_recovered *recovered, int dir_fd, size_t *flights)
{
	json_t *manifest = load(dir_fd);
	int err = 0;

	*flights = 0;
	/* Without a log to add, one that cannot be read stays. */
	if (!manifest && !recovered->count && !faccessat(dir_fd, XP_MANIFEST_NAME, F_OK, AT_SYMLINK_NOFOLLOW))
		return 0;
	if (!manifest)
		manifest = new_manifest(recovered);
	if (!manifest)
		return -ENOMEM;
	for (size_t i = 0; !err && i < recovered->count; i++)
		err = add_log(manifest, recovered->logs[i]) ? 0 : -ENOMEM;
	if (!err && lacks_flights(manifest))
		err = xp_recovered_flights_add(manifest, dir_fd, flights);
	if (!err && (recovered->count || *flights))
		err = write_manifest(manifest, dir_fd);
	json_decref(manifest);
	return err;
}
