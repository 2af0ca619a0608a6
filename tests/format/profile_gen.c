/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Samples in, a recording and its profile out: profile_gen DIR PERIOD_NS, with a description on standard input, tabs
 * between its fields, numbers hexadecimal:
 *
 * map START END OFFSET KIND INODE FILE PATH	a mapping, numbered from 0; KIND: enum xp_file_kind's number; FILE: the
 *						mapped file, opened as through /proc/PID/map_files; - for none
 * sample COUNT FRAME...			frames, the leaf first: MAPPING:ADDRESS, or ADDRESS of none; COUNT is
 *decimal
 *
 * A file may be removed when a line "ready" has been written to standard output, before its standard input ends. The
 * profile is that of process 1, "test".
 */
#include <fcntl.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/util.h"
#include "export/profiles.h"
#include "format/perfdata.h"
#include "store/sym_files.h"
#include "target/address_space.h"

#define MAPS_MAX 64
#define FRAMES_MAX 64
#define PID 1

static struct xp_files files;
static const struct xp_file *maps[MAPS_MAX];
static size_t map_count;
static uint64_t now = 1, samples;
static struct xp_perfdata *perfdata;
static struct xp_sym_files *sym;

static uint64_t hex(char **rest)
{
	char *field = strsep(rest, "\t");

	return field ? strtoull(field, NULL, 16) : 0;
}

static int add_map(char *rest)
{
	struct xp_perfdata_map map = { .pid = PID, .tid = PID };
	struct xp_file file = { 0 };
	const char *behind;
	int fd, err;

	map.start = hex(&rest);
	map.bytes = hex(&rest) - map.start;
	map.file_offset = hex(&rest);
	file.kind = hex(&rest);
	map.inode = file.inode = hex(&rest);
	behind = strsep(&rest, "\t");
	map.path = file.path = rest;
	maps[map_count] = xp_files_intern(&files, &file);
	err = maps[map_count] ? xp_perfdata_map(perfdata, now++, &map) : -1;
	if (!err && xp_sym_files_wants(sym, maps[map_count])) {
		fd = open(behind, O_RDONLY);
		err = xp_sym_files_keep(sym, fd, maps[map_count]);
		close(fd);
	}
	if (file.kind == XP_FILE_VDSO)
		xp_sym_files_want_vdso(sym);
	map_count++;
	return err;
}

static int add_sample(char *rest)
{
	uint64_t addresses[FRAMES_MAX];
	struct xp_perfdata_sample sample = { .pid = PID, .tid = PID, .kernel = addresses };
	char *field = strsep(&rest, "\t"), *colon;
	uint64_t times = strtoull(field, NULL, 10);
	size_t count = 0;
	int err = 0;

	while ((field = strsep(&rest, "\t")) && count < FRAMES_MAX && !err) {
		colon = strchr(field, ':');
		addresses[count] = strtoull(colon ? colon + 1 : field, NULL, 16);
		if (sample.kernel_count == count && addresses[count] >> 63) {
			err = xp_sym_files_want_kernel(sym, addresses[count] - (count > 0));
			sample.kernel_count++;
		}
		count++;
	}
	sample.user = addresses + sample.kernel_count;
	sample.user_count = count - sample.kernel_count;
	samples += times;
	for (; times && !err; times--) {
		sample.tsc = now++;
		err = xp_perfdata_sample(perfdata, &sample);
	}
	return err;
}

static int read_all(void)
{
	char *line = NULL, *rest, *word;
	size_t room = 0;
	int err = 0;

	while (!err && getline(&line, &room, stdin) > 0) {
		line[strcspn(line, "\n")] = 0;
		rest = line;
		word = strsep(&rest, "\t");
		if (!strcmp(word, "map") && map_count < MAPS_MAX)
			err = add_map(rest);
		else if (!strcmp(word, "sample"))
			err = add_sample(rest);
		else if (!strcmp(word, "ready"))
			err = puts("ready") < 0 || fflush(stdout);
		else
			err = -1;
	}
	free(line);
	return err;
}

