// SPDX-License-Identifier: BSD-2-Clause
/*
 * Writes profiles and their side files, from a description on standard input with tabs between the fields. Counts are
 * decimal, all other numbers hexadecimal.
 *
 *   gperf_gen profile OUT PERIOD_US
 *     chain COUNT PC...             a PC followed by ! was interrupted
 *     object START END OFFSET PATH [BIAS EXEC_VADDR EXEC_OFFSET]
 *   gperf_gen symbols OUT START END
 *     ADDRESS SIZE NAME
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "elf/symbol_file.h"
#include "format/gperf.h"

#define FIELDS_MAX 2000

static char *fields[FIELDS_MAX];
static size_t field_count;

static struct xp_gperf_record *records;
static size_t record_count;
static struct xp_gperf_object *objects;
static size_t object_count;
static struct xp_sym *syms;
static size_t sym_count;

static void *grown(void *array, size_t count, size_t item_bytes)
{
	array = realloc(array, (count + 1) * item_bytes);
	if (!array)
		exit(3);
	return array;
}

static uint64_t hex(size_t field)
{
	return field < field_count ? strtoull(fields[field], NULL, 16) : 0;
}

static int next_line(void)
{
	char *line = NULL, *rest;
	size_t room = 0;
	ssize_t length = getline(&line, &room, stdin);

	if (length <= 0)
		return 0;
	if (line[length - 1] == '\n')
		line[length - 1] = 0;
	rest = line; /* kept until the end: the fields point into it */
	for (field_count = 0; field_count < FIELDS_MAX && (fields[field_count] = strsep(&rest, "\t")); field_count++)
		;
	return 1;
}

/* '!' marks the address of a function that was interrupted. */
static void add_chain(void)
{
	uint64_t *pcs = calloc(XP_GPERF_CHAIN_MAX, sizeof(*pcs));
	uint32_t count = 0;

	if (!pcs)
		exit(3);
	for (size_t i = 2; i < field_count && count < XP_GPERF_CHAIN_MAX; i++) {
		uint64_t pc = xp_gperf_kernel_pc(hex(i));

		if (!pc && count)
			continue;
		pc += strchr(fields[i], '!') && count;
		pcs[count++] = pc ? pc : XP_GPERF_UNKNOWN_BASE;
	}
	records = grown(records, record_count, sizeof(*records));
	records[record_count++] = (struct xp_gperf_record){ strtoull(fields[1], NULL, 10), pcs, count };
}

static void add_object(void)
{
	objects = grown(objects, object_count, sizeof(*objects));
	objects[object_count++] = (struct xp_gperf_object){
		.start = xp_gperf_kernel_pc(hex(1)),
		.end = xp_gperf_kernel_pc(hex(2)),
		.offset = hex(3),
		.is_elf = field_count > 5,
		.bias = xp_gperf_kernel_pc(hex(5)),
		.exec_vaddr = hex(6),
		.exec_offset = hex(7),
		.path = fields[4],
	};
}

static void get_record(void *arg, size_t index, struct xp_gperf_record *record)
{
	(void)arg;
	*record = records[index];
}

static int write_profile(int fd, char **argv)
{
	struct xp_gperf_records source = { .get = get_record };

	while (next_line()) {
		if (!strcmp(fields[0], "chain") && field_count > 2)
			add_chain();
		else if (!strcmp(fields[0], "object") && field_count > 4)
			add_object();
		else
			return -EBADMSG;
	}
	source.count = record_count;
	return xp_gperf_write(fd, strtoull(argv[3], NULL, 10), &source, objects, object_count);
}

static int write_symbols(int fd, char **argv)
{
	while (next_line()) {
		if (field_count != 3)
			return -EBADMSG;
		syms = grown(syms, sym_count, sizeof(*syms));
		syms[sym_count++] = (struct xp_sym){ hex(0), hex(1), fields[2] };
	}
	return xp_symbol_file_write(fd, strtoull(argv[3], NULL, 16), strtoull(argv[4], NULL, 16), syms, sym_count);
}

int main(int argc, char **argv)
{
	int fd, err = -EINVAL;

	if (argc < 4)
		return 2;
	fd = open(argv[2], O_RDWR | O_CREAT | O_TRUNC, 0644);
	if (fd < 0) {
		perror(argv[2]);
		return 1;
	}
	if (!strcmp(argv[1], "profile"))
		err = write_profile(fd, argv);
	else if (!strcmp(argv[1], "symbols") && argc == 5)
		err = write_symbols(fd, argv);
	if (!err && close(fd))
		err = -errno;
	if (err)
		fprintf(stderr, "gperf_gen: %s: %s\n", argv[2], strerror(-err));
	return !!err;
}
