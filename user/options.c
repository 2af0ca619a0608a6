// SPDX-License-Identifier: BSD-2-Clause
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

#define ON(command) (1u << XP_CMD_##command)
#define SETS(member) .offset = offsetof(struct xp_options, member)

const struct xp_command_info xp_command_table[XP_COMMANDS] = {
	[XP_CMD_RECORD] = {
		.name = "record",
		.synopsis = "(-p PID[,PID...] | -t TID | -a | --exec PATH | -- CMD [ARG...])",
		.summary = "record function calls and samples of running processes",
		.description = "Samples the target and writes one gperftools CPU profile for each process and one "
			       "perf.data of all. Where a target is built with -fxray-instrument it also attaches to its "
			       "XRay sleds and writes every call into an FDR log. It ends after --duration, with the "
			       "target, or at the first SIGINT or SIGTERM; a second signal aborts.",
		.operands_max = UINT_MAX,
		.operands = XP_OPERAND_CHILD,
	},
	[XP_CMD_REPORT] = {
		.name = "report",
		.synopsis = "DIR|FILE...",
		.summary = "show the functions of a recording that took most",
		.description = "Prints for each process a table of its functions: samples in the function itself (Flat) "
			       "and with all that it calls (Cum), and the calls that its sleds counted, with their "
			       "time, callees included. Takes a recording's directory, gperftools profiles and FDR logs.",
		.operands_min = 1,
		.operands_max = UINT_MAX,
		.operands = XP_OPERAND_FILE,
	},
	[XP_CMD_LIST] = {
		.name = "list",
		.synopsis = "PID|FILE...",
		.summary = "list the instrumented functions of a process or an ELF file",
		.description = "Prints id, address, sleds and name of each instrumented function. A number is a process; "
			       "a file whose name is a number is written ./NUMBER.",
		.operands_min = 1,
		.operands_max = UINT_MAX,
		.operands = XP_OPERAND_FILE,
	},
	[XP_CMD_DUMP] = {
		.name = "dump",
		.synopsis = "FILE...",
		.summary = "print a log, profile, perf.data or jitdump, record by record",
		.description = "Prints any XRay FDR log of versions 1 to 5, any gperftools CPU profile, any jitdump and any "
			       "little-endian perf.data as text, those of XRay's own runtime, of libprofiler, of JIT "
			       "runtimes and of perf included.",
		.operands_min = 1,
		.operands_max = UINT_MAX,
		.operands = XP_OPERAND_FILE,
	},
	[XP_CMD_CHECK] = {
		.name = "check",
		.synopsis = "FILE|DIR...",
		.summary = "check files against their format's specification",
		.description = "Names the first violation of each file, with its offset. Of a recording's directory it "
			       "checks every file.",
		.operands_min = 1,
		.operands_max = UINT_MAX,
		.operands = XP_OPERAND_FILE,
	},
	[XP_CMD_RECOVER] = {
		.name = "recover",
		.synopsis = "DIR...",
		.summary = "make the files of a recording that was cut off",
		.description = "Makes the final files from the spools that a recording left in its directory when xprof "
			       "was killed or the disk was full.",
		.operands_min = 1,
		.operands_max = UINT_MAX,
		.operands = XP_OPERAND_FILE,
	},
	[XP_CMD_RESTORE] = {
		.name = "restore",
		.synopsis = "-p PID[,PID...]",
		.summary = "put the sleds of a process back after xprof was killed",
		.description = "A recording with patched sleds puts them back when it ends. One that was killed leaves them: "
			       "each then calls an empty function. This finds them by the process's memory and files "
			       "alone. The next recording of the process does the same.",
	},
	[XP_CMD_DOCTOR] = {
		.name = "doctor",
		.synopsis = "[PID]",
		.summary = "tell what this machine can record and how to enable the rest",
		.description = "Checks privilege, kernel, BPF, the clock and memory limits; with PID also whether that "
			       "process can be recorded.",
		.operands_max = 1,
		.operands = XP_OPERAND_PROCESS,
	},
	[XP_CMD_HELP] = {
		.name = "help",
		.synopsis = "[COMMAND]",
		.summary = "explain a command",
		.description = "Without COMMAND: the list of commands.",
		.operands_max = 1,
		.operands = XP_OPERAND_COMMAND,
	},
	[XP_CMD_VERSION] = {
		.name = "version",
		.synopsis = "",
		.summary = "print the version",
		.description = "Prints the versions of xprof and of the libbpf that it runs with.",
	},
};

