// SPDX-License-Identifier: BSD-2-Clause
/*
 * Patches functions of an object without sleds (plan_table.h): makes their trampolines for this process, makes the
 * process map them, and writes the jumps to them.
 *
 * A thread may be stopped in the middle of instructions that a jump would replace, or may return there from a signal
 * handler. xprof leaves such a function unchanged and tries again in later stops. A function is patched completely,
 * except bytes that another tool changes at the same moment. Each jump works without the others, except a short jump,
 * which is written after its spring.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/interrupt.h"
#include "base/util.h"
#include "base/why.h"
#include "functions/ask_patches.h"
#include "sled/patch_check.h"
#include "sled/patch_work.h"
#include "sled/plan_table.h"
#include "sled/trampolines.h"
#include "sled/unpatch.h"
#include "target/address_gap.h"
#include "target/memory_window.h"
#include "target/remote_stacks.h"
#include "target/room.h"
#include "target/status.h"
#include "target/target.h"
#include "xprof/event.h"

#define ROUNDS 4
#define ROUND_PAUSE_US 2000
#define PAGE_BYTES 4096u
#define PIECE_BYTES 16u /* maximum size of one read through a memory window */

enum state { STATE_OPEN, STATE_PATCHED, STATE_REFUSED };

struct jumping {
	struct xp_patch_work *work;
	struct xp_patches_request request;
	struct xp_made_patches made;
	uint8_t *states; /* enum state of each function of the request */
	struct xp_trampolines trampolines;
	/* The functions that are written in one stop. */
	size_t first;
	size_t end;
};

static const struct xp_text_patches *text_of(const struct jumping *jumping)
{
	return &jumping->work->text_patches[0];
}

/* ---- before the process is stopped ---- */

static bool has_shadow_stack(pid_t pid)
{
	struct xp_target_status status;

	return !xp_thread_status(&status, pid, pid) && status.has_shadow_stack;
}

/*
 * Returns whether the process handles faults. Its handler may compare the address of the faulting instruction with
 * known addresses, as a JVM's does. So such an instruction must not move.
 */
static bool handles_faults(pid_t pid)
{
	const uint64_t faults =
	    1ull << (SIGSEGV - 1) | 1ull << (SIGBUS - 1) | 1ull << (SIGFPE - 1) | 1ull << (SIGILL - 1);
	struct xp_target_status status;

	return !xp_thread_status(&status, pid, pid) && status.caught & faults;
}

static int check(const struct jumping *jumping)
{
	struct xp_patch_work *work = jumping->work;
	const struct xp_elf_segment *code = &work->object->plan->planned.code;
	const struct xp_text_patches *text = text_of(jumping);
	uint64_t start = text->file_start + code->offset;

	if (work->count != 1 || start < text->start || start > text->end || code->bytes > text->end - start)
		return xp_why_set(-EOPNOTSUPP, "its code is mapped more than once, or in parts");
	if (has_shadow_stack(work->pid))
		return xp_why_set(-EOPNOTSUPP, "it has a shadow stack");
	return 0;
}

/* Returns whether these bytes of the process are as in the file. */
static bool is_as_in_file(const struct jumping *jumping, struct xp_memory_window *memory, uint64_t address,
			  size_t bytes)
{
	const struct xp_text_patches *text = text_of(jumping);
	uint8_t now[PIECE_BYTES], file[PIECE_BYTES];

	for (size_t done = 0; done < bytes; done += PIECE_BYTES) {
		size_t count = XP_MIN(bytes - done, (size_t)PIECE_BYTES);

		if (!xp_memory_window_read(memory, now, address + done, count) ||
		    pread(text->file_fd, file, count, (off_t)(address + done - text->file_start)) != (ssize_t)count ||
		    memcmp(now, file, count) != 0)
			return false;
	}
	return true;
}

/* Refuses functions that another tool has changed: trampolines contain the instructions of the file. */
static int compare_with_file(struct jumping *jumping)
{
	const struct xp_call_plan *plan = &jumping->request.planned->plan;
	struct xp_memory_window *memory;
	int err = xp_memory_window_open(&memory, jumping->work->pid);

	if (err)
		return err;
	xp_memory_window_set(memory, text_of(jumping)->start, text_of(jumping)->end);
	for (size_t i = 0; i < jumping->request.count; i++) {
		const struct xp_call_plan_function *function = &plan->functions[jumping->request.functions[i]];
		bool same = true;

		for (uint32_t k = 0; k < function->window_count && same; k++) {
			const struct xp_call_plan_window *window = &plan->windows[function->first_window + k];

			same =
			    is_as_in_file(jumping, memory, window->vaddr + jumping->request.bias, window->bytes) &&
			    (!window->spring ||
			     is_as_in_file(jumping, memory, window->spring + jumping->request.bias, XP_WINDOW_BYTES));
		}
		if (!same)
			jumping->states[i] = STATE_REFUSED;
	}
	if (xp_memory_window_gone(memory))
		err = -ESRCH;
	xp_memory_window_free(memory);
	return err;
}

