// SPDX-License-Identifier: BSD-2-Clause
#include "trace/process_log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file_name.h"
#include "base/own_file.h"
#include "base/util.h"
#include "elf/instr_map.h"
#include "trace/process.h"

struct xp_log_info xp_process_log_info(const struct xp_process *process)
{
	struct xp_processes *processes = process->all;
	/* llvm-xray does not accept earlier records. */
	uint64_t start_tsc = process->log.open_tsc ?: processes->start_tsc;

	if (!processes->cycle_hz)
		processes->cycle_hz = processes->clock->hz;
	return (struct xp_log_info){
		.pid = process->pid,
		.fdr_version = processes->fdr_version,
		.constant_tsc = processes->clock->constant_tsc,
		.nonstop_tsc = processes->clock->nonstop_tsc,
		.cycle_hz = processes->cycle_hz,
		.start_tsc = start_tsc,
		.wall_ns = xp_clock_wall_ns(processes->clock, start_tsc),
		.comm = process->comm,
		.exe = process->exe,
	};
}

static int open_spool(struct xp_process *process)
{
	char base[XP_FILE_BASE_BYTES], log_name[64], spool_name[64];
	struct xp_log_info info = xp_process_log_info(process);
	int err;

	xp_file_base_name(base, sizeof(base), process->comm, process->pid, process->image);
	snprintf(log_name, sizeof(log_name), "%s" XP_LOG_SUFFIX, base);
	snprintf(spool_name, sizeof(spool_name), "%s" XP_SPOOL_SUFFIX, base);
	info.final_name = log_name;
	info.names_only = process->all->flight_bytes;
	err = xp_spool_create(&process->log.spool, process->all->dir_fd, spool_name, &info);
	if (!err)
		memcpy(process->log.spool_name, spool_name, sizeof(spool_name));
	return err;
}

/* Stores which functions have which IDs in the log, in case there will be no manifest. */
static void note_objects(struct xp_process *process)
{
	const struct xp_functions *functions = &process->functions;

	while (!process->log.error && process->log.noted_objects < functions->range_count) {
		const struct xp_range *range = &functions->ranges[process->log.noted_objects++];
		const struct xp_sled_table *table = range->object->table;
		union {
			struct xp_spool_object object;
			char bytes[sizeof(struct xp_spool_object) + PATH_MAX];
		} note = { .object = { .first_id = range->fdr_base + 1, .functions = range->function_count } };
		size_t length = strnlen(range->object->path, PATH_MAX);

		note.object.build_id_bytes = XP_MIN(table->build_id_bytes, sizeof(note.object.build_id));
		memcpy(note.object.build_id, table->build_id, note.object.build_id_bytes);
		memcpy(note.bytes + sizeof(note.object), range->object->path, length);
		process->log.error = xp_spool_note(process->log.spool, &note.object, sizeof(note.object) + length);
	}
}

static void begin_spool(struct xp_process *process)
{
	if (!process->log.error && !process->log.spool)
		process->log.error = open_spool(process);
	if (!process->log.error)
		note_objects(process);
}

void xp_process_spool_names(struct xp_process *process)
{
	begin_spool(process);
	if (!process->log.error)
		process->log.error = xp_spool_flush(process->log.spool);
}

int xp_process_spool_chunk(struct xp_process *process, struct xp_thread *thread)
{
	begin_spool(process);
	if (!process->log.error)
		process->log.error = xp_spool_append(process->log.spool, thread->tid, thread->name, &thread->enc);
	return process->log.error;
}

/* Returns the symbols of all function IDs of the log; the caller frees the array. NULL: out of memory. */
static const char **list_names(const struct xp_functions *functions)
{
	const char **names = calloc(functions->count, sizeof(*names));

	for (size_t i = 0; names && i < functions->range_count; i++) {
		const struct xp_range *range = &functions->ranges[i];

		for (size_t f = 0; f < range->object->table->function_count; f++)
			names[range->fdr_base + f] = range->object->table->functions[f].name;
	}
	return names;
}

/* Writes the names of all function IDs of the log as the side ELF. lines: NULL: unknown. */
static int write_instr_map(struct xp_process *process, const struct xp_source_line *lines)
{
	const char **names = list_names(&process->functions);
	char name[64], base[48];
	int fd, err;

	if (!names)
		return -ENOMEM;
	xp_file_base_name(base, sizeof(base), process->comm, process->pid, process->image);
	snprintf(name, sizeof(name), "%s.xray.so", base);
	if (process->log.side_name[0])
		memcpy(name, process->log.side_name, sizeof(name)); /* the process may have changed its name */
	fd = xp_own_file_create(process->all->dir_fd, name, O_WRONLY);
	if (fd < 0) {
		err = fd;
		goto out;
	}
	err = xp_instr_map_write(fd, names, lines, process->functions.count);
	if (close(fd) && !err)
		err = -errno;
	if (err)
		unlinkat(process->all->dir_fd, name, 0);
	else
		memcpy(process->log.side_name, name, sizeof(name));
out:
	free(names);
	return err;
}

int xp_process_add_lines(struct xp_process *process, const struct xp_source_line *lines)
{
	if (unlinkat(process->all->dir_fd, process->log.side_name, 0))
		return -errno;
	/* If the disk has no space for the lines, writes only the names. */
	return write_instr_map(process, lines) ? write_instr_map(process, NULL) : 0;
}

/* Returns whether llvm-xray needs a side ELF. It does not if there is only the program's map, without typed events. */
static bool needs_instr_map(const struct xp_process *process)
{
	return process->functions.count && (process->functions.range_count > 1 || process->functions.has_typed ||
					    !process->functions.main_object || process->functions.main_object->plan ||
					    process->functions.ranges[0].object != process->functions.main_object);
}

int xp_process_name_functions(struct xp_process *process)
{
	return needs_instr_map(process) && !process->log.side_name[0] ? write_instr_map(process, NULL) : 0;
}

/* Records that the spool accepted and lost later (full disk) do not count as written. */
static void reconcile(struct xp_process *process, const struct xp_spool_result *result)
{
	uint64_t in_log = result->stats.functions + result->stats.events;
	uint64_t expected =
	    process->sums.counts.written + process->sums.counts.synthesized + process->sums.counts.carried;

	if (in_log >= expected)
		return;
	process->sums.counts.unstored += XP_MIN(expected - in_log, process->sums.counts.written);
	process->sums.counts.written -= XP_MIN(expected - in_log, process->sums.counts.written);
}

int xp_process_finish_log(struct xp_process *process)
{
	struct xp_process_log *log = &process->log;
	struct xp_spool_result result;
	int err;

	if (!log->spool_name[0] && !log->error)
		log->error = open_spool(process);
	if (!log->spool_name[0] || log->name[0])
		return log->error;
	if (log->spool)
		xp_spool_flush(log->spool); /* after an error, the spool is shorter: see reconcile() */
	xp_spool_free(log->spool);
	log->spool = NULL;
	err = process->all->make_log(process->all->dir_fd, log->spool_name, &result);
	if (!err) {
		snprintf(log->name, sizeof(log->name), "%.*s", (int)sizeof(log->name) - 1, result.final_name);
		log->bytes = result.file_bytes;
		log->version = result.fdr_version;
		reconcile(process, &result);
		err = xp_process_name_functions(process);
	}
	log->error = log->error ?: err;
	return log->error;
}
