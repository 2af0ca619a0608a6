/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Prevents two recordings from changing the sleds of one file at the same time. A recording checks the bytes of the
 * sleds, then probes or patches them. If another recording patches a sled in between, the probe is attached to the
 * patch, and its breakpoint hides the patch. When the probe is removed, the kernel restores the first byte of the file,
 * but the second byte belongs to the patch: the program then jumps to a random address. So each recording holds a lock
 * from the check until the sleds are probed or patched.
 *
 * The lock file, /run/xprof/sleds.lock with a byte for each object, is in a directory of root, so only root can lock
 * it. Recordings that do not share /run, or do not run as root, are not protected from each other.
 */
#ifndef XPROF_SLED_SLED_LOCK_H
#define XPROF_SLED_SLED_LOCK_H

#include "sled/object.h"

/*
 * Locks the object, and waits up to 10 s for another recording. Not recursive. Returns a descriptor for
 * xp_sled_unlock(), or -errno: -EBUSY if another recording holds the lock for that time, -ECANCELED (interrupt.h),
 * -ENOLCK if locking is not possible here, or an error of open(2).
 */
int xp_sled_lock(const struct xp_object *object);
/* Releases the lock. Errors of xp_sled_lock() are allowed. */
void xp_sled_unlock(const struct xp_object *object, int lock);

#endif
