/* SPDX-License-Identifier: BSD-2-Clause */
/* Converts the rules of an unwind entry for a range of code (cfi_program.h) to a row of a table. */
#ifndef XPROF_UNWIND_CFI_RULE_H
#define XPROF_UNWIND_CFI_RULE_H

#include "unwind/cfi_program.h"
#include "unwind/cfi_table.h"

/*
 * Fills in row except its pc; for a row of rule XP_CFI_DEREF, fills in deref instead of the row's cfa. is_signal:
 * signal handlers return to this code. Returns XP_CFI_KNOWN, or the reason why the row is XP_CFI_NONE.
 */
enum xp_cfi_reason xp_cfi_rule_of(const struct xp_cfi_registers *registers, bool is_signal, struct xp_cfi_row *row,
				  struct xp_cfi_deref *deref);

#endif
