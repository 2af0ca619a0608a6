// SPDX-License-Identifier: BSD-2-Clause
#include "format/spool_format.h"

#include <string.h>

#include "base/file_name.h"

bool xp_spool_name_valid(const char *name)
{
	return name && *name && strlen(name) <= XP_SPOOL_NAME_MAX && !strchr(name, '/') && strcmp(name, ".") &&
	       strcmp(name, "..");
}

static bool final_name_valid(const char *final_name, const char *name)
{
	const char *suffix = strrchr(name, '.');
	size_t stem;

	if (!xp_spool_name_valid(final_name) || !suffix || strcmp(suffix, XP_SPOOL_SUFFIX))
		return false;
	stem = (size_t)(suffix - name);
	return !strncmp(final_name, name, stem) && !strcmp(final_name + stem, XP_LOG_SUFFIX);
}

bool xp_spool_info_valid(const struct xp_log_info *info, const char *name)
{
	return final_name_valid(info->final_name, name) && info->cycle_hz &&
	       (info->fdr_version == 1 || info->fdr_version == 5);
}
