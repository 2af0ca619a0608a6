// SPDX-License-Identifier: BSD-2-Clause
/* Writes a side ELF that numbers the functions of instrumented files consecutively: instr_map_gen OUT FILE... */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/why.h"
#include "elf/instr_map.h"
#include "elf/sled_table.h"

static const char **names;
static size_t count;

/* The table is kept until the end, because it owns the names. */
static int add_file(const char *path)
{
	struct xp_sled_table *table;
	int fd = open(path, O_RDONLY), err = fd < 0 ? -errno : xp_sled_table_open(&table, fd);

	if (err) {
		fprintf(stderr, "instr_map_gen: %s: %s\n", path, xp_why(err));
		return 1;
	}
	close(fd);
	names = realloc(names, (count + table->function_count) * sizeof(*names));
	if (!names)
		return 1;
	for (size_t i = 0; i < table->function_count; i++)
		names[count++] = table->functions[i].name;
	return 0;
}

int main(int argc, char **argv)
{
	int fd;

	if (argc < 3)
		return 2;
	for (int i = 2; i < argc; i++)
		if (add_file(argv[i]))
			return 1;
	fd = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC, 0644);
	if (fd < 0 || xp_instr_map_write(fd, names, NULL, count) || close(fd)) {
		perror(argv[1]);
		return 1;
	}
	return 0;
}
