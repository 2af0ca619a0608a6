/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds free address space in another process. Pure: works on the text of its /proc/PID/maps. */
#ifndef XPROF_TARGET_ADDRESS_GAP_H
#define XPROF_TARGET_ADDRESS_GAP_H

#include <stddef.h>
#include <stdint.h>

/*
 * Finds an address for `bytes` (whole pages), so that a call from any byte of [start, end) reaches any byte there, and
 * back. Chooses the nearest such address that is away from areas that may grow (heap, stack). Prefers addresses below,
 * because the heap of a program is above it. Returns 0 if there is none. Modifies the text.
 */
uint64_t xp_address_gap_find(char *maps_text, uint64_t start, uint64_t end, uint64_t bytes);

#endif
