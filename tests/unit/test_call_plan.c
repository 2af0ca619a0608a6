// SPDX-License-Identifier: BSD-2-Clause
/* Plans of hand-written functions. */
#include <errno.h>
#include <string.h>

#include "arch/x86_64/code_decode.h"
#include "base/why.h"
#include "hand_functions.h"
#include "tiny_elf.h"

static const struct xp_call_plan_site *site(const struct xp_call_plan_function *function, size_t index)
{
	assert_true(index < function->site_count);
	return &plan.sites[function->first_site + index];
}

static const struct xp_call_plan_window *window(const struct xp_call_plan_function *function, size_t index)
{
	uint32_t number = site(function, index)->window;

	assert_true(number < plan.window_count);
	return &plan.windows[number];
}

static void check(const uint8_t *code, enum xp_call_plan_way way, uint32_t exits, uint32_t probes)
{
	const struct xp_call_plan_function *function = find(code);

	assert_non_null(function);
	assert_int_equal(function->reason, XP_CALL_PLAN_OK);
	assert_int_equal(function->way, way);
	assert_int_equal(function->exit_count, exits);
	assert_int_equal(function->probe_count, probes);
}

static void check_window(const uint8_t *code, size_t index, size_t offset, size_t bytes)
{
	const struct xp_call_plan_function *function = find(code);

	assert_int_equal(window(function, index)->vaddr - function->vaddr, offset);
	assert_int_equal(window(function, index)->bytes, bytes);
}

static void check_refused(const uint8_t *code, enum xp_call_plan_reason reason)
{
	const struct xp_call_plan_function *function = find(code);

	assert_non_null(function);
	assert_int_equal(function->way, XP_CALL_PLAN_REFUSED);
	assert_int_equal(function->reason, reason);
	assert_int_equal(function->site_count, 0);
}

TEST(function_of_three_bytes_is_one_window)
{
	check(three_bytes, XP_CALL_PLAN_PATCHED, 1, 0);
	check_window(three_bytes, 0, 0, 5);
	check_window(three_bytes, 1, 0, 5);
}

TEST(function_of_three_bytes_without_padding_needs_probes)
{
	check(three_bytes_packed, XP_CALL_PLAN_PROBES, 1, 1);
}

TEST(exit_window_takes_padding_first)
{
	check(padded, XP_CALL_PLAN_PATCHED, 1, 0);
	check_window(padded, 1, 7, 5);
}

TEST(exit_window_grows_backwards_up_to_the_target)
{
	check(backwards, XP_CALL_PLAN_PATCHED, 1, 0);
	check_window(backwards, 1, find(backwards)->bytes - 5, 5);
}

TEST(exit_behind_a_target_needs_a_probe)
{
	check(target_is_return, XP_CALL_PLAN_PATCHED, 1, 1);
	assert_int_equal(site(find(target_is_return), 1)->window, XP_NO_WINDOW);
	check(target_before_return, XP_CALL_PLAN_PATCHED, 1, 1);
}

TEST(short_jump_to_room_made_in_straight_code)
{
	const struct xp_call_plan_window *exit;
	size_t offset;

	check(with_host, XP_CALL_PLAN_PATCHED, 1, 0);
	check_window(with_host, 1, find(with_host)->bytes - 2, 2);
	exit = window(find(with_host), 1);
	offset = exit->spring - find(with_host)->vaddr;
	assert_true(offset >= 5 && offset + 5 <= (size_t)(find(with_host)->bytes) - 2);
	/* The instructions around the spring are moved, without a site of their own. */
	for (size_t i = 0; i < plan.window_count; i++)
		if (plan.windows[i].vaddr == exit->spring - 5)
			return;
	fail();
}

static void check_faults(const uint8_t *code, bool may_fault)
{
	const struct xp_call_plan_function *function = find(code);
	bool found = false;

	for (uint32_t i = 0; i < function->window_count; i++)
		found |= plan.windows[function->first_window + i].may_fault;
	assert_int_equal(found, may_fault);
}

TEST(instructions_that_may_fault)
{
	check_faults(padded, false);
	check_faults(pushed, false);
	check_faults(loads_from_stack, false);
	check_faults(loads_variable, false);
	check_faults(loads_thread_variable, false);
	check_faults(computes_address, false);
	check_faults(pointer_tail, true);
	check_faults(loads_through_frame, true);
	check_faults(loads_through_r12, true);
	check_faults(divides, true);
	check_faults(adds_floats, true);
	check_faults(copies_string, true);
	check_faults(loads_at_index, true);
}

TEST(tail_calls)
{
	check(tail, XP_CALL_PLAN_PATCHED, 1, 0);
	assert_int_equal(site(find(tail), 1)->kind, XP_SITE_TAIL);
	check(pointer_tail, XP_CALL_PLAN_PATCHED, 1, 0);
	assert_int_equal(site(find(pointer_tail), 1)->kind, XP_SITE_TAIL);
	check(plt_tail, XP_CALL_PLAN_PATCHED, 2, 0);
	assert_int_equal(site(find(plt_tail), 2)->kind, XP_SITE_TAIL);
}

TEST(conditional_tail_calls)
{
	check(taken_tail, XP_CALL_PLAN_PATCHED, 2, 0);
	assert_int_equal(site(find(taken_tail), 1)->kind, XP_SITE_CONDITIONAL_TAIL);
	check(short_taken_tail, XP_CALL_PLAN_PATCHED, 2, 0);
	assert_int_equal(site(find(short_taken_tail), 1)->kind, XP_SITE_CONDITIONAL_TAIL);
	assert_int_equal(site(find(short_taken_tail), 0)->window, site(find(short_taken_tail), 1)->window);
	check(after_it, XP_CALL_PLAN_PATCHED, 1, 0);
}

