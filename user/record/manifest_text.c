// SPDX-License-Identifier: BSD-2-Clause
#include "record/manifest_text.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"

json_t *xp_manifest_text(const char *text)
{
	size_t size = strlen(text) + 1;
	char *clean = malloc(size);
	json_t *value;

	if (!clean)
		return NULL;
	xp_clean_text(clean, size, text);
	value = json_string(clean);
	free(clean);
	return value;
}
