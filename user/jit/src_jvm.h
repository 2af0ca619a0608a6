/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Asks a running HotSpot JVM (17 or later) to write a perf map (jit/src_map.h), as `jcmd PID Compiler.perfmap` does. A
 * file announces a visitor, SIGQUIT makes the JVM look, and the JVM then listens on a socket. The signal would kill any
 * other program, and the file and the socket are in the target's /tmp. So xprof does this only on the user's request,
 * only to a certain JVM, and in a child process that has become the target's user.
 *
 * Source of the protocol: OpenJDK, src/hotspot/os/linux/attachListener_linux.cpp (posix/attachListener_posix.cpp).
 */
#ifndef XPROF_JIT_SRC_JVM_H
#define XPROF_JIT_SRC_JVM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "target/address_space.h"

/* Zeroed except for pid and start_time: no request yet. */
struct xp_jit_src_jvm {
	pid_t pid;
	uint64_t start_time;
	pid_t child; /* 0: none */
};

/* Whether the process has a JVM mapped. */
bool xp_jit_src_jvm_is_one(const struct xp_address_space *space);

/*
 * Starts a request. Returns 0 or -errno: -EINVAL if the process has no handler for SIGQUIT (-Xrs, or no JVM), -ESRCH if
 * it has ended, -EBUSY, or those of fork(2).
 */
int xp_jit_src_jvm_ask(struct xp_jit_src_jvm *jvm);
/*
 * The result of the request; waits at most timeout_ms for it. Returns 0 if the map is written, or -errno: -EAGAIN if it
 * is not finished yet, -ENOENT if there was no request, -ETIMEDOUT if the JVM did not answer, -EPERM if it refused, or
 * those of the system calls involved.
 */
int xp_jit_src_jvm_poll(struct xp_jit_src_jvm *jvm, unsigned int timeout_ms);
/* Kills the child, if any. */
void xp_jit_src_jvm_stop(struct xp_jit_src_jvm *jvm);

#endif
