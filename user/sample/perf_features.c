// SPDX-License-Identifier: BSD-2-Clause
#include "sample/perf_features.h"

#include <stdlib.h>
#include <string.h>

#include "base/command_line.h"
#include "sample/perf_machine.h"
#include "sample/perf_maps.h"

static void free_build_ids(struct xp_perfdata_build_id *ids, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!ids[i].kernel)
			free((char *)ids[i].path);
	free(ids);
}

/*
 * Lists the build ids of the kernel and of all files in the perf.data file. The caller frees *ids with
 * free_build_ids().
 */
static size_t list_build_ids(const struct xp_perf_build_ids *known, const struct xp_perf_machine *machine,
			     struct xp_perfdata_build_id **ids)
{
	size_t count = 0;

	*ids = calloc(known->room + 1, sizeof(**ids));
	if (!*ids)
		return 0;
	if (machine->kernel.build_id_bytes)
		(*ids)[count++] = machine->kernel;
	for (size_t i = 0; i < known->room; i++) {
		const struct xp_perf_build_id *id = &known->ids[i];
		char path[XP_PERFDATA_PATH_MAX];
		char *copy = id->bytes ? strdup(xp_perf_maps_path(id->file, true, path, sizeof(path))) : NULL;

		if (copy)
			(*ids)[count++] = (struct xp_perfdata_build_id){ .build_id = id->build_id,
									 .build_id_bytes = id->bytes,
									 .path = copy };
	}
	return count;
}

int xp_perf_features_write(struct xp_perfdata *perfdata, const struct xp_perf_build_ids *known,
			   const struct xp_clock *clock, const char *event)
{
	const struct xp_clock_pair *mono = &clock->mono;
	char **argv = xp_command_line_read();
	struct xp_perfdata_features features = {
		.argv = argv,
		.event = event,
		.wall_ns = xp_clock_wall_ns(clock, mono->tsc),
		.mono_ns = mono->ns,
	};
	struct xp_perfdata_build_id *ids;
	struct xp_perf_machine machine;
	int err;

	xp_perf_machine_read(&machine);
	xp_perf_machine_features(&machine, &features);
	features.build_id_count = list_build_ids(known, &machine, &ids);
	features.build_ids = ids;
	err = xp_perfdata_finish(perfdata, &features);
	free_build_ids(ids, features.build_id_count);
	free(argv);
	return err;
}
