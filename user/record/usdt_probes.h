/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The USDT probes of a recording (record --usdt): owns the patterns, the places of matching probes, and the list of
 * files and processes in which they are attached. A uprobe is attached to each place. The kernel increments the
 * semaphore while the uprobe exists, and decrements it however the recording ends.
 */
#ifndef XPROF_RECORD_USDT_PROBES_H
#define XPROF_RECORD_USDT_PROBES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "elf/function_patterns.h"
#include "kernel/attach.h"
#include "kernel/programs.h"

/* A place in the code, with its index in `usdt_places` of BPF. */
struct xp_usdt_known {
	char name[256]; /* clean: PROVIDER:NAME */
	struct xp_usdt_place place;
};

/* The places in a file; 0: it has none. */
struct xp_usdt_file {
	dev_t dev;
	ino_t inode;
	struct xp_uprobe *uprobes;
	size_t count, room;
};

struct xp_usdt_attached {
	size_t file;
	pid_t pid; /* 0: all */
};

/* Empty if zeroed. */
struct xp_usdt_probes_on {
	const char *const *patterns; /* borrowed */
	size_t pattern_count;
	/* private */
	struct xp_pattern_uses *uses;
	const char **names; /* the patterns without OBJECT */
	struct xp_usdt_known *all;
	size_t count, room;
	struct xp_usdt_file *files;
	size_t file_count, file_room;
	struct xp_usdt_attached *attached;
	size_t attached_count, attached_room;
};

/* Borrows the patterns. Returns 0 or -ENOMEM. */
int xp_usdt_on_init(struct xp_usdt_probes_on *usdt, const char *const *patterns, size_t count);
void xp_usdt_on_free(struct xp_usdt_probes_on *usdt);
/*
 * Attaches the matching probes of a mapped file, unless they are attached in this process (0: all). fd: the file. Warns
 * about a file whose probes the kernel refuses, and skips it. Returns 0, -ENOMEM, or -ECANCELED.
 */
int xp_usdt_on_attach(struct xp_usdt_probes_on *usdt, struct xp_attach *attach, const struct xp_programs *programs,
		      int fd, const char *path, pid_t pid);
/*
 * Attaches the probes of the file that each pattern names with its OBJECT, a path, in all processes, also in those that
 * start later. Returns 0 or -errno; a sentence (why.h) if a file cannot be opened.
 */
int xp_usdt_on_attach_files(struct xp_usdt_probes_on *usdt, struct xp_attach *attach,
			    const struct xp_programs *programs);
/* The probes of this process were detached. */
void xp_usdt_on_drop_process(struct xp_usdt_probes_on *usdt, pid_t pid);

/*
 * Formats a checked event: "PROVIDER:NAME arg1=5 arg2=-1", with "?" for an argument that could not be read. Returns
 * false if the place of the event is unknown.
 */
#define XP_USDT_TEXT_BYTES 640
bool xp_usdt_on_text(const struct xp_usdt_probes_on *usdt, const struct xp_event_usdt *event,
		     char to[XP_USDT_TEXT_BYTES]);

#endif
