// SPDX-License-Identifier: BSD-2-Clause
#include "target/remote_stacks.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <unistd.h>

#include "base/array.h"
#include "base/interrupt.h"
#include "base/small_file.h"
#include "base/util.h"
#include "target/remote_thread.h"
#include "target/status.h"
#include "target/target.h"

#define CHUNK_BYTES 65536u
#define CHUNK_WORDS (CHUNK_BYTES / sizeof(uint64_t))
#define PAGE_BYTES 4096u
#define PAGES_PER_READ 4096
#define BYTES_MAX_DEFAULT (128ull << 20)
#define BYTES_MAX_RESTORING (2ull << 30) /* takes about a second */
#define POINTERS_MAX (8u << 20)

/* Offsets in struct sigcontext_64: the word with cs, gs, fs and ss of 64-bit code, and sp (sources: sigframe.h). */
#define SIGFRAME_SEGMENTS 0x002b000000000033ull
#define SIGFRAME_SP_WORDS 3 /* before the segments */

/* Bits of /proc/PID/pagemap. */
#define PAGEMAP_HAS_DATA (3ull << 62) /* present, or swapped */
#define PAGEMAP_GUARD (1ull << 58)

struct area {
	uint64_t start;
	uint64_t end;
	uint64_t read_from;   /* already read from here to its end */
	bool may_have_stacks; /* private and writable */
	bool is_main_stack;
	bool is_thread_stack; /* a thread's stack without coroutines: nothing continues below read_from */
};

struct search {
	struct xp_code_pointers *pointers;
	struct xp_remote *remote;
	struct area *areas; /* by address */
	size_t area_count;
	uint64_t *stacks; /* stack pointers of code that a signal interrupted */
	size_t stack_count;
	size_t stack_room;
	uint64_t bytes; /* read so far */
};

/* ---- mappings ---- */

/* Parses a line of /proc/PID/maps. */
static bool parse(const char *line, const char *line_end, struct area *area)
{
	static const char main_stack[] = "[stack]";
	const size_t name_bytes = sizeof(main_stack) - 1;
	char *after;

	*area = (struct area){ .start = strtoull(line, &after, 16) };
	if (*after != '-')
		return false;
	area->end = area->read_from = strtoull(after + 1, &after, 16);
	area->may_have_stacks = line_end - after > 4 && after[2] == 'w' && after[4] == 'p';
	area->is_main_stack =
	    (size_t)(line_end - line) > name_bytes && !memcmp(line_end - name_bytes, main_stack, name_bytes);
	return true;
}

static int read_areas(struct search *search)
{
	const char *line_end;
	size_t room = 0;
	char *text;
	int err = xp_mappings_text(&text, search->remote->pid);

	if (err)
		return err;
	/* Not sscanf(), which measures the rest of the text for each line. */
	for (const char *line = text; !err && *line; line = *line_end ? line_end + 1 : line_end) {
		struct area area;

		line_end = strchrnul(line, '\n');
		if (!parse(line, line_end, &area))
			continue;
		err = XP_ARRAY_ADD(search->areas, search->area_count, room, area);
	}
	free(text);
	return err;
}

static struct area *find_area(const struct search *search, uint64_t address)
{
	size_t i = XP_FIND_FIRST(search->area_count, k, search->areas[k].start <= address);

	return i && address < search->areas[i - 1].end ? &search->areas[i - 1] : NULL;
}

/* ---- words ---- */

static int add_pointer(struct xp_code_pointers *pointers, uint64_t value)
{
	if (value < pointers->start || value >= pointers->end)
		return 0;
	if (pointers->count == POINTERS_MAX || XP_ARRAY_RESERVE(pointers->list, pointers->room, pointers->count + 1))
		return -E2BIG;
	pointers->list[pointers->count++] = value;
	return 0;
}

static int add_stack(struct search *search, uint64_t sp)
{
	if (search->stack_count == POINTERS_MAX ||
	    XP_ARRAY_RESERVE(search->stacks, search->stack_room, search->stack_count + 1))
		return -E2BIG;
	search->stacks[search->stack_count++] = sp;
	return 0;
}

static int spend(struct search *search, uint64_t bytes)
{
	search->bytes += bytes;
	if (search->bytes > search->pointers->bytes_max)
		return -E2BIG;
	return xp_interrupted() && !search->pointers->is_restoring ? -ECANCELED : 0;
}

static int scan(struct search *search, uint64_t from, uint64_t end)
{
	static uint64_t buffer[SIGFRAME_SP_WORDS + CHUNK_WORDS];
	uint64_t *words = buffer + SIGFRAME_SP_WORDS;
	int err = 0;

	memset(buffer, 0, SIGFRAME_SP_WORDS * sizeof(*buffer));
	for (; from < end && !err; from += CHUNK_BYTES) {
		size_t bytes = XP_MIN(end - from, CHUNK_BYTES);

		err = spend(search, bytes) ?: xp_remote_read(search->remote, from, words, bytes);
		for (size_t i = 0; i < bytes / sizeof(*words) && !err; i++)
			err = words[i] == SIGFRAME_SEGMENTS ? add_stack(search, buffer[i])
							    : add_pointer(search->pointers, words[i]);
		memcpy(buffer, buffer + CHUNK_WORDS, SIGFRAME_SP_WORDS * sizeof(*buffer));
	}
	return err;
}

