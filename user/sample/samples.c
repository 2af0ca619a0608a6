/* SPDX-License-Identifier: BSD-2-Clause */
#include "sample/samples.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arch/x86_64/stub.h"
#include "base/clock.h"
#include "base/own_file.h"
#include "base/util.h"
#include "target/mapped_file.h"
#include "target/memory.h"

#define FOUR_GIB (1ull << 32)

int xp_samples_init(struct xp_samples *samples, const struct xp_stacks_options *stacks)
{
	int err = xp_sym_files_new(&samples->sym_files, samples->dir_fd, samples->shared_fd);

	if (!err && stacks)
		err = xp_stacks_new(&samples->stacks, stacks);
	return err;
}

void xp_samples_free(struct xp_samples *samples)
{
	xp_pending_samples_free(&samples->waiting);
	xp_stacks_free(samples->stacks);
	xp_sym_files_free(samples->sym_files);
	xp_sampled_processes_free(&samples->processes);
	xp_jits_free(&samples->jits);
}

int xp_samples_begin_part(struct xp_samples *samples, int dir_fd, uint64_t tsc)
{
	xp_pending_samples_free(&samples->waiting);
	xp_sampled_processes_begin_part(&samples->processes);
	samples->jits.dir_fd = samples->dir_fd = dir_fd;
	samples->jits.start_tsc = tsc;
	samples->jits.dump_bytes_left = XP_JIT_DUMP_OUT_ALL_BYTES_MAX;
	samples->samples = samples->kernel_samples = samples->waits = samples->usdt = 0;
	xp_sym_files_free(samples->sym_files);
	samples->sym_files = NULL;
	return xp_sym_files_new(&samples->sym_files, dir_fd, samples->shared_fd);
}

void xp_samples_forked(struct xp_samples *samples)
{
	if (samples->stacks)
		xp_stacks_forked(samples->stacks);
	if (samples->jits.memory)
		xp_target_memory_forked(samples->jits.memory);
}

/* ---- a sample with all of its frames ---- */

/* Opens a binary while the process is alive, because the later readers cannot open some binaries by path. */
static int keep_file(struct xp_samples *samples, pid_t pid, const struct xp_vma *vma)
{
	int fd, err;

	/* A 32-bit process has another vDSO than xprof. */
	if (vma->file->kind == XP_FILE_VDSO && vma->start >= FOUR_GIB)
		xp_sym_files_want_vdso(samples->sym_files);
	if (!xp_sym_files_wants(samples->sym_files, vma->file))
		return 0;
	fd = xp_mapped_file_open(pid, vma);
	err = xp_sym_files_keep(samples->sym_files, fd, vma->file);
	if (fd >= 0)
		close(fd);
	return err == -ENOMEM ? err : 0;
}

/* Stores the data that names the code of a user frame. last: the mapping of the previous frame. */
static int keep_user(struct xp_samples *samples, const struct xp_pending_sample *sample, const struct xp_frame *frame,
		     bool is_return, const struct xp_vma *last)
{
	const struct xp_vma *vma = frame->vma;
	int err = 0;

	if (vma != last)
		err = keep_file(samples, sample->pid, vma);
	if (!err && xp_file_may_be_jit(vma->file))
		err = xp_jit_samples_hit(&samples->jits, sample->image, sample->space, sample->tsc,
					 frame->address - is_return);
	return err;
}

static int keep_names(struct xp_samples *samples, const struct xp_pending_sample *sample, size_t count)
{
	const struct xp_vma *last = NULL;
	int err = 0;

	for (size_t i = 0; i < count && !err; i++) {
		const struct xp_frame *frame = &samples->frames[i];
		bool is_return = i && !frame->interrupted;

		if (frame->vma)
			err = keep_user(samples, sample, frame, is_return, last);
		else
			err = xp_sym_files_want_kernel(samples->sym_files, frame->address - is_return);
		last = frame->vma;
	}
	return err;
}

/*
 * Replaces the address of a frame in moved code by the original address. is_return: the address is a return address, so
 * the byte before it must be in the function.
 */
static void find_original(struct xp_samples *samples, const struct xp_pending_sample *sample, struct xp_frame *frame,
			  bool is_return)
{
	const struct xp_vma *vma = frame->vma;
	uint64_t original;

	if (!vma || !samples->original || vma->file->kind != XP_FILE_DISK || !xp_stub_is_named(vma->file->path))
		return;
	original = samples->original(samples->original_arg, vma->file->inode,
				     frame->address - is_return - vma->start + vma->file_offset);
	vma = original ? xp_address_space_find(sample->space, original) : NULL;
	if (vma) {
		frame->address = original + is_return;
		frame->vma = vma;
	}
}