#define TALKERS (ON(RECORD) | ON(REPORT) | ON(LIST) | ON(DUMP) | ON(CHECK) | ON(RECOVER) | ON(RESTORE) | ON(DOCTOR))

/* Options of one group stand together. */
const struct xp_option xp_option_table[] = {
	{ "pid", 'p', "PID", NULL, XP_OPTION_PIDS, ON(RECORD) | ON(RESTORE), SETS(pids), "Target, exactly one",
	  "These running processes; several are separated by commas." },
	{ "all", 'a', NULL, NULL, XP_OPTION_FLAG, ON(RECORD), SETS(all), "Target, exactly one",
	  "Sample all processes on all CPUs, and the kernel." },
	{ "tid", 't', "TID", NULL, XP_OPTION_COUNT, ON(RECORD), SETS(tid), "Target, exactly one",
	  "Sample this thread." },
	{ "exec", 0, "PATH", NULL, XP_OPTION_FILE, ON(RECORD), SETS(exec_path), "Target, exactly one",
	  "Record the sleds of every process that runs this executable or has this shared object mapped, now or later; "
	  "no "
	  "samples." },
	{ "follow", 0, NULL, NULL, XP_OPTION_FLAG, ON(RECORD), SETS(follow), "What to record",
	  "Record the children of the target too." },
	{ "no-sleds", 0, NULL, NULL, XP_OPTION_FLAG, ON(RECORD), SETS(no_sleds), "What to record",
	  "Only sample; leave XRay sleds alone." },
	{ "no-samples", 0, NULL, NULL, XP_OPTION_FLAG, ON(RECORD), SETS(no_samples), "What to record",
	  "Only record XRay sleds." },
	{ "no-perf-data", 0, NULL, NULL, XP_OPTION_FLAG, ON(RECORD), SETS(no_perf_data), "What to record",
	  "Write no perf.data of the samples." },
	{ "freq", 'F', "HZ", "max", XP_OPTION_COUNT, ON(RECORD), SETS(hz), "Samples",
	  "Samples a second of each running thread's CPU time, or max for as many as the kernel allows. Default: 99." },
	{ "count", 'c', "PERIOD", NULL, XP_OPTION_COUNT, ON(RECORD), SETS(period), "Samples",
	  "A sample every PERIOD events in place of --freq: cycles, or ns of CPU time where there is no PMU." },
	{ "cpu", 'C', "LIST", NULL, XP_OPTION_TEXT, ON(RECORD), SETS(cpus), "Samples",
	  "With --all, sample these CPUs only: 0-3,7." },
	{ "call-graph", 0, "WAY", "auto|fp|dwarf|none", XP_OPTION_CHOICE, ON(RECORD), SETS(call_graph), "Samples",
	  "How to find the callers: dwarf by the unwind tables of the binaries (.eh_frame, .debug_frame), fp by frame "
	  "pointers, auto by tables and where there are none by frame pointers, none not at all. Default: auto." },
	{ "jvm-attach", 0, NULL, NULL, XP_OPTION_FLAG, ON(RECORD), SETS(jvm_attach), "Samples",
	  "Ask each JVM (17 or later) for the names of its compiled methods, as jcmd does: it gets a SIGQUIT." },
	{ "functions", 0, "GLOB", NULL, XP_OPTION_PATTERNS, ON(RECORD), SETS(functions), "What to record",
	  "Record only functions whose name matches GLOB; !GLOB leaves out those that match. May be repeated: the last "
	  "pattern that matches a name decides." },
	{ "args", 0, "N", "1|2|3|4|5|6", XP_OPTION_NUMBER, ON(RECORD), SETS(args), "What to record",
	  "Record the first N integer arguments of every function." },
	{ "min-duration", 0, "TIME", NULL, XP_OPTION_DURATION, ON(RECORD), SETS(min_duration_ns), "What to record",
	  "Leave out calls shorter than this, like XRay's func_duration_threshold_us; they are counted. Default: 0, "
	  "all calls." },
	{ "duration", 'd', "TIME", NULL, XP_OPTION_DURATION, ON(RECORD), SETS(duration_ns), "How to record",
	  "Stop after this time: 10 or 10s, 500ms, 2m. Default: until the target ends or ^C." },
	{ "max-overhead", 0, "PERCENT", NULL, XP_OPTION_PERCENT, ON(RECORD), SETS(max_overhead), "How to record",
	  "Let recording calls take no more than this part of the target's CPU time (5%): the functions that are "
	  "called most "
	  "are taken out while it runs, counted where that is cheap enough, and put back when they are called less. "
	  "The "
	  "manifest and the report name them." },
	{ "flight", 0, "SIZE", NULL, XP_OPTION_SIZE, ON(RECORD), SETS(flight_bytes), "How to record",
	  "Keep only the newest calls of each process, in this much memory (64M), and write them when xprof gets "
	  "SIGUSR2, "
	  "when the process is killed by a signal, and at the recording's end." },
	{ "buffer", 0, "SIZE", NULL, XP_OPTION_SIZE, ON(RECORD), SETS(buffer_bytes), "How to record",
	  "Size of each CPU's ring buffer, a power of two. Default: 4M, less for samples alone at a low rate." },
	{ "uprobes", 0, "WAY", "auto|multi|single", XP_OPTION_CHOICE, ON(RECORD), SETS(uprobes), "How to record",
	  "How to attach: multi takes one BPF link for many sleds (Linux 6.6), single one perf event per sled, auto "
	  "multi where the kernel has it. Default: auto." },
	{ "sled-mode", 0, "WAY", "probe|patch|auto", XP_OPTION_CHOICE, ON(RECORD), SETS(sled_way), "How to record",
	  "How to record sleds: probe puts a uprobe on each; patch writes a call into each, as XRay's runtime does, to "
	  "a "
	  "stub with the uprobes, which costs the target much less; auto patches where all that it takes is there, and "
	  "says why where it is not. Default: auto." },
	{ "strict", 0, NULL, NULL, XP_OPTION_FLAG, ON(RECORD), SETS(strict), "How to record",
	  "End with exit code 4 when any record was lost." },
	{ "dry-run", 0, NULL, NULL, XP_OPTION_FLAG, ON(RECORD), SETS(dry_run), "How to record",
	  "Check everything, tell what would be attached and, from a count of the calls for some 0.2 s, what it "
	  "would cost; attach nothing else." },
	{ "output", 'o', "DIR", NULL, XP_OPTION_DIRECTORY, ON(RECORD), SETS(output_dir), "Output",
	  "Write the files into this directory; one that exists becomes DIR.old. Default: xprof.out." },
	{ "no-compression", 0, NULL, NULL, XP_OPTION_FLAG, ON(RECORD), SETS(no_compression), "Output",
	  "Leave the samples of perf.data as they are, which takes some 20 times the room: for readers without zstd." },
	{ "fdr-version", 0, "N", "1|5", XP_OPTION_NUMBER, ON(RECORD), SETS(fdr_version), "Output",
	  "Version of the FDR logs. Default: 1, and 5 when typed events are recorded." },
	{ "jitdump-version", 0, "N", "1|2", XP_OPTION_NUMBER, ON(RECORD), SETS(jitdump_version), "Output",
	  "Version of the jitdumps: 1 as perf takes them, 2 to the letter of their specification. Default: 1." },
	{ "limit", 0, "N", "max", XP_OPTION_COUNT, ON(REPORT), SETS(limit), "Output",
	  "Functions of each process, or max for all. Default: 30." },
	{ "sort", 0, "BY", "flat|cum|time", XP_OPTION_CHOICE, ON(REPORT), SETS(sort), "Output",
	  "What goes first: samples in the function itself, samples with what it calls, or the time of its calls. "
	  "Default: flat, and time where there are no samples." },
	{ "lines", 0, NULL, NULL, XP_OPTION_FLAG, ON(REPORT), SETS(lines), "Output",
	  "A row for each line of the source." },
	{ "no-inlines", 0, NULL, NULL, XP_OPTION_FLAG, ON(REPORT), SETS(no_inlines), "Output",
	  "Count what is inlined for the function that it is inlined in." },
	{ "full-names", 0, NULL, NULL, XP_OPTION_FLAG, ON(REPORT), SETS(full_names), "Output",
	  "Show names of C++ functions with their parameters and template arguments." },
	{ "sleds", 0, NULL, NULL, XP_OPTION_FLAG, ON(LIST), SETS(sleds), "Output",
	  "List every sled of each function." },
	{ "verbose", 'v', NULL, NULL, XP_OPTION_FLAG, TALKERS, SETS(verbose), "Messages", "Tell what is done." },
	{ "quiet", 'q', NULL, NULL, XP_OPTION_FLAG, TALKERS, SETS(quiet), "Messages", "Print errors only." },
	{ "help", 'h', NULL, NULL, XP_OPTION_FLAG, TALKERS | ON(HELP) | ON(VERSION), SETS(help), "Messages",
	  "Print this help." },
};
const size_t xp_option_count = XP_ARRAY_SIZE(xp_option_table);

