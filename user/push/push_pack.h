/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes the profiles of a finished recording: for each service (push_labels.h), one of the samples, one of the waits
 * and one of the calls, as far as there are any, with all names.
 *
 * Samples with the same stack are added up: a profile has no processes, threads or CPUs, because the engines make a
 * series of each label, and processes choose their names. Beyond XP_PUSH_SERVICES_MAX services, those with the least
 * time share the service "other". Profiles of more than XP_PUSH_SAMPLES_MAX stacks are split, since engines reject
 * larger ones.
 */
#ifndef XPROF_PUSH_PUSH_PACK_H
#define XPROF_PUSH_PUSH_PACK_H

#include <stdint.h>

#include "push/push_config.h"

#define XP_PUSH_SERVICES_MAX 256
#define XP_PUSH_SAMPLES_MAX 5000
#define XP_PUSH_OTHER "other"

/*
 * Adds the profiles of the recording in a directory to the queue in queue_fd. *unstored grows by the number of those
 * that could not be stored. Prints errors. Returns 0 or -errno.
 */
int xp_push_pack(const char *directory, int queue_fd, const struct xp_push_config *config, uint64_t *unstored);

#endif