static int deliver(struct xp_samples *samples, const struct xp_pending_sample *sample,
		   const struct xp_event_sample *record, size_t count)
{
	const struct xp_perf_out_sampled sampled = { record, sample->tsc, sample->cpu,
						     sample->is_wait ? &sample->wait : NULL, sample->usdt };

	for (size_t i = record->kernel_frames; i < count; i++)
		find_original(samples, sample, &samples->frames[i], i && !samples->frames[i].interrupted);
	xp_perf_out_sample(samples->perf, &sampled, samples->frames, count);
	return keep_names(samples, sample, count);
}

/* ---- the frames of a sample ---- */

static const uint64_t *addresses_of(const struct xp_event_sample *record)
{
	return (const uint64_t *)(record + 1);
}

/* Returns whether the ip of the innermost user frame is the interrupted instruction. */
static bool is_interrupted(const struct xp_event_sample *record)
{
	/* After a syscall instruction, the ip is a return address; at a fault, the ip is the faulting instruction. */
	return record->kernel_frames && !(xp_event_fn(&record->head) & XP_SAMPLE_SYSCALL);
}

/* Arguments for finding the rules of JIT code during a walk. */
struct jit_lookup {
	struct xp_samples *samples;
	const struct xp_pending_sample *sample;
	bool may_wait;
};

static int find_jit_rule(void *arg, uint64_t address, struct xp_cfi_found *found)
{
	const struct jit_lookup *lookup = arg;
	const struct xp_pending_sample *sample = lookup->sample;
	int err =
	    xp_jit_samples_find_rule(&lookup->samples->jits, sample->image, sample->space, sample->tsc, address, found);

	return err == -EAGAIN && !lookup->may_wait ? -ENOENT : err;
}

static struct xp_unwind_thread thread_of(const struct xp_event_sample *record)
{
	return (struct xp_unwind_thread){
		.tid = (pid_t)record->head.tid,
		.ip = record->ip,
		.sp = record->sp,
		.bp = record->bp,
		.regs = record->regs,
		.stack = (const uint8_t *)(addresses_of(record) + record->kernel_frames + record->user_frames),
		.stack_bytes = record->stack_bytes,
		.stack_missing = record->stack_missing,
		.in_syscall = xp_event_fn(&record->head) & XP_SAMPLE_SYSCALL,
		.is_whole = xp_event_fn(&record->head) & XP_SAMPLE_WHOLE,
		.is_to_top = xp_event_fn(&record->head) & XP_SAMPLE_TOP,
	};
}

/* Finds the user frames in the stack dump and delivers the sample. Returns 1 if the sample has to wait. */
static int unwind(struct xp_samples *samples, struct xp_pending_sample *sample, const struct xp_event_sample *record,
		  bool has_time)
{
	struct xp_unwind_thread thread = thread_of(record);
	/* Samples that wait for JIT code use at most half of the memory, so that samples can wait for tables. */
	struct jit_lookup lookup = { samples, sample, samples->waiting.bytes < samples->waiting.bytes_max / 2 };
	const struct xp_unwind_code code = {
		.find = find_jit_rule,
		.arg = &lookup,
	};
	struct xp_frame *user = samples->frames + record->kernel_frames;
	struct xp_unwind_result result;
	int err;

	thread.pid = sample->pid;
	thread.code = &code;
	err = xp_stacks_unwind(samples->stacks, sample->space, &thread, has_time, user, &result);
	if (err)
		return err;
	if (result.end == XP_UNWIND_WAITS) {
		sample->file = result.file;
		sample->file_offset = result.file_offset;
		return 1;
	}
	if (xp_event_fn(&record->head) & XP_SAMPLE_NO_ROOM)
		result.end = XP_UNWIND_NO_DUMP;
	if (!sample->is_wait)
		sample->image->stacks[result.end]++;
	user->interrupted = is_interrupted(record);
	for (uint32_t i = 0; i < record->kernel_frames; i++)
		samples->frames[i] = (struct xp_frame){ .address = addresses_of(record)[i] };
	return deliver(samples, sample, record, record->kernel_frames + result.count);
}

