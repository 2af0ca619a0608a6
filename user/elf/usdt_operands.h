/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The arguments of a USDT probe, as the compiler wrote them into its note: "SIZE@OPERAND" for each, in AT&T syntax,
 * such as "-4@%eax 8@-16(%rbp) 8@counter+4(%rip) 4@$3". They are untrusted.
 */
#ifndef XPROF_ELF_USDT_OPERANDS_H
#define XPROF_ELF_USDT_OPERANDS_H

#include <stdbool.h>
#include <stdint.h>

#include "elf/usdt.h"
#include "xprof/event.h"

/* Sets *vaddr to the address of a symbol, as linked. Returns false if there is none. */
typedef bool xp_usdt_find_symbol(void *arg, const char *name, uint64_t *vaddr);

/*
 * Parses the arguments of a probe; those after the first XP_USDT_ARGS_MAX are ignored. One that is malformed or
 * unsupported (floating point, thread-local, in 16 bytes) has the kind XP_USDT_UNSUPPORTED.
 */
void xp_usdt_operands(const struct xp_usdt_probe *probe, struct xp_usdt_place *place, xp_usdt_find_symbol *find,
		      void *arg);

#endif
