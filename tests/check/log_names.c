// SPDX-License-Identifier: BSD-2-Clause
#include "check/log_names.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "base/file_view.h"
#include "model/log_walk.h"
#include "model/objects.h"

struct xp_log_names {
	struct xp_symbolizer *symbolizer;
	struct xp_recorded recorded;
	struct xp_report_functions functions;
};

static int find(struct xp_log_names *names, const char *path, const char *instr_map)
{
	struct xp_file_view view;
	uint32_t last;
	int err = xp_file_view_open(&view, AT_FDCWD, path);

	if (err)
		return err == -ENOMEM ? err : -ENOENT;
	last = xp_log_extent(&view).last_id;
	xp_file_view_close(&view);
	err = xp_recorded_add(&names->recorded, path);
	if (!err)
		err = xp_symbolizer_new(&names->symbolizer, XP_NAMES_FUNCTIONS);
	if (!err && instr_map && !xp_report_instr_map_is_good(instr_map, names->symbolizer))
		err = -ENOEXEC;
	if (!err)
		err = xp_report_functions_find(&names->functions, last, &names->recorded.processes[0], instr_map,
					       names->symbolizer);
	return err ? err : xp_symbolizer_run(names->symbolizer);
}

int xp_log_names_new(struct xp_log_names **result, const char *path, const char *instr_map)
{
	struct xp_log_names *names = calloc(1, sizeof(*names));
	int err = names ? find(names, path, instr_map) : -ENOMEM;

	if (err) {
		xp_log_names_free(names);
		return err;
	}
	*result = names;
	return 0;
}

void xp_log_names_free(struct xp_log_names *names)
{
	if (!names)
		return;
	xp_report_functions_free(&names->functions);
	xp_symbolizer_free(names->symbolizer);
	xp_recorded_free(&names->recorded);
	free(names);
}

const char *xp_log_names_get(const struct xp_log_names *names, uint32_t function_id)
{
	const struct xp_report_function *function;
	const struct xp_place *place;

	if (function_id >= names->functions.count)
		return NULL;
	function = &names->functions.all[function_id];
	if (!function->has_place)
		return NULL;
	place = xp_symbolizer_place(names->symbolizer, function->place);
	return place->frame_count ? place->frames[place->frame_count - 1].function : NULL;
}
