/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names of kernel addresses, from /proc/kallsyms: the text of the kernel, its modules and BPF programs. The table is
 * read once, line by line, for all addresses; nothing of the rest is kept.
 */
#ifndef XPROF_KALLSYMS_H
#define XPROF_KALLSYMS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* So far behind a symbol's start an address has nothing to do with it. */
#define XP_KALLSYM_BYTES_MAX (1ull << 20)

struct xp_kallsym {
	uint64_t address; /* asked for */
	uint64_t start;	  /* of the symbol that holds it */
	uint64_t end;	  /* the start of the next one, or as far as XP_KALLSYM_BYTES_MAX allows */
	char *name;	  /* NULL: not known */
	unsigned int rank;
};

/* Zeroed: empty. */
struct xp_kallsyms {
	struct xp_kallsym *all;
	size_t count;
	size_t room;
};

/* Asks for an address, before the table is read. -ENOMEM. */
int xp_kallsyms_want(struct xp_kallsyms *syms, uint64_t address);
/*
 * Names what was asked for. Afterwards all[] is sorted by address, without duplicates. table: of the form of
 * /proc/kallsyms; where an unprivileged reader finds addresses of 0, nothing gets a name. -ENOMEM; those of read(2).
 */
int xp_kallsyms_read(struct xp_kallsyms *syms, FILE *table);
void xp_kallsyms_free(struct xp_kallsyms *syms);

#endif
