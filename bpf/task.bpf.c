// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Task events of the followed processes: exec, fork, exit, and changes of the list of loaded objects. These records are
 * rare and wake the loader, which has uprobes to attach. They use the same rings and the same clock as the function
 * events, so the loader sees them in order.
 */
#include "births.bpf.h"
#include "common.bpf.h"
#include "thread.bpf.h"

/* Set by the loader: children of a followed process are followed too. */
const volatile bool follow_children = false;
/* Set by the loader with --exec: processes that execute the file with this inode number are followed; 0: none. */
const volatile __u64 exec_inode = 0;
/*
 * Set by the loader while it traces a command that is starting: this process stops, for its tracer, after each change
 * of its list of loaded objects. The tracer traces only its first thread: in another thread, the signal would stop the
 * process permanently.
 */
__u32 stop_at_link_map = 0;

#define SIGSTOP 19

static __always_inline void follow(__u32 pid, __u64 flags)
{
	__u32 execs = 0;

	bpf_map_update_elem(&targets, &pid, &execs, flags);
}

static __always_inline void record_task(struct task_struct *task, __u32 tid, __u32 ppid, __u32 execs,
					enum xp_event_kind kind)
{
	struct xp_event_task *event = reserve(sizeof(*event), kind);
	__u32 pid = BPF_CORE_READ(task, tgid);

	if (!event) {
		__sync_fetch_and_add(&tasks_lost, 1);
		return;
	}
	fill(&event->head, bpf_ktime_get_ns(), (__u64)pid << 32 | tid, 0, 0, kind);
	event->ppid = ppid;
	event->no_tsc = no_tsc_flag && !has_tsc(task);
	event->exit_code = BPF_CORE_READ(task, exit_code);
	event->execs = execs;
	event->taken_back = 0;
	event->position = kind == XP_EVENT_EXIT_THREAD ? ring_counts(pid, fs_base_of(task), &event->taken_back) : 0;
	/*
	 * CPU time of the task and of the threads that have ended; excludes a first thread that ended before the
	 * others.
	 */
	event->cpu_ns = BPF_CORE_READ(task, signal, sum_sched_runtime) + BPF_CORE_READ(task, se.sum_exec_runtime);
	bpf_core_read(event->comm, sizeof(event->comm), &task->comm);
	bpf_ringbuf_submit(event, BPF_RB_FORCE_WAKEUP);
}

/*
 * Raw tracepoints, because tracepoints with typed arguments (tp_btf) cost several times as much as everything else: in
 * the loader, which must find their types, and in the verifier, which checks each access by name.
 */
SEC("raw_tp/sched_process_exec")
int BPF_PROG(task_exec, struct task_struct *task, pid_t old_pid, struct linux_binprm *binprm)
{
	__u32 pid = BPF_CORE_READ(task, tgid);
	__u32 *execs;

	if (exec_inode && BPF_CORE_READ(binprm, file, f_inode, i_ino) == exec_inode)
		follow(pid, BPF_NOEXIST);
	execs = bpf_map_lookup_elem(&targets, &pid);
	if (!execs)
		return 0;
	/* Another thread replaces the first thread, which its tracer has lost. */
	if (pid == stop_at_link_map && (__u32)old_pid != pid)
		stop_at_link_map = 0;
	/* Counted even if there is no space for the record. The process has only one thread at this point. */
	++*execs;
	record_task(task, old_pid, 0, *execs, XP_EVENT_EXEC);
	return 0;
}

SEC("raw_tp/sched_process_fork")
int BPF_PROG(task_fork, struct task_struct *parent, struct task_struct *child)
{
	__u32 ppid, pid;

	if (!follow_children && !watches_births)
		return 0;
	ppid = BPF_CORE_READ(parent, tgid);
	pid = BPF_CORE_READ(child, tgid);
	if (!followed(ppid))
		return 0;
	if (follow_children || ppid == pid)
		__sync_fetch_and_add(&births, 1);
	/* This runs before the child's first instruction, so none of its events is missed. */
	if (ppid == pid || !follow_children)
		return 0;
	follow(pid, BPF_ANY);
	record_task(child, BPF_CORE_READ(child, pid), ppid, 0, XP_EVENT_FORK);
	/* Reports its first thread, unless the child runs in the memory of its parent. */
	if (has_call_rings && BPF_CORE_READ(parent, mm) != BPF_CORE_READ(child, mm))
		record_thread((__u64)pid << 32 | BPF_CORE_READ(child, pid), child, fs_base_of(child), 0, 0,
			      XP_EVENT_THREAD);
	return 0;
}

SEC("raw_tp/sched_process_exit")
int BPF_PROG(task_exit, struct task_struct *task)
{
	__u32 pid = BPF_CORE_READ(task, tgid);
	__u32 tid = BPF_CORE_READ(task, pid);

	if (!followed(pid))
		return 0;
	note_end(task, tid);
	if (BPF_CORE_READ(task, signal, live.counter)) {
		record_task(task, tid, 0, 0, XP_EVENT_EXIT_THREAD);
		return 0;
	}
	record_task(task, tid, 0, 0, XP_EVENT_EXIT_PROCESS);
	bpf_map_delete_elem(&targets, &pid);
	return 0;
}

