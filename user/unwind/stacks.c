/* SPDX-License-Identifier: BSD-2-Clause */
#include "unwind/stacks.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rate_limit.h"
#include "base/util.h"
#include "target/mapped_file.h"
#include "unwind/cfi_tables.h"
#include "unwind/stack_sizes.h"

/*
 * Number of stack bytes that are searched for return addresses. Their files are opened while the process still has them
 * mapped.
 */
#define GUESS_BYTES 16384u

#define HELD_MAX 64

/*
 * A file that a waiting sample may need. It is held open, because the process may have exited before xprof knows which
 * files the sample needs. An open file keeps its file system mounted, so the file is held only for a short time.
 */
struct held_file {
	size_t index; /* struct xp_file.index */
	int fd;
	uint64_t since_ns; /* CLOCK_MONOTONIC */
};

struct xp_stacks {
	struct xp_stacks_options options;
	struct xp_cfi_tables *tables;
	struct xp_unwinder *unwinder;
	struct xp_stack_sizes *sizes;
	size_t asked; /* number of tables that are being made */
	struct xp_rate_limit opening;
	struct held_file held[HELD_MAX]; /* the oldest first */
	size_t held_count;
};

/* ---- held files ---- */

/* Returns the index of the held file, or held_count if the file is not held. */
static size_t find_held(const struct xp_stacks *stacks, size_t index)
{
	size_t i = 0;

	while (i < stacks->held_count && stacks->held[i].index != index)
		i++;
	return i;
}

/* Removes the held file and returns its descriptor, which the caller then owns. */
static int take_held(struct xp_stacks *stacks, size_t i)
{
	int fd = stacks->held[i].fd;

	stacks->held_count--;
	memmove(&stacks->held[i], &stacks->held[i + 1], (stacks->held_count - i) * sizeof(*stacks->held));
	return fd;
}

/* Holds a file open. If there are too many held files, closes the oldest one. */
static void hold(struct xp_stacks *stacks, size_t index, int fd)
{
	if (stacks->held_count == HELD_MAX)
		close(take_held(stacks, 0));
	stacks->held[stacks->held_count++] = (struct held_file){ index, fd, xp_now_ns() };
}

void xp_stacks_release(struct xp_stacks *stacks)
{
	while (stacks->held_count)
		close(take_held(stacks, 0));
}

/* ---- tables ---- */

static int table_of(void *arg, const struct xp_file *file, uint64_t offset, const struct xp_cfi_table **table)
{
	struct xp_stacks *stacks = arg;

	*table = NULL;
	if (file->kind != XP_FILE_DISK && file->kind != XP_FILE_VDSO)
		return 0;
	switch (xp_cfi_tables_get(stacks->tables, file, offset, table)) {
	case XP_CFI_UNASKED:
	case XP_CFI_BUILDING:
		return -EAGAIN;
	default:
		return 0;
	}
}

int xp_stacks_new(struct xp_stacks **result, const struct xp_stacks_options *options)
{
	struct xp_stacks *stacks = calloc(1, sizeof(*stacks));
	int err;

	if (!stacks)
		return -ENOMEM;
	stacks->options = *options;
	err = xp_cfi_tables_new(&stacks->tables);
	if (!err)
		err = xp_unwinder_new(&stacks->unwinder, table_of, stacks, options->by_frame_pointer);
	if (!err)
		err = xp_stack_sizes_new(&stacks->sizes);
	if (err) {
		xp_stacks_free(stacks);
		return err;
	}
	*result = stacks;
	return 0;
}

void xp_stacks_free(struct xp_stacks *stacks)
{
	if (!stacks)
		return;
	xp_stacks_release(stacks);
	xp_stack_sizes_free(stacks->sizes);
	xp_unwinder_free(stacks->unwinder);
	xp_cfi_tables_free(stacks->tables);
	free(stacks);
}

void xp_stacks_forked(struct xp_stacks *stacks)
{
	xp_cfi_tables_forked(stacks->tables);
}

static bool may_ask(struct xp_stacks *stacks, const struct xp_file *file)
{
	return xp_cfi_tables_have_room(stacks->tables, file) && xp_rate_limit_is_left(&stacks->opening, xp_now_ns());
}

bool xp_stacks_pending(struct xp_stacks *stacks, const struct xp_file *file, uint64_t offset)
{
	const struct xp_cfi_table *table;
	enum xp_cfi_state state = xp_cfi_tables_get(stacks->tables, file, offset, &table);

	return state == XP_CFI_BUILDING || (state == XP_CFI_UNASKED && !may_ask(stacks, file));
}