/* Finds space for the trampolines within reach of the stub and the whole text. */
static int find_room(struct jumping *jumping)
{
	struct xp_patch_work *work = jumping->work;
	const struct xp_text_patches *text = text_of(jumping);
	uint64_t stub = work->stub->place.address, bytes, low, high;
	char *maps;
	int err;

	bytes = xp_trampolines_room(xp_patches_bytes_max(&jumping->request));
	err = xp_target_check_room(work->pid, bytes, 1) ?: xp_mappings_text(&maps, work->pid);
	if (err)
		return err;
	low = XP_MIN(text->start, stub);
	high = XP_MAX(text->end, stub + XP_STUB_BYTES);
	jumping->trampolines.start = xp_address_gap_find(maps, low, high, bytes);
	free(maps);
	return jumping->trampolines.start ? 0 : xp_why_set(-ENOSPC, "no room for trampolines within 2 GiB of it");
}

/* ---- functions that stay as they are ---- */

static bool may_fault(const struct xp_call_plan *plan, const struct xp_call_plan_function *function)
{
	for (uint32_t i = 0; i < function->window_count; i++)
		if (plan->windows[function->first_window + i].may_fault)
			return true;
	return false;
}

/* Counts sites that may fault. Sets states, if not NULL. */
static size_t find_faulting(const struct xp_plan_table *table, size_t count, pid_t pid, uint8_t *states)
{
	const struct xp_call_plan *plan = &table->planned.plan;
	size_t sites = 0;

	if (!handles_faults(pid))
		return 0;
	for (size_t i = 0; i < count; i++) {
		const struct xp_call_plan_function *function = &plan->functions[table->functions[i]];

		if (!may_fault(plan, function))
			continue;
		sites += function->site_count - function->probe_count;
		if (states)
			states[i] = STATE_REFUSED;
	}
	return sites;
}

bool xp_patch_leaves_out(const struct xp_object *object, pid_t pid, uint32_t function_id)
{
	const struct xp_call_plan *plan = object->plan ? &object->plan->planned.plan : NULL;

	return plan && may_fault(plan, &plan->functions[object->plan->functions[function_id - 1]]) &&
	       handles_faults(pid);
}

size_t xp_patch_count_faulting(const struct xp_object *object, pid_t pid)
{
	return object->plan ? find_faulting(object->plan, object->table->function_count, pid, NULL) : 0;
}

/* ---- the list of jumps ---- */

/* If a window has two jumps, only the first is a spring. */
static uint8_t place_of(const struct xp_made_patches *made, size_t jump, size_t end)
{
	if (made->jumps[jump].count == XP_SPRING_BYTES)
		return XP_JUMP_SHORT;
	return jump + 1 < end && made->jumps[jump + 1].count == XP_SPRING_BYTES ? XP_JUMP_SPRING : XP_JUMP_WINDOW;
}

static int by_address(const void *a, const void *b)
{
	return xp_compare(((const struct xp_trampoline_jump *)a)->address,
			  ((const struct xp_trampoline_jump *)b)->address);
}

static int list_jumps(struct jumping *jumping)
{
	const struct xp_made_patches *made = &jumping->made;
	struct xp_trampolines *trampolines = &jumping->trampolines;

	trampolines->jumps = calloc(made->jump_count + 1, sizeof(*trampolines->jumps));
	if (!trampolines->jumps)
		return -ENOMEM;
	trampolines->count = made->jump_count;
	for (size_t i = 0; i < jumping->request.count; i++)
		for (size_t k = made->first_jump[i]; k < made->first_jump[i + 1]; k++) {
			struct xp_trampoline_jump *jump = &trampolines->jumps[k];

			jump->address = made->jumps[k].address;
			jump->kind = place_of(made, k, made->first_jump[i + 1]);
			memcpy(jump->bytes, made->jumps[k].bytes, sizeof(jump->bytes));
		}
	qsort(trampolines->jumps, trampolines->count, sizeof(*trampolines->jumps), by_address);
	/* A plan is untrusted: checks that each jump has 5 bytes, or 2 for a short one. */
	for (size_t i = 1; i < trampolines->count; i++)
		if (trampolines->jumps[i].address - trampolines->jumps[i - 1].address <
		    (trampolines->jumps[i - 1].kind == XP_JUMP_SHORT ? XP_SPRING_BYTES : XP_WINDOW_BYTES))
			return xp_why_set(-EOPNOTSUPP, "its functions overlap");
	return 0;
}

