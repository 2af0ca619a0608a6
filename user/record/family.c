/* SPDX-License-Identifier: BSD-2-Clause */
#include "record/family.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/util.h"
#include "record/follow.h"
#include "record/targets.h"
#include "target/target.h"

/* Of a forest of processes, the nearest to the roots: their number bounds the time that the count takes. */
#define MEMBERS_MAX 4096

struct process {
	pid_t pid;
	pid_t parent;
};

struct processes {
	struct process *list;
	size_t count, room;
};

static int list_processes(struct processes *processes)
{
	DIR *list = xp_target_list(0);
	int err = 0;
	pid_t pid;

	if (!list)
		return -errno;
	while (!err && (pid = xp_target_next(list))) {
		err = XP_ARRAY_RESERVE(processes->list, processes->room, processes->count + 1);
		if (!err)
			processes->list[processes->count++] = (struct process){ pid, xp_target_parent(pid) };
	}
	closedir(list);
	return err;
}

static int add(struct xp_family *family, pid_t pid)
{
	if (family->count == MEMBERS_MAX)
		return 0;
	if (XP_ARRAY_RESERVE(family->list, family->room, family->count + 1))
		return -ENOMEM;
	family->list[family->count++] = (struct xp_family_member){ pid, xp_target_cpu_ns(pid) };
	return 0;
}

static const struct xp_family_member *find(const struct xp_family *family, pid_t pid)
{
	for (size_t i = 0; i < family->count; i++)
		if (family->list[i].pid == pid)
			return &family->list[i];
	return NULL;
}

/* A member's children come behind it, so the walk ends when it has seen all. */
static int add_children(struct xp_family *family, const struct processes *all)
{
	int err = 0;

	for (size_t i = 0; i < family->count && !err; i++)
		for (size_t p = 0; p < all->count && !err; p++)
			if (all->list[p].parent == family->list[i].pid && !find(family, all->list[p].pid))
				err = add(family, all->list[p].pid);
	return err;
}

static int add_running(struct xp_family *family, const struct processes *all, const struct stat *file)
{
	int err = 0;

	for (size_t p = 0; p < all->count && !err; p++) {
		struct stat st;

		if (!xp_target_stat_exe(all->list[p].pid, &st) && xp_follow_same_file(&st, file) &&
		    !find(family, all->list[p].pid))
			err = add(family, all->list[p].pid);
	}
	return err;
}

int xp_family_find(struct xp_family *family, const struct xp_targets *targets)
{
	const struct xp_options *options = targets->options;
	struct processes all = { 0 };
	int err = options->follow || options->exec_path ? list_processes(&all) : 0;

	for (size_t i = 0; i < options->pids.count && !err; i++)
		err = add(family, options->pids.pids[i]);
	if (!err && options->exec_path)
		err = add_running(family, &all, &targets->plan->exec_file);
	if (!err && options->follow)
		err = add_children(family, &all);
	free(all.list);
	return err;
}

uint64_t xp_family_cpu_ns(const struct xp_family *before, const struct xp_family *now)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < now->count; i++) {
		const struct xp_family_member *then = find(before, now->list[i].pid);
		uint64_t then_ns = then ? then->cpu_ns : 0;

		sum += now->list[i].cpu_ns - XP_MIN(then_ns, now->list[i].cpu_ns);
	}
	return sum;
}

unsigned int xp_family_threads(const struct xp_family *family)
{
	unsigned int threads = 0;

	for (size_t i = 0; i < family->count; i++)
		threads += xp_target_threads(family->list[i].pid);
	return threads;
}

void xp_family_free(struct xp_family *family)
{
	free(family->list);
	*family = (struct xp_family){ 0 };
}
