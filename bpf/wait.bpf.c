// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The programs of record --off-cpu, which measure what threads wait for, and how long. They are a separate BPF object,
 * which is loaded only for --off-cpu. They use types of the whole kernel (tp_btf), so that reading a task costs only a
 * load, and store the data of a thread in its task. They run with the run queue's lock held, so they allocate nothing:
 * threads get their data when they are created, or when the loader scans them. Other threads have no data and no
 * further cost.
 */
#include "wait.bpf.h"

/* ---- the start of a wait ---- */

/* Copies the next piece of the running thread's stack. Returns non-zero at the end. See copy_piece(). */
__noinline int copy_own_piece(__u32 number)
{
	struct room *room = room_at(bpf_get_smp_processor_id());
	struct piece piece;

	if (!room || !next_piece(&room->sample, &piece))
		return 1;
	return !note_piece(&room->sample, number,
			   !bpf_probe_read_user(&room->sample.rest[piece.at], piece.size, (void *)piece.from));
}

/* Fills in the head of a start event, without the stack. Returns its flags. */
static __always_inline __u32 start_sample(struct sample *s, struct task_struct *task, __u64 time)
{
	struct registers user;
	__u32 flags = registers_under_kernel(task, &user);

	if (!(flags & XP_SAMPLE_NO_USER))
		user.ip = probed_ip(task, user.ip);
	s->head.head.time = time;
	s->head.head.pid = task->tgid;
	s->head.head.tid = task->pid;
	s->head.kernel_frames = 0;
	s->head.user_frames = 0;
	s->head.stack_bytes = 0;
	s->head.stack_missing = 0;
	record_registers(s, &user);
	__builtin_memcpy(s->head.comm, task->comm, sizeof(s->head.comm));
	s->frames_bytes = 0;
	s->wanted = 0;
	s->done = 0;
	s->failures = 0;
	return flags;
}

/*
 * Returns how much of the stack to copy: little until the thread has been unwound once. The stacks of many waiting
 * threads would fill the ring, and stacks of waits are rarely deep. The unwinder requests more if it needs more.
 */
static __always_inline __u32 bytes_to_wait_for(struct task_struct *task, __u64 sp, __u32 *flags)
{
	__u32 tid = task->pid, bytes = bytes_to_copy(task, tid, sp, flags);

	if (bytes <= FIRST_BYTES_MAX || bpf_map_lookup_elem(&stack_sizes, &tid))
		return bytes;
	*flags &= ~(XP_SAMPLE_WHOLE | XP_SAMPLE_TOP);
	return FIRST_BYTES_MAX;
}

/* Sends a start event, if the ring has space for the stack. The end event has everything else. */
static __always_inline void ship_begin(struct sample *s, void *ring, __u32 flags)
{
	__u32 size = sizeof(s->head) + s->frames_bytes + s->head.stack_bytes;
	struct xp_wait_counters *counters;
	__u64 room, used;

	barrier_var(size);
	if (size > sizeof(s->head) + sizeof(s->rest))
		return;
	s->head.head.word = xp_event_word(flags, XP_EVENT_WAIT_BEGIN);
	room = bpf_ringbuf_query(ring, BPF_RB_RING_SIZE);
	used = bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA);
	if (used + size <= room - room / 4 && !bpf_ringbuf_output(ring, &s->head, size, xp_wakeup(used, size, room)))
		return;
	counters = counters_here();
	if (counters)
		counters->no_stack++;
}

/*
 * While the ring is more than a quarter full, fewer waits are sampled, and their probabilities include this: half of
 * them, and half of the rest for each further sixteenth of the ring. So no wait is lost, and if the reader is late only
 * briefly, the weights stay small.
 */
static __always_inline bool has_pressure(struct thread *thread, void *ring)
{
	__u64 room = bpf_ringbuf_query(ring, BPF_RB_RING_SIZE);
	__u64 used = bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA);
	__u32 shift;

	if (!room || used <= room / 4)
		return false;
	shift = (1 + (used - room / 4) * 16 / room) & (CHANCE_SHIFT - 1);
	if (!(thread->chance >> shift))
		return false;
	thread->chance >>= shift;
	return next_random(thread) & ((1u << shift) - 1);
}

