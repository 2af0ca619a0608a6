/* SPDX-License-Identifier: BSD-2-Clause */
/* The names of the functions of one FDR log, from where the report has them: see objects.h. */
#ifndef XPROF_CHECK_LOG_NAMES_H
#define XPROF_CHECK_LOG_NAMES_H

#include <stdint.h>

struct xp_log_names;

/*
 * Finds the names of the log with this path. instr_map: a file that has them all, or NULL. Returns 0 or -errno: -ENOENT
 * if it is not a log that can be read (already reported), -ENOEXEC if instr_map has no functions, -ENOMEM.
 */
int xp_log_names_new(struct xp_log_names **names, const char *path, const char *instr_map);
void xp_log_names_free(struct xp_log_names *names);

/* Clean, and valid as long as names is. NULL: unknown. */
const char *xp_log_names_get(const struct xp_log_names *names, uint32_t function_id);

#endif
