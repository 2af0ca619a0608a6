// SPDX-License-Identifier: BSD-2-Clause
/*
 * Makes the man page and the shell completions from the tables of user/options.c.
 * gen man < xprof.1.in: copies it, with the commands and options in the place of the line @COMMANDS@.
 * gen bash, gen zsh: the completion.
 */
#include <stdio.h>
#include <string.h>

#include "options.h"

static const struct xp_option *end; /* of xp_option_table */

/* Text for roff: a hyphen that is typed, a backslash, a leading dot or quote. */
static void put_roff(const char *text)
{
	if (*text == '.' || *text == '\'')
		fputs("\\&", stdout);
	for (; *text; text++) {
		if (*text == '-')
			fputs("\\-", stdout);
		else if (*text == '\\')
			fputs("\\e", stdout);
		else
			putchar(*text);
	}
}

static void man_option(const struct xp_option *option)
{
	puts(".TP");
	if (option->short_name)
		printf("\\fB\\-%c\\fR, ", option->short_name);
	fputs("\\fB\\-\\-", stdout);
	put_roff(option->name);
	fputs("\\fR", stdout);
	if (option->argument)
		printf(" \\fI%s\\fR", option->argument);
	putchar('\n');
	put_roff(option->help);
	if (option->choices)
		printf(" One of %s.", option->choices);
	putchar('\n');
}

static void man_commands(void)
{
	for (unsigned int c = 0; c < XP_COMMANDS; c++) {
		const struct xp_command_info *info = &xp_command_table[c];

		printf(".SS xprof %s [\\fIOPTION\\fR...] ", info->name);
		put_roff(info->synopsis);
		putchar('\n');
		put_roff(info->description);
		putchar('\n');
		for (const struct xp_option *o = xp_option_table; o < end; o++)
			if (o->commands == 1u << c)
				man_option(o);
	}
	puts(".SS Options of several commands");
	for (const struct xp_option *o = xp_option_table; o < end; o++)
		if (o->commands & (o->commands - 1))
			man_option(o);
}

static void man(void)
{
	char line[1024];

	while (fgets(line, sizeof(line), stdin)) {
		if (strcmp(line, "@COMMANDS@\n") == 0)
			man_commands();
		else if (strcmp(line, ".TH XPROF\n") == 0)
			puts(".TH XPROF 1 \"\" \"xprof " XPROF_VERSION "\" \"User Commands\"");
		else
			fputs(line, stdout);
	}
}

static const char bash_head[] =
    "# bash completion for xprof, made from its option table\n"
    "_xprof()\n"
    "{\n"
    "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]} i\n"
    "\tCOMPREPLY=()\n"
    "\tif ((COMP_CWORD == 1)); then\n"
    "\t\tmapfile -t COMPREPLY < <(compgen -W \"$_xprof_commands --help --version\" -- \"$cur\")\n"
    "\t\treturn\n"
    "\tfi\n"
    "\tfor ((i = 2; i < COMP_CWORD; i++)); do\n"
    "\t\tif [[ ${COMP_WORDS[i]} == -- ]]; then\n"
    "\t\t\t_xprof_child $((i + 1))\n"
    "\t\t\treturn\n"
    "\t\tfi\n"
    "\tdone\n"
    "\t# --name=VALUE comes as three words\n"
    "\tif [[ $cur == = ]]; then\n"
    "\t\tcur=\n"
    "\telif [[ $prev == = ]]; then\n"
    "\t\tprev=${COMP_WORDS[COMP_CWORD-2]}\n"
    "\tfi\n"
    "\tcase $command:$prev in\n";

static const char bash_tail[] = "\tesac\n"
				"}\n"
				"\n"
				"_xprof_words()\n"
				"{\n"
				"\tmapfile -t COMPREPLY < <(compgen -W \"$1\" -- \"$cur\")\n"
				"}\n"
				"\n"
				"_xprof_files()\n"
				"{\n"
				"\tcompopt -o filenames 2>/dev/null\n"
				"\tmapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
				"}\n"
				"\n"
				"_xprof_directories()\n"
				"{\n"
				"\tcompopt -o filenames 2>/dev/null\n"
				"\tmapfile -t COMPREPLY < <(compgen -d -- \"$cur\")\n"
				"}\n"
				"\n"
				"_xprof_pids()\n"
				"{\n"
				"\tlocal pids=(/proc/[0-9]*)\n"
				"\t_xprof_words \"${pids[*]#/proc/}\"\n"
				"}\n"
				"\n"
				"# The command to start: its name first, then files.\n"
				"_xprof_child()\n"
				"{\n"
				"\tif ((COMP_CWORD == $1)); then\n"
				"\t\tmapfile -t COMPREPLY < <(compgen -c -- \"$cur\")\n"
				"\telse\n"
				"\t\t_xprof_files\n"
				"\tfi\n"
				"}\n"
				"\n"
				"complete -F _xprof xprof\n";

static void put_choices(const char *choices)
{
	for (; *choices; choices++)
		putchar(*choices == '|' ? ' ' : *choices);
}

static void bash_option_value(const char *command, const struct xp_option *option)
{
	printf("\t%s:--%s", command, option->name);
	if (option->short_name)
		printf(" | %s:-%c", command, option->short_name);
	fputs(") ", stdout);
	if (option->choices) {
		fputs("_xprof_words '", stdout);
		put_choices(option->choices);
		fputs("'", stdout);
	} else if (option->type == XP_OPTION_PIDS) {
		fputs("_xprof_pids", stdout);
	} else if (option->type == XP_OPTION_FILE) {
		fputs("_xprof_files", stdout);
	} else if (option->type == XP_OPTION_DIRECTORY) {
		fputs("_xprof_directories", stdout);
	} else {
		fputs(":", stdout);
	}
	puts(" ;;");
}

