// SPDX-License-Identifier: BSD-2-Clause
#include "unit.h"

#include "base/progress_line.h"

#include <pty.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"

static char text[4096];

/*
 * Returns the progress line of a step of 4 MB, half done, on a terminal or in a pipe. waited: the step takes longer
 * than the initial delay.
 */
static const char *shown(bool on_terminal, bool waited, enum xp_progress_unit unit)
{
	struct xp_progress_line line;
	FILE *file = tmpfile();
	uint64_t before_ns;
	int ends[2], saved = dup(STDERR_FILENO);
	size_t length = 0;
	ssize_t got;

	if (on_terminal)
		assert_int_equal(openpty(&ends[0], &ends[1], NULL, NULL, NULL), 0);
	else
		assert_int_equal(pipe(ends), 0);
	assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
	close(ends[1]);
	xp_progress_line_begin(&line, "reading a\nfile", unit, 4000000);
	if (unit == XP_PROGRESS_WRITING)
		xp_progress_line_begin_writing(&line, file, 4000000);
	if (waited)
		line.next_ns = 0;
	assert_int_equal(fseek(file, 3500000, SEEK_SET), 0);
	before_ns = xp_now_ns();
	/* When counting bytes, only one in many steps reads the clock. */
	for (int i = 0; i < (unit == XP_PROGRESS_FILES ? 1 : 200); i++)
		xp_progress_line_step(&line, 2000000);
	if (line.shown)
		assert_true(line.next_ns >= before_ns + XP_NS_PER_S / 5);
	xp_progress_line_end(&line);
	xp_progress_line_step(&line, 2000000);
	fputs(".", stderr); /* so that there is data to read */
	fflush(stderr);
	assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
	close(saved);
	/*
	 * A terminal returns the data available so far. After the writer has closed it, the rest comes, and then EIO.
	 */
	while ((got = read(ends[0], text + length, sizeof(text) - 1 - length)) > 0)
		length += (size_t)got;
	fclose(file);
	text[length] = '\0';
	close(ends[0]);
	return text;
}

/* The line is shown once, again after at least a fifth of a second, and then erased. */
TEST(test_terminal)
{
	assert_string_equal(shown(true, true, XP_PROGRESS_BYTES), "reading a?file: 2.0 of 4.0 MB, 50 %\033[K\r\033[K.");
	assert_string_equal(shown(true, true, XP_PROGRESS_FILES),
			    "reading a?file: 2000000 of 4000000 files, 50 %\033[K\r\033[K.");
}

/* The size of a file that is being written is not known before; the size of a pipe is never known. */
TEST(test_writing)
{
	struct xp_progress_line line = { .what = "writing", .unit = XP_PROGRESS_WRITING, .total = 8, .enabled = true };
	int ends[2], saved = dup(STDERR_FILENO);

	assert_string_equal(shown(true, true, XP_PROGRESS_WRITING), "writing: 3.5 MB, 50 %\033[K\r\033[K.");
	assert_string_equal(shown(false, true, XP_PROGRESS_WRITING), ".");
	assert_int_equal(pipe(ends), 0);
	line.out = fdopen(ends[1], "w");
	assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
	xp_progress_line_step(&line, 4);
	fflush(stderr);
	assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
	close(saved);
	text[read(ends[0], text, sizeof(text) - 1)] = '\0';
	assert_string_equal(text, "writing: 50 %\033[K\r");
	fclose(line.out);
	close(ends[0]);
}

TEST(test_nothing)
{
	assert_string_equal(shown(true, false, XP_PROGRESS_BYTES), ".");
	assert_string_equal(shown(false, true, XP_PROGRESS_BYTES), ".");
	xp_log_level = XP_LOG_QUIET;
	assert_string_equal(shown(true, true, XP_PROGRESS_BYTES), ".");
	xp_log_level = XP_LOG_NORMAL;
	setenv("TERM", "dumb", 1);
	assert_string_equal(shown(true, true, XP_PROGRESS_BYTES), ".");
}

int unit_set_up(void **state)
{
	(void)state;
	return setenv("TERM", "xterm", 1);
}
