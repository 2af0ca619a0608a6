// SPDX-License-Identifier: BSD-2-Clause
/*
 * empty OBJECT PID FILE OFFSET...: attaches the empty program to these offsets of FILE in the process, as xprof does,
 * reports that on standard output, and detaches at the end of standard input. empty OBJECT: the same for a program
 * whose section name says where to attach it.
 */
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernel/attach.h"

#define PROBES_MAX 16

static int load(const char *path, struct bpf_object **object)
{
	struct bpf_program *program;
	int err;

	*object = bpf_object__open_file(path, NULL);
	if (!*object)
		return -errno;
	program = bpf_object__next_program(*object, NULL);
	err = bpf_program__set_expected_attach_type(program, XP_TRACE_UPROBE_MULTI);
	if (!err)
		err = bpf_object__load(*object);
	return err ? err : bpf_program__fd(program);
}

static void wait_for_end(void)
{
	puts("attached");
	fflush(stdout);
	while (getchar() != EOF)
		;
}

static int attach_by_section(const char *path)
{
	struct bpf_object *object = bpf_object__open_file(path, NULL);
	struct bpf_link *link = NULL;
	int err = object ? bpf_object__load(object) : -errno;

	if (!err) {
		link = bpf_program__attach(bpf_object__next_program(object, NULL));
		err = link ? 0 : -errno;
	}
	if (err)
		fprintf(stderr, "empty: %s\n", strerror(-err));
	else
		wait_for_end();
	bpf_link__destroy(link);
	bpf_object__close(object);
	return err ? 1 : 0;
}

int main(int argc, char **argv)
{
	struct xp_uprobe probes[PROBES_MAX] = { 0 };
	struct bpf_object *object = NULL;
	struct xp_attach *attach = NULL;
	int count = argc - 4;
	int program, file, err;

	if (argc == 2)
		return attach_by_section(argv[1]);
	if (count < 1 || count > PROBES_MAX)
		return 2;
	for (int i = 0; i < count; i++)
		probes[i].offset = strtoull(argv[4 + i], NULL, 0);
	file = open(argv[3], O_RDONLY | O_CLOEXEC);
	program = load(argv[1], &object);
	err = file < 0 ? -errno : program < 0 ? program : xp_attach_new(&attach, true);
	if (!err)
		err = xp_attach_uprobes(attach,
					&(struct xp_uprobe_set){ .program_fd = program,
								 .file_fd = file,
								 .pid = atoi(argv[2]),
								 .list = probes,
								 .count = count });
	if (err) {
		fprintf(stderr, "empty: %s\n", strerror(-err));
	} else {
		wait_for_end();
	}
	xp_attach_free(attach);
	bpf_object__close(object);
	return err ? 1 : 0;
}
