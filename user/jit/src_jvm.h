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

#include "base/clock.h"
#include "target/address_space.h"

/* Zeroed except for pid and start_time: no request yet. */
struct xp_jit_src_jvm {
	pid_t pid;
	uint64_t start_time;

	/* Private. */
	pid_t child;	    /* that makes the request; 0: none */
	bool may_ask;	    /* it is a JVM, and can write maps as far as is known */
	bool is_wanted;	    /* a frame was not found */
	uint8_t unready;    /* number of times that it did not handle the signal yet */
	uint64_t asked_tsc; /* last request */
	uint64_t known_tsc; /* time of the last answered request */
};

/*
 * Asks the process if it has a JVM mapped and a map may have something new, and never waits. A JVM that cannot write
 * maps is warned of, and not asked again.
 */
void xp_jit_src_jvm_refresh(struct xp_jit_src_jvm *jvm, const struct xp_address_space *space,
			    const struct xp_clock *clock, uint64_t now_tsc);
/* The code of a frame sampled at this time is unknown. Returns true, and will ask, if the next map may have it. */
bool xp_jit_src_jvm_want(struct xp_jit_src_jvm *jvm, uint64_t tsc);
/*
 * Sends a last request if functions are still unknown and the program runs, and waits for the map: some seconds, at
 * most until end_ns (CLOCK_MONOTONIC).
 */
void xp_jit_src_jvm_finish(struct xp_jit_src_jvm *jvm, bool is_over, uint64_t now_tsc, uint64_t end_ns);
/* Abandons the request, if there is one. */
void xp_jit_src_jvm_stop(struct xp_jit_src_jvm *jvm);

#endif
