/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds the names of kernel code: of the kernel, its modules and BPF programs. A BPF program looks up each address
 * (programs.h). /proc/kallsyms has the same names, but it can be read only as a whole.
 */
#ifndef XPROF_STORE_KSYM_H
#define XPROF_STORE_KSYM_H

#include <stddef.h>
#include <stdint.h>

#include "base/u64_map.h"
#include "xprof/ksym.h"

/* An address further from a symbol's start than this does not belong to the symbol. */
#define XP_KALLSYM_BYTES_MAX (1ull << 20)

/* A million addresses with names take 100 MB; a recording of a day has tens of thousands. */
#define XP_KSYM_MAX (1u << 20)

struct xp_kallsym {
	uint64_t address; /* the address that was looked up */
	uint64_t start;	  /* start of the symbol that contains the address */
	uint64_t end;	  /* start of the next symbol, but at most start + XP_KALLSYM_BYTES_MAX */
	char *name;	  /* NULL: unknown */
};

/* Empty if zeroed. */
struct xp_ksym {
	struct xp_kallsym *all;
	size_t count;
	size_t room;
	struct xp_u64_map seen; /* the addresses of all[] */
};

/*
 * Describes count addresses, at most XP_KSYM_BATCH, in the kernel's format: "name+0x10/0x40", optionally followed by "
 * [module]". Any other text is not a name. Returns 0 or -errno.
 */
typedef int xp_ksym_describe(void *arg, const uint64_t *addresses, size_t count, char (*texts)[XP_KSYM_TEXT_BYTES]);

/* Adds an address to be named, unless there are XP_KSYM_MAX. Returns 0 or -ENOMEM. */
int xp_ksym_want(struct xp_ksym *syms, uint64_t address);
/*
 * Finds the names of the added addresses, and sorts all[] by address. Returns 0, -ENOMEM, or the error of describe().
 * After an error, some addresses have no name.
 */
int xp_ksym_ask(struct xp_ksym *syms, xp_ksym_describe *describe, void *arg);
void xp_ksym_free(struct xp_ksym *syms);

#endif