/*
 * Returns whether a jump crosses a page: it would be written in two parts. If the writing task were killed in between,
 * a thread could execute half of it.
 */
static bool crosses_page(const struct jumping *jumping, size_t function)
{
	const struct xp_made_patches *made = &jumping->made;

	for (size_t k = made->first_jump[function]; k < made->first_jump[function + 1]; k++)
		if (made->jumps[k].address % PAGE_BYTES + made->jumps[k].count > PAGE_BYTES)
			return true;
	return false;
}

static int make_patches(struct jumping *jumping)
{
	struct xp_patch_work *work = jumping->work;
	int err = xp_patches_ask(&jumping->made, work->object->fd, &jumping->request);

	if (err == -ENOEXEC || err == -ETIMEDOUT)
		err = xp_why_set(-EOPNOTSUPP, "%s", xp_why(err));
	for (size_t i = 0; i < jumping->request.count && !err; i++)
		if (jumping->made.first_jump[i] == jumping->made.first_jump[i + 1] || crosses_page(jumping, i))
			jumping->states[i] = STATE_REFUSED;
	return err ? err : list_jumps(jumping);
}

/* ---- in the stopped process ---- */

static int check_stopped(const struct jumping *jumping, struct xp_remote *remote)
{
	struct xp_patch_work *work = jumping->work;
	int err = xp_patch_check_sharing(work->pid);

	if (!err && !xp_stub_map_is_there(remote, work->stub->place.address, true))
		err = -ESRCH;
	return err;
}

/* Counts jumps of earlier recordings, too: a process with more jumps than xprof can read could not be restored. */
static int check_limits(struct jumping *jumping)
{
	struct xp_trampolines_list list;
	int err = xp_trampolines_read(&list, jumping->work->pid);

	if (err == -EKEYREJECTED || (!err && !xp_trampolines_may_add(&list, &jumping->trampolines)))
		err = xp_why_set(-EOPNOTSUPP, "it would have too many trampolines: select fewer functions");
	xp_trampolines_free(&list);
	return err;
}

static int map_stopped(void *arg, struct xp_remote *remote)
{
	struct jumping *jumping = arg;
	struct xp_patch_work *work = jumping->work;
	const struct xp_trampolines_code code = { jumping->made.code, jumping->made.bytes,
						  work->stub->place.address + XP_STUB_SCRATCH };
	int err = check_stopped(jumping, remote);

	if (!err)
		err = xp_trampolines_map(&jumping->trampolines, remote, &code);
	/* Refuses writes by words: most jumps would need two. */
	if (!err && xp_remote_pokes(remote))
		err = xp_why_set(-EOPNOTSUPP, XP_REMOTE_NO_WRITES);
	return err;
}

/* Returns whether the process has mapped the right file: its descriptors are untrusted. */
static int verify_map(const struct jumping *jumping)
{
	const struct xp_trampolines *wanted = &jumping->trampolines;
	struct xp_trampolines_list list;
	int err = xp_trampolines_read(&list, jumping->work->pid);
	bool found = false;

	for (size_t i = 0; i < list.count && !err; i++)
		found |= list.all[i].start == wanted->start && list.all[i].end == wanted->end &&
			 list.all[i].inode == wanted->inode && list.all[i].count == wanted->count;
	xp_trampolines_free(&list);
	return err || found ? err : xp_why_set(-EPROTO, "another process interferes with it");
}

/* ---- what trampolines stand for ---- */

/* The code in a file of trampolines: start of each trampoline and address of its window, both sorted by offset. */
struct xp_moved_code {
	ino_t inode;
	size_t count;
	struct {
		uint64_t offset;
		uint64_t original;
	} windows[];
};

static int remember_originals(const struct jumping *jumping)
{
	const struct xp_made_patches *made = &jumping->made;
	struct xp_patch *patch = jumping->work->patch;
	struct xp_moved_code *moved = malloc(sizeof(*moved) + made->jump_count * sizeof(moved->windows[0]));
	int32_t distance;

	if (!moved || XP_ARRAY_RESERVE(patch->moved, patch->moved_room, patch->moved_count + 1)) {
		free(moved);
		return -ENOMEM;
	}
	*moved = (struct xp_moved_code){ .inode = jumping->trampolines.inode };
	for (size_t k = 0; k < made->jump_count; k++) {
		const struct xp_code_patch *jump = &made->jumps[k];
		bool is_spring = place_of(made, k, made->jump_count) == XP_JUMP_SPRING;

		if (jump->count != XP_JUMP_BYTES)
			continue;
		memcpy(&distance, jump->bytes + 1, sizeof(distance));
		moved->windows[moved->count].offset =
		    jump->address + XP_JUMP_BYTES + (uint64_t)distance - jumping->trampolines.start;
		moved->windows[moved->count++].original = made->jumps[k + is_spring].address;
	}
	patch->moved[patch->moved_count++] = moved;
	return 0;
}

