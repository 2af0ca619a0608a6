// SPDX-License-Identifier: BSD-2-Clause
#include "record/recovered.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fcntl.h>
#include <unistd.h>

#include "unit.h"

#include <jansson.h>

#define PATH "/opt/shop\x1b[m/app"

static char directory[] = "/tmp/xprof-recovered.XXXXXX";
static int dir_fd;
static size_t flights; /* exit status of the last manifest */

static int make_directory(void **state)
{
	(void)state;
	strcpy(strrchr(directory, '.'), ".XXXXXX");
	if (!mkdtemp(directory))
		return -1;
	dir_fd = open(directory, O_RDONLY | O_DIRECTORY);
	return dir_fd < 0;
}

static int remove_directory(void **state)
{
	(void)state;
	unlinkat(dir_fd, "manifest.json", 0);
	close(dir_fd);
	return rmdir(directory);
}

static struct xp_recovered_log *add(struct xp_recovered *recovered, const char *name, const char *comm, int pid)
{
	struct xp_recovered_log *log = xp_recovered_add(recovered);

	assert_non_null(log);
	snprintf(log->result.final_name, sizeof(log->result.final_name), "%s", name);
	snprintf(log->result.comm, sizeof(log->result.comm), "%s", comm);
	strcpy(log->result.exe, PATH);
	log->result.pid = pid;
	log->result.wall_ns = 1000000000ull * (uint64_t)pid;
	log->result.stats.functions = 20;
	log->result.file_bytes = 160;
	return log;
}

static void take(struct xp_recovered_log *log, size_t cut)
{
	uint8_t note[sizeof(struct xp_spool_object) + sizeof(PATH) - 1] = { 0 };
	struct xp_spool_object object = { .first_id = 5, .functions = 7, .build_id_bytes = 2, .build_id = { 0xab, 1 } };

	memcpy(note, &object, sizeof(object));
	memcpy(note + sizeof(object), PATH, sizeof(PATH) - 1);
	assert_int_equal(xp_recovered_take_note(log, note, sizeof(note) - cut), 0);
}

static json_t *load(void)
{
	char path[128];
	json_t *manifest;

	snprintf(path, sizeof(path), "%s/manifest.json", directory);
	manifest = json_load_file(path, 0, NULL);
	assert_non_null(manifest);
	return manifest;
}