/* Some dozens of the pieces that records are kept in. */
#define FLIGHT_BYTES_MIN (1u << 20)

/* getopt's values: those of options without a short name must be none of a character. */
#define OPTION_VALUE(index) (UCHAR_MAX + 1 + (int)(index))

enum xp_command xp_command_find(const char *name)
{
	for (unsigned int i = 0; i < XP_COMMANDS; i++)
		if (strcmp(name, xp_command_table[i].name) == 0)
			return (enum xp_command)i;
	return XP_COMMANDS;
}

/* Parses "12", "1.5" up to the unit: value * scale, with the fraction cut to whole units of the result. */
static int scaled(const char *text, size_t digits, uint64_t scale, uint64_t *value)
{
	uint64_t fraction = 0, place = scale;
	bool point = false;

	*value = 0;
	for (size_t i = 0; i < digits; i++) {
		if (text[i] == '.') {
			if (point || i == 0 || i + 1 == digits)
				return -EINVAL;
			point = true;
		} else if (point) {
			place /= 10;
			fraction += place * (uint64_t)(text[i] - '0');
		} else if (__builtin_mul_overflow(*value, 10, value) ||
			   __builtin_add_overflow(*value, (uint64_t)(text[i] - '0'), value)) {
			return -ERANGE;
		}
	}
	if (__builtin_mul_overflow(*value, scale, value) || __builtin_add_overflow(*value, fraction, value))
		return -ERANGE;
	return 0;
}

