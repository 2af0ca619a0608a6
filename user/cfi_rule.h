/* SPDX-License-Identifier: BSD-2-Clause */
/* What libdw says of a frame, as a row of a table. */
#ifndef XPROF_CFI_RULE_H
#define XPROF_CFI_RULE_H

#include <elfutils/libdw.h>

#include "cfi_table.h"

/*
 * Fills row but for its pc, and for a row of rule XP_CFI_DEREF also deref instead of the row's cfa. Returns
 * XP_CFI_KNOWN, or why the row is one of XP_CFI_NONE. is_signal: what dwarf_frame_info() says.
 */
enum xp_cfi_reason xp_cfi_rule_of(Dwarf_Frame *frame, bool is_signal, struct xp_cfi_row *row,
				  struct xp_cfi_deref *deref);

#endif
