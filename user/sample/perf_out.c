// SPDX-License-Identifier: BSD-2-Clause
#include "sample/perf_out.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/own_file.h"
#include "base/util.h"
#include "format/perfdata.h"
#include "sample/perf_bpf.h"
#include "sample/perf_features.h"
#include "sample/perf_kernel.h"
#include "sample/perf_maps.h"
#include "sample/perf_switches.h"
#include "sample/perf_threads.h"
#include "target/target.h"

/*
 * zstd's fastest level: 0.4 us per sample of 375 bytes, which is compressed to 15 bytes. Higher levels reach only 13
 * bytes.
 */
#define COMPRESSION_LEVEL 1
/* Disk space that is reserved in advance: twice the size of the buffered records, plus the end of the file. */
#define ROOM_BYTES (1u << 20)

struct xp_perf_out {
	struct xp_perf_out_options options;
	int fd;
	struct xp_perf_maps maps; /* perfdata is NULL before the first record */
	struct xp_perf_threads threads;
	struct xp_perf_switches switches;
	unsigned int round; /* incremented when all processes must be written again */
	struct xp_perf_out_counts counts;
	uint64_t room; /* reserved on disk from the start of the file; UINT64_MAX: the file system cannot reserve */
	bool is_ended;
};

int xp_perf_out_new(struct xp_perf_out **result, const struct xp_perf_out_options *options)
{
	struct xp_perf_out *out = calloc(1, sizeof(*out));

	if (!out)
		return -ENOMEM;
	out->options = *options;
	out->round = 1;
	out->maps.build_ids.ticks = options->clock->hz / XP_PERF_BUILD_IDS_HZ;
	out->fd = -1;
	*result = out;
	return 0;
}

void xp_perf_out_free(struct xp_perf_out *out)
{
	if (!out)
		return;
	if (out->fd >= 0)
		close(out->fd);
	xp_perfdata_free(out->maps.perfdata);
	xp_perf_threads_free(&out->threads);
	xp_perf_build_ids_free(&out->maps.build_ids);
	free(out);
}

static void fail(struct xp_perf_out *out, int err)
{
	if (err && !out->counts.err)
		out->counts.err = err;
}

/*
 * Records an error. Ignores a mapping that perf cannot read (its path is too long): it does not affect other records.
 */
static void fail_unless_refused(struct xp_perf_out *out, int err)
{
	fail(out, err == -EINVAL || err == -ENAMETOOLONG ? 0 : err);
}

static void put_modules(struct xp_perf_out *out)
{
	char dir[sizeof("/lib/modules/") + sizeof(((struct utsname *)NULL)->release)], path[sizeof(dir) + 16];
	FILE *table = fopen("/proc/modules", "re"), *files;
	struct utsname names;

	if (!table)
		return;
	if (uname(&names))
		names.release[0] = 0;
	snprintf(dir, sizeof(dir), "/lib/modules/%s", names.release);
	snprintf(path, sizeof(path), "%s/modules.dep", dir);
	files = fopen(path, "re");
	fail(out, xp_perf_kernel_modules(out->maps.perfdata, table, files, dir));
	if (files)
		fclose(files);
	fclose(table);
}

static void put_kernel(struct xp_perf_out *out)
{
	FILE *symbols = fopen("/proc/kallsyms", "re");
	uint64_t text = symbols ? xp_perf_kernel_text(symbols) : 0;

	if (text && text < XP_PERF_KERNEL_END)
		fail(out, xp_perfdata_kernel(out->maps.perfdata, text, XP_PERF_KERNEL_END - text));
	else
		xp_debug("perf will not name the kernel's functions: /proc/kallsyms has no _text");
	if (symbols)
		fclose(symbols);
	put_modules(out);
	fail(out, xp_perf_bpf_write_all(out->maps.perfdata, out->options.describe, out->options.describe_arg));
}

/* Reserves disk space. Returns 0, or -errno if the disk is full. */
static int take_room(struct xp_perf_out *out)
{
	if (!fallocate(out->fd, FALLOC_FL_KEEP_SIZE, out->room, ROOM_BYTES))
		out->room += ROOM_BYTES;
	else if (errno == EOPNOTSUPP || errno == ENOSYS)
		out->room = UINT64_MAX;
	else
		return -errno;
	return 0;
}

