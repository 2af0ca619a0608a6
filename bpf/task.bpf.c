// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * What happens to the followed processes: exec, fork, exit, and changes of the list of loaded objects. These records
 * are rare and wake the loader, which has uprobes to attach; they travel in the same rings and on the same clock as
 * the function events, so the loader sees them in order.
 */
#include "common.bpf.h"

/* Set by the loader: children of a followed process are followed too. */
const volatile bool follow_children = false;
/* Set by the loader with --exec: processes that execute the file with this inode number are followed; 0 is none. */
const volatile __u64 exec_inode = 0;
/*
 * Set by the loader while it traces a command that starts: this process is to stop, for its tracer, when it has changed
 * its list of loaded objects. Only its first thread has that tracer: in another one the signal would stop it for good.
 */
__u32 stop_at_link_map = 0;

#define SIGSTOP 19

static __always_inline bool followed(__u32 pid)
{
	return bpf_map_lookup_elem(&targets, &pid);
}

static __always_inline void follow(__u32 pid, __u64 flags)
{
	__u32 execs = 0;

	bpf_map_update_elem(&targets, &pid, &execs, flags);
}

static __always_inline void record_task(struct task_struct *task, __u32 tid, __u32 ppid, __u32 execs,
					enum xp_rec_kind kind)
{
	struct xp_rec_task *rec = reserve(sizeof(*rec), kind);

	if (!rec)
		return;
	rec->rec.time = now();
	rec->rec.pid = BPF_CORE_READ(task, tgid);
	rec->rec.tid = tid;
	rec->rec.word = xp_rec_word(0, kind);
	rec->rec.sp = 0;
	rec->ppid = ppid;
	rec->exit_code = BPF_CORE_READ(task, exit_code);
	rec->execs = execs;
	rec->reserved = 0;
	/* Its own, and that of threads that are gone: not of a first thread that has ended before the others. */
	rec->cpu_ns = BPF_CORE_READ(task, signal, sum_sched_runtime) + BPF_CORE_READ(task, se.sum_exec_runtime);
	bpf_core_read(rec->comm, sizeof(rec->comm), &task->comm);
	bpf_ringbuf_submit(rec, BPF_RB_FORCE_WAKEUP);
}

/*
 * Raw tracepoints: those with typed arguments (tp_btf) cost the loader, to find their types, and the verifier, to check
 * each access by name, several times what all else does.
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
	/* Another thread takes the place of the first one, and its tracer has lost it. */
	if (pid == stop_at_link_map && (__u32)old_pid != pid)
		stop_at_link_map = 0;
	/* Counted also when there is no room for the record; the process has one thread at this point. */
	++*execs;
	record_task(task, old_pid, 0, *execs, XP_REC_EXEC);
	return 0;
}

SEC("raw_tp/sched_process_fork")
int BPF_PROG(task_fork, struct task_struct *parent, struct task_struct *child)
{
	__u32 ppid, pid;

	if (!follow_children)
		return 0;
	ppid = BPF_CORE_READ(parent, tgid);
	pid = BPF_CORE_READ(child, tgid);
	/* Before the child's first instruction, so none of its events is missed. */
	if (ppid == pid || !followed(ppid))
		return 0;
	follow(pid, BPF_ANY);
	record_task(child, BPF_CORE_READ(child, pid), ppid, 0, XP_REC_FORK);
	return 0;
}

SEC("raw_tp/sched_process_exit")
int BPF_PROG(task_exit, struct task_struct *task)
{
	__u32 pid = BPF_CORE_READ(task, tgid);
	__u32 tid = BPF_CORE_READ(task, pid);

	if (!followed(pid))
		return 0;
	if (BPF_CORE_READ(task, signal, live.counter)) {
		record_task(task, tid, 0, 0, XP_REC_EXIT_THREAD);
		return 0;
	}
	record_task(task, tid, 0, 0, XP_REC_EXIT_PROCESS);
	bpf_map_delete_elem(&targets, &pid);
	return 0;
}

/* On _dl_debug_state(), which dynamic linkers call before and after they change the list of loaded objects. */
SEC("uprobe")
int link_map_changed(struct pt_regs *ctx)
{
	__u64 pid_tgid = bpf_get_current_pid_tgid();
	struct xp_rec *rec;

	if (!followed(pid_tgid >> 32))
		return 0;
	if (pid_tgid >> 32 == stop_at_link_map && (__u32)pid_tgid == stop_at_link_map)
		bpf_send_signal(SIGSTOP);
	rec = reserve(sizeof(*rec), XP_REC_LINK_MAP);
	if (!rec)
		return 0;
	rec->time = now();
	rec->pid = pid_tgid >> 32;
	rec->tid = pid_tgid;
	rec->word = xp_rec_word(0, XP_REC_LINK_MAP);
	rec->sp = 0;
	bpf_ringbuf_submit(rec, BPF_RB_FORCE_WAKEUP);
	return 0;
}
