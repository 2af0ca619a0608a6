// SPDX-License-Identifier: BSD-2-Clause
#include "throttle.h"

static int record(void *arg, const struct xp_object *object, pid_t pid, const struct xp_sled_choice *choice,
		  struct xp_sled_result *result)
{
	const struct xp_throttle_links *links = arg;

	return xp_sleds_attach_some(links->attach, links->programs, object, pid, links->all_args, choice, result);
}

static int count(void *arg, const struct xp_object *object, pid_t pid, uint32_t first_index,
		 const struct xp_sled_choice *choice)
{
	const struct xp_throttle_links *links = arg;
	size_t sleds;

	return xp_sleds_attach_counters(links->attach, xp_programs_count_fd(links->programs), object, pid, first_index,
					choice, &sleds);
}

static void drop(void *arg, uint32_t group)
{
	const struct xp_throttle_links *links = arg;

	xp_attach_detach_groups(links->attach, &group, 1);
}

const struct xp_throttle_way xp_throttle_by_links = { record, count, drop };
