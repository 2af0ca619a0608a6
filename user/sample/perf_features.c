// SPDX-License-Identifier: BSD-2-Clause
#include "sample/perf_features.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/command_line.h"
#include "base/small_file.h"
#include "base/util.h"
#include "sample/perf_kernel.h"
#include "sample/perf_maps.h"

/* ---- the machine ---- */

struct machine {
	struct utsname names;
	char cpu[128]; /* the model; "" if unknown */
	uint8_t kernel_id[XP_PERFDATA_BUILD_ID_BYTES];
	struct xp_perfdata_build_id kernel; /* build_id_bytes 0: unknown */
};

static void read_cpu(char *to, size_t size)
{
	FILE *file = fopen("/proc/cpuinfo", "re");
	char line[256];

	to[0] = 0;
	while (file && !to[0] && fgets(line, sizeof(line), file)) {
		char *value = strchr(line, ':');

		if (strncmp(line, "model name", 10) || !value)
			continue;
		value += strspn(value, ": ");
		snprintf(to, size, "%.*s", (int)strcspn(value, "\n"), value);
	}
	if (file)
		fclose(file);
}

static void read_kernel(struct machine *machine)
{
	char notes[4096];
	ssize_t bytes = xp_small_file_read(notes, sizeof(notes), "/sys/kernel/notes");

	machine->kernel = (struct xp_perfdata_build_id){
		.build_id = machine->kernel_id,
		.build_id_bytes = xp_perf_kernel_build_id((const uint8_t *)notes, XP_MAX(bytes, 0), machine->kernel_id,
							  sizeof(machine->kernel_id)),
		.kernel = true,
		.path = "[kernel.kallsyms]",
	};
}

static void read_machine(struct machine *machine)
{
	if (uname(&machine->names))
		memset(&machine->names, 0, sizeof(machine->names));
	read_cpu(machine->cpu, sizeof(machine->cpu));
	read_kernel(machine);
}

/* Sets the known features. Their strings point into *machine. */
static void put_machine(const struct machine *machine, struct xp_perfdata_features *features)
{
	struct sysinfo info;

	features->hostname = machine->names.nodename;
	features->release = machine->names.release;
	features->arch = machine->names.machine;
	features->version = "xprof " XPROF_VERSION;
	features->cpu = machine->cpu[0] ? machine->cpu : NULL;
	features->cpus = sysconf(_SC_NPROCESSORS_CONF);
	features->cpus_online = sysconf(_SC_NPROCESSORS_ONLN);
	if (!sysinfo(&info))
		features->memory_kb = (uint64_t)info.totalram * info.mem_unit / 1024;
}

/* ---- the files ---- */

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
static size_t list_build_ids(const struct xp_perf_build_ids *known, const struct machine *machine,
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
	struct machine machine;
	int err;

	read_machine(&machine);
	put_machine(&machine, &features);
	features.build_id_count = list_build_ids(known, &machine, &ids);
	features.build_ids = ids;
	err = xp_perfdata_finish(perfdata, &features);
	free_build_ids(ids, features.build_id_count);
	free(argv);
	return err;
}
