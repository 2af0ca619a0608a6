// SPDX-License-Identifier: BSD-2-Clause
#include "record/recovered_flights.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_name.h"
#include "format/fdr_reader.h"
#include "format/manifest_reader.h"
#include "record/manifest_json.h"

#define SUFFIX ".fdr"
#define FLIGHT ".flight"
#define IDS_BYTES 32

#define ID_MAX (1u << 22) /* PID_MAX_LIMIT in include/linux/threads.h */

/* What the name of a log tells: NAME.PID[.IMAGE].flightNUMBER.fdr. */
struct log {
	char base[XP_FILE_BASE_BYTES];
	unsigned int number, pid, image;
	size_t comm_length; /* of base */
};

/* The manifest's members, by name, so that many files do not take quadratic time. */
struct place {
	json_t *processes, *files;
	json_t *by_base;  /* {name of the files: process} */
	json_t *by_ids;	  /* {"PID.IMAGE": process}: it may have changed its name */
	json_t *in_files; /* {name of a file: true} */
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

static bool parse_name(struct log *log, const char *name)
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
	*log = (struct log){ .number = (unsigned int)number, .image = 1 };
	memcpy(log->base, name, (size_t)(flight - name));
	strcpy(text, log->base);
	log->pid = cut_number(text);
	if (strcmp(end, SUFFIX) != 0 || !number || number > INT_MAX || !log->pid || !xp_file_is_base_name(log->base))
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

/* ---- the manifest ---- */

static int index_process(struct place *place, json_t *process)
{
	const char *comm = xp_manifest_string(process, "comm");
	uint64_t pid = xp_manifest_number(process, "pid"), image = xp_manifest_number(process, "image");
	char base[XP_FILE_BASE_BYTES], ids[IDS_BYTES];

	if (!comm || pid - 1 >= INT_MAX || image > INT_MAX)
		return 0;
	xp_file_base_name(base, sizeof(base), comm, (pid_t)pid, (unsigned int)image);
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

static json_t *add_process(struct place *place, const struct log *log)
{
	struct section section = begin();
	char comm[XP_FILE_BASE_BYTES];
	json_t *process;

	memcpy(comm, log->base, log->comm_length);
	comm[log->comm_length] = 0;
	put_number(&section, "pid", log->pid);
	put_number(&section, "image", log->image);
	put_text(&section, "comm", comm);
	put_bool(&section, "recovered", true);
	process = done(&section);
	return json_array_append_new(place->processes, process) || index_process(place, process) ? NULL : process;
}

static json_t *find_process(struct place *place, const struct log *log)
{
	json_t *process = json_object_get(place->by_base, log->base);
	char ids[IDS_BYTES];

	if (process)
		return process;
	snprintf(ids, sizeof(ids), "%u.%u", log->pid, log->image);
	process = json_object_get(place->by_ids, ids);
	return process ? process : add_process(place, log);
}

static int add_log(struct place *place, const struct log *log, const char *name, int64_t bytes)
{
	json_t *process = find_process(place, log), *flights;

	if (!process)
		return -ENOMEM;
	flights = json_object_get(process, "flights");
	if (!json_is_array(flights)) {
		flights = json_array();
		if (json_object_set_new(process, "flights", flights))
			return -ENOMEM;
	}
	if (json_array_append_new(flights,
				  json_pack("{s:o, s:i}", "log", text_value(name), "number", (int)log->number)) ||
	    json_array_append_new(place->files, json_pack("{s:o, s:s, s:I}", "name", text_value(name), "kind", "fdr",
							  "bytes", (json_int_t)bytes)))
		return -ENOMEM;
	return 0;
}

/* ---- the directory ---- */

bool xp_recovered_flights_is_log(const char *name)
{
	struct log log;

	return parse_name(&log, name);
}

static int is_flight(const struct dirent *entry)
{
	return xp_recovered_flights_is_log(entry->d_name);
}

int xp_recovered_flights_add(json_t *manifest, int dir_fd, size_t *added)
{
	struct dirent **entries = NULL;
	/* In the order of their numbers. */
	int count = scandirat(dir_fd, ".", &entries, is_flight, versionsort);
	struct place place;
	int err = count < 0 ? -errno : 0;

	*added = 0;
	if (err)
		return err;
	err = index_manifest(&place, manifest);
	for (int i = 0; i < count; i++) {
		const char *name = entries[i]->d_name;
		int64_t bytes = -ENOENT;
		struct log log;

		if (!err && *added < XP_RECOVERED_FLIGHTS_MAX && !json_object_get(place.in_files, name) &&
		    parse_name(&log, name))
			bytes = log_bytes(dir_fd, name);
		if (bytes >= 0) {
			err = add_log(&place, &log, name, bytes);
			*added += !err;
		}
		free(entries[i]);
	}
	free(entries);
	forget(&place);
	return err;
}
