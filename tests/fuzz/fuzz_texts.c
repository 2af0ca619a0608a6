// SPDX-License-Identifier: BSD-2-Clause
/*
 * Fuzzes functions on strings that anybody can choose: cleaning for terminals and files, demangled and short names,
 * file names, globs, lists of CPUs. The first byte is the size of the buffer.
 */
#include <errno.h>
#include <string.h>

#include "fuzz.h"

#include "base/cpu.h"
#include "base/file_name.h"
#include "base/util.h"
#include "elf/demangle.h"
#include "sled/object.h"

/* Returns a buffer of exactly this size: the sanitizer detects writes beyond. */
static char *room_of(size_t size)
{
	char *room = malloc(size);

	CHECK(room);
	memset(room, 'x', size);
	return room;
}

/* Cleaned strings have no control characters, and cleaning them again changes nothing. */
static void check_clean(const char *text, size_t room)
{
	char *clean = room_of(room), *again = room_of(room);

	xp_clean_text(clean, room, text);
	CHECK(strnlen(clean, room) < room);
	for (const char *at = clean; *at; at++)
		CHECK((unsigned char)*at >= ' ' && *at != 0x7f);
	xp_clean_text(again, room, clean);
	CHECK(!strcmp(clean, again));
	free(clean);
	free(again);
}

static void check_names(const char *text, size_t room)
{
	char *demangled = xp_demangle(text), *name = room_of(room);

	CHECK(!demangled || strlen(demangled) <= XP_DEMANGLED_BYTES_MAX);
	xp_short_name(name, room, demangled ? demangled : text);
	CHECK(strnlen(name, room) < room);
	free(demangled);
	xp_file_base_name(name, room, text, 7, 2);
	CHECK(strnlen(name, room) < room && !strchr(name, '/') && name[0] != '.');
	free(name);
}

/* Each line is a pattern, the last line is the name. */
static void check_patterns(char *text)
{
	const char *patterns[16];
	size_t count = 0;
	char *line;

	while (count < XP_ARRAY_SIZE(patterns) && (line = strsep(&text, "\n")))
		patterns[count++] = line;
	/* A star is tried at each position of the name, once for each later star. */
	if (count > 1 && strlen(patterns[count - 1]) < 64) {
		struct xp_object object = { .path = (char *)patterns[count - 1], .is_main = true };
		struct xp_objects objects = { 0 };

		CHECK(!xp_objects_select(&objects, patterns, count - 1));
		xp_function_wanted(&objects, &object, &patterns[count - 1], 1);
		xp_objects_free(&objects);
	}
}

static void check_cpus(const char *text)
{
	bool cpus[8];
	int err = xp_cpu_list_parse(text, cpus, XP_ARRAY_SIZE(cpus));

	CHECK(!err || err == -EINVAL || err == -ERANGE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t room;
	char *text;

	if (!size)
		return -1;
	room = 1 + *data++;
	text = room_of(size--);
	memcpy(text, data, size);
	text[size] = 0;
	check_clean(text, room);
	check_clean(text, 3 * size + 1);
	check_names(text, room);
	check_cpus(text);
	check_patterns(text);
	free(text);
	return 0;
}
