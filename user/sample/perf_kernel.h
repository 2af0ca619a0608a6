/* SPDX-License-Identifier: BSD-2-Clause */
/* What perf wants to know of the kernel that runs, to name its code. */
#ifndef XPROF_PERF_KERNEL_H
#define XPROF_PERF_KERNEL_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "format/perfdata.h"

/* Where the kernel's image ends at the latest, and modules begin (MODULES_VADDR of x86-64). */
#define XP_PERF_KERNEL_END 0xffffffffc0000000ull

/* The address of _text. table: of the form of /proc/kallsyms; 0: it hides addresses, or has no such symbol. */
uint64_t xp_perf_kernel_text(FILE *table);
/*
 * Tells perf of the modules, whose symbols it reads from their files. table: of the form of /proc/modules; files: of
 * modules.dep, whose paths are relative to dir; NULL: there is none. -ENOMEM, or the writer's error.
 */
int xp_perf_kernel_modules(struct xp_perfdata *perfdata, FILE *table, FILE *files, const char *dir);
/* The build id among notes such as those of /sys/kernel/notes, at most size bytes of it. Its length; 0: none. */
size_t xp_perf_kernel_build_id(const uint8_t *notes, size_t notes_bytes, uint8_t *to, size_t size);

#endif
