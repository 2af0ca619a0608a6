// SPDX-License-Identifier: BSD-2-Clause
#include "kernel/wait_programs.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "base/why.h"
#include "wait.skel.h"

/*
 * Number of threads that an iterator ends between two calls of make_room(): their last records need at most 20 KiB, a
 * quarter of the smallest ring.
 */
#define FINISHED_PER_READ 16

/* ---- what the kernel has ---- */

/* The tracepoints of the programs, as BTF names them. */
static const char *const tracepoints[] = { "sched_switch",	 "sched_waking",       "sched_process_fork",
					   "sched_process_exec", "sched_process_exit", "task_rename" };

static int check_tracepoints(const struct btf *btf)
{
	for (size_t i = 0; i < XP_ARRAY_SIZE(tracepoints); i++) {
		char name[64];

		snprintf(name, sizeof(name), "btf_trace_%s", tracepoints[i]);
		if (btf__find_by_name_kind(btf, name, BTF_KIND_TYPEDEF) > 0)
			continue;
		return xp_why_set(-EOPNOTSUPP, "--off-cpu needs the tracepoint %s, which this kernel does not have",
				  tracepoints[i]);
	}
	return 0;
}

/* Finds a per-CPU variable of the kernel by its name. Returns false if it does not exist. */
static bool find_per_cpu(const struct btf *btf, const struct btf_type *section, const char *name, int64_t *offset,
			 uint32_t *type)
{
	const struct btf_var_secinfo *vars = btf_var_secinfos(section);

	for (uint32_t i = 0; i < btf_vlen(section); i++) {
		const struct btf_type *var = btf__type_by_id(btf, vars[i].type);

		if (!var || strcmp(btf__name_by_offset(btf, var->name_off) ?: "", name))
			continue;
		*offset = vars[i].offset;
		*type = var->type;
		return true;
	}
	return false;
}

/* Finds the preemption count. Linux 6.2 to 6.14 has it in struct pcpu_hot; other versions have a variable. */
static bool find_count(const struct btf *btf, const struct btf_type *section, int64_t *offset)
{
	const struct btf_type *hot;
	uint32_t type;

	if (find_per_cpu(btf, section, "__preempt_count", offset, &type))
		return true;
	if (!find_per_cpu(btf, section, "pcpu_hot", offset, &type))
		return false;
	/* struct pcpu_hot { union { struct { current_task; preempt_count; ... */
	for (unsigned int depth = 0; depth < 3; depth++) {
		const struct btf_member *member;

		hot = btf__type_by_id(btf, type);
		if (!hot || !btf_is_composite(hot) || !btf_vlen(hot))
			return false;
		member = btf_members(hot);
		for (uint32_t i = 0; i < btf_vlen(hot); i++)
			if (!strcmp(btf__name_by_offset(btf, member[i].name_off) ?: "", "preempt_count")) {
				*offset += btf_member_bit_offset(hot, i) / 8;
				return true;
			}
		*offset += btf_member_bit_offset(hot, 0) / 8;
		type = member[0].type;
	}
	return false;
}

/* See count_from_queue in bpf/wait.bpf.c. */
static int64_t count_from_queue(const struct btf *btf)
{
	int section = btf__find_by_name_kind(btf, ".data..percpu", BTF_KIND_DATASEC);
	const struct btf_type *type = section > 0 ? btf__type_by_id(btf, section) : NULL;
	int64_t queue, count;
	uint32_t unused;

	if (!type || !find_per_cpu(btf, type, "runqueues", &queue, &unused) || !find_count(btf, type, &count)) {
		xp_debug(
		    "the kernel's BTF lacks runqueues or preempt_count: wake-ups by interrupts count as wake-ups by "
		    "the interrupted threads");
		return 0;
	}
	return count - queue;
}

/* ---- loading ---- */

/* Values for constants of the programs. */
struct kernel {
	int64_t count_from_queue;
	bool has_cast;
};

