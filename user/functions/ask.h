/* SPDX-License-Identifier: BSD-2-Clause */
/* Plans of an untrusted file (call_plan.h), made by a confined reader (confined.h). The answer is as untrusted as the
 * file.
 */
#ifndef XPROF_FUNCTIONS_ASK_H
#define XPROF_FUNCTIONS_ASK_H

#include "base/text_pool.h"
#include "functions/call_plan.h"

struct xp_planned_function {
	struct xp_call_plan_function plan;
	const char *name; /* as in the symbol table (mangled), neither clean nor demangled; NULL: unknown */
};

struct xp_planned {
	struct xp_planned_function *functions; /* by address */
	size_t count;
	uint8_t build_id[20];
	uint32_t build_id_bytes; /* 0: none */
	struct xp_text_pool names;
};

/*
 * Plans the functions of an open regular file. Returns 0 or -errno, with a sentence (why.h): an error of
 * xp_elf_file_fd() or xp_call_plan_make(), -ETIMEDOUT, -ENOEXEC if the reader died. The caller frees *planned on
 * success and on error.
 */
int xp_planned_ask(struct xp_planned *planned, int fd, bool with_names);
void xp_planned_free(struct xp_planned *planned);

#endif