static const char *text(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

TEST_WITH(test_new_manifest, make_directory, remove_directory)
{
	struct xp_recovered recovered = { 0 };
	json_t *manifest, *process, *object;

	take(add(&recovered, "app.7.3.fdr", "app", 7), 0);
	take(add(&recovered, "other.3.fdr", "other", 3), sizeof(PATH) - 1); /* no path: no object */
	assert_int_equal(xp_recovered_write(&recovered, dir_fd, &flights), 0);
	manifest = load();
	assert_true(json_is_true(json_object_get(manifest, "recovered")));
	assert_string_equal(text(manifest, "started"), "1970-01-01T00:00:03.000000000Z");
	assert_int_equal(json_array_size(json_object_get(manifest, "processes")), 2);
	process = json_array_get(json_object_get(manifest, "processes"), 0);
	assert_string_equal(text(process, "log"), "app.7.3.fdr");
	assert_int_equal(json_integer_value(json_object_get(process, "image")), 3);
	object = json_array_get(json_object_get(process, "objects"), 0);
	assert_string_equal(text(object, "path"), "/opt/shop?[m/app");
	assert_string_equal(text(object, "build_id"), "ab01");
	assert_int_equal(json_integer_value(json_object_get(object, "first_id")), 5);
	assert_int_equal(json_integer_value(json_object_get(object, "functions")), 7);
	process = json_array_get(json_object_get(manifest, "processes"), 1);
	assert_int_equal(json_array_size(json_object_get(process, "objects")), 0);
	json_decref(manifest);
	xp_recovered_free(&recovered);
}

/* The recording ended, but the disk had no space for one of its logs: the rest of its manifest stays. */
TEST_WITH(test_manifest_without_a_log, make_directory, remove_directory)
{
	static const char before[] =
	    "{\"files\": [], \"duration_s\": 2.5, \"processes\": ["
	    "{\"pid\": 7, \"image\": 1, \"log\": \"app.7.fdr\"}, "
	    "{\"pid\": 7, \"image\": 2, \"error\": \"No space left on device\", \"objects\": [{\"path\": \"/a\"}]}]}";
	struct xp_recovered recovered = { 0 };
	json_t *manifest, *processes, *process;
	int fd = openat(dir_fd, "manifest.json", O_WRONLY | O_CREAT, 0600);

	assert_int_equal(write(fd, before, sizeof(before) - 1), sizeof(before) - 1);
	close(fd);
	add(&recovered, "app.7.2.fdr", "app", 7);
	assert_int_equal(xp_recovered_write(&recovered, dir_fd, &flights), 0);
	manifest = load();
	assert_null(json_object_get(manifest, "recovered"));
	assert_true(json_real_value(json_object_get(manifest, "duration_s")) == 2.5);
	processes = json_object_get(manifest, "processes");
	assert_int_equal(json_array_size(processes), 2);
	process = json_array_get(processes, 1);
	assert_string_equal(text(process, "log"), "app.7.2.fdr");
	assert_true(json_is_true(json_object_get(process, "recovered")));
	assert_null(json_object_get(process, "error"));
	assert_string_equal(text(json_array_get(json_object_get(process, "objects"), 0), "path"), "/a");
	assert_int_equal(json_array_size(json_object_get(manifest, "files")), 1);
	json_decref(manifest);
	xp_recovered_free(&recovered);
}

/* A forged spool has many long notes. Their limit applies to all logs together. */
TEST_WITH(test_notes_without_end, make_directory, remove_directory)
{
	const size_t longest = sizeof(struct xp_spool_object) + 4096;
	struct xp_recovered recovered = { 0 };
	uint8_t *note = calloc(1, longest + 1);
	struct xp_recovered_log *log = NULL;
	uint64_t notes = 0, bytes = 0;

	assert_non_null(note);
	log = add(&recovered, "app.1.fdr", "app", 1);
	memset(note + sizeof(struct xp_spool_object), 'a', 4097);
	assert_int_equal(xp_recovered_take_note(log, note, longest + 1), 0);
	assert_int_equal(log->object_count, 0);
	/* The path ends before the note does. */
	note[sizeof(struct xp_spool_object) + 3] = 0;
	assert_int_equal(xp_recovered_take_note(log, note, longest), 0);
	assert_int_equal(log->object_count, 1);
	assert_string_equal(log->objects[0]->path, "aaa");
	assert_int_equal(recovered.object_bytes, sizeof(struct xp_spool_object) + 4);
	xp_recovered_drop(&recovered);
	assert_int_equal(recovered.object_bytes, 0);
	note[sizeof(struct xp_spool_object) + 3] = 'a';
	for (int i = 0; i < 3; i++) {
		log = add(&recovered, "app.1.fdr", "app", 1);
		for (int j = 0; j < 10000; j++)
			assert_int_equal(xp_recovered_take_note(log, note, longest), 0);
		notes += log->object_count;
	}
	bytes = notes * (longest + 1);
	assert_true(bytes <= XP_RECOVERED_OBJECT_BYTES_MAX && bytes > XP_RECOVERED_OBJECT_BYTES_MAX - 2 * longest);
	xp_recovered_free(&recovered);
	free(note);
}

/* name: of a file that is an FDR log, or only named like one. */
static void make_file(const char *name, bool is_log)
{
	static const uint8_t header[32] = { 1, 0, 1, 0 };
	int fd = openat(dir_fd, name, O_WRONLY | O_CREAT, 0600);

	assert_int_equal(write(fd, header, is_log ? sizeof(header) : 1), is_log ? sizeof(header) : 1);
	close(fd);
}

static const char *flight(const json_t *process, size_t index)
{
	return text(json_array_get(json_object_get(process, "flights"), index), "log");
}

static const char *const flight_names[] = {
	"app.7.flight10.fdr",	       "app.7.flight2.fdr",	  "old.7.flight1.fdr", "app.7.2.flight1.fdr",
	"py3.99999999.40.flight1.fdr", "py3.11.40.3.flight1.fdr", "app.8.flight1.fdr", "link.9.flight1.fdr",
};
static const char *const other_names[] = {
	"app.7.flight.fdr",
	"app.7.flight0.fdr",
	"app.flight1.fdr",
	"app.7.flight1.fdr.part",
	"app.7\xff.flight1.fdr",
	"a b.7.flight1.fdr",
	"app.7.flight99999999999.fdr",
};

static void remove_files(void)
{
	for (size_t i = 0; i < sizeof(flight_names) / sizeof(*flight_names); i++)
		unlinkat(dir_fd, flight_names[i], 0);
	for (size_t i = 0; i < sizeof(other_names) / sizeof(*other_names); i++)
		unlinkat(dir_fd, other_names[i], 0);
}

/*
 * Each log belongs to its process, even if the process changed its name or has no spool. A second recovery adds no log.
 */
TEST_WITH(test_flights, make_directory, remove_directory)
{
	static const struct {
		const char *comm;
		int pid, image;
		size_t flights;
	} expected[] = { { "app", 7, 1, 3 }, { "app", 7, 2, 1 }, { "py3.11", 40, 3, 1 }, { "py3.99999999", 40, 1, 1 } };
	struct xp_recovered recovered = { 0 };
	const struct xp_recovered none = { 0 };
	json_t *manifest, *processes;

	for (size_t i = 0; i < 6; i++)
		make_file(flight_names[i], true);
	make_file("app.8.flight1.fdr", false);
	assert_int_equal(symlinkat(flight_names[0], dir_fd, "link.9.flight1.fdr"), 0);
	for (size_t i = 0; i < sizeof(other_names) / sizeof(*other_names); i++)
		make_file(other_names[i], true);
	take(add(&recovered, "app.7.fdr", "app", 7), 0);
	assert_int_equal(xp_recovered_write(&recovered, dir_fd, &flights), 0);
	assert_int_equal(flights, 6);
	xp_recovered_free(&recovered);
	assert_int_equal(xp_recovered_write(&none, dir_fd, &flights), 0);
	assert_int_equal(flights, 0);
	manifest = load();
	assert_int_equal(json_array_size(json_object_get(manifest, "files")), 7);
	processes = json_object_get(manifest, "processes");
	assert_int_equal(json_array_size(processes), 4);
	for (size_t i = 0; i < 4; i++) {
		const json_t *process = json_array_get(processes, i);

		assert_string_equal(text(process, "comm"), expected[i].comm);
		assert_int_equal(json_integer_value(json_object_get(process, "pid")), expected[i].pid);
		assert_int_equal(json_integer_value(json_object_get(process, "image")), expected[i].image);
		assert_int_equal(json_array_size(json_object_get(process, "flights")), expected[i].flights);
	}
	assert_string_equal(flight(json_array_get(processes, 0), 0), "app.7.flight2.fdr");
	assert_string_equal(flight(json_array_get(processes, 0), 1), "app.7.flight10.fdr");
	assert_string_equal(flight(json_array_get(processes, 0), 2), "old.7.flight1.fdr");
	json_decref(manifest);
	remove_files();
}

/*
 * The spool of a flight recorder has the names of functions and no calls. The logs may have been named before the spool
 * could be recovered: recover adds its names.
 */
TEST_WITH(test_names_of_flights, make_directory, remove_directory)
{
	const struct xp_recovered none = { 0 };
	struct xp_recovered recovered = { 0 };
	struct xp_recovered_log *log;
	json_t *manifest, *process;

	make_file("app.7.flight2.fdr", true);
	assert_int_equal(xp_recovered_write(&none, dir_fd, &flights), 0);
	assert_int_equal(flights, 1);
	log = add(&recovered, "app.7.fdr", "app", 7);
	log->result.file_bytes = 0;
	take(log, 0);
	assert_int_equal(xp_recovered_write(&recovered, dir_fd, &flights), 0);
	assert_int_equal(flights, 0);
	manifest = load();
	assert_int_equal(json_array_size(json_object_get(manifest, "processes")), 1);
	process = json_array_get(json_object_get(manifest, "processes"), 0);
	assert_string_equal(text(process, "exe"), "/opt/shop?[m/app");
	assert_int_equal(json_array_size(json_object_get(process, "objects")), 1);
	assert_string_equal(flight(process, 0), "app.7.flight2.fdr");
	assert_null(json_object_get(process, "log"));
	assert_int_equal(json_array_size(json_object_get(manifest, "files")), 1);
	json_decref(manifest);
	xp_recovered_free(&recovered);
	remove_files();
}

/* The crash happened while a flight recorder wrote a log: the log is one of its logs. */
TEST_WITH(test_flight_that_was_cut_off, make_directory, remove_directory)
{
	struct xp_recovered recovered = { 0 };
	json_t *manifest, *process;

	make_file("app.7.flight2.fdr", true);
	add(&recovered, "app.7.flight2.fdr", "app", 7);
	take(add(&recovered, "app.7.fdr", "app", 7), 0);
	recovered.logs[1]->result.file_bytes = 0;
	assert_int_equal(xp_recovered_write(&recovered, dir_fd, &flights), 0);
	assert_int_equal(flights, 1);
	manifest = load();
	assert_int_equal(json_array_size(json_object_get(manifest, "processes")), 1);
	process = json_array_get(json_object_get(manifest, "processes"), 0);
	assert_string_equal(flight(process, 0), "app.7.flight2.fdr");
	assert_int_equal(json_array_size(json_object_get(process, "objects")), 1);
	assert_null(json_object_get(process, "log"));
	json_decref(manifest);
	xp_recovered_free(&recovered);
	remove_files();
}

/* A completed recording has named its logs, and an unreadable file may have been a manifest: both stay unchanged. */
TEST_WITH(test_flights_of_others, make_directory, remove_directory)
{
	static const char *const manifests[] = {
		"{\"manifest_version\": 1, \"files\": [], \"processes\": []}",
		"{\"manifest_version\": 2, \"recovered\": true, \"files\": [], \"processes\": []}",
		"{\"files\": [",
	};
	const struct xp_recovered none = { 0 };
	char path[128], found[128] = "";

	make_file("app.7.flight2.fdr", true);
	snprintf(path, sizeof(path), "%s/manifest.json", directory);
	for (size_t i = 0; i < 3; i++) {
		FILE *file = fopen(path, "w+");

		assert_non_null(file);
		assert_true(fputs(manifests[i], file) >= 0 && !fclose(file));
		assert_int_equal(xp_recovered_write(&none, dir_fd, &flights), 0);
		assert_int_equal(flights, 0);
		file = fopen(path, "r");
		assert_non_null(file);
		assert_non_null(fgets(found, sizeof(found), file));
		fclose(file);
		assert_string_equal(found, manifests[i]);
	}
	remove_files();
}

TEST_WITH(test_nothing_recovered, make_directory, remove_directory)
{
	const struct xp_recovered none = { 0 };

	assert_int_equal(xp_recovered_write(&none, dir_fd, &flights), 0);
	assert_int_equal(faccessat(dir_fd, "manifest.json", F_OK, 0), -1);
}