/* Creates the file. If the disk has no space for the first records, removes the file. */
static bool make_file(struct xp_perf_out *out)
{
	int dir_fd = out->options.dir_fd, err;

	out->fd = xp_own_file_create(dir_fd, XP_PERF_DATA_NAME, O_WRONLY);
	if (out->fd < 0) {
		fail(out, out->fd);
		return false;
	}
	/* Makes `xprof recover` skip the file. */
	flock(out->fd, LOCK_EX | LOCK_NB);
	err = take_room(out);
	if (!err)
		return true;
	fail(out, err);
	close(out->fd);
	out->fd = -1;
	unlinkat(dir_fd, XP_PERF_DATA_NAME, 0);
	return false;
}

/* Writes the JIT memory of all processes, before the records of any code in it. */
static void put_jit_memory(struct xp_perf_out *out)
{
	const struct xp_sampled_processes *processes = out->options.processes;

	for (size_t i = 0; i < processes->by_pid.count; i++) {
		const struct xp_sampled_process *process = processes->by_pid.entries[i].pointer;

		fail(out, xp_perf_maps_write_all(&out->maps, 0, process->pid, process->space, true));
	}
}

/*
 * Starts the file when the first record arrives. The whole file uses one conversion of times, and the frequency of the
 * clock becomes more exact over time.
 */
static bool start(struct xp_perf_out *out)
{
	struct xp_perfdata_options options = {
		.event_type = out->options.hardware ? PERF_TYPE_HARDWARE : PERF_TYPE_SOFTWARE,
		.event_config = out->options.hardware ? PERF_COUNT_HW_CPU_CYCLES : PERF_COUNT_SW_CPU_CLOCK,
		.period = out->options.period,
		.late_ns = out->options.late_ns,
		.switches = out->options.switches,
		.waits = out->options.waits,
		.usdt = out->options.usdt,
		.compression_level = out->options.compression == XP_PERF_OUT_NONE ? 0 : COMPRESSION_LEVEL,
		.plain_bytes = out->options.compression == XP_PERF_OUT_ALL ? 0 : XP_PERF_OUT_PLAIN_BYTES,
	};
	const struct xp_clock_pair *mono = &out->options.clock->mono;

	if (out->counts.err)
		return false;
	if (out->maps.perfdata)
		return true;
	if (!make_file(out))
		return false;
	fail(out, xp_perfdata_conversion(&options.conversion, out->options.clock->mono_hz, mono->tsc, mono->ns));
	if (!out->counts.err)
		fail(out, xp_perfdata_new(&out->maps.perfdata, out->fd, &options));
	if (!out->counts.err)
		put_kernel(out);
	if (!out->counts.err)
		put_jit_memory(out);
	if (!out->counts.err)
		fail(out, xp_perfdata_sync(out->maps.perfdata)); /* the file now has data */
	return !out->counts.err;
}

/* ---- processes and threads ---- */

/* comm: the kernel's 16 bytes. */
static void put_name(struct xp_perf_out *out, uint64_t tsc, struct xp_perf_thread *thread, const char *comm, bool exec)
{
	char name[sizeof(thread->comm)], raw[sizeof(thread->comm) + 1] = "";

	memcpy(thread->comm, comm, sizeof(thread->comm));
	memcpy(raw, comm, sizeof(thread->comm));
	xp_clean_text(name, sizeof(name), raw);
	fail(out, xp_perfdata_comm(out->maps.perfdata, tsc, thread->pid, thread->tid, name, exec));
	thread->is_named = true;
}

/*
 * Writes the fork record of a process. Writes it only once, because perf discards everything it knows of a PID at a
 * fork record.
 */
static void put_fork(struct xp_perf_out *out, uint64_t tsc, struct xp_perf_thread *process)
{
	fail(out, xp_perfdata_fork(out->maps.perfdata, tsc,
				   &(struct xp_perfdata_birth){ process->pid, process->pid, process->ppid,
								process->born_tsc, false }));
	process->ppid = 0;
}

/* Writes a process that is not in the file yet, or whose data in the file is out of date. */
static void put_process(struct xp_perf_out *out, uint64_t tsc, struct xp_perf_thread *process,
			const struct xp_address_space *space)
{
	if (process->ppid)
		put_fork(out, tsc, process);
	fail(out, xp_perf_maps_write_all(&out->maps, tsc, process->pid, space, false));
	process->mapped = out->round;
}

