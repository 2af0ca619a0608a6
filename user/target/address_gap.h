/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds free address space in another process. Pure: works on the text of its /proc/PID/maps. */
#ifndef XPROF_TARGET_ADDRESS_GAP_H
#define XPROF_TARGET_ADDRESS_GAP_H

#include <stddef.h>
#include <stdint.h>

/*
 * Finds an address for `bytes` (whole pages). Every byte there is within reach of a call from every byte of [start,
 * end) and back. The address is as near as possible but away from areas that may grow (heap, stack); below is
 * preferred, because a program's heap lies above it. Returns 0 if there is none. Modifies the text.
 */
uint64_t xp_address_gap_find(char *maps_text, uint64_t start, uint64_t end, uint64_t bytes);

#endif
