/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads the memory of a process that ends, or executes another program, during the reads. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

#include "target/memory_window.h"

static const char text[] = "the same in a child";

/* Waits for a byte, and then executes a program that waits for the end of its input. Ends if there is no byte. */
static pid_t start(int *input)
{
	int ends[2], told[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe(ends), 0);
	assert_int_equal(pipe(told), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		close(ends[1]);
		dup2(ends[0], STDIN_FILENO);
		dup2(told[1], STDOUT_FILENO);
		if (read(STDIN_FILENO, &byte, 1) == 1)
			execlp("sh", "sh", "-c", "echo; cat", NULL);
		_exit(0);
	}
	close(ends[0]);
	close(told[1]);
	input[0] = told[0];
	input[1] = ends[1];
	return pid;
}

static void end(pid_t pid, const int input[2])
{
	close(input[0]);
	close(input[1]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

TEST(test_executes)
{
	struct xp_memory_window *window;
	char copy[sizeof(text)];
	int input[2];
	pid_t pid = start(input);

	assert_int_equal(xp_memory_window_open(&window, pid), 0);
	assert_false(xp_memory_window_gone(window));
	/* Nothing outside the mapping is read. */
	assert_false(xp_memory_window_read(window, copy, (uintptr_t)text, sizeof(copy)));
	xp_memory_window_set(window, (uintptr_t)text, (uintptr_t)text + sizeof(copy) - 1);
	assert_false(xp_memory_window_read(window, copy, (uintptr_t)text, sizeof(copy)));
	xp_memory_window_set(window, (uintptr_t)text + 1, (uintptr_t)text + sizeof(copy));
	assert_false(xp_memory_window_read(window, copy, (uintptr_t)text, sizeof(copy)));
	xp_memory_window_set(window, (uintptr_t)text, (uintptr_t)text + sizeof(copy));
	assert_true(xp_memory_window_read(window, copy, (uintptr_t)text, sizeof(copy)));
	assert_string_equal(copy, text);
	/* Unmapped memory cannot be read; that is not a fault of the process. */
	xp_memory_window_set(window, 1ull << 46, 1ull << 47);
	assert_false(xp_memory_window_read(window, copy, 1ull << 46, sizeof(copy)));
	assert_false(xp_memory_window_gone(window));
	assert_int_equal(write(input[1], "", 1), 1);
	assert_int_equal(read(input[0], copy, 1), 1);
	assert_true(xp_memory_window_gone(window));
	xp_memory_window_set(window, (uintptr_t)text, (uintptr_t)text + sizeof(copy));
	assert_false(xp_memory_window_read(window, copy, (uintptr_t)text, sizeof(copy)));
	xp_memory_window_free(window);
	end(pid, input);
}

TEST(test_ends)
{
	struct xp_memory_window *window;
	int input[2];
	pid_t pid = start(input);

	assert_int_equal(xp_memory_window_open(&window, pid), 0);
	end(pid, input);
	assert_true(xp_memory_window_gone(window));
	xp_memory_window_free(window);
}
