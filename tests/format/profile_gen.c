/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Samples in, profile and the files beside it out: profile_gen DIR NAME PERIOD_US, with a description on standard
 * input, tabs between its fields, numbers hexadecimal: map START END OFFSET KIND INODE FILE PATH    a mapping, numbered
 * from 0; KIND: enum xp_file_kind's number; FILE: what is behind it, opened as through /proc/PID/map_files; - for
 * nothing sample COUNT FRAME...                        frames, the leaf first: MAPPING:ADDRESS, or ADDRESS of none,
 * with ! behind it when it was interrupted; COUNT is decimal A file may be removed when a line "ready" has been written
 * to standard output, before its standard input ends.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "profile/profile.h"
#include "profile/sym_files.h"
#include "target/address_space.h"

#define MAPS_MAX 64
#define FRAMES_MAX 64

static struct xp_files files;
static struct xp_vma maps[MAPS_MAX];
static size_t map_count;

static uint64_t hex(char **rest)
{
	char *field = strsep(rest, "\t");

	return field ? strtoull(field, NULL, 16) : 0;
}

static int add_map(struct xp_sym_files *sym, char *rest)
{
	struct xp_vma *vma = &maps[map_count++];
	struct xp_file file = { 0 };
	const char *behind;
	int fd, err;

	vma->start = hex(&rest);
	vma->end = hex(&rest);
	vma->file_offset = hex(&rest);
	file.kind = hex(&rest);
	file.inode = hex(&rest);
	behind = strsep(&rest, "\t");
	file.path = rest;
	vma->file = xp_files_intern(&files, &file);
	if (!vma->file || !xp_sym_files_wants(sym, vma->file) || !strcmp(behind, "-"))
		return vma->file ? 0 : -1;
	fd = open(behind, O_RDONLY);
	err = xp_sym_files_keep(sym, fd, vma->file);
	close(fd);
	return err;
}

static int add_sample(struct xp_profile *profile, char *rest)
{
	struct xp_frame frames[FRAMES_MAX] = { 0 };
	char *field = strsep(&rest, "\t"), *colon;
	uint64_t times = strtoull(field, NULL, 10);
	size_t count = 0;
	int err = 0;

	while ((field = strsep(&rest, "\t")) && count < FRAMES_MAX) {
		struct xp_frame *frame = &frames[count++];

		frame->interrupted = strchr(field, '!');
		colon = strchr(field, ':');
		if (colon)
			frame->vma = &maps[strtoul(field, NULL, 16) % MAPS_MAX];
		frame->address = strtoull(colon ? colon + 1 : field, NULL, 16);
	}
	while (times-- && !err)
		err = xp_profile_add(profile, frames, count, NULL);
	return err;
}

static int read_all(struct xp_sym_files *sym, struct xp_profile *profile)
{
	char *line = NULL, *rest, *word;
	size_t room = 0;
	int err = 0;

	while (!err && getline(&line, &room, stdin) > 0) {
		line[strcspn(line, "\n")] = 0;
		rest = line;
		word = strsep(&rest, "\t");
		if (!strcmp(word, "map") && map_count < MAPS_MAX)
			err = add_map(sym, rest);
		else if (!strcmp(word, "sample"))
			err = add_sample(profile, rest);
		else if (!strcmp(word, "ready"))
			err = puts("ready") < 0 || fflush(stdout);
		else
			err = -1;
	}
	free(line);
	return err;
}

/* From /proc/kallsyms: the last function before each address, and the next. */
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

static int write_all(struct xp_sym_files *sym, struct xp_profile *profile, int dir_fd, char **argv)
{
	const struct xp_profile_files found = { xp_sym_files_find, sym };
	int err = xp_sym_files_add(sym, profile), fd;

	if (!err)
		err = xp_sym_files_write(sym, describe, NULL);
	fd = err ? -1 : openat(dir_fd, argv[2], O_WRONLY | O_CREAT | O_EXCL, 0644);
	if (fd < 0)
		return err ? err : -1;
	err = xp_profile_write(profile, fd, strtoull(argv[3], NULL, 10), &found);
	return close(fd) ? -1 : err;
}

int main(int argc, char **argv)
{
	struct xp_profile *profile = NULL;
	struct xp_sym_files *sym = NULL;
	int dir_fd = argc == 4 ? open(argv[1], O_RDONLY | O_DIRECTORY) : -1;
	int err;

	if (dir_fd < 0 || xp_sym_files_new(&sym, dir_fd) || xp_profile_new(&profile))
		return 2;
	err = read_all(sym, profile);
	if (!err)
		err = write_all(sym, profile, dir_fd, argv);
	xp_profile_free(profile);
	xp_sym_files_free(sym);
	xp_files_free(&files);
	close(dir_fd);
	return err ? 1 : 0;
}
