/* SPDX-License-Identifier: BSD-2-Clause */
/* The machine's CPUs, by number. */
#ifndef XPROF_BASE_CPU_H
#define XPROF_BASE_CPU_H

#include <stdbool.h>
#include <stddef.h>

bool xp_cpu_online(unsigned int cpu);

/*
 * Parses a list such as "0-3,7" and sets cpus[] to true for each listed CPU. Returns 0 or -errno: -EINVAL if the list
 * is malformed, -ERANGE if a CPU number is `count` or more.
 */
int xp_cpu_list_parse(const char *text, bool *cpus, size_t count);

#endif
