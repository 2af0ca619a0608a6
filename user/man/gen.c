// SPDX-License-Identifier: BSD-2-Clause
/*
 * Makes the man pages and the shell completions from the tables of user/options.c.
 * gen man NAME < PAGE.in: copies a page and fills in what the tables know. NAME is the command that the page explains;
 * any other text stands for a page about no command. The title line (.TH) gets the version. A line of one of these
 * words alone is replaced:
 *   @SYNOPSIS@     the command with its operands
 *   @DESCRIPTION@  what it does, as in `xprof help NAME`
 *   @OPTIONS@      its options by group; without a command, the options that most commands have
 *   @COMMANDS@     all commands, with the name of the page of each
 * gen bash, gen zsh: the completion.
 */
#include <stdio.h>
#include <string.h>

#include "options.h"

static const struct xp_option *end; /* end of xp_option_table */

/* Escapes text for roff: hyphens, backslashes, a leading dot or quote. */
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

static void man_text(const char *text)
{
	put_roff(text);
	putchar('\n');
}

/* Returns whether the help of an option has each of its choices. */
static bool explains_choices(const struct xp_option *option)
{
	for (const char *choice = option->choices; *choice;) {
		size_t length = strcspn(choice, "|");

		if (!memmem(option->help, strlen(option->help), choice, length))
			return false;
		choice += length + (choice[length] == '|');
	}
	return true;
}

/* "a|b|c" as " One of a, b, c." */
static void man_choices(const char *choices)
{
	fputs(" One of ", stdout);
	for (; *choices; choices++)
		if (*choices == '|')
			fputs(", ", stdout);
		else
			putchar(*choices);
	putchar('.');
}

static void man_option(const struct xp_option *option)
{
	puts(".TP");
	if (option->short_name)
		printf("\\fB\\-%c\\fR, ", option->short_name);
	fputs("\\fB\\-\\-", stdout);
	put_roff(option->name);
	fputs("\\fR", stdout);
	if (option->type == XP_OPTION_OPTIONAL_DURATION)
		printf("[\\fB=\\fI%s\\fR]", option->argument);
	else if (option->argument)
		printf(" \\fI%s\\fR", option->argument);
	putchar('\n');
	put_roff(option->help);
	if (option->choices && strchr(option->choices, '|') && !explains_choices(option))
		man_choices(option->choices);
	putchar('\n');
}

static bool belongs(const struct xp_option *option, enum xp_command command)
{
	if (command == XP_COMMANDS)
		return 2 * __builtin_popcount(option->commands) > XP_COMMANDS;
	return option->commands & (1u << command);
}

/* The first option of the command in this group, or NULL. */
static const struct xp_option *first_of_group(const char *group, enum xp_command command)
{
	for (const struct xp_option *o = xp_option_table; o < end; o++)
		if (belongs(o, command) && strcmp(o->group, group) == 0)
			return o;
	return NULL;
}

/* The table has some groups in two pieces; a page has each group once. */
static void man_options(enum xp_command command)
{
	for (const struct xp_option *o = xp_option_table; o < end; o++) {
		if (!belongs(o, command) || first_of_group(o->group, command) != o)
			continue;
		if (command != XP_COMMANDS)
			printf(".SS %s\n", o->group);
		for (const struct xp_option *other = o; other < end; other++)
			if (belongs(other, command) && strcmp(other->group, o->group) == 0)
				man_option(other);
	}
}

/* "xprof record [OPTION...] -p PID" */
static void man_synopsis(const struct xp_command_info *info)
{
	printf("\\fBxprof %s\\fR [\\fIOPTION\\fR...] ", info->name);
	put_roff(info->synopsis);
	putchar('\n');
}

/* help and version have no page: xprof(1) says all about them. */
static bool has_page(enum xp_command command)
{
	return command != XP_CMD_HELP && command != XP_CMD_VERSION;
}

static void man_commands(void)
{
	for (unsigned int c = 0; c < XP_COMMANDS; c++) {
		const struct xp_command_info *info = &xp_command_table[c];

		puts(".TP");
		man_synopsis(info);
		man_text(info->description);
		if (has_page(c))
			printf("See\n.BR xprof\\-%s (1).\n", info->name);
	}
}

/* ".TH XPROF 1" becomes ".TH XPROF 1 "" "xprof 0.1.0" "xprof Manual"". */
static void man_title(char *line)
{
	line[strcspn(line, "\n")] = 0;
	printf("%s \"\" \"xprof " XPROF_VERSION "\" \"xprof Manual\"\n", line);
}

/* False: a word that is not known, or has no meaning in a page about no command. */
static bool man_word(const char *line, enum xp_command command)
{
	const struct xp_command_info *info = command < XP_COMMANDS ? &xp_command_table[command] : NULL;

	if (strcmp(line, "@COMMANDS@\n") == 0)
		man_commands();
	else if (strcmp(line, "@OPTIONS@\n") == 0)
		man_options(command);
	else if (info && strcmp(line, "@SYNOPSIS@\n") == 0)
		man_synopsis(info);
	else if (info && strcmp(line, "@DESCRIPTION@\n") == 0)
		man_text(info->description);
	else
		return false;
	return true;
}

static bool man(enum xp_command command)
{
	char line[1024];

	while (fgets(line, sizeof(line), stdin)) {
		if (strncmp(line, ".TH ", 4) == 0) {
			man_title(line);
		} else if (*line != '@') {
			fputs(line, stdout);
		} else if (!man_word(line, command)) {
			fprintf(stderr, "gen: unknown word %s", line);
			return false;
		}
	}
	return true;
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

static bool takes_pids(const struct xp_option *option)
{
	return option->type == XP_OPTION_PIDS || option->type == XP_OPTION_PROCESSES;
}

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
	} else if (takes_pids(option)) {
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
	[XP_OPERAND_CHILD] = ":", /* the words after -- are handled earlier */
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
			if (o->argument && o->type != XP_OPTION_OPTIONAL_DURATION && o->commands & (1u << c))
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

/* Escapes text inside '...[...]' of zsh's _arguments. */
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
	bool repeated = takes_pids(option) || option->type == XP_OPTION_PATTERNS || option->type == XP_OPTION_TEXTS;
	bool optional = option->type == XP_OPTION_OPTIONAL_DURATION;
	const char *equals = optional ? "=-" : option->argument ? "=" : "";

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
		printf("%s:%s:", optional ? ":" : "", option->argument);
	if (option->choices) {
		putchar('(');
		put_choices(option->choices);
		putchar(')');
	} else if (takes_pids(option)) {
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
	if (argc == 3 && strcmp(argv[1], "man") == 0) {
		if (!man(xp_command_find(argv[2])))
			return 1;
	} else if (argc == 2 && strcmp(argv[1], "bash") == 0) {
		bash();
	} else if (argc == 2 && strcmp(argv[1], "zsh") == 0) {
		zsh();
	} else {
		return 2;
	}
	return fflush(stdout) || ferror(stdout) ? 1 : 0;
}
