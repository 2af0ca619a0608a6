/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Idle profiles: processes that have ended, possibly thousands, must not take memory until the recording ends. Their
 * profiles are kept in an unnamed file, and are read back automatically when used (profile.h).
 */
#ifndef XPROF_PROFILE_STORE_H
#define XPROF_PROFILE_STORE_H

#include "profile/profile.h"

struct xp_profile_store;

/* dir_fd: the directory of the file; it stays the caller's. Returns 0, -ENOMEM, or an error of openat(2). */
int xp_profile_store_new(struct xp_profile_store **store, int dir_fd);
/* The stored profiles must be freed before, or not be used any more. */
void xp_profile_store_free(struct xp_profile_store *store);

/*
 * Moves the contents of the profile to the file, and writes them only if they changed. Returns 0 or an error of
 * pwrite(2); after an error they stay in memory.
 */
int xp_profile_store_write(struct xp_profile_store *store, struct xp_profile *profile);

#endif