static const char *const bash_operands[] = {
	[XP_OPERAND_NONE] = ":",
	[XP_OPERAND_FILE] = "_xprof_files",
	[XP_OPERAND_PROCESS] = "_xprof_pids",
	[XP_OPERAND_COMMAND] = "_xprof_words \"$_xprof_commands\"",
	[XP_OPERAND_CHILD] = ":", /* the words behind -- are seen to before */
};

static const char *const zsh_operands[] = {
	[XP_OPERAND_NONE] = "&& return",
	[XP_OPERAND_FILE] = "'*:file:_files'",
	[XP_OPERAND_PROCESS] = "'*:process:_pids'",
	[XP_OPERAND_COMMAND] = "'1:command:{_describe command commands}'",
	[XP_OPERAND_CHILD] = "'*::command:_normal'",
};

static void bash(void)
{
	fputs("_xprof_commands='", stdout);
	for (unsigned int c = 0; c < XP_COMMANDS; c++)
		printf("%s%s", c ? " " : "", xp_command_table[c].name);
	puts("'");
	fputs(bash_head, stdout);
	for (unsigned int c = 0; c < XP_COMMANDS; c++)
		for (const struct xp_option *o = xp_option_table; o < end; o++)
			if (o->argument && o->commands & (1u << c))
				bash_option_value(xp_command_table[c].name, o);
	puts("\t*)");
	puts("\t\tcase $command:$cur in");
	for (unsigned int c = 0; c < XP_COMMANDS; c++) {
		const char *name = xp_command_table[c].name;

		printf("\t\t%s:-*) _xprof_words '", name);
		for (const struct xp_option *o = xp_option_table; o < end; o++)
			if (o->commands & (1u << c))
				printf("--%s ", o->name);
		puts(c == XP_CMD_RECORD ? "--' ;;" : "' ;;");
		printf("\t\t%s:*) %s ;;\n", name, bash_operands[xp_command_table[c].operands]);
	}
	puts("\t\tesac");
	puts("\t\t;;");
	fputs(bash_tail, stdout);
}

/* Text inside '...[...]' of zsh's _arguments. */
static void put_zsh(const char *text)
{
	for (; *text; text++) {
		if (*text == '\'')
			fputs("'\\''", stdout);
		else if (strchr("[]:\\", *text))
			printf("\\%c", *text);
		else
			putchar(*text);
	}
}

static void zsh_option(const struct xp_option *option)
{
	bool repeated = option->type == XP_OPTION_PIDS || option->type == XP_OPTION_PATTERNS;
	const char *equals = option->argument ? "=" : "";

	fputs("\t\t\t", stdout);
	if (!option->short_name)
		printf("'%s--%s%s[", repeated ? "*" : "", option->name, equals);
	else if (repeated)
		printf("'*'{-%c%s,--%s%s}'[", option->short_name, *equals ? "+" : "", option->name, equals);
	else
		printf("'(-%c --%s)'{-%c%s,--%s%s}'[", option->short_name, option->name, option->short_name,
		       *equals ? "+" : "", option->name, equals);
	put_zsh(option->help);
	putchar(']');
	if (option->argument)
		printf(":%s:", option->argument);
	if (option->choices) {
		putchar('(');
		put_choices(option->choices);
		putchar(')');
	} else if (option->type == XP_OPTION_PIDS) {
		fputs("_pids", stdout);
	} else if (option->type == XP_OPTION_FILE) {
		fputs("_files", stdout);
	} else if (option->type == XP_OPTION_DIRECTORY) {
		fputs("_files -/", stdout);
	}
	puts("' \\");
}

static void zsh(void)
{
	puts("#compdef xprof\n"
	     "# zsh completion for xprof, made from its option table\n"
	     "_xprof()\n"
	     "{\n"
	     "\tlocal -a commands\n"
	     "\tcommands=(");
	for (unsigned int c = 0; c < XP_COMMANDS; c++) {
		printf("\t\t'%s:", xp_command_table[c].name);
		put_zsh(xp_command_table[c].summary);
		puts("'");
	}
	puts("\t)\n"
	     "\tif ((CURRENT == 2)); then\n"
	     "\t\t_describe command commands\n"
	     "\t\treturn\n"
	     "\tfi\n"
	     "\tlocal command=$words[2]\n"
	     "\tshift words\n"
	     "\t((CURRENT--))\n"
	     "\tcase $command in");
	for (unsigned int c = 0; c < XP_COMMANDS; c++) {
		printf("\t%s)\n\t\t_arguments -s \\\n", xp_command_table[c].name);
		for (const struct xp_option *o = xp_option_table; o < end; o++)
			if (o->commands & (1u << c))
				zsh_option(o);
		printf("\t\t\t%s\n", zsh_operands[xp_command_table[c].operands]);
		puts("\t\t;;");
	}
	puts("\tesac\n"
	     "}\n"
	     "\n"
	     "_xprof \"$@\"");
}

int main(int argc, char **argv)
{
	end = xp_option_table + xp_option_count;
	if (argc == 2 && strcmp(argv[1], "man") == 0)
		man();
	else if (argc == 2 && strcmp(argv[1], "bash") == 0)
		bash();
	else if (argc == 2 && strcmp(argv[1], "zsh") == 0)
		zsh();
	else
		return 2;
	return fflush(stdout) || ferror(stdout) ? 1 : 0;
}
