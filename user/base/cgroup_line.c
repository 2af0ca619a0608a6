// SPDX-License-Identifier: BSD-2-Clause
#include "base/cgroup_line.h"

#include <string.h>

bool xp_cgroup_line_parse(struct xp_cgroup_line *line, char *text)
{
	char *controllers = strchr(text, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;

	if (!path || path[1] != '/')
		return false;
	*controllers++ = 0;
	*path++ = 0;
	path[strcspn(path, "\n")] = 0;
	*line = (struct xp_cgroup_line){ .controllers = controllers, .path = path };
	return *controllers || !strcmp(text, "0");
}

bool xp_cgroup_list_has(const char *list, const char *word)
{
	size_t length = strlen(word);

	for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
		if (!strncmp(at, word, length) && (!at[length] || at[length] == ','))
			return true;
	return false;
}
