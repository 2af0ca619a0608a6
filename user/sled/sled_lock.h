/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keeps recordings apart that work on the sleds of one file at the same time. A recording checks the bytes of the
 * sleds, then it probes or patches them. If another one patches a sled in between, a probe lands on the patch. Its
 * breakpoint hides the patch. When the probe is removed, the kernel restores the first byte of the file, but the second
 * byte is the patch's: the program then jumps to a random address. So both hold a lock on the file, flock(2), from the
 * check until the sleds are probed or patched.
 *
 * The lock is no protection from others: whoever may open the file can hold it. xprof waits only for another xprof.
 */
#ifndef XPROF_SLED_SLED_LOCK_H
#define XPROF_SLED_SLED_LOCK_H

#include <sys/types.h>

#include "sled/object.h"

/*
 * Locks the object's file. Not recursive. Returns a descriptor for xp_sled_unlock(), or -errno: -EBUSY if another
 * process holds the lock and does not release it soon (*holder, 0: not known), -ECANCELED (interrupt.h), or another
 * error if the file has no such locks: then no other xprof on this machine locks it either.
 */
int xp_sled_lock(const struct xp_object *object, pid_t *holder);
/* Releases the lock. Errors of xp_sled_lock() are allowed. */
void xp_sled_unlock(int lock);

#endif
