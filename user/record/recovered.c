// SPDX-License-Identifier: BSD-2-Clause
#include "record/recovered.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/file_name.h"
#include "format/fdr_reader.h"
#include "format/manifest_reader.h"
#include "record/manifest.h"
#include "record/manifest_json.h"

#define OBJECTS_MAX 65536 /* maximum number of objects in a log */
#define IMAGES_MAX 4096
#define FLIGHTS_MAX 65536 /* further ones are not named: anybody may have made the directory's files */
#define FLIGHT ".flight"
#define IDS_BYTES 32
#define ID_MAX (1u << 22) /* PID_MAX_LIMIT in include/linux/threads.h */
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

/* ---- names ---- */

/* What the name of a log tells: NAME.PID[.IMAGE].flightNUMBER.fdr. */
struct flight_name {
	char base[XP_FILE_BASE_BYTES];
	unsigned int number, pid, image;
	size_t comm_length; /* of base */
};

/*
 * Cuts the number of a process or an image off, and the dot before it. Returns 0 if the text does not end in one above
 * 0.
 */
static unsigned int cut_number(char *text)
{
	char *dot = strrchr(text, '.'), *end;
	unsigned long number;

	if (!dot || dot == text || !isdigit((unsigned char)dot[1]))
		return 0;
	number = strtoul(dot + 1, &end, 10);
	if (*end || number > ID_MAX)
		return 0;
	*dot = 0;
	return (unsigned int)number;
}

static bool parse_name(struct flight_name *log, const char *name)
{
	const char *flight = strstr(name, FLIGHT), *next;
	char text[XP_FILE_BASE_BYTES];
	unsigned long number;
	unsigned int before;
	char *end;

	while (flight && (next = strstr(flight + 1, FLIGHT)))
		flight = next;
	if (!flight || (size_t)(flight - name) >= sizeof(log->base) || !isdigit((unsigned char)flight[strlen(FLIGHT)]))
		return false;
	number = strtoul(flight + strlen(FLIGHT), &end, 10);
	*log = (struct flight_name){ .number = (unsigned int)number, .image = 1 };
	memcpy(log->base, name, (size_t)(flight - name));
	strcpy(text, log->base);
	log->pid = cut_number(text);
	if (strcmp(end, XP_LOG_SUFFIX) != 0 || !number || number > INT_MAX || !log->pid ||
	    !xp_file_is_base_name(log->base))
		return false;
	log->comm_length = strlen(text);
	/* The name of a program may end in a number, too ("python3.11"). That of an image is low. */
	before = log->pid > 1 ? cut_number(text) : 0;
	if (before > log->pid) {
		log->image = log->pid;
		log->pid = before;
		log->comm_length = strlen(text);
	}
	return true;
}

static bool is_flight_name(const char *name)
{
	struct flight_name flight;

	return parse_name(&flight, name);
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

/* Returns the number of the process's program, from the name of the log. */
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

/* The manifest's members, by name, so that many files do not take quadratic time. */
struct place {
	json_t *processes, *files;
	json_t *by_base;  /* {name of the files: process} */
	json_t *by_ids;	  /* {"PID.IMAGE": process}: it may have changed its name */
	json_t *in_files; /* {name of a file: true} */
};

static int index_process(struct place *place, json_t *process)
{
	const char *comm = xp_manifest_string(process, "comm");
	uint64_t pid = xp_manifest_number(process, "pid"), image = xp_manifest_number(process, "image");
	char base[XP_FILE_BASE_BYTES], ids[IDS_BYTES];

	if (pid - 1 >= INT_MAX || image > INT_MAX)
		return 0;
	xp_file_base_name(base, sizeof(base), comm ?: "", (pid_t)pid, (unsigned int)image);
	snprintf(ids, sizeof(ids), "%u.%u", (unsigned int)pid, (unsigned int)image);
	return json_object_set(place->by_base, base, process) || json_object_set(place->by_ids, ids, process) ? -ENOMEM
													      : 0;
}

static int index_manifest(struct place *place, json_t *manifest)
{
	int err = 0;

	*place = (struct place){
		.processes = json_object_get(manifest, "processes"),
		.files = json_object_get(manifest, "files"),
		.by_base = json_object(),
		.by_ids = json_object(),
		.in_files = json_object(),
	};
	if (!place->by_base || !place->by_ids || !place->in_files)
		return -ENOMEM;
	for (size_t i = 0; !err && i < json_array_size(place->files); i++) {
		const char *name = xp_manifest_string(json_array_get(place->files, i), "name");

		if (name && json_object_set_new(place->in_files, name, json_true()))
			err = -ENOMEM;
	}
	for (size_t i = 0; !err && i < json_array_size(place->processes); i++)
		err = index_process(place, json_array_get(place->processes, i));
	return err;
}

static void forget(struct place *place)
{
	json_decref(place->by_base);
	json_decref(place->by_ids);
	json_decref(place->in_files);
}

static json_t *find_process(const struct place *place, pid_t pid, unsigned int image)
{
	char ids[IDS_BYTES];

	snprintf(ids, sizeof(ids), "%u.%u", (unsigned int)pid, image);
	return json_object_get(place->by_ids, ids);
}

/* Takes ownership of the process. Returns it, or NULL if out of memory. */
static json_t *add_process(struct place *place, json_t *process)
{
	return json_array_append_new(place->processes, process) || index_process(place, process) ? NULL : process;
}

static int add_file(const struct place *place, const char *name, uint64_t bytes)
{
	return json_array_append_new(place->files, json_pack("{s:o, s:s, s:I}", "name", text_value(name), "kind", "fdr",
							     "bytes", (json_int_t)bytes));
}

/* ---- logs from spools ---- */

/* The process of this log, added, or completed if the manifest could not be. NULL: out of memory. */
static json_t *get_process(struct place *place, const struct xp_recovered_log *log)
{
	json_t *process = find_process(place, log->result.pid, image_of(log)), *known = process_value(log);
	int err;

	if (!process || json_object_get(process, "log"))
		return add_process(place, known);
	/* Of one of a flight recorder, only the names of its logs may have been known. */
	err = json_object_update_missing(process, known);
	json_decref(known);
	return err ? NULL : process;
}

static bool add_log(struct place *place, const struct xp_recovered_log *log)
{
	const struct xp_spool_result *result = &log->result;
	json_t *process;

	if (is_flight_name(result->final_name))
		return true;
	process = get_process(place, log);
	if (!process || !result->file_bytes)
		return process;
	json_object_del(process, "error");
	return !add_file(place, result->final_name, result->file_bytes) &&
	       !json_object_set_new(process, "log", text_value(result->final_name)) &&
	       !json_object_set_new(process, "records",
				    json_integer((json_int_t)(result->stats.functions + result->stats.events)));
}

/* ---- logs of flight recorders ---- */

/* Size of the file, or a negative errno: -EBADMSG if it is no FDR log. */
static int64_t log_bytes(int dir_fd, const char *name)
{
	int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	int64_t bytes = -EBADMSG;
	struct stat st;
	uint8_t head[64];
	ssize_t got;

	if (fd < 0)
		return -errno;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode)) {
		got = pread(fd, head, sizeof(head), 0);
		if (got > 0 && xp_fdr_probe(head, (uint64_t)got))
			bytes = st.st_size;
	}
	close(fd);
	return bytes;
}