/* Returns a time 1 ns before a sample. If two records have the same time, perf may read a compressed record first. */
static uint64_t before(const struct xp_perf_out *out, uint64_t tsc)
{
	return tsc - xp_clock_ticks(out->options.clock, 1) - 1;
}

/*
 * Notes that a sampled thread runs on a CPU. Ignores a first sample without user code, because the thread may be
 * exiting and no record reports when it leaves its CPU for the last time. Ignores later samples, too: they may be taken
 * while the thread leaves its CPU.
 */
static void on_sampled(struct xp_perf_out *out, const struct xp_event_sample *record, uint64_t tsc, unsigned int cpu,
		       struct xp_perf_thread *thread)
{
	if (out->options.switches && thread->running == XP_PERF_RUNNING_UNKNOWN &&
	    !(xp_event_fn(&record->head) & XP_SAMPLE_NO_USER))
		fail(out, xp_perf_switches_in(&out->switches, out->maps.perfdata, thread, before(out, tsc), cpu));
}

void xp_perf_out_seen(struct xp_perf_out *out, const struct xp_event_sample *record, uint64_t tsc, unsigned int cpu,
		      const struct xp_address_space *space)
{
	pid_t pid = record->head.pid, tid = record->head.tid;
	struct xp_perf_thread *thread;

	if (!start(out))
		return;
	thread = xp_perf_threads_get(&out->threads, pid, pid);
	if (thread && thread->mapped != out->round)
		put_process(out, before(out, tsc), thread, space);
	if (tid != pid)
		thread = xp_perf_threads_get(&out->threads, pid, tid);
	if (!thread) {
		fail(out, -ENOMEM);
		return;
	}
	if (!thread->is_named || memcmp(thread->comm, record->comm, sizeof(thread->comm)))
		put_name(out, before(out, tsc), thread, record->comm, false);
	on_sampled(out, record, tsc, cpu, thread);
}

static void on_new_thread(struct xp_perf_out *out, const struct xp_sideband_event *event)
{
	const struct xp_perf_thread *process = xp_perf_threads_find(&out->threads, event->pid);

	if (process && process->mapped)
		fail(out, xp_perfdata_fork(
			      out->maps.perfdata, event->tsc,
			      &(struct xp_perfdata_birth){ event->pid, event->tid, event->ppid, event->tsc, true }));
}

/* Writes nothing if the process has no JIT memory: its first sample writes it. */
static void on_new_process(struct xp_perf_out *out, const struct xp_sideband_event *event,
			   const struct xp_address_space *space)
{
	struct xp_perf_thread *process;

	xp_perf_threads_remove(&out->threads, event->pid);
	process = xp_perf_threads_get(&out->threads, event->pid, event->pid);
	if (!process) {
		fail(out, -ENOMEM);
		return;
	}
	process->ppid = event->ppid;
	process->born_tsc = event->tsc;
	if (!xp_perf_maps_has_jit(space) || !start(out))
		return;
	put_fork(out, event->tsc, process);
	fail(out, xp_perf_maps_write_all(&out->maps, event->tsc, event->pid, space, true));
}

static void on_exit_of(struct xp_perf_out *out, const struct xp_sideband_event *event)
{
	struct xp_perf_thread *thread = xp_perf_threads_find(&out->threads, event->tid);

	if (thread && thread->pid == event->pid)
		fail(out, xp_perf_switches_end(out->maps.perfdata, thread, event->tsc));
	if (thread && thread->pid == event->pid && (thread->is_named || thread->mapped))
		fail(out, xp_perfdata_exit(out->maps.perfdata, event->tsc, event->pid, event->tid, event->ppid));
	xp_perf_threads_remove(&out->threads, event->tid);
}

/*
 * Ends the other threads of a process that calls execve(). The thread that calls execve() gets the TID of the first
 * thread, and the kernel reports no exit of its old TID.
 */
static void end_other_threads(struct xp_perf_out *out, const struct xp_sideband_event *event)
{
	for (size_t i = 0; i < out->threads.by_tid.count; i++) {
		struct xp_perf_thread *thread = out->threads.by_tid.entries[i].pointer;

		if (thread->pid == event->pid && thread->tid != event->tid)
			fail(out, xp_perf_switches_end(out->maps.perfdata, thread, event->tsc));
	}
}