static int reuse(struct bpf_map *map, const struct xp_programs *programs, const char *name)
{
	int fd = xp_programs_map_fd(programs, name);

	return fd < 0 ? fd : bpf_map__reuse_fd(map, fd);
}

static int configure(struct wait_bpf *skeleton, const struct xp_wait_options *options, const struct kernel *kernel)
{
	unsigned int cpus = options->programs->cpus;
	int err;

	skeleton->rodata->sample_stacks = options->stacks;
	skeleton->rodata->all_threads = options->all;
	skeleton->rodata->only_tid = options->tid;
	skeleton->rodata->follow_children = options->children;
	skeleton->rodata->room_of_iterator = cpus;
	skeleton->rodata->min_ns = options->min_ns;
	skeleton->rodata->long_ns = XP_WAIT_LONG_NS;
	skeleton->rodata->count_from_queue = kernel->count_from_queue;
	skeleton->rodata->has_cast = kernel->has_cast;
	err = bpf_map__set_max_entries(skeleton->maps.wait_rooms, cpus + 1);
	if (!err)
		err = reuse(skeleton->maps.rings, options->programs, "rings");
	if (!err)
		err = reuse(skeleton->maps.targets, options->programs, "targets");
	if (!err)
		err = reuse(skeleton->maps.stack_sizes, options->programs, "stack_sizes");
	return err;
}

/* Returns 0 or -EOPNOTSUPP. */
static int check(struct kernel *kernel)
{
	struct btf *btf = btf__load_vmlinux_btf();
	int err;

	if (!btf)
		return xp_why_set(
		    -EOPNOTSUPP,
		    "--off-cpu needs the kernel's type information, which cannot be read (/sys/kernel/btf/vmlinux, "
		    "CONFIG_DEBUG_INFO_BTF): %s",
		    strerror(errno));
	err = check_tracepoints(btf);
	if (!err) {
		kernel->count_from_queue = count_from_queue(btf);
		kernel->has_cast = btf__find_by_name_kind(btf, "bpf_rdonly_cast", BTF_KIND_FUNC) > 0;
	}
	btf__free(btf);
	return err;
}

int xp_wait_programs_open(struct xp_wait_programs *programs, const struct xp_wait_options *options)
{
	struct wait_bpf *skeleton;
	struct kernel kernel = { 0 };
	int err;

	memset(programs, 0, sizeof(*programs));
	err = check(&kernel);
	if (err)
		return err;
	skeleton = wait_bpf__open();
	err = skeleton ? configure(skeleton, options, &kernel) : -errno;
	if (!err)
		err = wait_bpf__load(skeleton);
	if (err) {
		wait_bpf__destroy(skeleton);
		return xp_why_set(
		    err == -ENOMEM ? err : -EOPNOTSUPP,
		    "cannot load the programs of --off-cpu: %s; -v shows the kernel's messages, and xprof works "
		    "without --off-cpu",
		    strerror(-err));
	}
	programs->skeleton = skeleton;
	programs->cpus = options->programs->cpus;
	return 0;
}

void xp_wait_programs_close(struct xp_wait_programs *programs)
{
	bpf_link__destroy(programs->scan);
	bpf_link__destroy(programs->finish);
	wait_bpf__destroy(programs->skeleton);
	memset(programs, 0, sizeof(*programs));
}

static int attach(struct bpf_program *program, struct bpf_link **link)
{
	*link = bpf_program__attach(program);
	return *link ? 0 : -errno;
}

int xp_wait_programs_attach(struct xp_wait_programs *programs)
{
	struct wait_bpf *skeleton = programs->skeleton;
	int err = attach(skeleton->progs.wait_switch, &skeleton->links.wait_switch);

	if (!err)
		err = attach(skeleton->progs.wait_waking, &skeleton->links.wait_waking);
	if (!err)
		err = attach(skeleton->progs.wait_fork, &skeleton->links.wait_fork);
	if (!err)
		err = attach(skeleton->progs.wait_exec, &skeleton->links.wait_exec);
	if (!err)
		err = attach(skeleton->progs.wait_exit, &skeleton->links.wait_exit);
	if (!err)
		err = attach(skeleton->progs.wait_rename, &skeleton->links.wait_rename);
	if (!err)
		err = attach(skeleton->progs.scan_waits, &programs->scan);
	if (!err)
		err = attach(skeleton->progs.finish_waits, &programs->finish);
	return err;
}

