/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests a perf map (jit/src_map.h) from a running HotSpot JVM (17 or later), as `jcmd PID Compiler.perfmap` does.
 * xprof creates a file in the target's /tmp and sends SIGQUIT; the JVM then finds the file and listens on a socket
 * there. SIGQUIT would kill any other program. So xprof sends requests only with --jvm-attach, only to a process that
 * is certainly a JVM, and from a child process that runs as the target's user.
 *
 * Source of the protocol: OpenJDK, src/hotspot/os/linux/attachListener_linux.cpp (posix/attachListener_posix.cpp).
 */
#ifndef XPROF_JIT_SRC_JVM_H
#define XPROF_JIT_SRC_JVM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"
#include "target/address_space.h"

/* Initially zeroed except for pid and start_time, which means no request yet. */
struct xp_jit_src_jvm {
	pid_t pid;
	uint64_t start_time;

	/* Private. */
	pid_t child;	    /* PID of the child process that makes the request; 0: none */
	bool may_ask;	    /* false: not a JVM, or a JVM that cannot write maps */
	bool is_wanted;	    /* the code of a frame was not found */
	uint8_t unready;    /* number of requests that failed because the JVM did not handle the signal yet */
	uint64_t asked_tsc; /* last request */
	uint64_t known_tsc; /* time of the last answered request */
};

/*
 * Requests a map if the process has a JVM mapped and a map may have new functions. Does not wait for the map. If a JVM
 * cannot write maps, prints a warning and sends no further requests.
 */
void xp_jit_src_jvm_refresh(struct xp_jit_src_jvm *jvm, const struct xp_address_space *space,
			    const struct xp_clock *clock, uint64_t now_tsc);
/*
 * Call this if a frame sampled at this time is in unknown code. Returns true, and requests a map, if the next map may
 * contain the code.
 */
bool xp_jit_src_jvm_want(struct xp_jit_src_jvm *jvm, uint64_t tsc);
/*
 * Sends a last request if functions are still unknown and the program runs. Waits up to 5 s for the map, at most until
 * end_ns (CLOCK_MONOTONIC).
 */
void xp_jit_src_jvm_finish(struct xp_jit_src_jvm *jvm, bool is_over, uint64_t now_tsc, uint64_t end_ns);
/* Abandons the request, if there is one. */
void xp_jit_src_jvm_stop(struct xp_jit_src_jvm *jvm);

#endif