static void on_name(struct xp_perf_out *out, const struct xp_sideband_event *event)
{
	struct xp_perf_thread *thread = xp_perf_threads_find(&out->threads, event->tid);
	bool exec = event->kind == XP_SIDEBAND_EXEC;
	char comm[sizeof(thread->comm)] = "";

	if (exec && out->options.switches)
		end_other_threads(out, event);
	if (!thread || thread->pid != event->pid || !(exec ? thread->mapped : thread->is_named))
		return;
	memcpy(comm, event->text, strnlen(event->text, sizeof(comm) - 1));
	put_name(out, event->tsc, thread, comm, exec);
}

static void on_map(struct xp_perf_out *out, const struct xp_sideband_event *event, const struct xp_address_space *space)
{
	const struct xp_perf_thread *process = xp_perf_threads_find(&out->threads, event->pid);
	const struct xp_vma *vma = space ? xp_address_space_find(space, event->start) : NULL;

	if (process && process->mapped == out->round && vma && vma->start == event->start &&
	    !xp_perf_maps_is_jit(event))
		fail(out, xp_perf_maps_write(&out->maps, event->tsc, event->pid, event->tid, vma));
}

void xp_perf_out_before(struct xp_perf_out *out, const struct xp_sideband_event *event,
			const struct xp_address_space *before)
{
	struct xp_perf_thread *process;

	if (event->kind != XP_SIDEBAND_MMAP || !xp_perf_maps_is_jit(event) || !start(out))
		return;
	process = xp_perf_threads_find(&out->threads, event->pid);
	if (process && process->ppid)
		put_fork(out, event->tsc, process);
	fail(out, xp_perf_maps_write_new(&out->maps, event, before));
}

void xp_perf_out_event(struct xp_perf_out *out, const struct xp_sideband_event *event,
		       const struct xp_address_space *behind)
{
	if (out->counts.err)
		return;
	switch (event->kind) {
	case XP_SIDEBAND_FORK:
		if (event->pid == event->ppid)
			on_new_thread(out, event);
		else
			on_new_process(out, event, behind);
		break;
	case XP_SIDEBAND_EXIT:
		on_exit_of(out, event);
		break;
	case XP_SIDEBAND_COMM:
	case XP_SIDEBAND_EXEC:
		on_name(out, event);
		break;
	case XP_SIDEBAND_MMAP:
		on_map(out, event, behind);
		break;
	case XP_SIDEBAND_SYMBOL:
	case XP_SIDEBAND_BPF:
		if (out->maps.perfdata) /* otherwise start() will write it */
			fail(out, xp_perf_bpf_write(out->maps.perfdata, event));
		break;
	}
}

void xp_perf_out_forget(struct xp_perf_out *out)
{
	out->round++;
}

/* ---- the end ---- */

/*
 * Releases the reserved space after the end of the file. Truncating a file to its own size does nothing, so this adds a
 * byte and removes it.
 */
static int trim(struct xp_perf_out *out)
{
	struct stat st;

	if (fstat(out->fd, &st))
		return -errno;
	out->counts.bytes = st.st_size;
	if (out->room && (ftruncate(out->fd, st.st_size + 1) || ftruncate(out->fd, st.st_size)))
		return -errno;
	return 0;
}

/* Completes the file. err: the reason; 0: the end of the recording. */
static void end_file(struct xp_perf_out *out, int err)
{
	int trim_err;

	out->is_ended = true;
	if (out->maps.perfdata && !out->counts.err)
		fail(out, xp_perf_features_write(out->maps.perfdata, &out->maps.build_ids, out->options.clock,
						 out->options.event));
	trim_err = trim(out);
	fail(out, err);
	fail(out, trim_err);
}

static void keep_room(struct xp_perf_out *out)
{
	int err;

	if (out->room == UINT64_MAX || xp_perfdata_bytes(out->maps.perfdata) + ROOM_BYTES / 2 < out->room)
		return;
	err = take_room(out);
	if (err)
		end_file(out, err);
}

/* ---- samples ---- */