static json_t *get_flight_process(struct place *place, const struct flight_name *flight)
{
	json_t *process = json_object_get(place->by_base, flight->base);
	struct section section;
	char comm[XP_FILE_BASE_BYTES];

	process = process ?: find_process(place, (pid_t)flight->pid, flight->image);
	if (process)
		return process;
	memcpy(comm, flight->base, flight->comm_length);
	comm[flight->comm_length] = 0;
	section = begin();
	put_number(&section, "pid", flight->pid);
	put_number(&section, "image", flight->image);
	put_text(&section, "comm", comm);
	put_bool(&section, "recovered", true);
	return add_process(place, done(&section));
}

static int add_flight(struct place *place, const struct flight_name *flight, const char *name, int64_t bytes)
{
	json_t *process = get_flight_process(place, flight), *flights;

	if (!process)
		return -ENOMEM;
	flights = json_object_get(process, "flights");
	if (!json_is_array(flights)) {
		flights = json_array();
		if (json_object_set_new(process, "flights", flights))
			return -ENOMEM;
	}
	return json_array_append_new(flights,
				     json_pack("{s:o, s:i}", "log", text_value(name), "number", (int)flight->number)) ||
		       add_file(place, name, (uint64_t)bytes)
		   ? -ENOMEM
		   : 0;
}

static int is_flight(const struct dirent *entry)
{
	return is_flight_name(entry->d_name);
}

/* Adds the logs of the directory that the manifest lacks, each to its process, which it may lack, too. */
static int add_flights(struct place *place, int dir_fd, size_t *added)
{
	struct dirent **entries = NULL;
	/* In the order of their numbers. */
	int count = scandirat(dir_fd, ".", &entries, is_flight, versionsort);
	int err = count < 0 ? -errno : 0;

	for (int i = 0; i < count; i++) {
		const char *name = entries[i]->d_name;
		int64_t bytes = -ENOENT;
		struct flight_name flight;

		if (!err && *added < FLIGHTS_MAX && !json_object_get(place->in_files, name) &&
		    parse_name(&flight, name))
			bytes = log_bytes(dir_fd, name);
		if (bytes >= 0) {
			err = add_flight(place, &flight, name, bytes);
			*added += !err;
		}
		free(entries[i]);
	}
	free(entries);
	return err;
}

/* ---- the manifest ---- */

/* Reads the manifest of a recording that ended without this log. NULL: there is none, or it must be replaced. */
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

/* Makes a manifest. The start of the recording is that of its first process, if a spool contains it. */
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

/* A recording that ended has named its logs, and of a newer xprof nothing is changed. */
static bool lacks_flights(const json_t *manifest)
{
	return json_is_true(json_object_get(manifest, "recovered")) &&
	       xp_manifest_number(manifest, "manifest_version") == XP_MANIFEST_VERSION;
}

int xp_recovered_write(const struct xp_recovered *recovered, int dir_fd, size_t *flights)
{
	json_t *manifest = load(dir_fd);
	struct place place;
	int err;

	*flights = 0;
	/* Without a log to add, an unreadable manifest stays. */
	if (!manifest && !recovered->count && !faccessat(dir_fd, XP_MANIFEST_NAME, F_OK, AT_SYMLINK_NOFOLLOW))
		return 0;
	if (!manifest)
		manifest = new_manifest(recovered);
	if (!manifest)
		return -ENOMEM;
	err = index_manifest(&place, manifest);
	for (size_t i = 0; !err && i < recovered->count; i++)
		err = add_log(&place, recovered->logs[i]) ? 0 : -ENOMEM;
	if (!err && lacks_flights(manifest))
		err = add_flights(&place, dir_fd, flights);
	forget(&place);
	if (!err && (recovered->count || *flights))
		err = xp_manifest_file_write(dir_fd, -1, manifest);
	json_decref(manifest);
	return err;
}