/* Uses the user frames that the BPF program found, or only the sampled instruction. */
static int take_frames(struct xp_samples *samples, const struct xp_pending_sample *sample,
		       const struct xp_event_sample *record)
{
	const uint64_t *addresses = addresses_of(record);
	uint32_t kernel = record->kernel_frames, count = kernel + record->user_frames;

	if (!count)
		addresses = (const uint64_t *)&record->ip;
	count = XP_MAX(count, 1u);
	for (uint32_t i = 0; i < count; i++)
		samples->frames[i] = (struct xp_frame){
			.address = addresses[i],
			.vma = i < kernel ? NULL : xp_address_space_find(sample->space, addresses[i]),
			.interrupted = i == kernel && is_interrupted(record),
		};
	return deliver(samples, sample, record, count);
}

/* ---- waiting samples ---- */

static bool is_pending(struct xp_samples *samples, const struct xp_pending_sample *sample)
{
	return sample->file ? xp_stacks_pending(samples->stacks, sample->file, sample->file_offset)
			    : xp_jit_is_behind(sample->image->jit, sample->tsc);
}

static int retry(void *arg, struct xp_pending_sample *sample)
{
	struct xp_samples *samples = arg;
	bool has_time = xp_now_ns() - sample->since_ns < XP_SAMPLES_WAIT_NS;

	if (has_time && is_pending(samples, sample))
		return 1;
	return unwind(samples, sample, &sample->record, has_time);
}

int xp_samples_settle(struct xp_samples *samples)
{
	int made = samples->stacks ? xp_stacks_collect(samples->stacks) : 0;

	if (made < 0)
		return made;
	if (samples->waiting.count)
		return xp_pending_samples_each(&samples->waiting, retry, samples);
	if (samples->stacks)
		xp_stacks_release(samples->stacks);
	return 0;
}

/* Polls the sources of the JIT code that samples wait for. */
static int look_for_code(struct xp_samples *samples)
{
	uint64_t now_tsc = xp_clock_now_tsc();
	int err = 0;

	for (struct xp_pending_sample *sample = samples->waiting.first; sample && !err; sample = sample->next)
		if (!sample->file)
			err = xp_jit_samples_look(&samples->jits, sample->image, now_tsc);
	return err;
}

int xp_samples_refresh(struct xp_samples *samples)
{
	struct xp_sampled_processes *processes = &samples->processes;
	int err = look_for_code(samples);

	if (!err)
		err = xp_jit_samples_refresh(&samples->jits, processes->images, processes->image_count);
	if (!err)
		xp_jit_samples_end_gone(&samples->jits, processes->images, processes->image_count);
	xp_sampled_processes_forget_gone(processes);
	return err;
}

int xp_samples_jit_told(struct xp_samples *samples, pid_t pid, uint64_t tsc)
{
	const struct xp_sampled_process *process = xp_sampled_processes_find(&samples->processes, pid);

	if (!process || !process->image || !process->image->jit ||
	    !xp_rate_limit_is_left(&samples->jits.looking, xp_now_ns()))
		return 0;
	return xp_jit_told(process->image->jit, process->space, tsc);
}

static int retry_in_haste(void *arg, struct xp_pending_sample *sample)
{
	return unwind(arg, sample, &sample->record, false);
}

/* Waits for the pending samples after the last record, at most XP_SAMPLES_DRAIN_NS. */
static int drain_waiting(struct xp_samples *samples)
{
	uint64_t end_ns = xp_now_ns() + XP_SAMPLES_DRAIN_NS;
	int err = xp_samples_settle(samples);

	while (samples->waiting.count && !err && xp_now_ns() < end_ns) {
		xp_stacks_wait(samples->stacks, 20);
		err = look_for_code(samples) ?: xp_samples_settle(samples);
	}
	return xp_pending_samples_each(&samples->waiting, retry_in_haste, samples) ?: err;
}

/* Writes the absolute path of each jitdump, by which perf finds it. */
static void mark_jitdumps(const struct xp_samples *samples)
{
	char link[64], path[PATH_MAX + NAME_MAX + 2];
	ssize_t length;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", samples->dir_fd);
	length = readlink(link, path, PATH_MAX);
	for (size_t i = 0; i < samples->processes.image_count && length > 0; i++) {
		const struct xp_image *image = samples->processes.images[i];
		struct xp_jit_dump_out_counts dump = { 0 };
		const char *name = image->jit ? xp_jit_dump(image->jit, &dump) : NULL;

		if (!name || !dump.bytes)
			continue;
		snprintf(path + length, sizeof(path) - length, "/%s", name);
		xp_perf_out_jit(samples->perf, path);
	}
}

