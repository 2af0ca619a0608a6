/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/file_name.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static bool is_safe(char character)
{
	return isalnum((unsigned char)character) || (character && strchr("+-_.", character));
}

bool xp_file_is_base_name(const char *name)
{
	while (is_safe(*name))
		name++;
	return !*name;
}

void xp_file_base_name(char *name, size_t size, const char *comm, pid_t pid, unsigned int image)
{
	char safe[16];

	snprintf(safe, sizeof(safe), "%s", comm[0] ? comm : "unnamed");
	for (char *p = safe; *p; p++)
		if (!is_safe(*p))
			*p = '_';
	if (safe[0] == '.' || safe[0] == '-')
		safe[0] = '_';
	if (image <= 1)
		snprintf(name, size, "%s.%d", safe, pid);
	else
		snprintf(name, size, "%s.%d.%u", safe, pid, image);
}

bool xp_file_ends_with(const char *name, const char *suffix)
{
	size_t length = strlen(name), suffix_length = strlen(suffix);

	return length > suffix_length && strcmp(name + length - suffix_length, suffix) == 0;
}

bool xp_file_is_spool(const char *name)
{
	return xp_file_ends_with(name, XP_SPOOL_SUFFIX);
}

bool xp_file_is_part(const char *name, uint64_t *start_s)
{
	struct tm tm = { 0 };
	const char *end = strptime(name, XP_FILE_PART_FORMAT, &tm);
	char again[XP_FILE_PART_BYTES];

	if (!end || !strftime(again, sizeof(again), XP_FILE_PART_FORMAT, &tm) ||
	    strncmp(name, again, (size_t)(end - name)) || strlen(again) != (size_t)(end - name))
		return false;
	if (*end && (*end != '-' || strspn(end + 1, "0123456789") != 3 || end[4]))
		return false;
	*start_s = (uint64_t)timegm(&tm);
	return true;
}

bool xp_file_is_export(const char *name)
{
	return strcmp(name, XP_EXPORT_RECORDING ".html") == 0 ||
	       !strncmp(name, XP_EXPORT_SAMPLES ".", strlen(XP_EXPORT_SAMPLES ".")) ||
	       !strncmp(name, XP_EXPORT_CALLS ".", strlen(XP_EXPORT_CALLS ".")) ||
	       !strncmp(name, XP_EXPORT_WAITS ".", strlen(XP_EXPORT_WAITS "."));
}
