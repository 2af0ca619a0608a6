/* SPDX-License-Identifier: BSD-2-Clause */
#include "kernel/programs.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/util.h"
#include "kernel/attach.h"
#include "kernel/btf.h"
#include "xprof.skel.h"

/*
 * Threads with an individual stack size. Each CPU reserves some entries of an LRU map (128, LOCAL_FREE_TARGET in
 * kernel/bpf/bpf_lru_list.c).
 */
#define STACKS_MIN 16384u
#define STACKS_PER_CPU 256u

/* Tasks that are ending at a time, and the entries that each CPU reserves. */
#define ENDING_TASKS_MIN 1024u
#define ENDING_TASKS_PER_CPU 256u

/* Some messages of libbpf, such as the verifier's log, have several lines. */
static int print_libbpf(enum libbpf_print_level level, const char *format, va_list args)
{
	char *text, *rest, *line;

	if (xp_log_level < XP_LOG_VERBOSE || level == LIBBPF_DEBUG || vasprintf(&text, format, args) < 0)
		return 0;
	rest = text;
	while ((line = strsep(&rest, "\n")))
		if (*line)
			xp_debug("%s", line);
	free(text);
	return 0;
}

static bool is_uprobe(const struct bpf_program *program)
{
	return !strcmp(bpf_program__section_name(program), "uprobe");
}

/* Returns whether a BPF program is needed. Others are not loaded: no verification, no space for maps. */
static bool is_wanted(const struct xprof_bpf *skeleton, const struct bpf_program *program,
		      const struct xp_programs_options *options)
{
	if (program == skeleton->progs.stub_call || program == skeleton->progs.stub_args ||
	    program == skeleton->progs.stub_custom_event || program == skeleton->progs.stub_typed_event)
		return options->stub;
	if (program == skeleton->progs.switch_threads)
		return options->switches;
	if (program == skeleton->progs.sample || program == skeleton->progs.name_ksyms ||
	    program == skeleton->progs.jit_changed)
		return options->samples;
	if (program == skeleton->progs.task_new || program == skeleton->progs.task_prepare_exec ||
	    program == skeleton->progs.read_own_flags || program == skeleton->progs.list_tracees ||
	    program == skeleton->progs.task_leave_by_exec || program == skeleton->progs.task_leave_by_exit)
		return options->threads;
	if (program == skeleton->progs.stub_memory_call)
		return options->stub && options->threads;
	if (program == skeleton->progs.task_exec || program == skeleton->progs.task_fork ||
	    program == skeleton->progs.task_exit)
		return options->tasks;
	if (program == skeleton->progs.usdt_probe)
		return options->usdt;
	return options->sleds || (options->usdt && program == skeleton->progs.link_map_changed);
}

static int configure(struct xprof_bpf *skeleton, const struct xp_programs_options *options, unsigned int cpus)
{
	struct bpf_program *program;
	int err;

	skeleton->rodata->only_targets = skeleton->rodata->usdt_only_targets = options->only_targets;
	skeleton->rodata->follow_children = options->follow_children;
	skeleton->rodata->watches_births = options->births;
	skeleton->rodata->exec_inode = options->exec_inode;
	skeleton->rodata->has_call_rings = options->threads;
	skeleton->rodata->args_count = options->args;
	skeleton->rodata->sample_stacks = options->stacks;
	skeleton->rodata->switches_of_all = options->switches_of_all;
	skeleton->rodata->switches_of_tid = options->switches_of_tid;
	err = bpf_map__set_max_entries(skeleton->maps.rings, cpus);
	if (!err && options->samples)
		err = bpf_map__set_max_entries(skeleton->maps.samples, cpus);
	if (!err && options->samples && options->stacks == XP_STACKS_DUMP)
		err = bpf_map__set_max_entries(skeleton->maps.stack_sizes, XP_MAX(STACKS_MIN, STACKS_PER_CPU * cpus));
	if (!err && options->usdt)
		err = bpf_map__set_max_entries(skeleton->maps.usdt_places, XP_USDT_PLACES_MAX);
	if (!err)
		err = bpf_map__set_max_entries(skeleton->maps.targets, XP_MAX(options->targets, 1u));
	if (!err && options->births)
		err = bpf_map__set_max_entries(skeleton->maps.ending_tasks,
					       XP_MAX(ENDING_TASKS_MIN, ENDING_TASKS_PER_CPU * cpus));
	/* The hash buckets of these maps use 2 MB. Without call rings, the maps stay small. */
	if (!err && !options->threads)
		err = bpf_map__set_max_entries(skeleton->maps.told_threads, 1)
			  ?: bpf_map__set_max_entries(skeleton->maps.call_headers, 1);
	bpf_object__for_each_program(program, skeleton->obj)
	{
		if (!err && options->uprobe_multi && is_uprobe(program))
			err = bpf_program__set_expected_attach_type(program, XP_TRACE_UPROBE_MULTI);
		if (!err)
			err = bpf_program__set_autoload(program, is_wanted(skeleton, program, options));
	}
	return err;
}