int xp_duration_parse(const char *text, uint64_t *ns)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {
		{ "", 1000000000 }, { "s", 1000000000 },  { "ms", 1000000 },	  { "us", 1000 },
		{ "ns", 1 },	    { "m", 60000000000 }, { "h", 3600000000000 },
	};
	size_t digits = strspn(text, "0123456789.");

	if (!digits)
		return -EINVAL;
	for (size_t i = 0; i < XP_ARRAY_SIZE(units); i++)
		if (strcmp(text + digits, units[i].name) == 0)
			return scaled(text, digits, units[i].ns, ns);
	return -EINVAL;
}

int xp_size_parse(const char *text, uint64_t *bytes)
{
	size_t digits = strspn(text, "0123456789");
	const char *unit = text + digits;
	uint64_t scale = 1;

	if (!digits)
		return -EINVAL;
	if (*unit == 'k' || *unit == 'K')
		scale = 1 << 10;
	else if (*unit == 'm' || *unit == 'M')
		scale = 1 << 20;
	else if (*unit == 'g' || *unit == 'G')
		scale = 1 << 30;
	else if (*unit)
		return -EINVAL;
	if (*unit && unit[1] && strcmp(unit + 1, "iB") != 0)
		return -EINVAL;
	return scaled(text, digits, scale, bytes);
}

