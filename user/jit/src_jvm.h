/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Asks a running HotSpot JVM (17 or later) to write a perf map (jit_src_map.h), as `jcmd PID Compiler.perfmap` does: a
 * file tells it of a visitor, SIGQUIT makes it look, and it then listens on a socket. The signal would end any other
 * program, and the file and the socket are where the target has its /tmp: so it is only done when the user asks for it,
 * to what surely is a JVM, and by a child process that has become the target's user.
 *
 * Source of the protocol: OpenJDK, src/hotspot/os/linux/attachListener_linux.cpp (posix/attachListener_posix.cpp).
 */
#ifndef XPROF_JIT_SRC_JVM_H
#define XPROF_JIT_SRC_JVM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "target/address_space.h"

/* Zeroed but for pid and start_time: nothing was asked. */
struct xp_jit_src_jvm {
	pid_t pid;
	uint64_t start_time;
	pid_t child; /* 0: none */
};

/* Has it a JVM mapped? */
bool xp_jit_src_jvm_is_one(const struct xp_space *space);

/* Begins to ask. -EINVAL: it has no handler for SIGQUIT (-Xrs, or no JVM); -ESRCH gone; -EBUSY; those of fork(2). */
int xp_jit_src_jvm_ask(struct xp_jit_src_jvm *jvm);
/*
 * What became of it; waits so long for it at most. 0 the map is written; -EAGAIN not yet; -ENOENT nothing was asked;
 * -ETIMEDOUT it did not answer; -EPERM it refused; others of the system calls on the way.
 */
int xp_jit_src_jvm_poll(struct xp_jit_src_jvm *jvm, unsigned int timeout_ms);
/* Ends what runs. */
void xp_jit_src_jvm_stop(struct xp_jit_src_jvm *jvm);

#endif
