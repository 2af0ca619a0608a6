/* SPDX-License-Identifier: BSD-2-Clause */
/* Free address space in another process: pure, from the text of its /proc/PID/maps. */
#ifndef XPROF_VACANCY_H
#define XPROF_VACANCY_H

#include <stddef.h>
#include <stdint.h>

/*
 * An address for `bytes` (whole pages) of which every byte is within reach of a call from every byte of [start, end)
 * and back, away from what may grow (heap, stack) and as near as possible; below is preferred, since a program's heap
 * lies above it. 0: there is none. text is taken apart.
 */
uint64_t xp_vacancy_find(char *maps_text, uint64_t start, uint64_t end, uint64_t bytes);

#endif