uint64_t xp_patch_original(const struct xp_patch *patch, uint64_t inode, uint64_t offset)
{
	for (size_t i = 0; i < patch->moved_count; i++) {
		const struct xp_moved_code *moved = patch->moved[i];
		size_t next;

		if (moved->inode != inode)
			continue;
		next = XP_FIND_FIRST(moved->count, k, moved->windows[k].offset <= offset);
		return next ? moved->windows[next - 1].original : 0;
	}
	return 0;
}

/* ---- writing ---- */

/* Returns whether a thread may continue between two bytes of a jump, or anywhere in a spring. */
static bool is_in_use(const struct jumping *jumping, size_t function, const struct xp_code_pointers *pointers)
{
	const struct xp_made_patches *made = &jumping->made;

	for (size_t k = made->first_jump[function]; k < made->first_jump[function + 1]; k++) {
		const struct xp_code_patch *jump = &made->jumps[k];
		bool is_spring = place_of(made, k, made->first_jump[function + 1]) == XP_JUMP_SPRING;

		if (xp_code_pointers_are_in(pointers, jump->address - is_spring, jump->address + jump->count))
			return true;
	}
	return false;
}

static int add_jumps(const struct jumping *jumping, const bool *chosen, uint8_t place, struct xp_text_patches *list)
{
	const struct xp_made_patches *made = &jumping->made;

	for (size_t i = jumping->first; i < jumping->end; i++)
		for (size_t k = made->first_jump[i]; chosen[i - jumping->first] && k < made->first_jump[i + 1]; k++) {
			struct xp_text_patch text_patch = { .address = made->jumps[k].address,
							    .sled = (uint32_t)i,
							    .kind = place_of(made, k, made->first_jump[i + 1]) };

			if (text_patch.kind != place)
				continue;
			text_patch.size = made->jumps[k].count;
			memcpy(text_patch.jump.to, made->jumps[k].bytes, text_patch.size);
			if (pread(list->file_fd, text_patch.jump.from, text_patch.size,
				  (off_t)(text_patch.address - list->file_start)) != text_patch.size)
				return -EOPNOTSUPP;
			if (xp_text_patches_add(list, &text_patch))
				return -ENOMEM;
		}
	return xp_text_patches_sort(list);
}

static bool is_original(const void *arg, const struct xp_text_patch *text_patch, const uint8_t *now)
{
	(void)arg;
	return !memcmp(now, text_patch->jump.from, xp_text_patch_bytes(text_patch));
}

/* Writes the jumps of one kind. Deselects functions with a jump that was not written. */
static int write_place(struct jumping *jumping, struct xp_remote *remote, bool *chosen, uint8_t place)
{
	struct xp_text_patches list = *text_of(jumping);
	size_t written = 0;
	int err;

	list.list = NULL;
	list.count = list.room = 0;
	err = add_jumps(jumping, chosen, place, &list);
	if (!err && list.count)
		err = xp_text_patches_write(&list, remote, is_original, NULL, &written);
	jumping->work->written += written;
	for (size_t i = 0; i < list.count; i++)
		if (!list.list[i].size) {
			chosen[list.list[i].sled - jumping->first] = false;
			jumping->states[list.list[i].sled] = STATE_REFUSED;
		}
	xp_text_patches_free(&list);
	return err;
}

static int choose(const struct jumping *jumping, struct xp_remote *remote, bool *chosen)
{
	struct xp_code_pointers pointers = { .start = text_of(jumping)->start, .end = text_of(jumping)->end };
	int err = xp_code_pointers_find(&pointers, remote);

	for (size_t i = jumping->first; i < jumping->end && !err; i++)
		chosen[i - jumping->first] = jumping->states[i] == STATE_OPEN && !is_in_use(jumping, i, &pointers);
	free(pointers.list);
	if (err == -E2BIG)
		err = xp_why_set(-EOPNOTSUPP,
				 "its stacks are too large to be searched for code that a signal interrupted; with a "
				 "handler for a timer's signal, all its memory is searched");
	return err;
}

