// SPDX-License-Identifier: BSD-2-Clause
#include "sample/perf_kernel.h"

#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/util.h"

#define MODULE_NAME_BYTES 64 /* the kernel's MODULE_NAME_LEN is less */

uint64_t xp_perf_kernel_text(FILE *table)
{
	char line[512], name[8];
	uint64_t address;

	while (fgets(line, sizeof(line), table))
		if (sscanf(line, "%" SCNx64 " %*c %7s", &address, name) == 2 && !strcmp(name, "_text"))
			return address;
	return 0;
}

struct module {
	char name[MODULE_NAME_BYTES];
	uint64_t start;
	uint64_t bytes;
	char *path; /* relative; NULL: unknown */
};

struct modules {
	struct module *all;
	size_t count;
	size_t room;
};

/* A line is: name size references users state address */
static int read_modules(struct modules *modules, FILE *table)
{
	char *line = NULL;
	size_t room = 0;
	int err = 0;

	while (!err && getline(&line, &room, table) > 0) {
		struct module module = { 0 };

		if (sscanf(line, "%63s %" SCNu64 " %*s %*s %*s %" SCNx64, module.name, &module.bytes, &module.start) !=
			3 ||
		    !module.start)
			continue;
		err = XP_ARRAY_ADD(modules->all, modules->count, modules->room, module);
	}
	free(line);
	return err;
}

/* Returns whether path is the file of a module: "kernel/fs/x-y.ko.xz" is the file of module "x_y". */
static bool is_file_of(const char *path, const char *module)
{
	const char *name = strrchr(path, '/');

	for (name = name ? name + 1 : path; *module; name++, module++)
		if (*name != *module && !(*name == '-' && *module == '_'))
			return false;
	return !strncmp(name, ".ko", 3);
}

/* A line is: path: dependencies */
static int read_paths(struct modules *modules, FILE *files)
{
	char *line = NULL;
	size_t room = 0;
	int err = 0;

	while (!err && getline(&line, &room, files) > 0) {
		line[strcspn(line, ":\n")] = 0;
		for (size_t i = 0; i < modules->count && !err; i++) {
			struct module *module = &modules->all[i];

			if (module->path || !is_file_of(line, module->name))
				continue;
			module->path = strdup(line);
			err = module->path ? 0 : -ENOMEM;
		}
	}
	free(line);
	return err;
}

static int put_module(struct xp_perfdata *perfdata, const struct module *module, const char *dir)
{
	char path[XP_PERFDATA_PATH_MAX];

	/* If the file is unknown, write the name in brackets, as perf does. */
	if (module->path)
		snprintf(path, sizeof(path), "%s/%s", dir, module->path);
	else
		snprintf(path, sizeof(path), "[%s]", module->name);
	return xp_perfdata_module(perfdata, module->start, module->bytes, path);
}

int xp_perf_kernel_modules(struct xp_perfdata *perfdata, FILE *table, FILE *files, const char *dir)
{
	struct modules modules = { 0 };
	int err = read_modules(&modules, table);

	if (!err && files)
		err = read_paths(&modules, files);
	for (size_t i = 0; i < modules.count; i++) {
		if (!err)
			err = put_module(perfdata, &modules.all[i], dir);
		free(modules.all[i].path);
	}
	free(modules.all);
	return err;
}

size_t xp_perf_kernel_build_id(const uint8_t *notes, size_t notes_bytes, uint8_t *to, size_t size)
{
	Elf64_Nhdr note;

	while (notes_bytes >= sizeof(note)) {
		size_t name_bytes, bytes;

		memcpy(&note, notes, sizeof(note));
		name_bytes = (note.n_namesz + 3ull) & ~3ull;
		bytes = (note.n_descsz + 3ull) & ~3ull;
		notes += sizeof(note);
		notes_bytes -= sizeof(note);
		if (name_bytes > notes_bytes || bytes > notes_bytes - name_bytes)
			return 0;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof(ELF_NOTE_GNU) &&
		    !memcmp(notes, ELF_NOTE_GNU, sizeof(ELF_NOTE_GNU))) {
			memcpy(to, notes + name_bytes, XP_MIN((size_t)note.n_descsz, size));
			return XP_MIN((size_t)note.n_descsz, size);
		}
		notes += name_bytes + bytes;
		notes_bytes -= name_bytes + bytes;
	}
	return 0;
}