/* The index of text in "a|b|c", -1 when it is none of them. */
static int choice_find(const char *choices, const char *text)
{
	size_t length = strlen(text);

	for (int index = 0;; index++) {
		size_t span = strcspn(choices, "|");

		if (span == length && memcmp(choices, text, span) == 0)
			return index;
		if (!choices[span])
			return -1;
		choices += span + 1;
	}
}

static int pid_add(struct xp_pid_list *list, pid_t pid)
{
	pid_t *pids;

	for (size_t i = 0; i < list->count; i++)
		if (list->pids[i] == pid)
			return 0;
	pids = reallocarray(list->pids, list->count + 1, sizeof(*pids));
	if (!pids)
		return -ENOMEM;
	pids[list->count] = pid;
	list->pids = pids;
	list->count++;
	return 0;
}

static int set_pids(struct xp_pid_list *list, const char *text)
{
	for (;;) {
		size_t digits = strspn(text, "0123456789");
		uint64_t pid;
		int err;

		if (!digits || (text[digits] && text[digits] != ',') || scaled(text, digits, 1, &pid) || pid < 1 ||
		    pid > INT_MAX) {
			xp_error("--pid takes numbers of processes, separated by commas, not '%s'", text);
			return -EINVAL;
		}
		err = pid_add(list, (pid_t)pid);
		if (err || !text[digits])
			return err;
		text += digits + 1;
	}
}

static int set_pattern(struct xp_text_list *list, const char *name, const char *text)
{
	const char **texts;

	if (!*text || strcmp(text, "!") == 0) {
		xp_error("--%s takes a pattern such as 'parse_*' or '!*::operator*', not '%s'", name, text);
		return -EINVAL;
	}
	texts = reallocarray(list->texts, list->count + 1, sizeof(*texts));
	if (!texts)
		return -ENOMEM;
	texts[list->count++] = text;
	list->texts = texts;
	return 0;
}

static int set_duration(const char *name, uint64_t *ns, const char *text)
{
	int err = xp_duration_parse(text, ns);

	if (err)
		xp_error("--%s takes a time such as 10s, 500ms, 5us or 2m, not '%s'%s", name, text,
			 err == -ERANGE ? ", which is too long" : "");
	return err ? -EINVAL : 0;
}

static int set_size(const char *name, uint64_t *bytes, const char *text)
{
	int err = xp_size_parse(text, bytes);

	if (err || *bytes < 4096 || *bytes > 1 << 30 || (*bytes & (*bytes - 1))) {
		xp_error("--%s takes a power of two from 4K to 1G, such as 4M, not '%s'", name, text);
		return -EINVAL;
	}
	return 0;
}

static int set_count(const struct xp_option *option, uint64_t *count, const char *text)
{
	size_t digits = strspn(text, "0123456789");

	if (option->choices && choice_find(option->choices, text) >= 0) {
		*count = UINT64_MAX;
		return 0;
	}
	if (!digits || text[digits] || scaled(text, digits, 1, count) || !*count || *count > INT64_MAX) {
		xp_error("--%s takes a whole number above 0%s%s, not '%s'", option->name, option->choices ? " or " : "",
			 option->choices ? option->choices : "", text);
		return -EINVAL;
	}
	return 0;
}

