/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Uprobes: attaches BPF programs to file offsets and detaches them. With uprobe_multi (Linux 6.6), a BPF link covers up
 * to 16384 offsets; otherwise each offset requires a perf event. Thread-safe.
 */
#ifndef XPROF_KERNEL_ATTACH_H
#define XPROF_KERNEL_ATTACH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* BPF_TRACE_UPROBE_MULTI: Linux 6.6, commit 89ae89f53d20. Debian 12's headers lack it. */
#define XP_TRACE_UPROBE_MULTI 48

/*
 * Limits on the number of attached probes. With uprobe_multi (Linux 6.18, 2 CPUs), a probe takes 6 us to attach, 5 us
 * to detach, 300 bytes of kernel memory and up to a page of the target's memory. Detaching cannot be interrupted.
 * Detaching a perf event takes at least 10 ms, because the kernel waits for all CPUs.
 */
#define XP_ATTACH_MAX 250000u
#define XP_ATTACH_SINGLE_MAX 10000u

/*
 * The first probe of a process is its anchor. It is detached last, so choose a probe that is rarely hit.
 *
 * Without anchors, detaching could kill the process. A process that loses its last uprobe loses MMF_HAS_UPROBES
 * (mmf_recalc_uprobes() in kernel/events/uprobes.c), and the kernel uses this flag to recognize a breakpoint as a
 * uprobe. If a thread has just hit a breakpoint, and the hypervisor deschedules its virtual CPU before the kernel tests
 * the flag, SIGTRAP kills that thread. (Without a hypervisor, the kernel's TLB flush waits for such a thread. With one,
 * the flush skips virtual CPUs that are not running.) So xprof detaches the other probes first, waits until every CPU
 * has left this path, and then detaches the anchors.
 *
 * A process has no anchor after it has executed another file, or if it is a followed child with a different dynamic
 * linker.
 */
struct xp_uprobe {
	uint64_t offset; /* offset in the file */
	uint64_t cookie;
	uint64_t semaphore; /* offset in the file of a USDT semaphore, which the kernel increments meanwhile; 0: none */
};

struct xp_attach;

/* multi: use uprobe_multi links. Returns 0 or -ENOMEM. */
int xp_attach_new(struct xp_attach **attach, bool multi);
/* Detaches all probes. */
void xp_attach_free(struct xp_attach *attach);

/* Uprobes of one program on one file. */
struct xp_uprobe_set {
	int program_fd;
	int file_fd;
	pid_t pid;	/* 0: every process */
	uint32_t group; /* see below */
	const struct xp_uprobe *list;
	size_t count;
	bool anchor; /* an additional anchor: it is detached as late as the anchor of the process, but does not replace
			it */
};

/*
 * Attaches all probes or none. Returns 0 or -errno: -ECANCELED if xp_interrupted() during a request of more than one
 * batch, -ENOBUFS if there are more probes than xp_attach_room(); otherwise the kernel's error: -ESRCH if the process
 * has ended, -EMFILE if RLIMIT_NOFILE (which is raised first) is too low for the perf events, -EINVAL or -EOPNOTSUPP if
 * the kernel refuses a probe at one of the offsets, -EBUSY if the kernel refused for a second.
 *
 * A group is detached as a whole. A uprobe_multi link cannot release single offsets, so probes that are to be detached
 * separately need their own group other than 0.
 */
int xp_attach_uprobes(struct xp_attach *attach, const struct xp_uprobe_set *uprobes);
/*
 * Attaches one probe with cookie 0 in group 0. If the offset has multi-byte nops, attaches the probe after them,
 * because the kernel may replace such a nop (arch/x86_64/stub.h). Returns -EOPNOTSUPP if it finds no other instruction.
 */
int xp_attach_uprobe(struct xp_attach *attach, int program_fd, int file_fd, pid_t pid, uint64_t offset);
/*
 * Like xp_attach_uprobe(), for a process of xprof's own, without an anchor: that process does not hit the probe while
 * it is detached. These probes are detached together, in the time of one.
 */
int xp_attach_own_uprobe(struct xp_attach *attach, int program_fd, int file_fd, pid_t pid, uint64_t offset);
/*
 * Makes a probe at this file offset the anchor of the process, unless the process has one. The offset should never be
 * executed: executing it runs the BPF program.
 */
int xp_attach_anchor(struct xp_attach *attach, int program_fd, int file_fd, pid_t pid, uint64_t offset);

/*
 * The callback reports the progress of a long request: between batches, in the task that attaches, with the number of
 * probes attached so far. NULL: no callback.
 */
void xp_attach_on_batch(struct xp_attach *attach, void (*tell)(void *arg, size_t probes), void *arg);
/* Returns how many more probes can be attached, at most xp_attach_max(). */
size_t xp_attach_room(struct xp_attach *attach);
size_t xp_attach_max(bool multi);
/* The size of the next batch, given the size of the last one and the time that it took. */
uint32_t xp_attach_batch(uint32_t batch, uint64_t took_ns);

/* Detaches this group. Returns when none of its BPF programs is running. */
void xp_attach_detach_group(struct xp_attach *attach, uint32_t group);
/* Detaches the probes that were attached for this process. */
void xp_attach_detach_process(struct xp_attach *attach, pid_t pid);
/* Detaches all probes. Returns when no BPF program is running. */
void xp_attach_detach_all(struct xp_attach *attach);

#endif
