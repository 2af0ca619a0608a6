/* SPDX-License-Identifier: BSD-2-Clause */
#include "commands.h"
#include "record/recording.h"

enum xp_exit xp_cmd_record(const struct xp_options *options)
{
	return xp_record(options);
}
