/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keeps recordings apart that work on the sleds of one file at the same time. A recording checks the bytes of the
 * sleds, then it probes or patches them. If another one patches a sled in between, a probe lands on the patch. Its
 * breakpoint hides the patch. When the probe is removed, the kernel restores the first byte of the file, but the second
 * byte is the patch's: the program then jumps to a random address. So both hold a lock from the check until the sleds
 * are probed or patched.
 *
 * The lock is in a directory of root's, so that nobody else can hold it: /run/xprof/sleds.lock, a byte for each object.
 * Recordings that do not share /run, and those without root's user, are not kept apart.
 */
#ifndef XPROF_SLED_SLED_LOCK_H
#define XPROF_SLED_SLED_LOCK_H

#include "sled/object.h"

/*
 * Takes the object's lock, and waits up to 10 s for another recording. Not recursive. Returns a descriptor for
 * xp_sled_unlock(), or -errno: -EBUSY if another recording holds it all the time, -ECANCELED (interrupt.h), -ENOLCK if
 * there is no such lock here, or an error of open(2).
 */
int xp_sled_lock(const struct xp_object *object);
/* Releases the lock. Errors of xp_sled_lock() are allowed. */
void xp_sled_unlock(const struct xp_object *object, int lock);

#endif
