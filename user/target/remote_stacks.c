// SPDX-License-Identifier: BSD-2-Clause
#include "target/remote_stacks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>

#include "base/array.h"
#include "base/interrupt.h"
#include "base/util.h"
#include "target/remote_thread.h"
#include "target/target.h"

#define CHUNK_BYTES 65536u
#define STACKS_BYTES_MAX (32ull << 20)

struct area {
	uint64_t start;
	uint64_t end;
};

/* The mappings of a process, by address. The caller frees the list, also after an error. */
static int read_areas(struct area **list, size_t *count, pid_t pid)
{
	size_t room = 0;
	char *text, *after;
	int err = xp_mappings_text(&text, pid);

	*list = NULL;
	*count = 0;
	if (err)
		return err;
	/* Not by sscanf(), which measures the rest of the text for each line. */
	for (const char *line = text; !err && line && *line; line = strchr(line, '\n'), line += line != NULL) {
		uint64_t start = strtoull(line, &after, 16);

		if (*after != '-')
			continue;
		err = XP_ARRAY_RESERVE(*list, room, *count + 1) ? -ENOMEM : 0;
		if (!err)
			(*list)[(*count)++] = (struct area){ start, strtoull(after + 1, NULL, 16) };
	}
	free(text);
	return err;
}

/* End of the mapping that has the address; 0: there is none. */
static uint64_t end_of_mapping(const struct area *areas, size_t count, uint64_t address)
{
	size_t i = XP_FIND_FIRST(count, k, areas[k].start <= address);

	return i && address < areas[i - 1].end ? areas[i - 1].end : 0;
}

static int add(struct xp_code_pointers *pointers, uint64_t value)
{
	if (value < pointers->start || value >= pointers->end)
		return 0;
	if (XP_ARRAY_RESERVE(pointers->list, pointers->room, pointers->count + 1))
		return -ENOMEM;
	pointers->list[pointers->count++] = value;
	return 0;
}

static int scan(struct xp_code_pointers *pointers, struct xp_remote *remote, uint64_t from, uint64_t end)
{
	static uint64_t words[CHUNK_BYTES / sizeof(uint64_t)];
	int err = 0;

	for (from &= ~7ull; from < end && !err; from += CHUNK_BYTES) {
		size_t bytes = XP_MIN(end - from, CHUNK_BYTES);

		err = xp_interrupted() ? -ECANCELED : xp_remote_read(remote, from, words, bytes);
		for (size_t i = 0; i < bytes / sizeof(*words) && !err; i++)
			err = add(pointers, words[i]);
	}
	return err;
}

static int by_value(const void *a, const void *b)
{
	return xp_compare(*(const uint64_t *)a, *(const uint64_t *)b);
}

int xp_code_pointers_find(struct xp_code_pointers *pointers, struct xp_remote *remote)
{
	struct user_regs_struct registers;
	struct area *areas;
	uint64_t bytes = 0;
	size_t area_count;
	int err = read_areas(&areas, &area_count, remote->pid);

	for (size_t i = 0; i < remote->count && !err; i++) {
		uint64_t end;

		if (remote->threads[i].state != XP_REMOTE_STANDS)
			continue;
		err = ptrace(PTRACE_GETREGS, remote->threads[i].tid, 0, &registers) ? -errno : 0;
		end = err ? 0 : end_of_mapping(areas, area_count, registers.rsp);
		bytes += end ? end - registers.rsp : 0;
		if (!err)
			err = !end ? -EFAULT : bytes > STACKS_BYTES_MAX ? -E2BIG : add(pointers, registers.rip);
		if (!err)
			err = scan(pointers, remote, registers.rsp, end);
	}
	free(areas);
	if (pointers->count)
		qsort(pointers->list, pointers->count, sizeof(*pointers->list), by_value);
	return err;
}

bool xp_code_pointers_are_in(const struct xp_code_pointers *pointers, uint64_t start, uint64_t end)
{
	size_t i = XP_FIND_FIRST(pointers->count, k, pointers->list[k] <= start);

	return i < pointers->count && pointers->list[i] < end;
}
