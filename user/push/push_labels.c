// SPDX-License-Identifier: BSD-2-Clause
#include "push/push_labels.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/util.h"

#define ID_DIGITS 64
#define SHOWN_DIGITS 12

const char *xp_push_label_fault(const char *name, size_t name_bytes, const char *value)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
	char clean[XP_PUSH_VALUE_BYTES_MAX + 1];

	if (!name_bytes || strspn(name, letters) < name_bytes || (*name >= '0' && *name <= '9'))
		return "the name must have only letters, digits and '_', and not begin with a digit";
	if (name_bytes > XP_PUSH_NAME_BYTES_MAX)
		return "the name has more than 64 bytes";
	if (name_bytes >= 2 && !strncmp(name, "__", 2))
		return "names that begin with '__' are reserved";
	if (!*value)
		return "the value is empty";
	xp_push_label_value(clean, value);
	if (strlen(value) > XP_PUSH_VALUE_BYTES_MAX)
		return "the value has more than 128 bytes";
	return strcmp(clean, value) ? "the value has control characters, or is not UTF-8" : NULL;
}

void xp_push_label_value(char to[XP_PUSH_VALUE_BYTES_MAX + 1], const char *from)
{
	char cut[XP_PUSH_VALUE_BYTES_MAX + 1];

	snprintf(cut, sizeof(cut), "%.*s", (int)xp_text_fit(from, XP_PUSH_VALUE_BYTES_MAX), from);
	xp_clean_text(to, sizeof(cut), cut);
}

static bool ends_with(const char *text, size_t length, const char *suffix)
{
	size_t bytes = strlen(suffix);

	return length > bytes && !strncmp(text + length - bytes, suffix, bytes);
}

/*
 * Finds the ID of a container in a component of a path: 64 hexadecimal digits, alone (Docker, Kubernetes with cgroupfs)
 * or after a '-' and before ".scope" (docker-ID.scope, cri-containerd-ID.scope, libpod-ID.scope).
 */
static const char *container_id(const char *component, size_t length)
{
	static const char digits[] = "0123456789abcdef";
	const char *id;

	if (ends_with(component, length, ".scope"))
		length -= strlen(".scope");
	if (length < ID_DIGITS)
		return NULL;
	id = component + length - ID_DIGITS;
	return strspn(id, digits) >= ID_DIGITS && (id == component || id[-1] == '-') ? id : NULL;
}

/* The service manager of a user, which runs the user's sessions. */
static bool is_manager(const char *component)
{
	return !strncmp(component, "user@", 5);
}

void xp_push_service(char to[XP_PUSH_VALUE_BYTES_MAX + 1], const char *cgroup, const char *comm)
{
	const char *end = cgroup ? cgroup + strlen(cgroup) : NULL;

	while (end && end > cgroup) {
		const char *slash = memrchr(cgroup, '/', (size_t)(end - cgroup)), *at = slash ? slash + 1 : cgroup;
		size_t length = (size_t)(end - at);
		const char *id = container_id(at, length);

		if (id) {
			snprintf(to, XP_PUSH_VALUE_BYTES_MAX + 1, "container-%.*s", SHOWN_DIGITS, id);
			return;
		}
		if (ends_with(at, length, ".scope"))
			break;
		if (ends_with(at, length, ".service") && length <= XP_PUSH_VALUE_BYTES_MAX && !is_manager(at)) {
			snprintf(to, XP_PUSH_VALUE_BYTES_MAX + 1, "%.*s", (int)length, at);
			xp_push_label_value(to, to);
			return;
		}
		end = slash;
	}
	xp_push_label_value(to, comm && *comm ? comm : "unknown");
}
