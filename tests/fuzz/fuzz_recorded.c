// SPDX-License-Identifier: BSD-2-Clause
/* Fuzzes the reader of manifest.json in `xprof report`. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fuzz.h"

#include "base/file_name.h"
#include "base/util.h"
#include "model/recorded.h"
#include "record/manifest.h"

#include "scratch.h"

static void write_file(int dir_fd, const char *name, const void *data, size_t size)
{
	int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL, 0600);

	CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	close(fd);
}

/* The starts of the files of the recording, as far as the reader checks them. */
static void write_files(int dir_fd)
{
	const uint64_t profile[] = { 0, 3, 0, 10000, 0, 0, 1, 0 };
	const uint8_t log[32] = { 1, 0, 1, 0, 3 };

	write_file(dir_fd, "program.7.prof", profile, sizeof(profile));
	write_file(dir_fd, "program.7.fdr", log, sizeof(log));
	write_file(dir_fd, "program.7.2.fdr", log, sizeof(log));
	write_file(dir_fd, "other.9.fdr", log, sizeof(log));
}

/* The string is printed on a terminal as it is. */
static void check_clean(const char *text)
{
	for (; *text; text++)
		CHECK((unsigned char)*text >= ' ' && *text != 0x7f);
}

static void check_process(const struct xp_recorded_process *process)
{
	CHECK(process->profile || process->log);
	check_clean(process->name);
	if (process->stacks)
		check_clean(process->stacks);
	for (size_t i = 0; i < process->object_count; i++) {
		const struct xp_recorded_object *object = &process->objects[i];

		CHECK(strlen(object->path) < SIZE_MAX && object->build_id_bytes <= sizeof(object->build_id));
	}
	for (size_t i = 0; i < process->taken_out_count; i++)
		CHECK(process->taken_out[i].id || process->taken_out[i].calls < UINT64_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct scratch scratch = scratch_make();
	struct xp_recorded recorded = { 0 };

	xp_log_level = XP_LOG_QUIET;
	write_files(scratch.fd);
	write_file(scratch.fd, XP_MANIFEST_NAME, data, size);
	CHECK(!xp_recorded_add(&recorded, scratch.path));
	CHECK(recorded.process_count >= 3 && recorded.process_count <= 4 && recorded.heading_count <= 1);
	for (size_t i = 0; i < recorded.process_count; i++)
		check_process(&recorded.processes[i]);
	for (size_t i = 0; i < recorded.heading_count; i++)
		check_clean(recorded.headings[i]);
	xp_recorded_free(&recorded);
	scratch_remove(&scratch);
	return 0;
}