static int write_stopped(void *arg, struct xp_remote *remote)
{
	struct jumping *jumping = arg;
	bool *chosen = calloc(jumping->end - jumping->first, sizeof(*chosen));
	int err = chosen ? check_stopped(jumping, remote) : -ENOMEM;

	if (!err)
		err = choose(jumping, remote, chosen);
	if (!err)
		xp_patch_bind_threads(jumping->work);
	for (uint8_t place = XP_JUMP_WINDOW; place < XP_TEXT_PATCH_KINDS && !err; place++)
		err = write_place(jumping, remote, chosen, place);
	for (size_t i = jumping->first; i < jumping->end && !err; i++)
		if (chosen[i - jumping->first])
			jumping->states[i] = STATE_PATCHED;
	free(chosen);
	return err;
}

/* Writes all functions that are still open, some of them in each stop. */
static int write_round(struct jumping *jumping)
{
	const uint32_t *first_jump = jumping->made.first_jump;
	size_t count = jumping->request.count;
	int err = 0;

	for (jumping->first = 0; jumping->first < count && !err; jumping->first = jumping->end) {
		bool is_open = false;

		jumping->end = jumping->first;
		do
			is_open |= jumping->states[jumping->end++] == STATE_OPEN;
		while (jumping->end < count &&
		       first_jump[jumping->end + 1] - first_jump[jumping->first] <= XP_SLEDS_PER_STOP);
		if (is_open)
			err = xp_interrupted() ? -ECANCELED : xp_patch_stopped(jumping->work, write_stopped, jumping);
	}
	return err;
}

static size_t count_open(const struct jumping *jumping)
{
	size_t open = 0;

	for (size_t i = 0; i < jumping->request.count; i++)
		open += jumping->states[i] == STATE_OPEN;
	return open;
}

/* Returns how many sites are patched. */
static size_t count_sites(const struct jumping *jumping)
{
	const struct xp_call_plan *plan = &jumping->request.planned->plan;
	size_t sites = 0;

	for (size_t i = 0; i < jumping->request.count; i++)
		if (jumping->states[i] == STATE_PATCHED)
			sites += plan->functions[jumping->request.functions[i]].site_count -
				 plan->functions[jumping->request.functions[i]].probe_count;
	return sites;
}

static int write_jumps(struct jumping *jumping)
{
	struct xp_patch_work *work = jumping->work;
	int err = check(jumping);

	if (!err)
		err = compare_with_file(jumping);
	work->faulting = find_faulting(work->object->plan, jumping->request.count, work->pid, jumping->states);
	if (!err)
		err = find_room(jumping);
	jumping->request.at = jumping->trampolines.start + XP_TRAMPOLINES_CODE;
	if (!err)
		err = make_patches(jumping);
	if (!err)
		err = check_limits(jumping);
	if (!err)
		err = xp_patch_stopped(jumping->work, map_stopped, jumping);
	if (!err)
		err = verify_map(jumping);
	if (!err)
		err = remember_originals(jumping);
	for (int round = 0; round < ROUNDS && !err && count_open(jumping); round++) {
		if (round)
			usleep(ROUND_PAUSE_US);
		err = write_round(jumping);
	}
	return err;
}

int xp_patch_write_jumps(struct xp_patch_work *work)
{
	const struct xp_object *object = work->object;
	const struct xp_elf_segment *code = &object->plan->planned.code;
	const uint64_t stub = work->stub->place.address;
	struct jumping jumping = {
		.work = work,
		.request = { .planned = &object->plan->planned,
			     .functions = object->plan->functions,
			     .count = object->table->function_count,
			     .bias =
				 text_of(&(struct jumping){ .work = work })->file_start + code->offset - code->vaddr,
			     .slots = { stub + xp_patch_entry(work, XP_SLED_ENTRY),
					stub + xp_patch_entry(work, XP_SLED_TAIL_EXIT) } },
		.states = calloc(object->table->function_count + 1, sizeof(*jumping.states)),
	};
	int err = jumping.states ? 0 : -ENOMEM;

	for (size_t kind = 0; kind < XP_ARRAY_SIZE(jumping.request.words); kind++)
		jumping.request.words[kind] =
		    xp_event_word(object->fn_base + 1, kind == XP_SITE_ENTRY ? XP_EVENT_ENTRY : XP_EVENT_TAIL_EXIT);
	if (!err)
		err = write_jumps(&jumping);
	if (!err)
		work->written = count_sites(&jumping);
	xp_made_patches_free(&jumping.made);
	free(jumping.trampolines.jumps);
	free(jumping.states);
	return err;
}