void xp_perf_out_sample(struct xp_perf_out *out, const struct xp_perf_out_sampled *sampled,
			const struct xp_frame *frames, size_t count)
{
	uint64_t addresses[XP_SAMPLE_FRAMES_MAX + XP_UNWIND_FRAMES_MAX];
	const struct xp_event_sample *record = sampled->record;
	struct xp_perfdata_sample sample = {
		.tsc = sampled->tsc,
		.pid = record->head.pid,
		.tid = record->head.tid,
		.cpu = sampled->cpu,
		.kernel = addresses,
		.kernel_count = record->kernel_frames,
		.user = addresses + record->kernel_frames,
		.user_count = count - record->kernel_frames,
	};

	if (!start(out))
		return;
	for (size_t i = 0; i < count; i++)
		addresses[i] = frames[i].address;
	if (sampled->usdt)
		fail(out, xp_perfdata_usdt(out->maps.perfdata, &sample, sampled->usdt));
	else if (sampled->wait)
		fail(out, xp_perfdata_wait(out->maps.perfdata, &sample, sampled->wait));
	else
		fail(out, xp_perfdata_sample(out->maps.perfdata, &sample));
	if (out->counts.err)
		return;
	out->counts.samples += !sampled->wait && !sampled->usdt;
	out->counts.usdt += sampled->usdt != NULL;
	out->counts.waits += sampled->wait != NULL;
	keep_room(out);
}

/*
 * Returns the entry of a thread that has a context switch. Writes the thread's name first, because perf would show only
 * the TID of an unnamed thread.
 */
static struct xp_perf_thread *thread_of_switch(struct xp_perf_out *out, uint64_t tsc, pid_t pid, pid_t tid)
{
	struct xp_perf_thread *process = xp_perf_threads_get(&out->threads, pid, pid), *thread;
	char comm[sizeof(thread->comm)] = "";

	if (process && process->ppid)
		put_fork(out, before(out, tsc), process);
	thread = process ? xp_perf_threads_get(&out->threads, pid, tid) : NULL;
	if (!thread)
		fail(out, -ENOMEM);
	if (!thread || thread->is_named)
		return thread;
	xp_target_thread_name(pid, tid, comm);
	if (comm[0])
		put_name(out, before(out, tsc), thread, comm, false);
	return thread;
}

void xp_perf_out_switch(struct xp_perf_out *out, const struct xp_arrival *arrival)
{
	const struct xp_event_switch *event = (const struct xp_event_switch *)arrival->event;
	uint32_t flags = xp_event_fn(&event->head);
	pid_t tid = event->head.tid, next_tid = event->next_tid;
	struct xp_perf_thread *thread = xp_perf_threads_find(&out->threads, tid);

	if (!start(out))
		return;
	/* The side-band may already have reported the exit of the thread. */
	if (tid && !(flags & XP_SWITCH_DEAD))
		thread = thread_of_switch(out, arrival->tsc, event->head.pid, tid);
	if (tid && thread)
		fail(out, xp_perf_switches_out(&out->switches, out->maps.perfdata, thread, arrival->tsc, arrival->cpu,
					       flags & XP_SWITCH_RUNNABLE));
	thread = next_tid ? thread_of_switch(out, arrival->tsc, event->next_pid, next_tid) : NULL;
	if (thread)
		fail(out, xp_perf_switches_in(&out->switches, out->maps.perfdata, thread, arrival->tsc, arrival->cpu));
	if (!out->counts.err)
		keep_room(out);
}

void xp_perf_out_flush(struct xp_perf_out *out)
{
	if (out->maps.perfdata && !out->counts.err)
		fail(out, xp_perfdata_sync(out->maps.perfdata));
}

void xp_perf_out_jit(struct xp_perf_out *out, const char *path)
{
	if (start(out))
		fail_unless_refused(out, xp_perfdata_jit(out->maps.perfdata, xp_clock_now_tsc(), path));
}

int xp_perf_out_finish(struct xp_perf_out *out)
{
	start(out);
	if (!out->is_ended && out->fd >= 0)
		end_file(out, 0);
	if (out->fd >= 0 && close(out->fd))
		fail(out, -errno);
	out->fd = -1;
	return out->counts.err;
}

struct xp_perf_out_counts xp_perf_out_counts(const struct xp_perf_out *out)
{
	return out ? out->counts : (struct xp_perf_out_counts){ 0 };
}

bool xp_perf_out_is_compressed(const struct xp_perf_out *out)
{
	return out->maps.perfdata && xp_perfdata_is_compressed(out->maps.perfdata);
}