static int set_percent(const char *name, double *share, const char *text)
{
	char *end;

	*share = *text >= '0' && *text <= '9' ? strtod(text, &end) / 100 : 0;
	if (!(*share > 0) || *share >= 1 || (strcmp(end, "%") != 0 && *end)) {
		xp_error("--%s takes a part such as 5%% or 0.5%%, below 100%%, not '%s'", name, text);
		return -EINVAL;
	}
	return 0;
}

static int set_choice(const struct xp_option *option, void *to, const char *text)
{
	int index = choice_find(option->choices, text);

	if (index < 0) {
		xp_error("--%s takes one of %s, not '%s'", option->name, option->choices, text);
		return -EINVAL;
	}
	if (option->type == XP_OPTION_NUMBER)
		*(unsigned int *)to = (unsigned int)strtoul(text, NULL, 10);
	else
		*(int *)to = index;
	return 0;
}

static int set_option(struct xp_options *options, const struct xp_option *option, const char *text)
{
	void *to = (char *)options + option->offset;

	switch (option->type) {
	case XP_OPTION_FLAG:
		*(bool *)to = true;
		return 0;
	case XP_OPTION_DURATION:
		return set_duration(option->name, to, text);
	case XP_OPTION_SIZE:
		return set_size(option->name, to, text);
	case XP_OPTION_NUMBER:
	case XP_OPTION_CHOICE:
		return set_choice(option, to, text);
	case XP_OPTION_COUNT:
		return set_count(option, to, text);
	case XP_OPTION_PERCENT:
		return set_percent(option->name, to, text);
	case XP_OPTION_PIDS:
		return set_pids(to, text);
	case XP_OPTION_PATTERNS:
		return set_pattern(to, option->name, text);
	case XP_OPTION_FILE:
	case XP_OPTION_DIRECTORY:
	case XP_OPTION_TEXT:
		break;
	}
	if (!*text) {
		xp_error("--%s takes a %s, not an empty text", option->name, option->argument);
		return -EINVAL;
	}
	*(const char **)to = text;
	return 0;
}

struct getopt_tables {
	char shorts[2 + 2 * XP_ARRAY_SIZE(xp_option_table) + 1];
	struct option longs[XP_ARRAY_SIZE(xp_option_table) + 1];
};

static void getopt_tables_make(struct getopt_tables *tables, enum xp_command command)
{
	char *shorts = tables->shorts;
	struct option *longs = tables->longs;

	memset(tables, 0, sizeof(*tables));
	if (command == XP_CMD_RECORD)
		*shorts++ = '+'; /* what follows the first operand is the child's */
	*shorts++ = ':';
	for (size_t i = 0; i < xp_option_count; i++) {
		const struct xp_option *option = &xp_option_table[i];

		if (!(option->commands & (1u << command)))
			continue;
		longs->name = option->name;
		longs->has_arg = option->argument ? required_argument : no_argument;
		longs->val = OPTION_VALUE(i);
		longs++;
		if (option->short_name) {
			*shorts++ = option->short_name;
			if (option->argument)
				*shorts++ = ':';
		}
	}
}

static const struct xp_option *option_of_value(int value)
{
	for (size_t i = 0; i < xp_option_count; i++)
		if (value == OPTION_VALUE(i) || (value && value == xp_option_table[i].short_name))
			return &xp_option_table[i];
	return NULL;
}

/* An option that getopt does not know: it may be another command's, a wrong use of a flag, or nobody's. */
static void report_unknown(enum xp_command command, const char *word)
{
	const char *name = xp_command_table[command].name;
	const struct xp_option *option = option_of_value(optopt);

	if (option && option->commands & (1u << command)) {
		xp_error("option '--%s' takes no argument", option->name);
	} else {
		char shown[] = { '-', (char)optopt, 0 };
		size_t length = strcspn(word, "=");

		if (!optopt)
			xp_error("unknown or ambiguous option '%.*s'; see 'xprof help %s'", (int)length, word, name);
		else
			xp_error("unknown option '%s'; see 'xprof help %s'", shown, name);
	}
}