/* From /proc/kallsyms: the last function before each address, and the next function. */
static int describe(void *arg, const uint64_t *addresses, size_t count, char (*texts)[XP_KSYM_TEXT_BYTES])
{
	uint64_t starts[XP_KSYM_BATCH] = { 0 }, ends[XP_KSYM_BATCH] = { 0 }, start;
	FILE *table = fopen("/proc/kallsyms", "r");
	char line[512], name[XP_KSYM_TEXT_BYTES - 64], type;

	(void)arg;
	for (size_t i = 0; i < count; i++)
		texts[i][0] = 0;
	while (table && fgets(line, sizeof(line), table)) {
		if (sscanf(line, "%" SCNx64 " %c %191s", &start, &type, name) != 3 || !strchr("tTwW", type))
			continue;
		for (size_t i = 0; i < count; i++) {
			if (start <= addresses[i] && start > starts[i]) {
				starts[i] = start;
				snprintf(texts[i], XP_KSYM_TEXT_BYTES, "%s", name);
			} else if (start > addresses[i] && (!ends[i] || start < ends[i])) {
				ends[i] = start;
			}
		}
	}
	for (size_t i = 0; i < count; i++)
		snprintf(texts[i] + strlen(texts[i]), 64, "+0x%" PRIx64 "/0x%" PRIx64, addresses[i] - starts[i],
			 ends[i] - starts[i]);
	if (table)
		fclose(table);
	return 0;
}

static json_t *binaries(void)
{
	json_t *list = json_array();

	for (size_t i = 0; i < xp_sym_files_count(sym); i++) {
		const struct xp_sym_binary *binary = xp_sym_files_get(sym, i);
		json_t *entry = json_pack("{s:s, s:I, s:s}", "path", binary->path, "inode",
					  (json_int_t)binary->identity.inode, "names", xp_sym_binary_name(binary));

		if (binary->copied.has_code) {
			json_object_set_new(entry, "exec_vaddr", json_integer((json_int_t)binary->copied.exec_vaddr));
			json_object_set_new(entry, "exec_offset", json_integer((json_int_t)binary->copied.exec_offset));
		}
		json_array_append_new(list, entry);
	}
	return list;
}

static json_t *symbols(void)
{
	json_t *kernel = json_array(), *all = json_pack("{s:o}", "kernel", kernel);

	for (unsigned int i = 0; i < XP_KERNEL_WINDOWS; i++)
		if (xp_sym_files_kernel(sym, i))
			json_array_append_new(kernel, json_pack("{s:I, s:s}", "offset",
								(json_int_t)(i * XP_KERNEL_WINDOW_BYTES), "names",
								xp_sym_files_kernel(sym, i)));
	if (xp_sym_files_vdso(sym))
		json_object_set_new(all, "vdso", json_string(xp_sym_files_vdso(sym)));
	return all;
}

static int write_manifest(int dir_fd, uint64_t period_ns)
{
	json_t *manifest =
	    json_pack("{s:i, s:{s:I, s:[{s:i, s:i, s:s, s:i, s:I}]}, s:o, s:o}", "version", 1, "samples", "period_ns",
		      (json_int_t)period_ns, "profiles", "pid", PID, "image", 1, "comm", "test", "since_tsc", 1,
		      "samples", (json_int_t)samples, "binaries", binaries(), "symbols", symbols());
	int fd = openat(dir_fd, "manifest.json", O_WRONLY | O_CREAT | O_EXCL, 0644);
	int err = !manifest || json_dumpfd(manifest, fd, 0);

	json_decref(manifest);
	return close(fd) || err;
}

static int write_all(int fd, int dir_fd, uint64_t period_ns)
{
	const struct xp_perfdata_features none = { 0 };
	struct xp_perfdata_options options = {
		.event_type = PERF_TYPE_SOFTWARE,
		.event_config = PERF_COUNT_SW_CPU_CLOCK,
		.period = period_ns,
	};

	return xp_perfdata_conversion(&options.conversion, 1000000000, 0, 0) ?:
	       xp_perfdata_new(&perfdata, fd, &options) ?:
	       xp_perfdata_comm(perfdata, now++, PID, PID, "test", true) ?:
	       read_all() ?:
	       xp_perfdata_finish(perfdata, &none) ?:
	       xp_sym_files_write(sym, describe, NULL) ?:
	       write_manifest(dir_fd, period_ns);
}

int main(int argc, char **argv)
{
	int dir_fd = argc == 3 ? open(argv[1], O_RDONLY | O_DIRECTORY) : -1;
	int fd = openat(dir_fd, "perf.data", O_RDWR | O_CREAT | O_EXCL, 0644), err;

	xp_log_level = XP_LOG_QUIET;
	if (fd < 0 || xp_sym_files_new(&sym, dir_fd, -1))
		return 2;
	err = write_all(fd, dir_fd, strtoull(argv[2], NULL, 10));
	xp_perfdata_free(perfdata);
	xp_sym_files_free(sym);
	xp_files_free(&files);
	close(fd);
	close(dir_fd);
	return err || xp_export_profiles(argv[1]);
}