static __always_inline void send_begin(void *ctx, struct task_struct *task, struct thread *thread)
{
	struct room *room = room_at(bpf_get_smp_processor_id());
	void *ring = ring_here();
	struct sample *s;
	__u32 flags;

	if (!room || !ring)
		return;
	if (has_pressure(thread, ring)) {
		thread->chance = 0;
		return;
	}
	s = &room->sample;
	flags = start_sample(s, task, thread->began_ns);
	if (flags & XP_SAMPLE_NO_USER)
		return;
	if (sample_stacks == XP_STACKS_FRAMES) {
		s->head.user_frames = frames_of(bpf_get_stack(ctx, s->rest, FRAMES_BYTES, BPF_F_USER_STACK));
		s->frames_bytes = s->head.user_frames * sizeof(__u64);
		if (s->frames_bytes > FRAMES_BYTES) /* never true: for the verifier */
			s->frames_bytes = FRAMES_BYTES;
	} else if (sample_stacks == XP_STACKS_DUMP) {
		s->wanted = bytes_to_wait_for(task, s->head.sp, &flags);
		for (__u32 i = 0; i < XP_STACK_PIECES_MAX; i++)
			if (copy_own_piece(i))
				break;
	}
	ship_begin(s, ring, flags);
}

/*
 * Compares the kernel's count of switches (nvcsw, nivcsw) with the reported ones. On some virtual machines, the kernel
 * counts switches for which neither these programs nor perf's sched_switch events ran. Returns whether none is missing.
 */
static __always_inline bool note_switches(struct task_struct *task, struct thread *thread, __u64 more)
{
	__u64 switches = switches_of(task), missed = switches - thread->switches - more;

	thread->switches = switches;
	if (!missed || missed > 1ull << 32)
		return true;
	thread->missed += missed;
	return false;
}

static __always_inline void begin_wait(void *ctx, struct task_struct *task, struct thread *thread, bool preempt,
				       __u64 clock)
{
	__u32 state = preempt ? 0 : task->__state;

	if (thread->has_ended || state & XP_TASK_DEAD)
		return;
	note_switches(task, thread, 1);
	thread->missed += thread->began != 0; /* the end of that wait */
	thread->began = clock;
	thread->began_ns = 0;
	read_run_delay(task, &thread->delay);
	thread->state = state;
	thread->flags = 0;
	thread->delayed_ns = 0;
	thread->chance = next_chance(thread, clock);
	if (!draw(thread)) {
		thread->chance = 0;
		return;
	}
	thread->began_ns = ktime_at(clock);
	send_begin(ctx, task, thread);
	if (thread->chance < XP_WAIT_CHOSEN) {
		thread->delayed_ns = bpf_ktime_get_ns() - thread->began_ns;
		thread->cpu = bpf_get_smp_processor_id();
	}
}

/* ---- the end of a wait ---- */

static __always_inline bool ship_end(struct end *end, struct task_struct *task, struct thread *thread, bool woken,
				     __u64 now)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	__u32 most = sample_stacks == XP_STACKS_NONE ? sizeof(__u64) : FRAMES_BYTES;
	void *ring = ring_here();
	__u32 flags = 0, size;

	if (!ring)
		return false;
	if (task->flags & PF_KTHREAD)
		flags |= XP_SAMPLE_KTHREAD | XP_SAMPLE_NO_USER;
	else if (!has_user_code(task))
		flags |= XP_SAMPLE_NO_USER;
	end->wait.head.time = now;
	end->wait.head.pid = task->tgid;
	end->wait.head.tid = task->pid;
	end->wait.head.word = xp_event_word(flags, XP_EVENT_WAIT);
	end->wait.ip = flags & XP_SAMPLE_NO_USER ? 0 : BPF_CORE_READ(regs, ip);
	end->wait.syscall = flags & XP_SAMPLE_NO_USER ? -1 : (__s64)BPF_CORE_READ(regs, orig_ax);
	end->wait.argument = flags & XP_SAMPLE_NO_USER ? 0 : BPF_CORE_READ(regs, di);
	end->wait.chance = thread->chance;
	end->wait.state = thread->state;
	end->wait.flags = thread->flags;
	end->wait.waker_pid = 0;
	end->wait.waker_tid = 0;
	__builtin_memset(end->wait.waker_comm, 0, sizeof(end->wait.waker_comm));
	if (thread->state && woken) {
		end->wait.flags |= thread->waker_flags;
		end->wait.waker_pid = thread->waker_pid;
		end->wait.waker_tid = thread->waker_tid;
		__builtin_memcpy(end->wait.waker_comm, thread->waker_comm, sizeof(end->wait.waker_comm));
	}
	__builtin_memcpy(end->wait.comm, task->comm, sizeof(end->wait.comm));
	end->wait.kernel_frames = frames_of(bpf_get_task_stack(task, end->frames, most, 0));
	size = sizeof(end->wait) + end->wait.kernel_frames * sizeof(__u64);
	barrier_var(size);
	if (size > sizeof(end->wait) + sizeof(end->frames))
		return false;
	return !bpf_ringbuf_output(ring, &end->wait, size, BPF_RB_NO_WAKEUP);
}

