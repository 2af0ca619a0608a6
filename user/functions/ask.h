/* SPDX-License-Identifier: BSD-2-Clause */
/* Plans of an untrusted file (call_plan.h), made by a confined process (confined.h). The answer is untrusted, too. */
#ifndef XPROF_FUNCTIONS_ASK_H
#define XPROF_FUNCTIONS_ASK_H

#include "base/text_pool.h"
#include "functions/call_plan.h"

struct xp_planned {
	struct xp_call_plan plan; /* as in the symbol table (mangled), not clean, sorted by function */
	const char **names; /* as in the symbol table (mangled), not clean; the names of a function are adjacent */
	size_t name_count;
	size_t name_room;
	uint32_t *first_name; /* index in names, for each function and one more; each function has a name, and the first
				 is shown */
	struct xp_elf_segment code; /* contains all windows; bytes 0: code is in several segments, or there is none */
	bool is_go;
	uint64_t start; /* address of the first instruction that a process executes; 0: not in the code */
	bool has_rseq;	/* the code has restartable sequences (rseq(2)), which a jump would abort */
	uint8_t build_id[20];
	uint32_t build_id_bytes; /* 0: none */
	struct xp_text_pool text;
};

/*
 * Plans the functions of an open regular file. A function without a symbol (all functions, without has_symbols) is
 * named object+0xaddress, as in `xprof report`, with the object of this path. Returns 0 or -errno, with a message
 * (why.h): an error of xp_elf_file_fd() or xp_call_plan_make(), -ETIMEDOUT, or -ENOEXEC if the confined process died.
 * The caller frees *planned in any case.
 */
int xp_planned_ask(struct xp_planned *planned, int fd, const char *path, bool has_symbols);
/* Returns the shown name of a function. */
const char *xp_planned_name(const struct xp_planned *planned, size_t function);
void xp_planned_free(struct xp_planned *planned);

#endif