/* ---- threads ---- */

static int scan_stack(struct search *search, uint64_t sp)
{
	struct area *area = find_area(search, sp);
	uint64_t read_from = area ? area->read_from : 0;

	sp &= ~7ull;
	if (sp >= read_from)
		return 0;
	area->read_from = sp;
	return scan(search, sp, read_from);
}

static int scan_thread(struct search *search, pid_t tid)
{
	struct user_regs_struct registers;
	struct area *area;
	int err = ptrace(PTRACE_GETREGS, tid, 0, &registers) ? -errno : 0;

	if (err)
		return err;
	area = find_area(search, registers.rsp);
	if (!area)
		return -EFAULT;
	/* libc puts the thread's TLS, which fs points to, at the top of its stack. */
	area->is_thread_stack |=
	    area->is_main_stack || (registers.fs_base > registers.rsp && registers.fs_base < area->end);
	err = add_pointer(search->pointers, registers.rip) ?: scan_stack(search, registers.rsp);
	/* Handles signal handlers on an alternate stack, and the code that they interrupted. */
	while (!err && search->stack_count)
		err = scan_stack(search, search->stacks[--search->stack_count]);
	return err;
}

/* ---- other memory ---- */

/*
 * Returns whether the process may preempt coroutines with a timer signal. Interrupted code then continues on a stack
 * that no thread uses: that of the coroutine, where a signal frame or a copy of it contains its registers.
 */
static bool preempts_coroutines(pid_t pid)
{
	static const int timers[] = { SIGALRM, SIGVTALRM, SIGPROF, SIGURG };
	struct xp_target_status status;
	uint64_t signals = ~0ull << (SIGRTMIN - 1);

	for (size_t i = 0; i < XP_ARRAY_SIZE(timers); i++)
		signals |= 1ull << (timers[i] - 1);
	return !xp_thread_status(&status, pid, pid) && status.caught & signals;
}

static bool has_data(uint64_t page)
{
	return page & PAGEMAP_HAS_DATA && !(page & PAGEMAP_GUARD);
}

/* Reads only existing pages: reading others would allocate them. */
static int scan_pages(struct search *search, int pagemap_fd, uint64_t start, uint64_t end)
{
	static uint64_t pages[PAGES_PER_READ];
	int err = 0;

	for (uint64_t at = start; at < end && !err; at += (uint64_t)PAGES_PER_READ * PAGE_BYTES) {
		size_t count = XP_MIN((end - at + PAGE_BYTES - 1) / PAGE_BYTES, (uint64_t)PAGES_PER_READ), run;
		ssize_t bytes = (ssize_t)(count * sizeof(*pages));

		err = spend(search, (uint64_t)bytes);
		if (err)
			return err;
		if (pread(pagemap_fd, pages, (size_t)bytes, (off_t)(at / PAGE_BYTES * sizeof(*pages))) != bytes)
			return -EIO;
		for (size_t i = 0; i < count && !err; i += run + 1) {
			for (run = 0; i + run < count && has_data(pages[i + run]);)
				run++;
			err = scan(search, at + i * PAGE_BYTES, XP_MIN(end, at + (i + run) * PAGE_BYTES));
		}
	}
	return err;
}

static int scan_memory(struct search *search)
{
	int err = 0, fd = xp_open_format(O_RDONLY, "/proc/%d/pagemap", search->remote->pid);

	if (fd < 0)
		return fd;
	for (size_t i = 0; i < search->area_count && !err; i++) {
		const struct area *area = &search->areas[i];

		if (area->may_have_stacks && !area->is_thread_stack)
			err = scan_pages(search, fd, area->start, area->read_from);
	}
	close(fd);
	return err;
}

static int by_value(const void *a, const void *b)
{
	return xp_compare(*(const uint64_t *)a, *(const uint64_t *)b);
}

int xp_code_pointers_find(struct xp_code_pointers *pointers, struct xp_remote *remote)
{
	struct search search = { .pointers = pointers, .remote = remote };
	int err = read_areas(&search);

	if (!pointers->bytes_max)
		pointers->bytes_max = pointers->is_restoring ? BYTES_MAX_RESTORING : BYTES_MAX_DEFAULT;
	for (size_t i = 0; i < remote->count && !err; i++)
		if (remote->threads[i].state == XP_REMOTE_STANDS)
			err = scan_thread(&search, remote->threads[i].tid);
	if (!err && preempts_coroutines(remote->pid))
		err = scan_memory(&search);
	free(search.areas);
	free(search.stacks);
	if (pointers->count)
		qsort(pointers->list, pointers->count, sizeof(*pointers->list), by_value);
	return err;
}

bool xp_code_pointers_are_in(const struct xp_code_pointers *pointers, uint64_t start, uint64_t end)
{
	size_t i = XP_FIND_FIRST(pointers->count, k, pointers->list[k] <= start);

	return i < pointers->count && pointers->list[i] < end;
}
