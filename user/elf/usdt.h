/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * USDT probes: locations that <sys/sdt.h> marks in a program, each with a note in the section .note.stapsdt. A note
 * contains the address of the location, the names of the provider and the probe, the locations of the arguments, and
 * the address of the semaphore: a counter that enables the probe. The notes are untrusted.
 */
#ifndef XPROF_ELF_USDT_H
#define XPROF_ELF_USDT_H

#include <stddef.h>
#include <stdint.h>

#include "elf/elf_file.h"

/* Limit for the size of the notes: openjdk-17 has 60 KB. */
#define XP_USDT_NOTES_BYTES_MAX (4u << 20)

struct xp_usdt_probe {
	uint64_t vaddr;
	uint64_t semaphore; /* address; 0: none */
	const char *provider;
	const char *name;
	const char *arguments; /* such as "8@%rdx -4@-80(%rbx)"; "": none */
};

struct xp_usdt_probes {
	struct xp_usdt_probe *all; /* in the order of the notes */
	size_t count;
	size_t room;
	uint8_t *notes; /* the strings */
};

/*
 * Reads the notes of a file. A malformed note ends the list. Returns 0 (also if the file has no notes) or -ENOMEM. The
 * caller frees *probes on success and on error.
 */
int xp_usdt_read(struct xp_usdt_probes *probes, struct xp_elf_file *file);
/*
 * Adds the probes of these notes. The notes must outlive the probes. base: the address of the section .stapsdt.base; 0:
 * none. Tools that move code do not update the notes, so addresses in notes are relative to this section. Returns 0 or
 * -ENOMEM.
 */
int xp_usdt_parse(struct xp_usdt_probes *probes, const uint8_t *notes, size_t bytes, uint64_t base);
void xp_usdt_free(struct xp_usdt_probes *probes);

#endif
