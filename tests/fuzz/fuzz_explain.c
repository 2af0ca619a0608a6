// SPDX-License-Identifier: BSD-2-Clause
/*
 * Fuzzes the analysis of a recording with waits: `xprof explain`, the tables of `xprof report`, exports. The input has
 * two 16-bit numbers, the sizes of the manifest and of the log, a byte that selects the command, these two files, and
 * then perf.data.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "fuzz.h"

#include "base/util.h"
#include "explain/explain.h"
#include "export/export.h"
#include "model/part_list.h"
#include "report/report_json.h"
#include "report/report_print.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
#include "scratch.h"

static const uint64_t profile[] = { 0, 3, 0, 10000, 0, 0, 1, 0 };

static void write_file(int dir_fd, const char *name, const void *data, size_t size)
{
	int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL, 0600);

	CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	close(fd);
}

/* Without a slash, no path is absolute: files that the input names are not opened. */
static void write_part(int dir_fd, const char *name, const uint8_t **data, size_t *left, size_t size)
{
	uint8_t *copy;

	size = XP_MIN(size, *left);
	copy = malloc(size + 1);
	CHECK(copy);
	memcpy(copy, *data, size);
	for (size_t i = 0; i < size; i++)
		copy[i] = copy[i] == '/' ? '.' : copy[i];
	if (size)
		write_file(dir_fd, name, copy, size);
	free(copy);
	*data += size;
	*left -= size;
}

static void check_json(const char *text, size_t bytes)
{
	json_t *json = json_loadb(text, bytes, 0, NULL);

	CHECK(json);
	json_decref(json);
}

/* The string is printed on a terminal as it is. */
static void check_text(const char *text, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		CHECK((unsigned char)text[i] >= ' ' || text[i] == '\n');
}

static void explain(const char *directory, uint8_t how)
{
	static const char *const requests[] = { "shop:begin..end", "shop:queued..end/arg2" };
	const struct xp_explain_options options = {
		.functions = requests,
		.function_count = how & 128 ? XP_ARRAY_SIZE(requests) : 0,
		.are_requests = how & 128,
		.above_ns = how & 1 ? 1000000 : 0,
		.tail = how & 32 ? 0.1 : 0,
		.against = 0.5,
	};
	const struct xp_moment times[2] = { { XP_MOMENT_NONE, 0 }, { XP_MOMENT_NONE, 0 } };
	struct xp_part_list parts = { 0 };
	struct xp_explanation explanation;
	size_t bytes;
	char *text;
	FILE *out;

	CHECK(!xp_part_list_make(&parts, directory, times, 0));
	for (int is_json = 0; is_json < 2; is_json++) {
		int err = xp_explain(&explanation, &parts, &options);

		CHECK(!err || err == -ENODATA);
		out = open_memstream(&text, &bytes);
		CHECK(out);
		if (!err && is_json)
			CHECK(!xp_explanation_write_json(out, &explanation));
		else if (!err)
			xp_explanation_print(out, &explanation, 80);
		fclose(out);
		if (!err && is_json)
			check_json(text, bytes);
		else
			check_text(text, bytes);
		free(text);
		xp_explanation_free(&explanation);
	}
	xp_part_list_free(&parts);
}

static void report(const char *directory, enum xp_model_group by)
{
	const struct xp_report_options options = { .by = by, .directory = directory };
	const struct xp_report_style style = { .columns = 100, .limit = 10 };
	struct xp_recorded recorded = { 0 };
	struct xp_report_tables tables;
	size_t bytes;
	char *text;
	FILE *out;
	bool broken;
	int err;

	CHECK(!xp_recorded_add(&recorded, directory));
	err = xp_report_make(&tables, &recorded, &options, &broken);
	CHECK(!err || err == -ENODATA);
	for (int is_json = 0; !err && is_json < 2; is_json++) {
		out = open_memstream(&text, &bytes);
		CHECK(out);
		if (is_json)
			xp_report_json(out, &tables, &recorded);
		else
			xp_report_print(out, &tables, &recorded, &style);
		fclose(out);
		if (is_json)
			check_json(text, bytes);
		else
			check_text(text, bytes);
		free(text);
	}
	xp_report_free(&tables);
	xp_recorded_free(&recorded);
}

static void export_one(const char *directory, unsigned int format, enum xp_model_kind kind)
{
	const struct xp_export_options options = {
		.formats = 1u << format,
		.kind = kind,
		.output = "/dev/null",
		.may_be_empty = true,
	};
	char *path = (char *)directory;
	struct xp_part_list parts = { .paths = &path,
				      .count = 1,
				      .times = { .to_ns = UINT64_MAX, .until_ns = UINT64_MAX } };
	int err = xp_export(&parts, &options);

	CHECK(!err || err == -ENODATA || err == -EBADMSG);
}

/* xprof prints many errors, which are discarded; the fuzzer's own errors use a stream that it opened before. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	stderr = fopen("/dev/null", "w");
	return stderr ? 0 : 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct scratch scratch;
	uint16_t sizes[2];
	uint8_t how;

	xp_log_level = XP_LOG_QUIET;
	if (size < sizeof(sizes) + 1)
		return 0;
	memcpy(sizes, data, sizeof(sizes));
	how = data[sizeof(sizes)];
	data += sizeof(sizes) + 1;
	size -= sizeof(sizes) + 1;
	scratch = scratch_make();
	write_file(scratch.fd, "server.7.prof", profile, sizeof(profile));
	write_part(scratch.fd, "manifest.json", &data, &size, sizes[0]);
	write_part(scratch.fd, "server.7.fdr", &data, &size, sizes[1]);
	write_part(scratch.fd, "perf.data", &data, &size, size);
	explain(scratch.path, how);
	report(scratch.path, (enum xp_model_group)(how % XP_MODEL_GROUPS));
	export_one(scratch.path, how / 2 % XP_EXPORT_FORMATS, how & 64 ? XP_MODEL_WAITS : XP_MODEL_SAMPLES);
	scratch_remove(&scratch);
	return 0;
}
