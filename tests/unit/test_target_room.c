/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/why.h"
#include "target/room.h"

static void assert_lacks(uint64_t bytes, uint64_t mappings, const char *reason)
{
	int err = xp_target_check_room(getpid(), bytes, mappings);

	assert_int_equal(err, reason ? -EOPNOTSUPP : 0);
	if (reason && !strstr(xp_why(err), reason))
		fail_msg("\"%s\" does not say \"%s\"", xp_why(err), reason);
}

TEST(limits_are_told)
{
	static const struct {
		int resource;
		const char *reason;
	} limits[] = { { RLIMIT_AS, "--as=unlimited" }, { RLIMIT_DATA, "--data=unlimited" } };

	assert_lacks(1 << 20, 3, NULL);
	assert_lacks(1 << 20, UINT32_MAX, "vm.max_map_count");
	for (int i = 0; i < 2; i++) {
		struct rlimit before, tight = { .rlim_cur = 1ull << 40 };

		assert_int_equal(getrlimit((enum __rlimit_resource)limits[i].resource, &before), 0);
		tight.rlim_max = before.rlim_max;
		if (before.rlim_max < tight.rlim_cur)
			continue;
		assert_int_equal(setrlimit((enum __rlimit_resource)limits[i].resource, &tight), 0);
		assert_lacks(1 << 20, 3, NULL);
		assert_lacks(tight.rlim_cur, 3, limits[i].reason);
		assert_int_equal(xp_target_check_room_for_rings(getpid(), 1),
				 limits[i].resource == RLIMIT_AS ? -EOPNOTSUPP : 0);
		assert_lacks(UINT64_MAX, 3, limits[i].reason);
		assert_int_equal(setrlimit((enum __rlimit_resource)limits[i].resource, &before), 0);
	}
	assert_int_equal(xp_target_check_room(-1, 1, 1), 0);
}
