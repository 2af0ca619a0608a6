/* SPDX-License-Identifier: BSD-2-Clause */
/* Plans of an untrusted file (call_plan.h), made by a confined reader (confined.h). The answer is as untrusted as the
 * file.
 */
#ifndef XPROF_FUNCTIONS_ASK_H
#define XPROF_FUNCTIONS_ASK_H

#include "base/text_pool.h"
#include "functions/call_plan.h"

struct xp_planned {
	struct xp_call_plan plan; /* functions, sites and windows refer to each other as call_plan.h says */
	const char **names;	  /* as in the symbol table (mangled), not clean; those of a function together */
	size_t name_count;
	size_t name_room;
	uint32_t *first_name;	    /* in names, of each function and of one more; each has one; the first is shown */
	struct xp_elf_segment code; /* has all windows, if not bytes == 0: code in several segments, or none */
	bool is_go;
	uint64_t start; /* address of the first instruction that a process executes; 0: not in the code */
	bool has_rseq;	/* restartable sequences (rseq(2)), which end where a jump leaves them */
	uint8_t build_id[20];
	uint32_t build_id_bytes; /* 0: none */
	struct xp_text_pool text;
};

/*
 * Plans the functions of an open regular file. A function without a symbol, and each function without has_symbols, is
 * called object+0xaddress, as in `xprof report`, with the object of this path. Returns 0 or -errno, with a sentence
 * (why.h): an error of xp_elf_file_fd() or xp_call_plan_make(), -ETIMEDOUT, -ENOEXEC if the reader died. The caller
 * frees *planned on success and on error.
 */
int xp_planned_ask(struct xp_planned *planned, int fd, const char *path, bool has_symbols);
/* Returns the name of a function that is shown. */
const char *xp_planned_name(const struct xp_planned *planned, size_t function);
void xp_planned_free(struct xp_planned *planned);

#endif