/*
 * Tasks that share the memory of a followed process with call rings (user/sled/call_rings.h): threads, and vfork()
 * children, which have the fs base of their parent.
 */

/* The thread that waits for a vfork() child. */
struct lender {
	__u64 pid;
	__u64 fs_base;
};

/* vfork() children that have neither executed a program nor exited. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct lender);
} borrowers SEC(".maps");

SEC("raw_tp/task_newtask")
int BPF_PROG(task_new, struct task_struct *task, unsigned long clone_flags)
{
	__u32 pid = bpf_get_current_pid_tgid() >> 32;
	__u32 tid;

	if (!(clone_flags & CLONE_VM) || !followed(pid) || is_kernel_worker(task))
		return 0;
	tid = BPF_CORE_READ(task, pid);
	if (!(clone_flags & CLONE_THREAD)) {
		struct lender lender = { pid, fs_base_of((struct task_struct *)bpf_get_current_task()) };

		bpf_map_update_elem(&borrowers, &tid, &lender, BPF_ANY);
	}
	record_thread((__u64)pid << 32 | tid, task, fs_base_of(task), clone_flags, fs_base_of(task), XP_EVENT_THREAD);
	return 0;
}

static __always_inline void leave_memory(__u32 tid)
{
	struct lender *lender = bpf_map_lookup_elem(&borrowers, &tid);

	if (!lender)
		return;
	record_thread(lender->pid << 32 | tid, NULL, 0, 0, lender->fs_base, XP_EVENT_THREAD_GONE);
	bpf_map_delete_elem(&borrowers, &tid);
}

/* Runs before the parent of a vfork() continues. Linux 6.10, commit 5c5fad46e48c. */
SEC("raw_tp/sched_prepare_exec")
int BPF_PROG(task_prepare_exec, struct task_struct *task)
{
	leave_memory(BPF_CORE_READ(task, pid));
	return 0;
}

SEC("raw_tp/sched_process_exec")
int BPF_PROG(task_leave_by_exec, struct task_struct *task)
{
	leave_memory(BPF_CORE_READ(task, pid));
	forget_thread(BPF_CORE_READ(task, pid));
	return 0;
}

SEC("raw_tp/sched_process_exit")
int BPF_PROG(task_leave_by_exit, struct task_struct *task)
{
	leave_memory(BPF_CORE_READ(task, pid));
	forget_thread(BPF_CORE_READ(task, pid));
	return 0;
}

__u64 own_flags = 0;

/* The loader runs this to find no_tsc_flag: returns the flags of its own thread. */
SEC("syscall")
int read_own_flags(void *ctx)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();

	own_flags = BPF_CORE_READ(task, thread_info.flags);
	return 0;
}

struct xp_bpf_tracee tracees[XP_BPF_TRACEES_MAX];
__u32 tracee_count = 0;

static const struct list_head *next_tracee;

/* Lists one thread. Returns whether there may be more. A separate function: the verifier checks it only once. */
__noinline int list_tracee(__u32 number)
{
	struct task_struct *tracer = (struct task_struct *)bpf_get_current_task();
	const struct list_head *entry = next_tracee;
	struct task_struct *task = (void *)entry - bpf_core_field_offset(struct task_struct, ptrace_entry);

	if (number >= XP_BPF_TRACEES_MAX ||
	    entry == (void *)tracer + bpf_core_field_offset(struct task_struct, ptraced))
		return 0;
	tracees[number].tid = BPF_CORE_READ(task, pid);
	tracees[number].fs_base = is_kernel_worker(task) ? 0 : fs_base_of(task);
	tracees[number].no_tsc = !has_tsc(task);
	next_tracee = BPF_CORE_READ(entry, next);
	return 1;
}

/* The loader runs this in a task that has stopped a process: only this shows which threads may execute rdtsc. */
SEC("syscall")
int list_tracees(void *ctx)
{
	struct task_struct *tracer = (struct task_struct *)bpf_get_current_task();
	__u32 count = 0;

	next_tracee = BPF_CORE_READ(tracer, ptraced.next);
	while (count < XP_BPF_TRACEES_MAX && list_tracee(count))
		count++;
	tracee_count = count;
	return 0;
}

/* Program on _dl_debug_state(), which dynamic linkers call before and after they change the list of loaded objects. */
SEC("uprobe")
int link_map_changed(struct pt_regs *ctx)
{
	__u64 pid_tgid = bpf_get_current_pid_tgid();

	if (!followed(pid_tgid >> 32))
		return 0;
	if (pid_tgid >> 32 == stop_at_link_map && (__u32)pid_tgid == stop_at_link_map)
		bpf_send_signal(SIGSTOP);
	return record_rare(XP_EVENT_LINK_MAP);
}
