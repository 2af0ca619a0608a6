/* SPDX-License-Identifier: BSD-2-Clause */
/* Data about the running kernel that perf requires to name kernel code. */
#ifndef XPROF_SAMPLE_PERF_KERNEL_H
#define XPROF_SAMPLE_PERF_KERNEL_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "format/perfdata.h"

/* The highest possible end of the kernel's image, where modules begin (MODULES_VADDR of x86-64). */
#define XP_PERF_KERNEL_END 0xffffffffc0000000ull

/*
 * Reads the address of _text from a table in the format of /proc/kallsyms. Returns 0 if the table hides addresses or
 * does not contain _text.
 */
uint64_t xp_perf_kernel_text(FILE *table);
/*
 * Writes the records of the modules, so that perf reads the symbols of each module from its file. table: in the format
 * of /proc/modules. files: in the format of modules.dep, with paths relative to dir; NULL: none. Returns 0, -ENOMEM or
 * the writer's error.
 */
int xp_perf_kernel_modules(struct xp_perfdata *perfdata, FILE *table, FILE *files, const char *dir);
/*
 * Copies at most size bytes of the build ID from notes in the format of /sys/kernel/notes. Returns its length, or 0 if
 * there is none.
 */
size_t xp_perf_kernel_build_id(const uint8_t *notes, size_t notes_bytes, uint8_t *to, size_t size);

#endif