int xp_samples_drain(struct xp_samples *samples)
{
	int first = drain_waiting(samples), err;

	err = xp_jit_samples_finish(samples->processes.images, samples->processes.image_count);
	mark_jitdumps(samples);
	return err ?: first;
}

/* ---- arriving samples ---- */

/* Processes a sample. from: all known data of the sample except the process. */
static int arrive(struct xp_samples *samples, const struct xp_event_sample *record,
		  const struct xp_pending_sample *from)
{
	const struct xp_event *event = &record->head;
	bool is_kernel_thread = xp_event_fn(event) & XP_SAMPLE_KTHREAD;
	struct xp_pending_sample sample = *from;
	const struct xp_vma *leaf;
	struct xp_sampled_process *process;
	int err = xp_sampled_processes_sampled(&samples->processes, is_kernel_thread ? 0 : (pid_t)event->pid,
					       is_kernel_thread ? "kernel-threads" : record->comm, &process);

	if (err)
		return err;
	if (!process->image->since_tsc)
		process->image->since_tsc = sample.tsc;
	process->image->samples += !sample.is_wait && !sample.usdt;
	process->image->waits += sample.is_wait;
	sample.pid = process->pid;
	sample.image = process->image;
	sample.space = process->space;
	xp_perf_out_seen(samples->perf, record, sample.tsc, sample.cpu, process->space);
	if (!samples->stacks || sample.usdt || xp_event_fn(event) & XP_SAMPLE_NO_USER)
		return take_frames(samples, &sample, record);
	err = unwind(samples, &sample, record, true);
	if (err != 1)
		return err;
	/*
	 * Open the file and the sources of JIT code now: when the sample is retried, the process or its container may
	 * be gone.
	 */
	leaf = xp_address_space_find(sample.space, record->ip);
	err = leaf ? keep_file(samples, sample.pid, leaf) : 0;
	if (!err && leaf)
		err = xp_jit_samples_seen(&samples->jits, sample.image, sample.space, leaf);
	if (err)
		return err;
	sample.since_ns = xp_now_ns();
	err = xp_pending_samples_add(&samples->waiting, &sample, record);
	return err == -ENOSPC ? unwind(samples, &sample, record, false) : err;
}

int xp_samples_record(struct xp_samples *samples, const struct xp_arrival *arrival)
{
	const struct xp_event_sample *record = (const struct xp_event_sample *)arrival->event;
	const struct xp_pending_sample sample = { .tsc = arrival->tsc, .cpu = arrival->cpu, .size = arrival->size };
	int err = arrive(samples, record, &sample);

	if (err)
		return err;
	samples->samples++;
	samples->kernel_samples += record->kernel_frames > 0;
	return 0;
}

int xp_samples_wait(struct xp_samples *samples, const struct xp_samples_wait *wait)
{
	const struct xp_pending_sample sample = {
		.tsc = wait->tsc, .cpu = wait->cpu, .is_wait = true, .wait = wait->wait, .size = wait->size
	};
	int err = arrive(samples, wait->record, &sample);

	samples->waits += !err;
	return err;
}

int xp_samples_usdt(struct xp_samples *samples, const struct xp_arrival *arrival, const char *text)
{
	const struct xp_event_usdt *event = (const struct xp_event_usdt *)arrival->event;
	const struct xp_pending_sample sample = { .tsc = arrival->tsc, .cpu = arrival->cpu, .usdt = text };
	struct xp_event_sample record = { .head = event->head, .ip = event->ip };
	int err;

	record.head.word = xp_event_word(0, XP_EVENT_SAMPLE);
	memcpy(record.comm, event->comm, sizeof(record.comm));
	err = arrive(samples, &record, &sample);
	samples->usdt += !err;
	return err;
}

/* ---- the end ---- */

int xp_samples_store_names(struct xp_samples *samples)
{
	xp_sampled_processes_settle(&samples->processes);
	return xp_sym_files_write(samples->sym_files, samples->describe, samples->describe_arg);
}

void xp_samples_stacks(const struct xp_samples *samples, uint64_t stacks[XP_UNWIND_ENDS])
{
	memset(stacks, 0, XP_UNWIND_ENDS * sizeof(*stacks));
	for (size_t i = 0; i < samples->processes.image_count; i++)
		for (int end = 0; end < XP_UNWIND_ENDS; end++)
			stacks[end] += samples->processes.images[i]->stacks[end];
}
