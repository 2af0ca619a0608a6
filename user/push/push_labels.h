/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Labels of profiles. Their names are those of Prometheus, [a-zA-Z_][a-zA-Z0-9_]*; the engines reserve names that begin
 * with "__". Their values are UTF-8.
 */
#ifndef XPROF_PUSH_PUSH_LABELS_H
#define XPROF_PUSH_PUSH_LABELS_H

#include <stddef.h>

#define XP_PUSH_NAME_BYTES_MAX 64
#define XP_PUSH_VALUE_BYTES_MAX 128

/* Returns why a label of the user is refused, or NULL. */
const char *xp_push_label_fault(const char *name, size_t name_bytes, const char *value);

/* Copies a value: control characters and bytes that are not UTF-8 become '?', and a long value is truncated. */
void xp_push_label_value(char to[XP_PUSH_VALUE_BYTES_MAX + 1], const char *from);

/*
 * Sets the service of a process: the innermost systemd service in the path of its cgroup (NULL: unknown), such as
 * "nginx.service"; or its container, "container-" and the 12 digits that `docker ps` shows; or its name. Sessions and
 * scopes, which differ at each login, do not count as services. The process chooses its name and can choose the rest.
 */
void xp_push_service(char to[XP_PUSH_VALUE_BYTES_MAX + 1], const char *cgroup, const char *comm);

#endif
