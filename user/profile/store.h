/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Profiles that rest: thousands of processes that have ended must not take memory until the recording does. They lie in
 * a file without a name, and come back by themselves when they are used (profile.h).
 */
#ifndef XPROF_PROFILE_STORE_H
#define XPROF_PROFILE_STORE_H

#include <stddef.h>

#include "profile/profile.h"

struct xp_profile_store;

/* dir_fd: the directory of the file; it stays the caller's. -ENOMEM; those of openat(2). */
int xp_profile_store_new(struct xp_profile_store **store, int dir_fd);
/* Before this, the profiles in it must be freed or used no more. */
void xp_profile_store_free(struct xp_profile_store *store);

/* Puts the profile's contents into the file, unless they are there. Those of pwrite(2); then they stay in memory. */
int xp_profile_store_put(struct xp_profile_store *store, struct xp_profile *profile);

#endif
