/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sleds of one object in one process, or in all that map it: checks that their bytes in memory are those of
 * unpatched sleds, and puts the programs on them.
 *
 * The check matters: a uprobe on a sled that XRay's own runtime has patched makes its target jump into nowhere when
 * the uprobe is taken away again, for the kernel then restores the first byte of the file.
 */
#ifndef XPROF_SLEDS_H
#define XPROF_SLEDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "kernel/attach.h"
#include "sled/object.h"
#include "kernel/programs.h"
#include "target/target.h"

struct xp_sled_result {
	enum xp_sled_mode mode;
	size_t attached;
	size_t patched;	    /* refused: other bytes, in the file or in the memory of a process */
	size_t unreadable;  /* refused: the memory could not be read */
	uint64_t begin_tsc; /* from when on all of them were attached */
};

/*
 * Attaches object's selected sleds in process pid, or in every process (pid 0). Without attach (NULL) it is only found
 * out how many there are to attach. all_args: entry sleds record
 * arguments (--args). 0, or the error of xp_attach_uprobes(); refused sleds are no error. -ESRCH: it has ended, or
 * executed another program meanwhile.
 */
int xp_sleds_attach(struct xp_attach *attach, const struct xp_programs *programs, const struct xp_object *object,
		    pid_t pid, bool all_args, struct xp_sled_result *result);

/* Some of the object's functions. */
struct xp_sled_choice {
	bool (*wanted)(const void *arg, uint32_t function_id);
	const void *arg;
	uint32_t group; /* of their probes, see attach.h */
	bool alias;	/* their records bear the functions' second numbers, see object.h */
	bool unpatched; /* only those of their sleds that cannot be patched: of a process whose others are */
};

/* xp_sleds_attach() of these; result is that of the chosen sleds alone. NULL: all of them. */
int xp_sleds_attach_some(struct xp_attach *attach, const struct xp_programs *programs, const struct xp_object *object,
			 pid_t pid, bool all_args, const struct xp_sled_choice *choice, struct xp_sled_result *result);
/* Whether the mapping is one of the object's file. */
bool xp_sleds_mapped(const struct xp_object *object, pid_t pid, const struct xp_mapping *mapping);
/* The uprobe on a sled. */
struct xp_uprobe xp_sled_uprobe(const struct xp_object *object, const struct xp_sled *sled, bool alias);

/*
 * Puts a program that counts on the entry sleds of the object's selected functions in process pid; cookie: first_index
 * plus the function's id, of 32 bits that wrap round. *sleds: how many sleds the functions have in all, those refused
 * left out. choice: as above.
 */
int xp_sleds_attach_counters(struct xp_attach *attach, int program_fd, const struct xp_object *object, pid_t pid,
			     uint32_t first_index, const struct xp_sled_choice *choice, size_t *sleds);

/*
 * How many of the object's selected sleds in process pid have other bytes than a probe on an unpatched sled gives:
 * XRay's runtime has patched them since, and their events stopped.
 */
size_t xp_sleds_overwritten(const struct xp_object *object, pid_t pid);

#endif
