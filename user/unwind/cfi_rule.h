/* SPDX-License-Identifier: BSD-2-Clause */
/* What an unwind entry says of a stretch of code (cfi_program.h), as a row of a table. */
#ifndef XPROF_CFI_RULE_H
#define XPROF_CFI_RULE_H

#include "unwind/cfi_program.h"
#include "unwind/cfi_table.h"

/*
 * Fills row but for its pc, and for a row of rule XP_CFI_DEREF also deref instead of the row's cfa. Returns
 * XP_CFI_KNOWN, or why the row is one of XP_CFI_NONE. is_signal: its code is what handlers of signals return to.
 */
enum xp_cfi_reason xp_cfi_rule_of(const struct xp_cfi_registers *registers, bool is_signal, struct xp_cfi_row *row,
				  struct xp_cfi_deref *deref);

#endif
