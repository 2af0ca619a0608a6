/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The process that makes unwind tables (cfi_build.h), and its protocol. The process has no privileges and no
 * descriptors except its socket, and reads only requests. For each file, it forks a child with limits on time and
 * memory, so that a hostile file can damage only its own table. System files, which only root can change, share a
 * child, because a fork takes longer than most of their tables.
 *
 * The processes run as SCHED_BATCH, so that they do not delay other programs. Samples can wait for seconds.
 */
#ifndef XPROF_UNWIND_CFI_WORKER_H
#define XPROF_UNWIND_CFI_WORKER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "unwind/cfi_build.h"

/* Time limits for one piece of a file. Files from compilers take a few milliseconds. */
#define XP_CFI_BUILD_SECONDS 20
#define XP_CFI_BUILD_CPU_SECONDS 5

/* A message on a SOCK_SEQPACKET socket, together with the file's descriptor. */
struct xp_cfi_request {
	uint64_t id;
	struct xp_cfi_range range;
	uint32_t is_system; /* 1: only root can change the file: use the shared child */
	uint32_t pad;
};

/* Answers arrive in the order of requests. */
struct xp_cfi_answer {
	uint64_t id;
	/*
	 * 0: a descriptor of a sealed memfd is attached; otherwise an error of xp_cfi_build(), or -EIO if the child
	 * died
	 */
	int32_t err;
	uint32_t pad;
};

/*
 * Starts the worker. Returns the caller's end of the socket, which is non-blocking, or -errno. The worker ends when the
 * socket is closed or when the calling thread ends. The caller kills and reaps it.
 */
int xp_cfi_worker_start(pid_t *pid);

#endif