/* Returns whether a table can still be requested for this offset of the file. */
static bool is_unasked(struct xp_stacks *stacks, const struct xp_file *file, uint64_t offset)
{
	const struct xp_cfi_table *table;

	return (file->kind == XP_FILE_DISK || file->kind == XP_FILE_VDSO) &&
	       xp_cfi_tables_get(stacks->tables, file, offset, &table) == XP_CFI_UNASKED && may_ask(stacks, file);
}

static int open_file(struct xp_stacks *stacks, pid_t pid, const struct xp_vma *vma)
{
	uint64_t begin_ns = xp_now_ns();
	int fd = xp_mapped_file_open(pid, vma);

	xp_rate_limit_spend(&stacks->opening, xp_now_ns() - begin_ns);
	return fd;
}

static int ask(struct xp_stacks *stacks, pid_t pid, const struct xp_vma *vma, uint64_t offset)
{
	size_t held = find_held(stacks, vma->file->index);
	int fd, err;

	if (!is_unasked(stacks, vma->file, offset))
		return 0;
	fd = held < stacks->held_count ? take_held(stacks, held) : open_file(stacks, pid, vma);
	err = xp_cfi_tables_ask(stacks->tables, vma->file, offset, fd);
	if (fd >= 0)
		close(fd);
	stacks->asked += !err && fd >= 0;
	return err == -ENOMEM ? err : 0;
}

/*
 * Opens the files of code addresses on the stack. Only opens them: many of these words are left from earlier calls, and
 * making tables of all these files would cost a third more.
 */
static void open_ahead(struct xp_stacks *stacks, const struct xp_address_space *space,
		       const struct xp_unwind_thread *thread)
{
	uint32_t bytes = XP_MIN(thread->stack_bytes, GUESS_BYTES);

	for (uint32_t at = 0; at + sizeof(uint64_t) <= bytes; at += sizeof(uint64_t)) {
		const struct xp_vma *vma;
		uint64_t word;
		int fd;

		memcpy(&word, thread->stack + at, sizeof(word));
		vma = word ? xp_address_space_find(space, word) : NULL;
		if (!vma || find_held(stacks, vma->file->index) < stacks->held_count ||
		    !is_unasked(stacks, vma->file, vma->file_offset + (word - vma->start)))
			continue;
		fd = open_file(stacks, thread->pid, vma);
		if (fd >= 0)
			hold(stacks, vma->file->index, fd);
	}
}

int xp_stacks_unwind(struct xp_stacks *stacks, const struct xp_address_space *space,
		     const struct xp_unwind_thread *thread, bool has_time, struct xp_frame *frames,
		     struct xp_unwind_result *result)
{
	struct xp_stack_size size;
	struct xp_stack_walk walk;

	xp_unwind(stacks->unwinder, space, thread, has_time, frames, result);
	if (result->end == XP_UNWIND_WAITS) {
		open_ahead(stacks, space, thread);
		return ask(stacks, thread->pid, frames[result->count - 1].vma, result->file_offset);
	}
	walk = (struct xp_stack_walk){
		.sp = thread->sp,
		.copied_bytes = thread->stack_bytes,
		.used_bytes = result->used_bytes,
		.has_end = thread->is_whole || thread->is_to_top,
		.is_complete = result->end == XP_UNWIND_COMPLETE,
		.is_truncated = result->end == XP_UNWIND_TRUNCATED,
	};
	if (xp_stack_sizes_learn(stacks->sizes, thread->tid, &walk, &size))
		stacks->options.set_size(stacks->options.arg, thread->tid, &size);
	return 0;
}

int xp_stacks_collect(struct xp_stacks *stacks)
{
	uint64_t now_ns = xp_now_ns();
	int count;

	while (stacks->held_count && now_ns - stacks->held[0].since_ns >= XP_STACKS_HELD_NS)
		close(take_held(stacks, 0));
	if (!stacks->asked)
		return 0;
	count = xp_cfi_tables_collect(stacks->tables);
	if (count > 0)
		stacks->asked -= XP_MIN((size_t)count, stacks->asked);
	return count;
}

void xp_stacks_wait(struct xp_stacks *stacks, unsigned int timeout_ms)
{
	struct pollfd made = { .fd = xp_cfi_tables_fd(stacks->tables), .events = POLLIN };

	poll(&made, 1, timeout_ms);
}
