// SPDX-License-Identifier: BSD-2-Clause
/* The parsed command line. tests/cli checks messages and exit codes. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

#include "base/util.h"
#include "options.h"

#define PARSE(options, ...)                                                                                            \
	parse(options, (char *[]){ (char *)"xprof", __VA_ARGS__, NULL },                                               \
	      sizeof((char *[]){ (char *)"xprof", __VA_ARGS__ }) / sizeof(char *))

static int parse(struct xp_options *options, char **argv, size_t argc)
{
	return xp_options_parse(options, (int)argc, argv);
}

TEST(test_defaults)
{
	struct xp_options o;

	assert_int_equal(PARSE(&o, "record", "-p", "7"), 0);
	assert_int_equal(o.command, XP_CMD_RECORD);
	assert_int_equal(o.pids.count, 1);
	assert_int_equal(o.pids.pids[0], 7);
	assert_string_equal(o.output_dir, "xprof.out");
	assert_int_equal(o.buffer_bytes, 0);
	assert_int_equal(o.fdr_version, 1);
	assert_int_equal(o.uprobes, XP_UPROBES_AUTO);
	assert_int_equal(o.duration_ns, 0);
	assert_int_equal(o.min_duration_ns, 0);
	assert_int_equal(o.args, 0);
	assert_int_equal(o.functions.count, 0);
	assert_null(o.child_argv);
	assert_null(o.exec_path);
	assert_false(o.follow || o.strict || o.dry_run || o.verbose || o.quiet);
	xp_options_free(&o);
}

TEST(test_everything)
{
	struct xp_options o;

	assert_int_equal(PARSE(&o, "record", "-p", "7,8,7", "-p9", "--pid=8", "-d1.5", "-o", "out", "-v", "--functions",
			       "a*", "--functions=!b", "--args", "6", "--min-duration", "5us", "--fdr-version=5",
			       "--follow", "--dry-run", "--strict", "--uprobes", "single", "--buffer", "1MiB"),
			 0);
	assert_int_equal(o.pids.count, 3);
	assert_int_equal(o.pids.pids[0], 7);
	assert_int_equal(o.pids.pids[1], 8);
	assert_int_equal(o.pids.pids[2], 9);
	assert_int_equal(o.duration_ns, 1500000000);
	assert_string_equal(o.output_dir, "out");
	assert_int_equal(o.functions.count, 2);
	assert_string_equal(o.functions.texts[0], "a*");
	assert_string_equal(o.functions.texts[1], "!b");
	assert_int_equal(o.args, 6);
	assert_int_equal(o.min_duration_ns, 5000);
	assert_int_equal(o.fdr_version, 5);
	assert_int_equal(o.uprobes, XP_UPROBES_SINGLE);
	assert_int_equal(o.buffer_bytes, 1 << 20);
	assert_true(o.follow && o.strict && o.dry_run && o.verbose && !o.quiet);
	xp_options_free(&o);
}

TEST(test_process_of_a_name)
{
	struct xp_options o;
	int ready[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_NAME, "xprof_named");
		(void)!write(ready[1], "", 1);
		for (;;)
			pause();
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(PARSE(&o, "record", "-p", "1,xprof_named"), 0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	assert_int_equal(o.pids.count, 2);
	assert_int_equal(o.pids.pids[1], pid);
	xp_options_free(&o);
}

TEST(test_open_makes_the_page)
{
	struct xp_options o;

	assert_int_equal(PARSE(&o, "record", "-a", "--open", "--export", "pprof"), 0);
	assert_int_equal(o.formats, 1u << XP_FORMAT_HTML | 1u << XP_FORMAT_PPROF);
	xp_options_free(&o);
}

TEST(test_child)
{
	struct xp_options o;

	assert_int_equal(PARSE(&o, "record", "-q", "--", "ls", "-d", "--", "--help"), 0);
	assert_true(o.quiet);
	assert_false(o.help);
	assert_int_equal(o.duration_ns, 0);
	assert_int_equal(o.operand_count, 0);
	assert_string_equal(o.child_argv[0], "ls");
	assert_string_equal(o.child_argv[1], "-d");
	assert_string_equal(o.child_argv[2], "--");
	assert_string_equal(o.child_argv[3], "--help");
	assert_null(o.child_argv[4]);
	xp_options_free(&o);
}

TEST(test_time_or_bytes)
{
	struct xp_options o;

	assert_int_equal(PARSE(&o, "record", "-a", "--rotate", "1.5m"), 0);
	assert_true(o.rotate.given && o.rotate.ns == 90000000000 && !o.rotate.bytes);
	xp_options_free(&o);
}

TEST(test_operands)
{
	struct xp_options o;

	assert_int_equal(PARSE(&o, "list", "1", "--sleds", "-q", "./2"), 0);
	assert_int_equal(o.command, XP_CMD_LIST);
	assert_true(o.sleds && o.quiet);
	assert_int_equal(o.operand_count, 2);
	assert_string_equal(o.operands[0], "1");
	assert_string_equal(o.operands[1], "./2");
	xp_options_free(&o);

	assert_int_equal(PARSE(&o, "report", "--", "-x"), 0);
	assert_int_equal(o.operand_count, 1);
	assert_string_equal(o.operands[0], "-x");
	xp_options_free(&o);
}

TEST(test_help)
{
	struct xp_options o;

	assert_int_equal(PARSE(&o, "list", "-h"), 0);
	assert_int_equal(o.command, XP_CMD_HELP);
	assert_int_equal(o.operand_count, 1);
	assert_string_equal(o.operands[0], "list");
	xp_options_free(&o);
}

TEST(test_duration)
{
	static const struct {
		const char *text;
		uint64_t ns;
	} good[] = {
		{ "0", 0 },
		{ "10", 10000000000 },
		{ "10s", 10000000000 },
		{ "500ms", 500000000 },
		{ "5us", 5000 },
		{ "7ns", 7 },
		{ "2m", 120000000000 },
		{ "1h", 3600000000000 },
		{ "0.25s", 250000000 },
		{ "1.5us", 1500 },
		{ "1.0000000019s", 1000000001 },
		{ "0.1ns", 0 },
		{ "18446744073709551615ns", UINT64_MAX },
		{ "18446744073.709551615", UINT64_MAX },
	};
	static const char *const large[] = { "18446744073709551616ns", "18446744073.709551616", "5124095576030432h",
					     "99999999999999999999999" };
	uint64_t ns;

	for (size_t i = 0; i < XP_ARRAY_SIZE(good); i++) {
		assert_int_equal(xp_duration_parse(good[i].text, &ns), 0);
		assert_int_equal(ns, good[i].ns);
	}
	for (size_t i = 0; i < XP_ARRAY_SIZE(large); i++)
		assert_int_equal(xp_duration_parse(large[i], &ns), -ERANGE);
	assert_int_equal(xp_duration_parse("", &ns), -EINVAL);
	assert_int_equal(xp_duration_parse("1.", &ns), -EINVAL);
	assert_int_equal(xp_duration_parse(".1", &ns), -EINVAL);
	assert_int_equal(xp_duration_parse("1 s", &ns), -EINVAL);
	assert_int_equal(xp_duration_parse("1S", &ns), -EINVAL);
}

TEST(test_size)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} good[] = {
		{ "4096", 4096 },  { "4K", 4096 },    { "4k", 4096 },
		{ "4M", 4 << 20 }, { "1G", 1 << 30 }, { "4KiB", 4096 },
		{ "17", 17 },	   { "0", 0 },	      { "17179869183G", UINT64_MAX - (1 << 30) + 1 },
	};
	static const char *const bad[] = { "", "K", "4B", "4KB", "4Ki", "-4", "4.0K", "4 K", "4KiBs" };
	uint64_t bytes;

	for (size_t i = 0; i < XP_ARRAY_SIZE(good); i++) {
		assert_int_equal(xp_size_parse(good[i].text, &bytes), 0);
		assert_int_equal(bytes, good[i].bytes);
	}
	for (size_t i = 0; i < XP_ARRAY_SIZE(bad); i++)
		assert_int_equal(xp_size_parse(bad[i], &bytes), -EINVAL);
	assert_int_equal(xp_size_parse("17179869184G", &bytes), -ERANGE);
}

/* Properties of the option table that the parser requires. */
TEST(test_table)
{
	for (size_t i = 0; i < xp_option_count; i++) {
		const struct xp_option *a = &xp_option_table[i];
		size_t length = strlen(a->help);

		assert_int_equal(a->type == XP_OPTION_FLAG, a->argument == NULL);
		/* Some counts also accept "max", and some sizes have their own minimum. */
		if (a->type != XP_OPTION_COUNT && a->type != XP_OPTION_SIZE)
			assert_int_equal(a->type == XP_OPTION_NUMBER || a->type == XP_OPTION_CHOICE ||
					     a->type == XP_OPTION_LIST,
					 a->choices != NULL);
		assert_true(a->commands && a->commands < 1u << XP_COMMANDS);
		assert_int_equal(a->help[length - 1], '.');
		for (size_t j = i + 1; j < xp_option_count; j++) {
			const struct xp_option *b = &xp_option_table[j];

			/* Options of different commands may have the same name. */
			if (!(a->commands & b->commands))
				continue;
			assert_string_not_equal(a->name, b->name);
			assert_true(!a->short_name || a->short_name != b->short_name);
		}
	}
	for (unsigned int i = 0; i < XP_COMMANDS; i++)
		assert_int_equal(xp_command_find(xp_command_table[i].name), i);
	assert_int_equal(xp_command_find("nonsense"), XP_COMMANDS);
}
