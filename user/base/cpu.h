/* SPDX-License-Identifier: BSD-2-Clause */
/* The machine's CPUs, by number. */
#ifndef XPROF_CPU_H
#define XPROF_CPU_H

#include <stdbool.h>
#include <stddef.h>

bool xp_cpu_online(unsigned int cpu);

/*
 * "0-3,7" -> cpus[], true where named. -EINVAL not of this form, -ERANGE a CPU number of `count` or more.
 */
int xp_cpu_list_parse(const char *text, bool *cpus, size_t count);

#endif
