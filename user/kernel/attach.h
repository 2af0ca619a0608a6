/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Uprobes: puts BPF programs on file offsets and takes them away. BPF links of some thousands of offsets each where the
 * kernel has uprobe_multi (6.6), one perf event per offset otherwise. May be called from several threads at once.
 */
#ifndef XPROF_ATTACH_H
#define XPROF_ATTACH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* BPF_TRACE_UPROBE_MULTI: Linux 6.6, commit 89ae89f53d20; Debian 12's headers do not have it. */
#define XP_TRACE_UPROBE_MULTI 48

/*
 * Probes that there may be at once. With uprobe_multi (Linux 6.18, 2 CPUs) each took 6 us to attach, 5 us to take away
 * and 300 bytes of the kernel's memory, and up to a page of the target's; nothing can stop the taking away. To take a
 * perf event away the kernel waits for all CPUs, 10 ms and more.
 */
#define XP_ATTACH_MAX 250000u
#define XP_ATTACH_SINGLE_MAX 10000u

/*
 * The first probe of a process, its anchor, is to be one that is never hit, or hardly ever, for it goes last: a process
 * that loses its last uprobe loses the flag by which the kernel knows whose a breakpoint is (MMF_HAS_UPROBES,
 * mmf_recalc_uprobes() in kernel/events/uprobes.c), and a thread that has hit one just before, and was on a virtual CPU
 * that was taken away before it came to look at the flag, is killed by SIGTRAP. (Without a hypervisor the kernel's
 * flush of the TLBs waits for such a thread; with one it passes CPUs over that do not run.) Between the others and the
 * anchors all CPUs come to where no thread of theirs is on that way. A process that has executed another file since, or
 * a child that is followed and has another linker, has none.
 */
struct xp_uprobe {
	uint64_t offset; /* in the file */
	uint64_t cookie;
};

struct xp_attach;

/* multi: use uprobe_multi links. -ENOMEM. */
int xp_attach_new(struct xp_attach **attach, bool multi);
/* Detaches everything. */
void xp_attach_free(struct xp_attach *attach);

/*
 * Puts the program on all of probes, in the file behind file_fd, for the process pid, or for every process when pid is
 * 0. All or nothing. -ECANCELED: xp_interrupted(), of more than a batch. -ENOBUFS: more than xp_attach_room(). Other
 * errors are the kernel's: -ESRCH the process is gone, -EMFILE too many perf events for RLIMIT_NOFILE (which is raised
 * first), -EINVAL or -EOPNOTSUPP the kernel refuses a probe there.
 */
int xp_attach_uprobes(struct xp_attach *attach, int program_fd, int file_fd, pid_t pid, const struct xp_uprobe *probes,
		      size_t count);

/*
 * The same, in a group of probes that can be taken away together. A link of uprobe_multi cannot give up single offsets:
 * what is to go alone needs a group of its own. 0 is the group of xp_attach_uprobes().
 */
int xp_attach_uprobes_group(struct xp_attach *attach, uint32_t group, int program_fd, int file_fd, pid_t pid,
			    const struct xp_uprobe *probes, size_t count);
/*
 * Makes a probe on this place of a file the anchor of the process, unless it has one: a place that is never executed.
 * When it is all the same, the program runs.
 */
int xp_attach_anchor(struct xp_attach *attach, int program_fd, int file_fd, pid_t pid, uint64_t offset);

/* Between the batches of a long request, by the task that attaches: how many of its probes are attached. NULL: nobody.
 */
void xp_attach_on_batch(struct xp_attach *attach, void (*tell)(void *arg, size_t probes), void *arg);
/* How many probes may be added; at most xp_attach_max(). */
size_t xp_attach_room(struct xp_attach *attach);
size_t xp_attach_max(bool multi);
/* The size of the next batch, when one of this size has taken so long. */
uint32_t xp_attach_batch(uint32_t batch, uint64_t took_ns);

/* Takes these groups away, in the order of the list. On return none of their programs runs any more. */
void xp_attach_detach_groups(struct xp_attach *attach, const uint32_t *groups, size_t count);
/* Those of a group that are of this process leave it for group 0. */
void xp_attach_keep(struct xp_attach *attach, uint32_t group, pid_t pid);

/* Takes away what was put there for this process. */
void xp_attach_detach_process(struct xp_attach *attach, pid_t pid);
/* Takes all away. On return no program runs any more. */
void xp_attach_detach_all(struct xp_attach *attach);

#endif
