// SPDX-License-Identifier: BSD-2-Clause
#include "perf_kernel.h"

#include <elf.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "util.h"

#define MODULE_NAME_BYTES 64 /* MODULE_NAME_LEN of the kernel is less */

uint64_t xp_perf_kernel_text(FILE *table)
{
	char line[512], name[8];
	uint64_t address;

	while (fgets(line, sizeof(line), table))
		if (sscanf(line, "%" SCNx64 " %*c %7s", &address, name) == 2 && !strcmp(name, "_text"))
			return address;
	return 0;
}

/* name size references users state address */
int xp_perf_kernel_modules(struct xp_perfdata *perfdata, FILE *table)
{
	char *line = NULL;
	size_t room = 0;
	int err = 0;

	while (!err && getline(&line, &room, table) > 0) {
		char name[MODULE_NAME_BYTES], path[MODULE_NAME_BYTES + 2];
		uint64_t bytes, start;

		if (sscanf(line, "%63s %" SCNu64 " %*s %*s %*s %" SCNx64, name, &bytes, &start) != 3 || !start)
			continue;
		/* So perf calls it where it does not know the file; the names of its functions are in kallsyms. */
		snprintf(path, sizeof(path), "[%s]", name);
		err = xp_perfdata_module(perfdata, start, bytes, path);
	}
	free(line);
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