static int parse_flags(struct xp_options *options, int argc, char **argv)
{
	struct getopt_tables tables;

	getopt_tables_make(&tables, options->command);
	opterr = 0;
	optind = 0; /* glibc: start anew, whatever was parsed before */
	for (;;) {
		int value = getopt_long(argc, argv, tables.shorts, tables.longs, NULL);
		int err;

		if (value == -1)
			return 0;
		if (value == '?') {
			report_unknown(options->command, argv[optind - 1]);
			return -EINVAL;
		}
		if (value == ':') {
			xp_error("option '%s' needs a value; see 'xprof help %s'", argv[optind - 1],
				 xp_command_table[options->command].name);
			return -EINVAL;
		}
		err = set_option(options, option_of_value(value), optarg);
		if (err)
			return err;
	}
}

static int check_target(struct xp_options *options, bool separated)
{
	int targets =
	    !!options->pids.count + !!options->exec_path + !!options->operand_count + options->all + !!options->tid;

	if (options->operand_count && !separated) {
		xp_error("unexpected '%s'; a process is given by -p PID, a command to start by -- CMD [ARG...]",
			 options->operands[0]);
		return -EINVAL;
	}
	if (targets != 1) {
		xp_error("%s; give exactly one of -p PID, -t TID, -a, --exec PATH or -- CMD [ARG...]",
			 targets ? "more than one target" : "no target");
		return -EINVAL;
	}
	if (options->dry_run && options->operand_count) {
		xp_error("--dry-run tells of what runs, and starts no command: give -p PID, -t TID, -a or --exec PATH");
		return -EINVAL;
	}
	if (options->no_sleds && options->no_samples) {
		xp_error("--no-sleds and --no-samples together leave nothing to record");
		return -EINVAL;
	}
	if (options->no_sleds && options->exec_path) {
		xp_error("--no-sleds leaves nothing of --exec, which only records sleds");
		return -EINVAL;
	}
	if (options->max_overhead > 0 && (options->no_sleds || options->all || options->tid)) {
		xp_error("--max-overhead is for records of sleds, and there are none with --no-sleds, --all or --tid");
		return -EINVAL;
	}
	if (options->flight_bytes && (options->no_sleds || options->all || options->tid)) {
		xp_error("--flight keeps records of sleds, and there are none with --no-sleds, --all or --tid");
		return -EINVAL;
	}
	if (options->flight_bytes && options->flight_bytes < FLIGHT_BYTES_MIN) {
		xp_error("--flight takes 1M at least");
		return -EINVAL;
	}
	if (options->sled_way == XP_SLED_WAY_PATCH && (options->follow || options->exec_path)) {
		xp_error("--sled-mode patch goes with -p or -- CMD, without --follow");
		return -EINVAL;
	}
	if (options->cpus && !options->all) {
		xp_error("--cpu goes with --all only");
		return -EINVAL;
	}
	if (options->no_samples && (options->all || options->tid)) {
		xp_error("--no-samples leaves nothing of --all or --tid, which only sample");
		return -EINVAL;
	}
	if (options->operand_count) {
		options->child_argv = options->operands;
		options->operands = NULL;
		options->operand_count = 0;
	}
	return 0;
}

static int check_operands(const struct xp_options *options)
{
	const struct xp_command_info *info = &xp_command_table[options->command];

	if (options->operand_count < info->operands_min) {
		xp_error("'xprof %s' needs %s; see 'xprof help %s'", info->name, info->synopsis, info->name);
		return -EINVAL;
	}
	if (options->operand_count > info->operands_max) {
		xp_error("unexpected '%s'; see 'xprof help %s'", options->operands[info->operands_max], info->name);
		return -EINVAL;
	}
	return 0;
}

