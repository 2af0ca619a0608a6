// SPDX-License-Identifier: BSD-2-Clause
#include "target/remote_stacks.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
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

/* End of the mapping that has the address; 0: there is none. text: /proc/PID/maps. */
static uint64_t end_of_mapping(const char *text, uint64_t address)
{
	uint64_t start, end;

	for (const char *line = text; line && *line; line = strchr(line, '\n'), line += line != NULL)
		if (sscanf(line, "%" SCNx64 "-%" SCNx64, &start, &end) == 2 && address >= start && address < end)
			return end;
	return 0;
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

int xp_code_pointers_find(struct xp_code_pointers *pointers, struct xp_remote *remote)
{
	struct user_regs_struct registers;
	uint64_t bytes = 0;
	char *text;
	int err = xp_mappings_text(&text, remote->pid);

	if (err)
		return err;
	for (size_t i = 0; i < remote->count && !err; i++) {
		uint64_t end;

		if (remote->threads[i].state != XP_REMOTE_STANDS)
			continue;
		err = ptrace(PTRACE_GETREGS, remote->threads[i].tid, 0, &registers) ? -errno : 0;
		end = err ? 0 : end_of_mapping(text, registers.rsp);
		bytes += end ? end - registers.rsp : 0;
		if (!err)
			err = !end ? -EFAULT : bytes > STACKS_BYTES_MAX ? -E2BIG : add(pointers, registers.rip);
		if (!err)
			err = scan(pointers, remote, registers.rsp, end);
	}
	free(text);
	return err;
}

bool xp_code_pointers_are_in(const struct xp_code_pointers *pointers, uint64_t start, uint64_t end)
{
	for (size_t i = 0; i < pointers->count; i++)
		if (pointers->list[i] > start && pointers->list[i] < end)
			return true;
	return false;
}
