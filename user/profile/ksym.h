/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names of kernel addresses: the text of the kernel, its modules and BPF programs. They are asked for one by one, of
 * the kernel itself (programs.h); /proc/kallsyms tells the same, but only all of it.
 */
#ifndef XPROF_KALLSYMS_H
#define XPROF_KALLSYMS_H

#include <stddef.h>
#include <stdint.h>

#include "xprof/ksym.h"

/* So far behind a symbol's start an address has nothing to do with it. */
#define XP_KALLSYM_BYTES_MAX (1ull << 20)

struct xp_kallsym {
	uint64_t address; /* asked for */
	uint64_t start;	  /* of the symbol that holds it */
	uint64_t end;	  /* the start of the next one, or as far as XP_KALLSYM_BYTES_MAX allows */
	char *name;	  /* NULL: not known */
};

/* Zeroed: empty. */
struct xp_kallsyms {
	struct xp_kallsym *all;
	size_t count;
	size_t room;
};

/*
 * Describes count addresses, XP_KSYM_BATCH at most, in the kernel's words: "name+0x10/0x40", behind that " [module]";
 * anything else is no name. 0 or -errno.
 */
typedef int xp_kallsyms_describe(void *arg, const uint64_t *addresses, size_t count, char (*texts)[XP_KSYM_TEXT_BYTES]);

/* Takes down an address whose name is wanted. -ENOMEM. */
int xp_kallsyms_want(struct xp_kallsyms *syms, uint64_t address);
/*
 * Names what is wanted. Afterwards all[] is sorted by address, without duplicates. -ENOMEM, or what describe() returns;
 * then what has no name yet has none.
 */
int xp_kallsyms_ask(struct xp_kallsyms *syms, xp_kallsyms_describe *describe, void *arg);
void xp_kallsyms_free(struct xp_kallsyms *syms);

#endif