/* Number of single-letter edits between two short words (Levenshtein), to guess what was meant. */
static unsigned int edits(const char *a, const char *b)
{
	unsigned int row[32];
	size_t columns = strlen(b);

	if (columns >= XP_ARRAY_SIZE(row))
		return UINT_MAX;
	for (size_t j = 0; j <= columns; j++)
		row[j] = (unsigned int)j;
	for (size_t i = 0; a[i]; i++) {
		unsigned int diagonal = row[0];

		row[0]++;
		for (size_t j = 1; j <= columns; j++) {
			unsigned int replace = diagonal + (a[i] != b[j - 1]);

			diagonal = row[j];
			row[j] = XP_MIN(replace, XP_MIN(row[j], row[j - 1]) + 1);
		}
	}
	return row[columns];
}

static void report_unknown_command(const char *word)
{
	const char *nearest = NULL;
	unsigned int best = 3; /* more edits than two are another word */

	for (unsigned int i = 0; i < XP_COMMANDS; i++) {
		unsigned int distance = edits(word, xp_command_table[i].name);

		if (distance < best) {
			best = distance;
			nearest = xp_command_table[i].name;
		}
	}
	if (nearest)
		xp_error("unknown command '%s'; did you mean '%s'?", word, nearest);
	else
		xp_error("unknown command '%s'; see 'xprof help'", word);
}

static int parse_command(struct xp_options *options, int argc, char **argv)
{
	const char *word = argc > 1 ? argv[1] : NULL;

	options->command = XP_COMMANDS;
	if (!word)
		xp_error("no command; see 'xprof help'");
	else if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
		options->command = XP_CMD_HELP;
	else if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0)
		options->command = XP_CMD_VERSION;
	else if (*word == '-')
		xp_error("unknown option '%s'; options follow the command, see 'xprof help'", word);
	else if ((options->command = xp_command_find(word)) == XP_COMMANDS)
		report_unknown_command(word);
	return options->command == XP_COMMANDS ? -EINVAL : 0;
}

/* `xprof NAME --help` is `xprof help NAME`, whatever else stands there. */
static void turn_to_help(struct xp_options *options, char **argv)
{
	bool named = options->command != XP_CMD_HELP;

	options->command = XP_CMD_HELP;
	if (named) {
		options->operands = &argv[1];
		options->operand_count = 1;
	}
}

int xp_options_parse(struct xp_options *options, int argc, char **argv)
{
	bool separated;
	int err;

	*options = (struct xp_options){
		.output_dir = "xprof.out",
		.fdr_version = 1,
		.jitdump_version = 1,
		.hz = 99,
		.sled_way = XP_SLED_WAY_AUTO,
		.limit = 30,
	};
	err = parse_command(options, argc, argv);
	if (err)
		return err;
	err = parse_flags(options, argc - 1, argv + 1);
	if (err)
		return err;
	/* parse_flags() saw argv from the command on, so optind counts from there */
	separated = strcmp(argv[optind], "--") == 0;
	options->operands = argv + 1 + optind;
	options->operand_count = (size_t)(argc - 1 - optind);
	if (options->help) {
		turn_to_help(options, argv);
		return 0;
	}
	if (options->verbose && options->quiet) {
		xp_error("--verbose and --quiet exclude each other");
		return -EINVAL;
	}
	if (options->command == XP_CMD_RECORD)
		return check_target(options, separated);
	if (options->command == XP_CMD_RESTORE && !options->pids.count) {
		xp_error("no process; give -p PID");
		return -EINVAL;
	}
	return check_operands(options);
}

void xp_options_free(struct xp_options *options)
{
	free(options->pids.pids);
	free(options->functions.texts);
	options->pids = (struct xp_pid_list){ 0 };
	options->functions = (struct xp_text_list){ 0 };
}
