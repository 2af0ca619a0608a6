/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Unwinds stops of a process that a debugger has written to a file: unwind_stops PID FILE. The process must still
 * exist.
 *
 * FILE has for each stop, as 64-bit words: rip, rsp, rbp, the number of bytes of its stack, the other registers as in a
 * sample, and then the stack bytes. unwind_stops prints for each stop how the walk ended, and the addresses, leaf
 * first.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "target/mapped_file.h"
#include "target/target.h"
#include "unwind/cfi_build.h"
#include "unwind/unwind.h"
#include "xprof/event.h"

#define FILES_MAX 1024

static struct {
	bool is_asked;
	struct xp_cfi_table *table;
} tables[FILES_MAX];
static pid_t pid;
static struct xp_address_space space;

static const struct xp_vma *vma_of(const struct xp_file *file)
{
	for (size_t i = 0; i < space.count; i++)
		if (space.vmas[i].file == file)
			return &space.vmas[i];
	abort();
}

static struct xp_cfi_table *make_table(const struct xp_file *file)
{
	int fd = xp_mapped_file_open(pid, vma_of(file));
	int to = memfd_create("table", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct xp_cfi_table *table = NULL;

	if (fd < 0 || to < 0 || xp_cfi_build(fd, XP_CFI_WHOLE_FILE, to) ||
	    fcntl(to, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW) || xp_cfi_table_open(&table, to))
		fprintf(stderr, "%s has no table\n", file->path);
	close(fd);
	close(to);
	return table;
}

static int table_of(void *arg, const struct xp_file *file, uint64_t offset, const struct xp_cfi_table **table)
{
	(void)arg;
	(void)offset;
	if (file->index >= FILES_MAX)
		abort();
	if (!tables[file->index].is_asked && (file->kind == XP_FILE_DISK || file->kind == XP_FILE_VDSO))
		tables[file->index].table = make_table(file);
	tables[file->index].is_asked = true;
	*table = tables[file->index].table;
	return 0;
}

static int read_space(struct xp_files *files)
{
	struct xp_mappings mappings;
	int err = xp_mappings_read_all(&mappings, pid);

	for (size_t i = 0; i < mappings.count && !err; i++) {
		const struct xp_mapping *m = &mappings.list[i];
		struct xp_file file = { .dev = m->dev, .inode = m->inode, .path = m->path };
		struct xp_vma vma = { .start = m->start, .end = m->end, .file_offset = m->file_offset };

		file.kind = !strcmp(m->path, "[vdso]") ? XP_FILE_VDSO : m->path[0] == '/' ? XP_FILE_DISK : XP_FILE_ANON;
		vma.file = xp_files_intern(files, &file);
		err = vma.file ? xp_address_space_map(&space, &vma) : -ENOMEM;
	}
	if (!err)
		xp_mappings_free(&mappings);
	return err;
}

struct stop {
	uint64_t ip;
	uint64_t sp;
	uint64_t bp;
	uint64_t stack_bytes;
	__u64 regs[XP_SAMPLE_REGS];
};

static void print_stop(struct xp_unwinder *unwinder, const struct stop *stop, const uint8_t *stack)
{
	static struct xp_frame frames[XP_UNWIND_FRAMES_MAX];
	const struct xp_unwind_thread thread = {
		.tid = pid,
		.ip = stop->ip,
		.sp = stop->sp,
		.bp = stop->bp,
		.regs = stop->regs,
		.stack = stack,
		.stack_bytes = (uint32_t)stop->stack_bytes,
	};
	struct xp_unwind_result result;

	xp_unwind(unwinder, &space, &thread, false, frames, &result);
	printf("%s", xp_unwind_end_key(result.end));
	for (size_t i = 0; i < result.count; i++)
		printf(" %" PRIx64, frames[i].address);
	putchar('\n');
}

int main(int argc, char **argv)
{
	static uint8_t stack[XP_STACK_BYTES_MAX];
	FILE *file = argc == 3 ? fopen(argv[2], "re") : NULL;
	struct xp_unwinder *unwinder;
	struct xp_files files = { 0 };
	struct stop stop;

	if (!file)
		return 2;
	pid = atoi(argv[1]);
	if (read_space(&files) || xp_unwinder_new(&unwinder, table_of, NULL, true))
		return 1;
	while (fread(&stop, sizeof(stop), 1, file)) {
		if (stop.stack_bytes > sizeof(stack) || (stop.stack_bytes && !fread(stack, stop.stack_bytes, 1, file)))
			return 1;
		print_stop(unwinder, &stop, stack);
	}
	xp_unwinder_free(unwinder);
	xp_address_space_free(&space);
	for (size_t i = 0; i < FILES_MAX; i++)
		xp_cfi_table_free(tables[i].table);
	xp_files_free(&files);
	fclose(file);
	return 0;
}
