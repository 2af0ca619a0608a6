// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <string.h>

#include "commands.h"

#define COLUMNS 80
#define INDENT 28 /* column of the help texts */

/* Prints text in lines of COLUMNS. The first line starts at `column`; the others are indented by `indent`. */
static void print_wrapped(const char *text, int column, int indent)
{
	bool start = column == indent;

	while (*text) {
		int length = (int)strcspn(text, " ");

		if (!start && column + 1 + length > COLUMNS) {
			printf("\n%*s", indent, "");
			column = indent;
			start = true;
		}
		column += printf("%s%.*s", start ? "" : " ", length, text);
		start = false;
		text += length;
		text += strspn(text, " ");
	}
	putchar('\n');
}

static void print_entry(const char *head, const char *text)
{
	int column = printf("  %s", head);

	if (column + 2 > INDENT)
		printf("\n%*s", INDENT, "");
	else
		printf("%*s", INDENT - column, "");
	print_wrapped(text, INDENT, INDENT);
}

static void print_options(enum xp_command command)
{
	const char *group = "";

	for (size_t i = 0; i < xp_option_count; i++) {
		const struct xp_option *option = &xp_option_table[i];
		bool optional = option->type == XP_OPTION_OPTIONAL_DURATION;
		char head[64];

		if (!(option->commands & (1u << command)))
			continue;
		if (strcmp(group, option->group) != 0)
			printf("\n%s:\n", option->group);
		group = option->group;
		snprintf(head, sizeof(head), "%c%c%c --%s%s%s%s", option->short_name ? '-' : ' ',
			 option->short_name ? option->short_name : ' ', option->short_name ? ',' : ' ', option->name,
			 optional	    ? "[="
			 : option->argument ? " "
					    : "",
			 option->argument ? option->argument : "", optional ? "]" : "");
		print_entry(head, option->help);
	}
}

static void print_command(enum xp_command command)
{
	const struct xp_command_info *info = &xp_command_table[command];

	printf("Usage: xprof %s [OPTION...]%s%s\n\n", info->name, *info->synopsis ? " " : "", info->synopsis);
	print_wrapped(info->description, 0, 0);
	print_options(command);
}

static void print_overview(void)
{
	puts("Usage: xprof COMMAND [OPTION...] [ARG...]\n");
	puts("xprof samples and traces running processes from outside, with BPF.\n");
	puts("Commands:");
	for (unsigned int i = 0; i < XP_COMMANDS; i++)
		printf("  %-10s%s\n", xp_command_table[i].name, xp_command_table[i].summary);
	puts("\nFirst steps:\n"
	     "  clang -O2 -g -fxray-instrument -c app.c    build a program with sleds;\n"
	     "  clang -o app app.o                         link it without XRay's runtime\n"
	     "  sudo xprof record -p app -d 10             record it while it runs\n"
	     "  xprof report                               print tables of its functions\n"
	     "  xprof view                                 show the recording in a browser\n"
	     "  sudo xprof doctor                          if that does not work\n\n"
	     "See 'xprof help COMMAND' for a command, and xprof(1) for the manual.");
}

enum xp_exit xp_cmd_help(const struct xp_options *options)
{
	if (options->operand_count) {
		enum xp_command command = xp_command_find(options->operands[0]);

		if (command == XP_COMMANDS)
			return xp_fail(XP_EXIT_USAGE, "there is no command '%s'; see 'xprof help'",
				       options->operands[0]);
		print_command(command);
	} else {
		print_overview();
	}
	if (fflush(stdout) || ferror(stdout))
		return xp_fail(XP_EXIT_FAILED, "cannot write to standard output: %s", strerror(errno));
	return options->bare ? XP_EXIT_USAGE : XP_EXIT_OK;
}