static uint64_t own_flags(struct xprof_bpf *skeleton)
{
	LIBBPF_OPTS(bpf_test_run_opts, options);

	return bpf_prog_test_run_opts(bpf_program__fd(skeleton->progs.read_own_flags), &options)
		   ? 0
		   : __atomic_load_n(&skeleton->bss->own_flags, __ATOMIC_RELAXED);
}

/*
 * Finds the flag that PR_SET_TSC sets, which differs between kernels and is not in BTF: sets it for this thread, which
 * executes only system calls meanwhile.
 */
static void find_no_tsc_flag(struct xprof_bpf *skeleton)
{
	uint64_t flag = UINT64_MAX;
	sigset_t all, before;
	int mode;

	if (prctl(PR_GET_TSC, &mode) || mode != PR_TSC_ENABLE)
		return;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	/* Repeat it: other flags change, too. */
	for (int i = 0; i < 4; i++) {
		uint64_t without = own_flags(skeleton);

		if (!prctl(PR_SET_TSC, PR_TSC_SIGSEGV))
			flag &= own_flags(skeleton) & ~without;
		prctl(PR_SET_TSC, PR_TSC_ENABLE);
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	skeleton->bss->no_tsc_flag = flag && !(flag & (flag - 1)) ? flag : 0;
}

/* Makes a lock that child processes share, and that survives its holder. NULL: out of memory. */
static pthread_mutex_t *new_shared_lock(void)
{
	pthread_mutex_t *lock = mmap(NULL, sizeof(*lock), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_mutexattr_t attr;

	if (lock == MAP_FAILED)
		return NULL;
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(lock, &attr);
	pthread_mutexattr_destroy(&attr);
	return lock;
}

static struct xp_program_fds fds_of(const struct xprof_bpf *skeleton)
{
#define FD(name) bpf_program__fd(skeleton->progs.name)
	return (struct xp_program_fds){
		.sleds = {
			[XP_EVENT_ENTRY] = FD(sled_entry),
			[XP_EVENT_EXIT] = FD(sled_exit),
			[XP_EVENT_TAIL_EXIT] = FD(sled_tail_exit),
			[XP_EVENT_ENTRY_ARGS] = FD(sled_entry_args),
			[XP_EVENT_CUSTOM] = FD(sled_custom_event),
			[XP_EVENT_TYPED] = FD(sled_typed_event),
			[XP_EVENT_GO_ENTRY] = FD(go_call),
			[XP_EVENT_GO_EXIT] = FD(go_call),
		},
		.conditional_tail_exit = FD(sled_tail_exit_conditional),
		.stub = {
			[XP_STUB_CALL] = FD(stub_call),
			[XP_STUB_ARGS] = FD(stub_args),
			[XP_STUB_CUSTOM] = FD(stub_custom_event),
			[XP_STUB_TYPED] = FD(stub_typed_event),
		},
		.memory_call = FD(stub_memory_call),
		.link_map = FD(link_map_changed),
		.jit = FD(jit_changed),
		.usdt = FD(usdt_probe),
		.sample = FD(sample),
		.rings = bpf_map__fd(skeleton->maps.rings),
	};
#undef FD
}

int xp_programs_open(struct xp_programs *programs, const struct xp_programs_options *options)
{
	int cpus = libbpf_num_possible_cpus();
	int btf_fd = cpus < 0 ? cpus : xp_kernel_btf_file();
	LIBBPF_OPTS(bpf_object_open_opts, open);
	struct xprof_bpf *skeleton;
	char btf_path[32];
	int err;

	memset(programs, 0, sizeof(*programs));
	if (cpus < 0)
		return cpus;
	libbpf_set_print(print_libbpf);
	snprintf(btf_path, sizeof(btf_path), "/proc/self/fd/%d", btf_fd);
	if (btf_fd >= 0)
		open.btf_custom_path = btf_path;
	else
		xp_debug("cannot make an extract of the kernel's BTF: %s; libbpf reads all of it", strerror(-btf_fd));
	skeleton = xprof_bpf__open_opts(&open);
	err = skeleton ? configure(skeleton, options, cpus) : -errno;
	if (!err)
		err = xprof_bpf__load(skeleton);
	if (err) {
		xprof_bpf__destroy(skeleton);
		return err;
	}
	programs->skeleton = skeleton;
	programs->fds = fds_of(skeleton);
	programs->cpus = cpus;
	programs->threads = options->threads;
	programs->naming = new_shared_lock();
	if (!programs->naming)
		return -ENOMEM;
	if (options->threads)
		find_no_tsc_flag(skeleton);
	return 0;
}

void xp_programs_close(struct xp_programs *programs)
{
	xprof_bpf__destroy(programs->skeleton);
	programs->skeleton = NULL;
	if (programs->naming)
		munmap(programs->naming, sizeof(*programs->naming));
	programs->naming = NULL;
}

static int attach(struct bpf_program *program, struct bpf_link **link)
{
	*link = bpf_program__attach(program);
	return *link ? 0 : -errno;
}

static int attach_threads(struct xprof_bpf *skeleton)
{
	int err = attach(skeleton->progs.task_new, &skeleton->links.task_new)
			  ?: attach(skeleton->progs.task_leave_by_exec, &skeleton->links.task_leave_by_exec)
			  ?: attach(skeleton->progs.task_leave_by_exit, &skeleton->links.task_leave_by_exit);

	/* Older kernels lack this tracepoint: the parent's first calls after vfork() may be assigned to the child. */
	if (!err && attach(skeleton->progs.task_prepare_exec, &skeleton->links.task_prepare_exec))
		xp_debug("no tracepoint sched_prepare_exec: %s", strerror(errno));
	return err;
}

int xp_programs_attach_tasks(struct xp_programs *programs)
{
	struct xprof_bpf *skeleton = programs->skeleton;
	int err = programs->threads ? attach_threads(skeleton) : 0;

	return err ?: attach(skeleton->progs.task_exec, &skeleton->links.task_exec)
		   ?: attach(skeleton->progs.task_fork, &skeleton->links.task_fork)
		   ?: attach(skeleton->progs.task_exit, &skeleton->links.task_exit);
}

int xp_programs_attach_switches(struct xp_programs *programs)
{
	return attach(programs->skeleton->progs.switch_threads, &programs->skeleton->links.switch_threads);
}

void xp_programs_detach_switches(struct xp_programs *programs)
{
	bpf_link__destroy(programs->skeleton->links.switch_threads);
	programs->skeleton->links.switch_threads = NULL;
}

int xp_programs_add_target(struct xp_programs *programs, pid_t pid)
{
	uint32_t key = pid, execs = 0;

	/* In a rescan, the process is already a target: its count continues. */
	if (bpf_map_update_elem(bpf_map__fd(programs->skeleton->maps.targets), &key, &execs, BPF_NOEXIST))
		return errno == EEXIST ? 0 : -errno;
	return 0;
}

static bool find_target(const struct xp_programs *programs, pid_t pid, uint32_t *execs)
{
	uint32_t key = pid;

	return !bpf_map_lookup_elem(bpf_map__fd(programs->skeleton->maps.targets), &key, execs);
}

bool xp_programs_is_target(const struct xp_programs *programs, pid_t pid)
{
	uint32_t execs;

	return find_target(programs, pid, &execs);
}

uint32_t xp_programs_execs(const struct xp_programs *programs, pid_t pid)
{
	uint32_t execs;

	return find_target(programs, pid, &execs) ? execs : 0;
}

uint32_t xp_programs_births(const struct xp_programs *programs)
{
	return __atomic_load_n(&programs->skeleton->bss->births, __ATOMIC_RELAXED);
}

void xp_programs_sample_cpus(struct xp_programs *programs, bool cpus)
{
	__atomic_store_n(&programs->skeleton->bss->sample_cpus, cpus, __ATOMIC_RELEASE);
}

void xp_programs_stop_at_link_map(struct xp_programs *programs, pid_t pid)
{
	__atomic_store_n(&programs->skeleton->bss->stop_at_link_map, (uint32_t)pid, __ATOMIC_RELEASE);
}

int xp_programs_sled_fd(const struct xp_programs *programs, enum xp_event_kind kind, bool conditional)
{
	if (kind == XP_EVENT_TAIL_EXIT && conditional)
		return programs->fds.conditional_tail_exit;
	return kind < XP_ARRAY_SIZE(programs->fds.sleds) ? programs->fds.sleds[kind] : -EINVAL;
}

void xp_programs_set_call_header(const struct xp_programs *programs, pid_t pid, uint64_t fs_base, uint64_t address)
{
	const struct xp_ring_key key = { .fs_base = fs_base, .pid = (uint32_t)pid };
	int map = bpf_map__fd(programs->skeleton->maps.call_headers);

	if (!address)
		bpf_map_delete_elem(map, &key);
	else if (bpf_map_update_elem(map, &key, &address, BPF_ANY))
		xp_debug("a call ring of process %d is not known to BPF: %s", pid, strerror(errno));
	else
		__atomic_fetch_add(&programs->skeleton->bss->call_headers_round, 1, __ATOMIC_SEQ_CST);
}

const uint64_t *xp_programs_tasks_lost(const struct xp_programs *programs)
{
	return (const uint64_t *)&programs->skeleton->bss->tasks_lost;
}

void xp_programs_tell_again(const struct xp_programs *programs)
{
	__atomic_fetch_add(&programs->skeleton->bss->told_round, 1, __ATOMIC_RELAXED);
}

bool xp_programs_know_tsc(const struct xp_programs *programs)
{
	return programs->skeleton->bss->no_tsc_flag;
}

size_t xp_programs_tracees(const struct xp_programs *programs, const struct xp_bpf_tracee **tracees)
{
	struct xprof_bpf *skeleton = programs->skeleton;
	LIBBPF_OPTS(bpf_test_run_opts, options);

	*tracees = skeleton->bss->tracees;
	if (bpf_prog_test_run_opts(bpf_program__fd(skeleton->progs.list_tracees), &options))
		return 0;
	return XP_MIN(skeleton->bss->tracee_count, XP_BPF_TRACEES_MAX);
}

int xp_programs_set_stack(struct xp_programs *programs, pid_t tid, const struct xp_stack_size *size)
{
	uint32_t key = tid;

	return bpf_map_update_elem(bpf_map__fd(programs->skeleton->maps.stack_sizes), &key, size, BPF_ANY) ? -errno : 0;
}

int xp_programs_describe(void *arg, const uint64_t *addresses, size_t count, char (*texts)[XP_KSYM_TEXT_BYTES])
{
	const struct xp_programs *programs = arg;
	struct xp_ksym_batch *batch = &programs->skeleton->bss->ksyms;
	LIBBPF_OPTS(bpf_test_run_opts, options);
	int err;

	if (count > XP_KSYM_BATCH)
		return -E2BIG;
	if (pthread_mutex_lock(programs->naming) == EOWNERDEAD)
		pthread_mutex_consistent(programs->naming);
	memset(batch, 0, sizeof(*batch));
	memcpy(batch->addresses, addresses, count * sizeof(*addresses));
	err = bpf_prog_test_run_opts(bpf_program__fd(programs->skeleton->progs.name_ksyms), &options);
	if (!err)
		memcpy(texts, batch->texts, count * sizeof(*texts));
	pthread_mutex_unlock(programs->naming);
	return err;
}

int xp_programs_set_usdt(const struct xp_programs *programs, uint32_t index, const struct xp_usdt_place *place)
{
	return bpf_map_update_elem(bpf_map__fd(programs->skeleton->maps.usdt_places), &index, place, BPF_ANY) ? -errno
													      : 0;
}

int xp_programs_map_fd(const struct xp_programs *programs, const char *name)
{
	return bpf_object__find_map_fd_by_name(programs->skeleton->obj, name);
}

int xp_programs_counters(const struct xp_programs *programs, struct xp_bpf_counters *counters)
{
	uint32_t zero = 0;

	return bpf_map_lookup_elem(bpf_map__fd(programs->skeleton->maps.counters), &zero, counters) ? -errno : 0;
}

uint64_t xp_programs_missed(const struct xp_programs *programs)
{
	struct bpf_program *program;
	uint64_t missed = 0;

	bpf_object__for_each_program(program, programs->skeleton->obj)
	{
		struct bpf_prog_info info = { 0 };
		uint32_t size = sizeof(info);

		if (is_uprobe(program) && bpf_program__fd(program) >= 0 &&
		    !bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &size))
			missed += info.recursion_misses;
	}
	return missed;
}
