// SPDX-License-Identifier: BSD-2-Clause
#include "model/objects.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

const char *xp_object_base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

bool xp_report_is_sym_file(const char *path)
{
	const char *name = xp_object_base_name(path);
	size_t before = (size_t)(name - path);

	return (before == 4 || (before > 4 && name[-5] == '/')) && memcmp(name - 4, "sym/", 4) == 0;
}

/* Names in sym/ are LABEL.<number>.<token>.so. The label describes the file. */
static void cut_to_label(char *name)
{
	char *parts[3] = { NULL };

	for (int i = 0; i < 3; i++) {
		parts[i] = strrchr(name, '.');
		if (!parts[i])
			break;
		*parts[i] = 0;
	}
	if (parts[0] && strcmp(parts[0] + 1, "so") == 0 && parts[1] && parts[2] && parts[2] > name &&
	    strspn(parts[2] + 1, "0123456789") == strlen(parts[2] + 1))
		return;
	for (int i = 2; i >= 0; i--)
		if (parts[i])
			*parts[i] = '.';
}

const char *xp_object_display_name(struct xp_symbolizer *symbolizer, uint32_t file)
{
	const char *path = xp_symbolizer_real_path(symbolizer, file);
	char name[NAME_MAX + 1];

	snprintf(name, sizeof(name), "%.*s", NAME_MAX, xp_object_base_name(path));
	if (xp_report_is_sym_file(path))
		cut_to_label(name);
	return xp_symbolizer_text(symbolizer, name);
}