/* ---- iterators ---- */

/*
 * Reads until the iterator has visited all tasks. Each read fills at most the buffer; a read that was interrupted is
 * continued.
 */
static int iterate(const struct bpf_link *link, int (*take)(void *arg, const struct xp_event_sample *begin), void *arg)
{
	int fd = bpf_iter_create(bpf_link__fd(link)), err = 0;
	struct xp_event_sample begins[64];
	size_t used = 0;
	ssize_t size;

	if (fd < 0)
		return -errno;
	do {
		size = read(fd, (char *)begins + used, sizeof(begins) - used);
		used += (size_t)XP_MAX(size, 0);
		for (size_t i = 0; i < used / sizeof(*begins) && !err; i++)
			err = take(arg, &begins[i]);
		memmove(begins, (char *)begins + used / sizeof(*begins) * sizeof(*begins), used % sizeof(*begins));
		used %= sizeof(*begins);
	} while (!err && (size > 0 || (size < 0 && (errno == EINTR || errno == EAGAIN))));
	if (size < 0)
		err = -errno;
	close(fd);
	return err;
}

int xp_wait_programs_scan(struct xp_wait_programs *programs,
			  int (*take)(void *arg, const struct xp_event_sample *begin), void *arg)
{
	return iterate(programs->scan, take, arg);
}

/* Each read ends the waits of up to FINISHED_PER_READ threads, because the iterator prints a byte per thread. */
static int finish(const struct bpf_link *link, void (*make_room)(void *arg), void *arg)
{
	int fd = bpf_iter_create(bpf_link__fd(link)), err = 0;
	char printed[FINISHED_PER_READ];
	ssize_t size;

	if (fd < 0)
		return -errno;
	do {
		size = read(fd, printed, sizeof(printed));
		err = size < 0 ? -errno : 0;
		if (size > 0)
			make_room(arg);
	} while (size > 0 || err == -EINTR || err == -EAGAIN);
	close(fd);
	return err;
}

int xp_wait_programs_stop(struct xp_wait_programs *programs, void (*make_room)(void *arg), void *arg)
{
	struct wait_bpf *skeleton = programs->skeleton;

	if (!programs->finish)
		return 0;
	/* A BPF program that is running now ends long before the iterator starts. */
	__atomic_store_n(&skeleton->bss->stopped, xp_now_ns(), __ATOMIC_SEQ_CST);
	wait_bpf__detach(skeleton);
	return finish(programs->finish, make_room, arg);
}

/* ---- control and counts ---- */

void xp_wait_programs_slow(struct xp_wait_programs *programs, unsigned int steps)
{
	__atomic_store_n(&programs->skeleton->bss->slow, XP_MIN(steps, XP_WAIT_SLOW_MAX), __ATOMIC_RELAXED);
}

int xp_wait_programs_counters(const struct xp_wait_programs *programs, struct xp_wait_counters *sum)
{
	struct xp_wait_counters *of_cpus = calloc(programs->cpus, sizeof(*of_cpus));
	uint32_t zero = 0;
	int err = of_cpus ? 0 : -ENOMEM;

	memset(sum, 0, sizeof(*sum));
	if (!err && bpf_map_lookup_elem(bpf_map__fd(programs->skeleton->maps.wait_counters), &zero, of_cpus))
		err = -errno;
	for (unsigned int cpu = 0; cpu < programs->cpus && !err; cpu++)
		xp_counters_add(sum, &of_cpus[cpu], sizeof(*sum), 1);
	free(of_cpus);
	return err;
}