TEST(head_of_a_loop_is_refused)
{
	check_refused(loop, XP_CALL_PLAN_LOOP);
	check_refused(loop_behind_endbr, XP_CALL_PLAN_LOOP);
}

TEST(entry_is_behind_endbr64)
{
	check(endbr, XP_CALL_PLAN_PATCHED, 1, 0);
	check_window(endbr, 0, 4, 6);
}

TEST(code_that_does_not_decode_is_refused)
{
	check_refused(undecoded, XP_CALL_PLAN_UNDECODED);
	check_refused(cut, XP_CALL_PLAN_UNDECODED);
}

TEST(shared_code_is_refused)
{
	check_refused(one_of_two, XP_CALL_PLAN_SHARED);
	check_refused(two_of_two, XP_CALL_PLAN_SHARED);
}

TEST(jump_to_code_without_an_entry_is_refused)
{
	check_refused(leaves, XP_CALL_PLAN_LEAVES);
}

TEST(labels_in_data_are_targets)
{
	check_refused(ambiguous, XP_CALL_PLAN_AMBIGUOUS);
	check(has_label, XP_CALL_PLAN_PATCHED, 1, 0);
	check_window(has_label, 1, find(has_label)->bytes - 7, 7);
}

TEST(cases_of_a_switch_are_targets)
{
	check(with_switch, XP_CALL_PLAN_PATCHED, 1, 1);
}

TEST(case_that_cannot_happen_does_not_end_the_table)
{
	check(switch_with_gap, XP_CALL_PLAN_PATCHED, 1, 1);
}

TEST(code_that_nothing_reaches)
{
	check_refused(has_data, XP_CALL_PLAN_UNREACHED);
	/* Code with the unwind row of the jump may be a case: all code after the jump except the return. */
	check(has_unknown_case, XP_CALL_PLAN_PROBES, 1, 1);
}

TEST(target_inside_an_instruction)
{
	check(jumps_behind_lock, XP_CALL_PLAN_PATCHED, 1, 1);
}

TEST(targets_of_an_unknown_switch_have_its_row)
{
	check(unknown_switch, XP_CALL_PLAN_PATCHED, 1, 1);
	check(unknown_switch_pops, XP_CALL_PLAN_PATCHED, 1, 0);
	check_window(unknown_switch_pops, 1, find(unknown_switch_pops)->bytes - 5, 5);
}

TEST(call_ends_a_window)
{
	check(calls_first, XP_CALL_PLAN_PATCHED, 1, 0);
	check_window(calls_first, 0, 0, 6);
	assert_true(window(find(calls_first), 0)->has_call);
	check_window(calls_first, 1, 7, 5);
}

TEST(what_cannot_move_needs_a_probe)
{
	check(system_call, XP_CALL_PLAN_PROBES, 1, 0);
	check(indirect_call, XP_CALL_PLAN_PROBES, 1, 0);
	check(short_loop, XP_CALL_PLAN_PROBES, 1, 0);
}

TEST(exits_of_a_fragment_are_those_of_its_function)
{
	check(has_cold, XP_CALL_PLAN_PATCHED, 2, 0);
	assert_null(find(cold));
	assert_int_equal(site(find(has_cold), 2)->vaddr + base, (uintptr_t)cold + 9);
	check(leaf_with_cold, XP_CALL_PLAN_PATCHED, 1, 0);
	check(has_named_cold, XP_CALL_PLAN_PATCHED, 2, 0);
	assert_int_equal(site(find(has_named_cold), 1)->kind, XP_SITE_RETURN);
}

TEST(windows_do_not_overlap_and_are_whole_instructions)
{
	uint8_t *taken = calloc(1, 1 << 26);
	size_t count = 0;

	make_plan();
	assert_true(plan.window_count > 500);
	for (size_t i = 0; i < plan.window_count; i++) {
		const struct xp_call_plan_window *at = &plan.windows[i];
		const uint8_t *code = (const uint8_t *)(base + at->vaddr);
		struct xp_code one;
		size_t bytes = 0;

		assert_true(at->bytes >= (at->spring ? XP_SPRING_BYTES : XP_WINDOW_BYTES));
		while (bytes < at->bytes) {
			assert_true(xp_code_decode(code + bytes, XP_CODE_BYTES_MAX, at->vaddr + bytes, &one));
			bytes += one.bytes;
		}
		assert_int_equal(bytes, at->bytes);
		for (size_t k = 0; k < at->bytes; k++)
			assert_int_equal(taken[at->vaddr + k]++, 0);
		count += at->spring != 0;
	}
	assert_true(count > 0);
	free(taken);
}

TEST(file_without_unwind_entries)
{
	static struct xp_elf_file file;
	static struct tiny_elf elf;
	struct xp_call_plan none;

	tiny_example(&elf, 1, 2);
	assert_int_equal(xp_elf_file_memory(&file, elf.bytes, sizeof(elf.bytes)), 0);
	assert_int_equal(xp_call_plan_make(&none, &file), -ENOENT);
	assert_string_equal(xp_why(-ENOENT), "has no unwind entries (.eh_frame)");
	xp_call_plan_free(&none);
	xp_elf_file_close(&file);
}