/* room: index of an unused scratch buffer. now: 0: at clock. */
static __always_inline void end_wait(struct task_struct *task, struct thread *thread, __u64 clock, __u64 now,
				     __u32 room)
{
	struct xp_wait_counters *counters = counters_here();
	__u64 began_ns = thread->began_ns, ns = duration_of(task, thread, clock, now);
	__u64 runnable_ns = runnable_of(task, thread, clock, ns), blocked_ns;
	bool woken = thread->woken;
	struct room *here;

	thread->began = 0;
	thread->woken = 0;
	/* The thread ran meanwhile without a report: this is another wait, and was missed. */
	if (!note_switches(task, thread, 0)) {
		thread->missed++;
		return;
	}
	thread->waits++;
	blocked_ns = ns - runnable_ns;
	thread->blocked_ns += blocked_ns;
	thread->runnable_ns += runnable_ns;
	thread->uncounted_ns += uncounted_of(task, thread, clock, runnable_ns);
	if (!counters) /* never true: for the verifier */
		return;
	counters->seen++;
	if (ns < min_ns) {
		counters->too_short++;
		return;
	}
	if (ns >= long_ns << (slow & 31)) {
		thread->chance = XP_WAIT_CHOSEN;
	} else if (!thread->chance) {
		counters->skipped++;
		return;
	} else if (woken && thread->chance < XP_WAIT_CHOSEN) {
		/* This wait represents waits that were not recorded, and so not delayed by recording: subtract the
		 * delay. */
		blocked_ns -= thread->delayed_ns < blocked_ns ? thread->delayed_ns : blocked_ns;
	}
	here = room_at(room);
	if (!here) {
		counters->lost++;
		return;
	}
	now = now ?: ktime_at(clock);
	here->end.wait.began = began_ns ?: now - ns;
	here->end.wait.blocked_ns = blocked_ns;
	here->end.wait.runnable_ns = runnable_ns;
	if (ship_end(&here->end, task, thread, woken, now))
		counters->sent++;
	else
		counters->lost++;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(wait_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct thread *thread;
	__u64 clock = 0;

	if (stopped)
		return 0;
	thread = thread_of(next);
	if (thread && thread->began) {
		clock = clock_of(next);
		end_wait(next, thread, clock, 0, bpf_get_smp_processor_id());
	}
	thread = thread_of(prev);
	if (thread)
		begin_wait(ctx, prev, thread, preempt, clock ?: clock_of(prev));
	return 0;
}

/* ---- wakers ---- */

/*
 * Runs in the waker, and stores it in the data of the woken thread. The thread may not have left its CPU yet: then this
 * is for the wait that follows, unless a later wake-up replaces it. The scheduler records when the thread became
 * runnable.
 */
SEC("tp_btf/sched_waking")
int BPF_PROG(wait_waking, struct task_struct *task)
{
	struct thread *thread = thread_of(task);
	struct task_struct *waker;
	__u32 level;

	/* A preempted thread is runnable, even if it was about to sleep. */
	if (!thread || (thread->began && !thread->state))
		return 0;
	thread->woken = has_scheduler_clock() ? 1 : bpf_ktime_get_ns();
	waker = bpf_get_current_task_btf();
	level = preempt_count(waker);
	thread->waker_flags = 0;
	/* Recording does not delay a wake-up on another CPU, or by an interrupt. */
	if (thread->delayed_ns && (level & (HARDIRQ_MASK | NMI_MASK) || thread->cpu != bpf_get_smp_processor_id()))
		thread->delayed_ns = 0;
	if (level & (HARDIRQ_MASK | NMI_MASK)) {
		/* The current thread is unrelated: the interrupt just hit it. */
		thread->waker_flags = XP_WAIT_BY_HARDIRQ;
		thread->waker_pid = 0;
		thread->waker_tid = 0;
		thread->waker_comm[0] = 0;
		return 0;
	}
	if (level & SOFTIRQ_SERVED)
		thread->waker_flags = XP_WAIT_BY_SOFTIRQ;
	thread->waker_pid = waker->tgid;
	thread->waker_tid = waker->pid;
	__builtin_memcpy(thread->waker_comm, waker->comm, sizeof(thread->waker_comm));
	return 0;
}

/* ---- start and exit of threads ---- */

static __always_inline bool is_ours(struct task_struct *task)
{
	if (only_tid)
		return (__u32)task->pid == only_tid;
	return all_threads || followed(task->tgid);
}

/* The first wait of a new thread is for a CPU. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(wait_fork, struct task_struct *parent, struct task_struct *child)
{
	struct thread *thread;

	if (only_tid || !is_ours(parent) || (!all_threads && !follow_children && parent->tgid != child->tgid))
		return 0;
	thread = bpf_task_storage_get(&threads, child, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread)
		return 0;
	start_accounts(child, thread, bpf_ktime_get_ns());
	thread->is_new = true;
	thread->began = BEGAN_AT_NS;
	thread->began_ns = thread->since;
	thread->chance = next_chance(thread, clock_of(child)) >> (slow & 31);
	if (!draw(thread))
		thread->chance = 0;
	return 0;
}

/* Starts recording a process that becomes a target by its exec. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(wait_exec, struct task_struct *task)
{
	struct thread *thread;

	if (thread_of(task) || !is_ours(task))
		return 0;
	thread = bpf_task_storage_get(&threads, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread)
		return 0;
	start_accounts(task, thread, bpf_ktime_get_ns());
	return 0;
}

/* Corrects sums by the kernel's account (/proc/PID/schedstat), which includes waits that were not reported here. */
static __always_inline void correct_sums(struct task_struct *task, struct thread *thread, __u64 now)
{
	__u64 off_ns = thread->blocked_ns + thread->runnable_ns, run_delay;

	if (thread->missed) {
		/* For a running thread, run_ns is up to the last tick. */
		__u64 run_ns = ((struct task_struct___group *)task)->se.sum_exec_runtime - thread->run_ns;
		__u64 rest_ns = now - thread->since - run_ns;

		if (rest_ns > off_ns && rest_ns <= now - thread->since)
			off_ns = rest_ns;
		thread->waits += thread->missed;
		thread->blocked_ns = off_ns - thread->runnable_ns;
	}
	if (!read_run_delay(task, &run_delay))
		return;
	/* The kernel adds a wait to its account when the wait is over. */
	run_delay += thread->open_ns + thread->uncounted_ns - thread->run_delay;
	thread->runnable_ns = run_delay < off_ns ? run_delay : off_ns;
	thread->blocked_ns = off_ns - thread->runnable_ns;
}

static __always_inline void send_sum(struct task_struct *task, struct thread *thread, __u64 now, __u32 flags)
{
	struct xp_event_wait_sum sum = {
		.head = { .time = now,
			  .pid = task->tgid,
			  .tid = thread->tid,
			  .word = xp_event_word(flags, XP_EVENT_WAIT_SUM) },
		.span_ns = now - thread->since,
		.blocked_ns = thread->blocked_ns,
		.runnable_ns = thread->runnable_ns,
		.waits = thread->waits,
		.missed = thread->missed,
	};
	struct xp_wait_counters *counters;
	void *ring = ring_here();

	__builtin_memcpy(sum.comm, task->comm, sizeof(sum.comm));
	if (ring && !bpf_ringbuf_output(ring, &sum, sizeof(sum), BPF_RB_NO_WAKEUP))
		return;
	counters = counters_here();
	if (counters)
		counters->sums_lost++;
}

static __always_inline void end_sums(struct task_struct *task, struct thread *thread, __u64 now, __u32 flags)
{
	note_switches(task, thread, 0);
	/* The thread runs: the end of that wait was not reported. */
	thread->missed += thread->began != 0;
	thread->began = 0;
	correct_sums(task, thread, now);
	send_sum(task, thread, now, flags);
}

/* At an exec, the thread has the name of the old program. perf's side-band reports the next name later. */
SEC("tp_btf/task_rename")
int BPF_PROG(wait_rename, struct task_struct *task)
{
	struct thread *thread = thread_of(task);
	__u64 now;

	if (!thread || stopped || task != bpf_get_current_task_btf() ||
	    !BPF_CORE_READ_BITFIELD((struct task_struct___group *)task, in_execve))
		return 0;
	now = bpf_ktime_get_ns();
	end_sums(task, thread, now, XP_WAIT_SUM_EXEC);
	start_accounts(task, thread, now);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(wait_exit, struct task_struct *task)
{
	struct thread *thread = thread_of(task);

	if (!thread || thread->has_ended || stopped)
		return 0;
	thread->has_ended = true;
	end_sums(task, thread, bpf_ktime_get_ns(), 0);
	return 0;
}

/*
 * The iterators that the loader runs do not read the user stacks of other threads. bpf_copy_from_user_task() may wait
 * forever, even with SIGKILL, for the server of a file (FUSE) that a thread has mapped where its stack pointer is, and
 * meanwhile no sleepable program or uprobe can be detached. The loader's child reads the stacks
 * (sample/first_stacks.h), except those in files.
 */

struct seq_file;
struct bpf_iter_meta {
	struct seq_file *seq;
} __attribute__((preserve_access_index));
struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
} __attribute__((preserve_access_index));
struct vm_area_struct {
	struct file *vm_file;
} __attribute__((preserve_access_index));

#define EOVERFLOW 75

static long note_mapping(struct task_struct *task, struct vm_area_struct *vma, void *is_no_file)
{
	*(bool *)is_no_file = !vma->vm_file;
	return 0;
}

/*
 * Sends where a thread waits to the loader. stack_bytes: how much of the stack the loader must read. Returns false if
 * there is no space: the next read of the iterator sends it again.
 */
static __always_inline bool tell_first(struct seq_file *seq, struct task_struct *task, __u64 now)
{
	struct room *room = room_at(room_of_iterator);
	bool is_no_file = false;
	struct sample *s;
	__u32 flags;

	if (!room)
		return true;
	s = &room->sample;
	flags = start_sample(s, task, now);
	if (flags & XP_SAMPLE_NO_USER)
		return true;
	if (sample_stacks != XP_STACKS_NONE) {
		bpf_find_vma(task, s->head.sp, note_mapping, &is_no_file, 0);
		if (!is_no_file)
			return true;
		s->head.stack_bytes = bytes_to_copy(task, task->pid, s->head.sp, &flags);
	}
	s->head.head.word = xp_event_word(flags, XP_EVENT_WAIT_BEGIN);
	return bpf_seq_write(seq, &s->head, sizeof(s->head)) != -EOVERFLOW;
}

/* Handles threads that existed before. */
SEC("iter/task")
int scan_waits(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct thread *thread;

	if (!task || !task->pid || task->flags & PF_EXITING || !is_ours(task))
		return 0;
	thread = bpf_task_storage_get(&threads, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread)
		return 0;
	if (!thread->since) {
		__u64 now = bpf_ktime_get_ns();
		__u32 state = task->__state;

		start_accounts(task, thread, now);
		if (!is_on_cpu(task)) {
			if (!tell_first(ctx->meta->seq, task, now)) {
				thread->since = 0;
				return 0;
			}
			thread->state = state;
			thread->delay = thread->run_delay;
			thread->flags = XP_WAIT_IS_FIRST;
			thread->chance = XP_WAIT_CHOSEN;
			thread->began_ns = now;
			thread->began = BEGAN_AT_NS;
			if (is_on_cpu(task))
				thread->began = 0;
		}
	}
	return 0;
}

/*
 * Runs when the other programs are detached: ends open waits, and sends the sums. Prints a byte for each thread, so
 * that a read of a few bytes ends while the rings still have space.
 */
SEC("iter/task")
int finish_waits(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	__u64 clock = stopped - clock_offset;
	const __u8 printed = 0;
	struct thread *thread;

	if (!task)
		return 0;
	thread = thread_of(task);
	if (!thread || thread->has_ended)
		return 0;
	thread->has_ended = true;
	if (thread->began) {
		thread->flags |= XP_WAIT_IS_LAST;
		thread->open_ns = queued_ns(task, thread, clock);
		if (has_scheduler_clock()) /* the wake-up may not have been reported */
			thread->woken = thread->open_ns;
		end_wait(task, thread, clock, stopped, room_of_iterator);
	}
	correct_sums(task, thread, stopped);
	send_sum(task, thread, stopped, 0);
	bpf_seq_write(ctx->meta->seq, &printed, sizeof(printed));
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
