// SPDX-License-Identifier: BSD-2-Clause
#include "base/command_line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES (128 << 10)

static size_t read_text(char *text, size_t size)
{
	FILE *file = fopen("/proc/self/cmdline", "re");
	size_t used = file ? fread(text, 1, size - 1, file) : 0;

	if (file)
		fclose(file);
	text[used] = 0;
	return used;
}

char **xp_command_line_read(void)
{
	char *text = malloc(TEXT_BYTES);
	size_t used = text ? read_text(text, TEXT_BYTES) : 0, count = 0;
	char **argv = NULL;

	for (size_t i = 0; i < used; i++)
		count += !text[i];
	if (text)
		argv = malloc((count + 2) * sizeof(*argv) + used + 1);
	if (argv) {
		char *copy = memcpy(argv + count + 2, text, used + 1);

		count = 0;
		for (size_t i = 0; i < used; i += strlen(copy + i) + 1)
			argv[count++] = copy + i;
		argv[count] = NULL;
	}
	free(text);
	return argv;
}
