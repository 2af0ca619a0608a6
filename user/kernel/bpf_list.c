// SPDX-License-Identifier: BSD-2-Clause
#include "kernel/bpf_list.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/util.h"

/* The verifier's limit: BPF_MAX_SUBPROGS, plus the program itself. */
#define FUNCTIONS_MAX 257

struct functions {
	uint64_t starts[FUNCTIONS_MAX];
	uint32_t bytes[FUNCTIONS_MAX];
};

/* Reports one program to take(). Ignores a program that was unloaded meanwhile. */
static int list_one(uint32_t id, struct functions *functions,
		    int (*take)(void *arg, const struct xp_bpf_listed *program), void *arg)
{
	struct bpf_prog_info info = {
		.nr_jited_ksyms = FUNCTIONS_MAX,
		.jited_ksyms = (uintptr_t)functions->starts,
		.nr_jited_func_lens = FUNCTIONS_MAX,
		.jited_func_lens = (uintptr_t)functions->bytes,
	};
	struct xp_bpf_listed listed = { .id = id, .tag = info.tag };
	uint32_t size = sizeof(info);
	int fd = bpf_prog_get_fd_by_id(id);
	int err;

	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	err = bpf_obj_get_info_by_fd(fd, &info, &size) ? -errno : 0;
	close(fd);
	if (err)
		return 0;
	if (info.jited_ksyms && info.jited_func_lens) {
		listed.starts = functions->starts;
		listed.bytes = functions->bytes;
		listed.count = XP_MIN(XP_MIN(info.nr_jited_ksyms, info.nr_jited_func_lens), FUNCTIONS_MAX);
	}
	return take(arg, &listed);
}

int xp_bpf_list(int (*take)(void *arg, const struct xp_bpf_listed *program), void *arg)
{
	struct functions *functions = malloc(sizeof(*functions));
	uint32_t id = 0;
	int err = functions ? 0 : -ENOMEM;

	while (!err && !bpf_prog_get_next_id(id, &id))
		err = list_one(id, functions, take, arg);
	if (!err && errno != ENOENT)
		err = -errno;
	free(functions);
	return err;
}
