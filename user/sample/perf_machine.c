// SPDX-License-Identifier: BSD-2-Clause
#include "sample/perf_machine.h"

#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "sample/perf_kernel.h"

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

static void read_kernel(struct xp_perf_machine *machine)
{
	FILE *file = fopen("/sys/kernel/notes", "re");
	uint8_t notes[4096];
	size_t bytes = file ? fread(notes, 1, sizeof(notes), file) : 0;

	if (file)
		fclose(file);
	machine->kernel = (struct xp_perfdata_build_id){
		.build_id = machine->kernel_id,
		.build_id_bytes = xp_perf_kernel_build_id(notes, bytes, machine->kernel_id, sizeof(machine->kernel_id)),
		.kernel = true,
		.path = "[kernel.kallsyms]",
	};
}

void xp_perf_machine_read(struct xp_perf_machine *machine)
{
	if (uname(&machine->names))
		memset(&machine->names, 0, sizeof(machine->names));
	read_cpu(machine->cpu, sizeof(machine->cpu));
	read_kernel(machine);
}

void xp_perf_machine_features(const struct xp_perf_machine *machine, struct xp_perfdata_features *features)
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
