// SPDX-License-Identifier: BSD-2-Clause
#include "record/recovered.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fcntl.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#define PATH "/opt/shop\x1b[m/app"

static char directory[] = "/tmp/xprof-recovered.XXXXXX";
static int dir_fd;

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
	return log;
}

static void take(struct xp_recovered_log *log, size_t cut)
{
	uint8_t note[sizeof(struct xp_spool_object) + sizeof(PATH) - 1] = { 0 };
	struct xp_spool_object object = { .first_id = 5, .functions = 7, .build_id_bytes = 2, .build_id = { 0xab, 1 } };

	memcpy(note, &object, sizeof(object));
	memcpy(note + sizeof(object), PATH, sizeof(PATH) - 1);
	assert_int_equal(xp_recovered_take_note(log, XP_SPOOL_NOTE_OBJECT, 0, 0, note, sizeof(note) - cut), 0);
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

static void test_new_manifest(void **state)
{
	struct xp_recovered recovered = { 0 };
	json_t *manifest, *process, *object;

	(void)state;
	take(add(&recovered, "app.7.3.fdr", "app", 7), 0);
	take(add(&recovered, "other.3.fdr", "other", 3), sizeof(PATH) - 1); /* no path: no object */
	assert_int_equal(xp_recovered_write(&recovered, dir_fd), 0);
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

/* The recording ended, but for want of room one of its logs was not made: the rest of its manifest stays. */
static void test_manifest_without_a_log(void **state)
{
	static const char before[] =
	    "{\"files\": [], \"duration_s\": 2.5, \"processes\": ["
	    "{\"pid\": 7, \"image\": 1, \"log\": \"app.7.fdr\"}, "
	    "{\"pid\": 7, \"image\": 2, \"error\": \"No space left on device\", \"objects\": [{\"path\": \"/a\"}]}]}";
	struct xp_recovered recovered = { 0 };
	json_t *manifest, *processes, *process;
	int fd = openat(dir_fd, "manifest.json", O_WRONLY | O_CREAT, 0600);

	(void)state;
	assert_int_equal(write(fd, before, sizeof(before) - 1), sizeof(before) - 1);
	close(fd);
	add(&recovered, "app.7.2.fdr", "app", 7);
	assert_int_equal(xp_recovered_write(&recovered, dir_fd), 0);
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

/* A spool that somebody made: its notes are long, and there are many. The limit is for all logs together. */
static void test_notes_without_end(void **state)
{
	const size_t longest = sizeof(struct xp_spool_object) + 4096;
	struct xp_recovered recovered = { 0 };
	uint8_t *note = calloc(1, longest + 1);
	struct xp_recovered_log *log = NULL;
	uint64_t notes = 0, bytes = 0;

	(void)state;
	assert_non_null(note);
	log = add(&recovered, "app.1.fdr", "app", 1);
	memset(note + sizeof(struct xp_spool_object), 'a', 4097);
	assert_int_equal(xp_recovered_take_note(log, XP_SPOOL_NOTE_OBJECT, 0, 0, note, longest + 1), 0);
	assert_int_equal(log->object_count, 0);
	/* The path ends before the note. */
	note[sizeof(struct xp_spool_object) + 3] = 0;
	assert_int_equal(xp_recovered_take_note(log, XP_SPOOL_NOTE_OBJECT, 0, 0, note, longest), 0);
	assert_int_equal(log->object_count, 1);
	assert_string_equal(log->objects[0]->path, "aaa");
	assert_int_equal(recovered.object_bytes, sizeof(struct xp_spool_object) + 4);
	xp_recovered_drop(&recovered);
	assert_int_equal(recovered.object_bytes, 0);
	note[sizeof(struct xp_spool_object) + 3] = 'a';
	for (int i = 0; i < 3; i++) {
		log = add(&recovered, "app.1.fdr", "app", 1);
		for (int j = 0; j < 10000; j++)
			assert_int_equal(xp_recovered_take_note(log, XP_SPOOL_NOTE_OBJECT, 0, 0, note, longest), 0);
		notes += log->object_count;
	}
	bytes = notes * (longest + 1);
	assert_true(bytes <= XP_RECOVERED_OBJECT_BYTES_MAX && bytes > XP_RECOVERED_OBJECT_BYTES_MAX - 2 * longest);
	xp_recovered_free(&recovered);
	free(note);
}

static void test_nothing_recovered(void **state)
{
	const struct xp_recovered none = { 0 };

	(void)state;
	assert_int_equal(xp_recovered_write(&none, dir_fd), 0);
	assert_int_equal(faccessat(dir_fd, "manifest.json", F_OK, 0), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_new_manifest, make_directory, remove_directory),
		cmocka_unit_test_setup_teardown(test_manifest_without_a_log, make_directory, remove_directory),
		cmocka_unit_test_setup_teardown(test_notes_without_end, make_directory, remove_directory),
		cmocka_unit_test_setup_teardown(test_nothing_recovered, make_directory, remove_directory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
