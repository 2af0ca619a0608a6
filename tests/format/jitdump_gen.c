// SPDX-License-Identifier: BSD-2-Clause
/*
 * Writes a jitdump, from a description on standard input with tabs between the fields; all numbers are hexadecimal.
 *
 *   jitdump_gen OUT PID
 *     load TIME INDEX ADDRESS NAME CODE          CODE: its bytes
 *     move TIME INDEX OLD_ADDRESS NEW_ADDRESS SIZE
 *     debug TIME ADDRESS [LINE_ADDRESS LINE FILE]...
 *     unwind TIME MAPPED EH_FRAME EH_FRAME_HDR
 *     close TIME
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "format/jitdump.h"

#define FIELDS_MAX 300

static char *fields[FIELDS_MAX];
static size_t field_count;

static uint64_t hex(size_t field)
{
	return strtoull(fields[field], NULL, 16);
}

/* Replaces hex digits by the bytes that they stand for. Returns the number of bytes. */
static size_t unhex(char *digits)
{
	size_t count = strlen(digits) / 2;

	for (size_t i = 0; i < count; i++) {
		char pair[] = { digits[2 * i], digits[2 * i + 1], 0 };

		digits[i] = strtoul(pair, NULL, 16);
	}
	return count;
}

static int next_line(void)
{
	static char *line;
	static size_t room;
	ssize_t length = getline(&line, &room, stdin);
	char *rest = line;

	if (length <= 0)
		return 0;
	if (line[length - 1] == '\n')
		line[length - 1] = 0;
	for (field_count = 0; field_count < FIELDS_MAX && (fields[field_count] = strsep(&rest, "\t")); field_count++)
		;
	return 1;
}

static int put_load(struct xp_jitdump *dump, uint32_t pid)
{
	struct xp_jitdump_load load = {
		.pid = pid,
		.tid = pid,
		.code_addr = hex(3),
		.code_size = unhex(fields[5]),
		.code_index = hex(2),
		.name = fields[4],
		.code = (const uint8_t *)fields[5],
	};

	return xp_jitdump_load(dump, hex(1), &load);
}

static int put_move(struct xp_jitdump *dump, uint32_t pid)
{
	struct xp_jitdump_move move = {
		.pid = pid,
		.tid = pid,
		.old_code_addr = hex(3),
		.new_code_addr = hex(4),
		.code_size = hex(5),
		.code_index = hex(2),
	};

	return xp_jitdump_move(dump, hex(1), &move);
}

static int put_debug(struct xp_jitdump *dump)
{
	struct xp_jitdump_line lines[FIELDS_MAX / 3];
	size_t count = 0;

	for (size_t i = 3; i + 2 < field_count; i += 3)
		lines[count++] = (struct xp_jitdump_line){ hex(i), hex(i + 1), 0, fields[i + 2] };
	return xp_jitdump_debug_info(dump, hex(1), hex(2), lines, count);
}

static int put(struct xp_jitdump *dump, uint32_t pid)
{
	if (!strcmp(fields[0], "load") && field_count == 6)
		return put_load(dump, pid);
	if (!strcmp(fields[0], "move") && field_count == 6)
		return put_move(dump, pid);
	if (!strcmp(fields[0], "debug") && field_count > 5)
		return put_debug(dump);
	if (!strcmp(fields[0], "close") && field_count == 2)
		return xp_jitdump_close(dump, hex(1));
	return -EBADMSG;
}

int main(int argc, char **argv)
{
	struct xp_jitdump_options options = { .arch_timestamp = true };
	struct xp_jitdump *dump;
	int fd, err;

	if (argc != 3)
		return 2;
	fd = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0644);
	if (fd < 0) {
		perror(argv[1]);
		return 1;
	}
	options.pid = strtoul(argv[2], NULL, 16);
	err = xp_jitdump_new(&dump, fd, &options);
	while (!err && next_line())
		err = put(dump, options.pid);
	if (!err)
		err = xp_jitdump_flush(dump);
	xp_jitdump_free(dump);
	if (!err && close(fd))
		err = -errno;
	if (err)
		fprintf(stderr, "jitdump_gen: %s: %s\n", argv[1], strerror(-err));
	return !!err;
}
