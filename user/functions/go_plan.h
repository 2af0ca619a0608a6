/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Plans to record the calls of Go functions with probes. Go code is not patched: Go's runtime looks up each PC that it
 * finds on a stack, in a signal frame or in a profile in its own tables.
 *
 * A Go function first compares the stack pointer with the limit of its goroutine's stack, g.stackguard0. If the stack
 * is too small, or the goroutine is to be preempted, the function jumps to a call of runtime.morestack, which moves the
 * stack and starts the function again. So the probe of the entry is on that jump, and the call counts when the jump is
 * not taken. The kernel emulates the jump, which costs a third of a step over another instruction. The probe of a
 * function without this check is on its first instruction.
 *
 * At each probe, r14 is the address of the goroutine (Go's ABIInternal, since Go 1.17). Functions written in assembly
 * have another ABI (ABI0): xprof refuses them, but records their wrappers, through which Go code calls them.
 *
 * Source: src/cmd/internal/obj/x86/obj6.go (stacksplit, preprocess), src/cmd/compile/abi-internal.md.
 */
#ifndef XPROF_FUNCTIONS_GO_PLAN_H
#define XPROF_FUNCTIONS_GO_PLAN_H

#include "functions/call_plan.h"
#include "functions/code_map.h"

/* Plans all functions of a Go program's map. Returns 0 or -ENOMEM. */
int xp_go_plan_make(struct xp_call_plan *plan, const struct xp_code_map *map);

#endif
