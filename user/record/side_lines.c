// SPDX-License-Identifier: BSD-2-Clause
#include "record/targets.h"

#include <stdlib.h>
#include <string.h>

#include "base/text_pool.h"
#include "base/u64_map.h"
#include "base/util.h"
#include "elf/questions.h"

/* Time limit for all binaries together: later functions have no lines. */
#define LINES_NS (3 * 1000000000ull)
#define READER_BYTES ((rlim_t)2 << 30)
#define FILE_NAMES_BYTES_MAX (64u << 20)

/* The lines of an object's functions. */
struct object_lines {
	const struct xp_sled_table *table;
	size_t next; /* index of the function that the next answer is for */
	struct xp_source_line lines[];
};

struct reading {
	uint64_t deadline_ns;
	struct xp_u64_map objects; /* struct object_lines, by the address of the object */
	struct xp_text_pool *files;
};

static struct xp_confined_limits limits_of(const struct reading *reading)
{
	uint64_t now = xp_now_ns(), left = reading->deadline_ns > now ? reading->deadline_ns - now : 0;

	return (struct xp_confined_limits){
		.ns = left,
		.cpu_seconds = LINES_NS / 1000000000ull,
		.address_bytes = READER_BYTES,
	};
}

/* Answers arrive in the order of the questions. The innermost frame has the line of the address itself. */
static int take_line(void *arg, uint64_t vaddr, const struct xp_source_frame *frames, uint32_t count)
{
	struct object_lines *lines = arg;

	(void)vaddr;
	if (count && lines->next < lines->table->function_count)
		lines->lines[lines->next] = (struct xp_source_line){ frames[0].file, frames[0].line };
	lines->next++;
	return 0;
}

/* Returns whether the file at the binary's path is the file that was recorded. */
static bool is_same_file(const struct reading *reading, const struct xp_object *object)
{
	const struct xp_sled_table *table = object->table;
	const struct xp_confined_limits limits = limits_of(reading);
	struct xp_elf_functions functions = { 0 };
	bool same;

	if (!limits.ns || xp_elf_ask_functions(&functions, object->path, 0, &limits))
		return false;
	same = functions.count == table->function_count && functions.build_id_bytes == table->build_id_bytes &&
	       !memcmp(functions.build_id, table->build_id, table->build_id_bytes);
	free(functions.vaddrs);
	return same;
}

static void read_lines(const struct reading *reading, const struct xp_object *object, struct object_lines *lines)
{
	const struct xp_elf_named named = { .texts = reading->files, .add = take_line, .arg = lines };
	const struct xp_confined_limits limits = limits_of(reading);
	struct xp_elf_addresses addresses = { .search_path = object->path, .detail = XP_NAMES_LINES };
	uint64_t *vaddrs = calloc(lines->table->function_count, sizeof(*vaddrs));

	if (!vaddrs || !limits.ns || *object->path != '/' || !is_same_file(reading, object)) {
		free(vaddrs);
		return;
	}
	for (size_t i = 0; i < lines->table->function_count; i++)
		vaddrs[i] = lines->table->functions[i].vaddr;
	addresses.vaddrs = vaddrs;
	addresses.count = lines->table->function_count;
	/* Answers before an error are valid. */
	xp_elf_ask_names(object->path, &addresses, &limits, &named);
	free(vaddrs);
}

/* Returns the lines of this binary's functions. NULL: out of memory. */
static const struct object_lines *lines_of(struct reading *reading, const struct xp_object *object)
{
	struct object_lines *lines = xp_u64_map_get(&reading->objects, (uintptr_t)object);

	if (lines)
		return lines;
	lines = calloc(1, sizeof(*lines) + object->table->function_count * sizeof(lines->lines[0]));
	if (!lines)
		return NULL;
	lines->table = object->table;
	if (xp_u64_map_put(&reading->objects, (uintptr_t)object, lines)) {
		free(lines);
		return NULL;
	}
	read_lines(reading, object, lines);
	return lines;
}

static int add_lines(struct reading *reading, struct xp_process *process)
{
	const struct xp_functions *functions = &process->functions;
	struct xp_source_line *all = calloc(functions->count, sizeof(*all));
	int err = 0;

	for (size_t i = 0; all && i < functions->range_count; i++) {
		const struct xp_range *range = &functions->ranges[i];
		const struct object_lines *lines = lines_of(reading, range->object);

		if (lines)
			memcpy(&all[range->fdr_base], lines->lines, range->function_count * sizeof(*all));
	}
	if (all)
		err = xp_process_add_lines(process, all);
	free(all);
	return err;
}

int xp_side_lines_add(struct xp_targets *targets)
{
	struct reading reading = { .deadline_ns = xp_now_ns() + LINES_NS };
	int err = 0;

	reading.files = calloc(1, sizeof(*reading.files));
	if (!reading.files)
		return 0; /* the side ELF is valid without lines */
	reading.files->bytes_max = FILE_NAMES_BYTES_MAX;
	for (struct xp_process *process = targets->processes.first; process; process = process->next)
		if (process->log.side_name[0] && !process->log.error)
			err = add_lines(&reading, process) ?: err;
	for (size_t i = 0; i < reading.objects.count; i++)
		free(reading.objects.entries[i].pointer);
	xp_u64_map_free(&reading.objects);
	xp_text_pool_free(reading.files);
	free(reading.files);
	return err;
}
