// SPDX-License-Identifier: BSD-2-Clause
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "option_parts.h"

#define LONG_NAME_MAX 32 /* bytes of an option's name */

#define ON(command) (1u << XP_CMD_##command)
#define SETS(member) .offset = offsetof(struct xp_options, member)

#define WITH_TIMES (ON(EXPORT) | ON(DIFF) | ON(REPORT) | ON(EXPLAIN))

#define TALKERS                                                                                                        \
	(ON(RECORD) | ON(REPORT) | ON(EXPORT) | ON(VIEW) | ON(EXPLAIN) | ON(DIFF) | ON(LIST) | ON(RECOVER) |           \
	 ON(RESTORE) | ON(DOCTOR))

/* In the order of enum xp_format_option. */
#define FORMATS "pprof|folded|html|perfetto"

/* Options of one group are contiguous. */
const struct xp_option xp_option_table[] = {
	{ "pid", 'p', "PID", NULL, XP_OPTION_PROCESSES, ON(RECORD) | ON(RESTORE), SETS(pids), "Target, exactly one",
	  "Select running processes: a comma-separated list of PIDs, or of names that only one process has." },
	{ "all", 'a', NULL, NULL, XP_OPTION_FLAG, ON(RECORD), SETS(all), "Target, exactly one",
	  "Sample all processes on all CPUs, and the kernel. Records no calls." },
	{ "tid", 't', "TID", NULL, XP_OPTION_COUNT, ON(RECORD), SETS(tid), "Target, exactly one",
	  "Sample only this thread; `ps -eL` prints TIDs. Records no calls." },
	{ "exec", 0, "PATH", NULL, XP_OPTION_FILE, ON(RECORD), SETS(exec_path), "Target, exactly one",
	  "Record the calls of each process that runs this executable or maps this shared library, now or later, "
	  "for example to record short-lived processes. Takes no samples." },
	{ "follow", 0, NULL, NULL, XP_OPTION_FLAG, ON(RECORD), SETS(follow), "What to record",
	  "Also record the children of the target, such as those of a server that forks." },
	{ "no-sleds", 0, NULL, NULL, XP_OPTION_FLAG, ON(RECORD), SETS(no_sleds), "What to record",
	  "Record only samples, no calls. Use it if recording calls costs too much." },
	{ "no-samples", 0, NULL, NULL, XP_OPTION_FLAG, ON(RECORD), SETS(no_samples), "What to record",
	  "Record only calls, no samples. Use it to count calls at the lowest cost." },
	{ "functions", 0, "[OBJECT:]GLOB", NULL, XP_OPTION_PATTERNS, ON(RECORD), SETS(functions), "What to record",
	  "Record only calls of functions that match GLOB, such as 'parse_*'; !GLOB excludes functions. With -p, "
	  "functions of the program need no sleds; neither do those of a library OBJECT, such as 'libpq*:PQ*'. Can "
	  "be repeated; the last pattern that matches a function decides." },
	{ "usdt", 0, "[OBJECT:]PROVIDER:NAME", NULL, XP_OPTION_TEXTS, ON(RECORD), SETS(usdt), "What to record",
	  "Also record the USDT probes that match, such as 'python:gc__*', with their integer arguments; `xprof list` "
	  "shows them. Each of the three may be a glob; with --all, OBJECT is the path of a binary. Can be repeated. A "
	  "probe that is passed costs about 1 us." },
	{ "args", 0, "N", "1|2|3|4|5|6", XP_OPTION_NUMBER, ON(RECORD), SETS(args), "What to record",
	  "Also record the first N integer arguments of each call, such as 2. Each entry then enters the kernel, "
	  "which costs more." },
	{ "min-duration", 0, "TIME", NULL, XP_OPTION_DURATION, ON(RECORD), SETS(min_duration_ns), "What to record",
	  "Discard calls that take less than TIME, such as 5us, but count them. Use it to get smaller logs. "
	  "Default: 0, which keeps all calls." },
	{ "format", 0, "LIST", FORMATS, XP_OPTION_LIST, ON(EXPORT), SETS(formats), "What to export",
	  "Write these formats: a comma-separated list. html: a page with flame graphs and tables; perfetto: a "
	  "timeline of each thread; pprof: a profile for go tool pprof, speedscope, Grafana and Parca; folded: a "
	  "line per stack, for flamegraph.pl, inferno and Firefox Profiler." },
	{ "folded", 0, NULL, NULL, XP_OPTION_FLAG, ON(DIFF), SETS(folded), "Formats",
	  "Write folded stacks for flamegraph.pl and inferno, with the samples of A and B, or the ns of calls or "
	  "waits." },
	{ "html", 0, NULL, NULL, XP_OPTION_FLAG, ON(DIFF), SETS(html), "Formats",
	  "Write a page with a differential flame graph, for a browser." },
	{ "json", 0, NULL, NULL, XP_OPTION_FLAG, ON(DIFF), SETS(json), "Formats", "Write JSON, for scripts." },
	{ "normalize", 0, NULL, NULL, XP_OPTION_FLAG, ON(DIFF), SETS(normalize), "What to compare",
	  "Compare shares of all CPU time, in percent, instead of ms per second of CPU time. Use it for profiles "
	  "without their length." },
	{ "wall", 0, NULL, NULL, XP_OPTION_FLAG, ON(DIFF), SETS(wall), "What to compare",
	  "Compare CPU time per second of the recording. Use it for programs that do the same work in each second." },
	{ "off-cpu", 0, NULL, NULL, XP_OPTION_FLAG, ON(DIFF), SETS(waits), "What to compare",
	  "Compare how long functions waited, in ms per second, instead of samples and calls. Both recordings must "
	  "have been made with --off-cpu." },
	{ "comm", 0, "GLOB", NULL, XP_OPTION_PATTERNS, ON(DIFF), SETS(comms), "What to compare",
	  "Compare only processes and threads with a name that matches GLOB. Can be repeated." },
	{ "sort", 0, "BY", "flat|cum", XP_OPTION_CHOICE, ON(DIFF), SETS(diff_sort), "What to compare",
	  "Compare the functions themselves (flat), or with their callees (cum). Default: flat." },
	{ "pid", 'p', "PID", NULL, XP_OPTION_PIDS, ON(EXPORT), SETS(pids), "What to export",
	  "Export only these processes: a comma-separated list of PIDs." },
	{ "tid", 't', "TID", NULL, XP_OPTION_COUNT, ON(EXPORT), SETS(tid), "What to export",
	  "Export only this thread: its TID, as in report --by thread." },
	{ "comm", 0, "GLOB", NULL, XP_OPTION_PATTERNS, ON(EXPORT), SETS(comms), "What to export",
	  "Export only processes and threads with a name that matches GLOB. Can be repeated." },
	{ "functions", 0, "GLOB", NULL, XP_OPTION_PATTERNS, ON(EXPORT), SETS(functions), "What to export",
	  "Export only stacks with a function that matches GLOB; !GLOB excludes stacks with such a function. Can be "
	  "repeated." },
	{ "calls", 0, NULL, NULL, XP_OPTION_FLAG, ON(EXPORT), SETS(calls), "What to export",
	  "Export the recorded calls, with their number and time, instead of samples." },
	{ "off-cpu", 0, NULL, NULL, XP_OPTION_FLAG, ON(EXPORT), SETS(waits), "What to export",
	  "Export where threads waited, with the number of waits and their time, instead of samples. Requires a "
	  "recording with --off-cpu." },
	{ "by", 0, "WHAT", "process|thread|comm|cpu|none|cgroup", XP_OPTION_CHOICE, ON(EXPORT), SETS(by),
	  "What to export",
	  "Group stacks by process, thread, comm (name of the process), cpu, cgroup or none. Default: thread for "
	  "pprof and html, otherwise process." },
	{ "from", 0, "TIME", NULL, XP_OPTION_MOMENT, WITH_TIMES, SETS(times[0]), "Which time",
	  "Skip what precedes TIME: seconds since the start of the recording, such as 2, 2s or 500ms, or a time in "
	  "UTC, "
	  "such as 14:00, yesterdayT14:00:30 or 2026-11-27T14:00:00Z." },
	{ "to", 0, "TIME", NULL, XP_OPTION_MOMENT, WITH_TIMES, SETS(times[1]), "Which time",
	  "Skip everything from TIME on." },
	{ "by", 0, "WHAT", "process|thread|comm|cpu|none|cgroup", XP_OPTION_CHOICE, ON(REPORT), SETS(by),
	  "What to show",
	  "Show a table for each process, thread, comm (name of the process), cpu or cgroup, or none: one for all. "
	  "Default: process." },
	{ "tree", 0, NULL, NULL, XP_OPTION_FLAG, ON(REPORT), SETS(tree), "What to show",
	  "Show a call tree for each program instead of tables. Use it to see on which paths a function is called." },
	{ "callers", 0, "GLOB", NULL, XP_OPTION_TEXT, ON(REPORT), SETS(callers), "What to show",
	  "Show a tree of the callers of functions that match GLOB, such as '*mutex_lock'." },
	{ "calls", 0, NULL, NULL, XP_OPTION_FLAG, ON(REPORT), SETS(calls), "What to show",
	  "With --tree or --callers, show the recorded calls, with their number and time, instead of samples." },
	{ "off-cpu", 0, NULL, NULL, XP_OPTION_FLAG, ON(REPORT), SETS(waits), "What to show",
	  "Show only where threads waited, how long, and what woke them; with --tree or --callers, as a tree. "
	  "Requires a recording with --off-cpu." },
	{ "function", 0, "GLOB", NULL, XP_OPTION_PATTERNS, ON(EXPLAIN), SETS(functions), "What to explain",
	  "Explain calls of functions that match GLOB on their own thread only, or waits with such a function in their "
	  "stack. Can be repeated. Default: --request." },
	{ "slowest", 0, "N", NULL, XP_OPTION_COUNT, ON(EXPLAIN), SETS(slowest), "What to explain",
	  "Show the N slowest calls, at most 1000. Default: up to 5 slow calls." },
	{ "above", 0, "TIME", NULL, XP_OPTION_DURATION, ON(EXPLAIN), SETS(above_ns), "What to explain",
	  "Explain only calls that took more than TIME, such as 10ms. Default: at least twice the median." },
	{ "tail", 0, "PERCENT", NULL, XP_OPTION_PERCENT, ON(EXPLAIN), SETS(tail), "What to explain",
	  "Compare the slowest PERCENT of the calls with the fastest ones (--against), as a tree of mean times. "
	  "Default: 1%." },
	{ "against", 0, "PERCENT", NULL, XP_OPTION_PERCENT, ON(EXPLAIN), SETS(against), "What to explain",
	  "With --tail, the part of the fastest calls to compare with. Default: 50%." },
	{ "request", 0, "GLOB|PROVIDER:BEGIN..END", NULL, XP_OPTION_PATTERNS, ON(EXPLAIN) | ON(EXPORT), SETS(requests),
	  "Requests",
	  "Calls of functions that match GLOB are requests, or the time between two hits of USDT probes by a thread "
	  "or, "
	  "with END/arg1, with the same first argument. They include the work of the threads that they wake. Can be "
	  "repeated. Default: xprof finds the functions that handle requests. export: only for HTML and Perfetto." },
	{ "freq", 'F', "HZ", "max", XP_OPTION_COUNT, ON(RECORD), SETS(hz), "Samples",
	  "Take HZ samples per second of each thread's CPU time; max takes as many as the kernel allows. Default: 99. "
	  "999 Hz costs about 5 % of that time." },
	{ "count", 'c', "PERIOD", NULL, XP_OPTION_COUNT, ON(RECORD), SETS(period), "Samples",
	  "Instead of --freq, take a sample every PERIOD cycles, such as 1000000; without a PMU, every PERIOD ns of "
	  "CPU time. Use it to compare recordings of machines with different clocks." },
	{ "cpu", 'C', "LIST", NULL, XP_OPTION_TEXT, ON(RECORD), SETS(cpus), "Samples",
	  "With --all, sample only these CPUs, such as 0-3,7." },
	{ "call-graph", 0, "METHOD", "auto|fp|dwarf|none", XP_OPTION_CHOICE, ON(RECORD), SETS(call_graph), "Samples",
	  "Find callers by this method. dwarf: unwind tables of the binaries (.eh_frame, .debug_frame); fp: frame "
	  "pointers; auto: unwind tables, or frame pointers for code without tables; none: no callers. Default: "
	  "auto." },
	{ "off-cpu", 0, "TIME", NULL, XP_OPTION_OPTIONAL_DURATION, ON(RECORD), SETS(off_cpu), "Samples",
	  "Also record off-CPU time: where threads wait, how long, and what wakes them. With TIME, such as 1ms, "
	  "record only waits of at least TIME. If there are too many waits, record a random sample and scale the "
	  "totals." },
	{ "switch-events", 0, NULL, NULL, XP_OPTION_FLAG, ON(RECORD), SETS(switch_events), "Samples",
	  "Also write the context switches of recorded threads to perf.data, for perf report --latency (perf 6.15). "
	  "A switch costs 0.7 us." },
	{ "jvm-attach", 0, NULL, NULL, XP_OPTION_FLAG, ON(RECORD), SETS(jvm_attach), "Samples",
	  "Request the names of compiled methods from each JVM (17 or later), as jcmd does. Without it, Java code "
	  "has no names. The JVM gets a SIGQUIT." },
	{ "duration", 'd', "TIME", NULL, XP_OPTION_DURATION, ON(RECORD), SETS(duration_ns), "How to record",
	  "Stop after TIME, such as 10, 10s, 500ms or 2m. Default: when the target ends, or at ^C." },
	{ "rotate", 0, "TIME|SIZE", NULL, XP_OPTION_TIME_OR_BYTES, ON(RECORD), SETS(rotate), "How to record",
	  "Begin a new recording every TIME, such as 60s, or whenever the files use SIZE, such as 200M, without a gap, "
	  "and on SIGHUP. -o is the directory of these recordings; each is named by its start in UTC." },
	{ "keep", 0, "TIME|SIZE", NULL, XP_OPTION_TIME_OR_BYTES, ON(RECORD), SETS(keep), "How to record",
	  "With --rotate, keep the recordings of the last TIME, such as 24h, or up to SIZE, such as 10G, and delete "
	  "older ones. Default: delete none unless the disk is full." },
	{ "max-overhead", 0, "PERCENT", NULL, XP_OPTION_PERCENT, ON(RECORD), SETS(max_overhead), "How to record",
	  "Keep the cost of recorded calls below this share of the target's CPU time, such as 5%, by throttling the "
	  "functions that cost most. The report shows the throttled functions." },
	/* 1M is enough for a few dozen of the pieces that hold records. */
	{ "flight", 0, "SIZE", "1M", XP_OPTION_SIZE, ON(RECORD), SETS(flight_bytes), "How to record",
	  "Keep only the newest calls of each process in SIZE of memory, such as 64M. Write them on SIGUSR2, when a "
	  "signal kills the process, and at the end of the recording." },
	{ "trigger", 0, "GLOB>TIME", NULL, XP_OPTION_TRIGGERS, ON(RECORD), SETS(triggers), "How to record",
	  "With --flight, also write a log when a call of a function that matches GLOB took longer than TIME, such "
	  "as 'handle_request>50ms'. Can be repeated." },
	{ "trigger-limit", 0, "N", NULL, XP_OPTION_COUNT, ON(RECORD), SETS(trigger_limit), "How to record",
	  "Write at most N logs per minute because of --trigger, and only count further slow calls. Default: 6." },
	{ "max-size", 0, "SIZE", NULL, XP_OPTION_BYTES, ON(RECORD), SETS(max_bytes), "How to record",
	  "End the recording when its files use SIZE, such as 500M. Default: 10G, or half of the free disk space if "
	  "that is less." },
	{ "buffer", 0, "SIZE", NULL, XP_OPTION_SIZE, ON(RECORD), SETS(buffer_bytes), "How to record",
	  "Use ring buffers of SIZE per CPU, a power of two, such as 16M. Increase it if events are lost. Default: "
	  "4M; less for samples at a low rate." },
	{ "uprobes", 0, "METHOD", "auto|multi|single", XP_OPTION_CHOICE, ON(RECORD), SETS(uprobes), "How to record",
	  "Attach uprobes by this method. multi: one BPF link for many sleds (Linux 6.6); single: one perf event "
	  "per sled, which works on older kernels but is slow; auto: multi if the kernel has it. Default: auto." },
	{ "call-mode", 0, "MODE", "probe|patch|memory|auto", XP_OPTION_CHOICE, ON(RECORD), SETS(call_mode),
	  "How to record",
	  "Record calls in this mode. probe: a uprobe per sled; patch: sleds call a stub that has uprobes; memory: "
	  "the stub records without the kernel; auto: the cheapest mode that works, with a message if it is not "
	  "memory. Default: auto." },
	{ "strict", 0, NULL, NULL, XP_OPTION_FLAG, ON(RECORD), SETS(strict), "How to record",
	  "Exit with status 4 if an event, sample or wait was lost. Use it in scripts that require complete "
	  "recordings." },
	{ "dry-run", 0, NULL, NULL, XP_OPTION_FLAG, ON(RECORD), SETS(dry_run), "How to record",
	  "Print what would be attached, and a forecast of its cost. Use it before you record a production system. "
	  "Records calls for 0.25 to 1 s, in patched sleds only, and stores nothing." },
	{ "output", 'o', "DIR", NULL, XP_OPTION_DIRECTORY, ON(RECORD), SETS(output_dir), "Output",
	  "Write to this directory. An existing recording is renamed to DIR.old. Default: xprof.out." },
	{ "export", 0, "LIST", FORMATS, XP_OPTION_LIST, ON(RECORD), SETS(formats), "Output",
	  "After the recording, also write these formats, as xprof export does: a comma-separated list of pprof, "
	  "folded, html and perfetto." },
	{ "open", 0, NULL, NULL, XP_OPTION_FLAG, ON(RECORD), SETS(open), "Output",
	  "After the recording, show it in a browser, as xprof view does." },
	{ "compress", 'z', NULL, NULL, XP_OPTION_FLAG, ON(RECORD), SETS(compress), "Output",
	  "Compress all samples in perf.data, to about 5 % of their size. Then only perf and xprof can read it. "
	  "Default: compress only samples after the first 32 MB." },
	{ "no-compression", 0, NULL, NULL, XP_OPTION_FLAG, ON(RECORD), SETS(no_compression), "Output",
	  "Do not compress perf.data. Use it for hotspot and other viewers, which cannot read compressed files." },
	{ "fdr-version", 0, "N", "1|5", XP_OPTION_NUMBER, ON(RECORD), SETS(fdr_version), "Output",
	  "Write FDR logs of this version. Use it if another reader accepts only one of them. Default: 1, or 5 if "
	  "there are typed events." },
	{ "output", 'o', "FILE", NULL, XP_OPTION_FILE, ON(EXPORT), SETS(export_path), "Output",
	  "Write to this file, or to the standard output if FILE is -. Default: samples.FORMAT, calls.FORMAT, "
	  "waits.FORMAT or recording.html in the directory of the recording." },
	{ "json", 0, NULL, NULL, XP_OPTION_FLAG, ON(REPORT) | ON(EXPLAIN) | ON(LIST), SETS(json), "Output",
	  "Print JSON, for scripts; the manual pages describe it." },
	{ "output", 'o', "FILE", NULL, XP_OPTION_FILE, ON(DIFF), SETS(export_path), "Output",
	  "Write to this file. Default: the standard output." },
	{ "debuginfod", 0, NULL, NULL, XP_OPTION_FLAG, ON(EXPORT), SETS(debuginfod), "Output",
	  "Download missing debug information from the servers in DEBUGINFOD_URLS. Use it if distribution packages "
	  "have no symbols." },
	{ "limit", 0, "N", "max", XP_OPTION_COUNT, ON(REPORT), SETS(limit), "Output",
	  "Show at most N functions per table and N tables, or all if N is max. Default: 30." },
	{ "limit", 0, "N", "max", XP_OPTION_COUNT, ON(DIFF), SETS(limit), "Output",
	  "Show at most N functions per table, or all if N is max. Default: 30." },
	{ "sort", 0, "BY", "flat|cum|time", XP_OPTION_CHOICE, ON(REPORT), SETS(sort), "Output",
	  "Sort by samples in the function itself (flat), samples that include its callees (cum), or time of its "
	  "calls (time). Default: flat, or time if there are no samples." },
	{ "lines", 0, NULL, NULL, XP_OPTION_FLAG, ON(REPORT), SETS(lines), "Output",
	  "Show a row for each source line. Use it to find the hot lines of a function. Requires debug information "
	  "(-g)." },
	{ "no-inlines", 0, NULL, NULL, XP_OPTION_FLAG, ON(REPORT), SETS(no_inlines), "Output",
	  "Count inlined code for the function that contains it, as tools without debug information do." },
	{ "full-names", 0, NULL, NULL, XP_OPTION_FLAG, ON(REPORT) | ON(EXPORT) | ON(EXPLAIN) | ON(DIFF),
	  SETS(full_names), "Output",
	  "Show C++ names with parameters and template arguments, to distinguish overloads." },
	{ "instr-map", 0, "FILE", NULL, XP_OPTION_FILE, ON(REPORT) | ON(EXPORT) | ON(EXPLAIN) | ON(DIFF),
	  SETS(instr_map), "Output",
	  "Read the function names of FDR logs from this program, library or NAME.xray.so. Use it for a log of "
	  "XRay's own runtime. Default: the names in the recording." },
	{ "sleds", 0, NULL, NULL, XP_OPTION_FLAG, ON(LIST), SETS(sleds), "Output",
	  "List each sled of each function, to check which are patched. Omits functions without sleds." },
	{ "push", 0, "ENGINE=URL", NULL, XP_OPTION_TEXT, ON(RECORD), SETS(push), "Push",
	  "When the recording is complete, send its profiles to a profiling engine, such as "
	  "pyroscope=https://HOST:4040 or parca=http://HOST:7070. xprof-continuous(7) describes the profiles." },
	{ "push-auth", 0, "FILE", NULL, XP_OPTION_FILE, ON(RECORD), SETS(push_auth), "Push",
	  "Authenticate to the engine with FILE. It has a line 'bearer TOKEN' or 'USER:PASSWORD', and may have a line "
	  "'tenant NAME'. No other user may be able to access the file." },
	{ "label", 0, "NAME=VALUE", NULL, XP_OPTION_TEXTS, ON(RECORD), SETS(labels), "Push",
	  "Add this label to all profiles, such as region=eu-1. Can be repeated." },
	{ "verbose", 'v', NULL, NULL, XP_OPTION_FLAG, TALKERS, SETS(verbose), "Messages",
	  "Print details of what xprof does, such as the messages of the kernel." },
	{ "quiet", 'q', NULL, NULL, XP_OPTION_FLAG, TALKERS, SETS(quiet), "Messages", "Print errors only." },
	{ "help", 'h', NULL, NULL, XP_OPTION_FLAG, TALKERS | ON(HELP) | ON(VERSION), SETS(help), "Messages",
	  "Print this help." },
};
const size_t xp_option_count = XP_ARRAY_SIZE(xp_option_table);

/* The value of a long option for getopt. It must differ from all characters. */
#define OPTION_VALUE(index) (UCHAR_MAX + 1 + (int)(index))

enum xp_command xp_command_find(const char *name)
{
	for (unsigned int i = 0; i < XP_COMMANDS; i++)
		if (strcmp(name, xp_command_table[i].name) == 0)
			return (enum xp_command)i;
	return XP_COMMANDS;
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
		*shorts++ = '+'; /* all arguments after the first operand belong to the command to start */
	*shorts++ = ':';
	for (size_t i = 0; i < xp_option_count; i++) {
		const struct xp_option *option = &xp_option_table[i];

		if (!(option->commands & (1u << command)))
			continue;
		longs->name = option->name;
		longs->has_arg = option->type == XP_OPTION_OPTIONAL_DURATION ? optional_argument
				 : option->argument			     ? required_argument
									     : no_argument;
		longs->val = OPTION_VALUE(i);
		longs++;
		if (option->short_name) {
			*shorts++ = option->short_name;
			if (option->argument)
				*shorts++ = ':';
		}
	}
}

static const struct xp_option *option_of_value(enum xp_command command, int value)
{
	for (size_t i = 0; i < xp_option_count; i++)
		if (value == OPTION_VALUE(i) ||
		    (value && value == xp_option_table[i].short_name && xp_option_table[i].commands & (1u << command)))
			return &xp_option_table[i];
	return NULL;
}

/* Finds the name that is most similar to a mistyped word. */
struct guess {
	const char *word;
	const char *name; /* NULL: no name is similar */
	unsigned int edits;
};

#define GUESS(text) ((struct guess){ .word = (text), .edits = 3 }) /* more than two edits away is a different word */

/* Returns the number of single-letter edits between two short words (Levenshtein). */
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

static void guess_try(struct guess *guess, const char *name)
{
	unsigned int distance = edits(guess->word, name);

	if (distance < guess->edits) {
		guess->edits = distance;
		guess->name = name;
	}
}

/* Prints an error for an unknown word that starts with "--". */
static void report_unknown_long(enum xp_command command, const char *word)
{
	const char *name = xp_command_table[command].name;
	size_t length = strcspn(word, "=");
	char text[LONG_NAME_MAX] = "";
	struct guess guess = GUESS(text);
	bool ambiguous = false;

	if (length - 2 < sizeof(text))
		memcpy(text, word + 2, length - 2);
	for (size_t i = 0; i < xp_option_count; i++) {
		if (!(xp_option_table[i].commands & (1u << command)))
			continue;
		ambiguous |= *text && strncmp(xp_option_table[i].name, text, length - 2) == 0;
		guess_try(&guess, xp_option_table[i].name);
	}
	if (ambiguous)
		xp_error("ambiguous option '%.*s'; see 'xprof help %s'", (int)length, word, name);
	else if (guess.name)
		xp_error("unknown option '%.*s'; did you mean '--%s'?", (int)length, word, guess.name);
	else
		xp_error("unknown option '%.*s'; see 'xprof help %s'", (int)length, word, name);
}

/* Prints an error for a word that getopt rejects: an unknown option, or a flag with an argument. */
static void report_unknown(enum xp_command command, const char *word)
{
	const struct xp_option *option = option_of_value(command, optopt);

	if (option && option->commands & (1u << command))
		xp_error("option '--%s' takes no argument", option->name);
	else if (optopt)
		xp_error("unknown option '-%c'; see 'xprof help %s'", optopt, xp_command_table[command].name);
	else
		report_unknown_long(command, word);
}

static int parse_flags(struct xp_options *options, int argc, char **argv)
{
	struct getopt_tables tables;

	getopt_tables_make(&tables, options->command);
	opterr = 0;
	optind = 0; /* glibc: restart, and forget the state of earlier parsing */
	for (;;) {
		int value = getopt_long(argc, argv, tables.shorts, tables.longs, NULL);
		int err;

		if (value == -1)
			return 0;
		if (value == '?') {
			report_unknown(options->command, argv[optind - 1]);
			return -EINVAL;
		}
		if (value == ':')
			return xp_fail(-EINVAL, "option '%s' needs a value; see 'xprof help %s'", argv[optind - 1],
				       xp_command_table[options->command].name);
		err = xp_option_set(options, option_of_value(options->command, value), optarg);
		if (err)
			return err;
	}
}

/* Adds default operands, like perf diff, which uses perf.data.old and perf.data. */
static int add_recordings(struct xp_options *options, const struct xp_command_info *info)
{
	static char *const defaults[XP_RECORDINGS_MAX] = { (char *)XP_RECORDING_DEFAULT ".old",
							   (char *)XP_RECORDING_DEFAULT };
	size_t missing = info->operands_min - options->operand_count;

	for (size_t i = 0; i < info->operands_min; i++) {
		char *name = i < missing ? defaults[XP_RECORDINGS_MAX - missing + i] : options->operands[i - missing];

		if (i < missing && access(name, F_OK))
			return xp_fail(-EINVAL,
				       "there is no recording %s here; give the directory of one, or make one with "
				       "'sudo xprof record'",
				       name);
		options->recordings[i] = name;
	}
	options->operands = options->recordings;
	options->operand_count = info->operands_min;
	return 0;
}

static int check_operands(struct xp_options *options)
{
	const struct xp_command_info *info = &xp_command_table[options->command];

	if (info->reads_recordings && options->operand_count < info->operands_min)
		return add_recordings(options, info);
	if (options->operand_count < info->operands_min)
		return xp_fail(-EINVAL, "'xprof %s' needs %s; see 'xprof help %s'", info->name, info->synopsis,
			       info->name);
	if (options->operand_count > info->operands_max)
		return xp_fail(-EINVAL, "unexpected '%s'; see 'xprof help %s'", options->operands[info->operands_max],
			       info->name);
	return 0;
}

static void report_unknown_command(const char *word)
{
	struct guess guess = GUESS(word);

	for (unsigned int i = 0; i < XP_COMMANDS; i++)
		guess_try(&guess, xp_command_table[i].name);
	if (guess.name)
		xp_error("unknown command '%s'; did you mean '%s'?", word, guess.name);
	else
		xp_error("unknown command '%s'; see 'xprof help'", word);
}

static int parse_command(struct xp_options *options, int argc, char **argv)
{
	const char *word = argc > 1 ? argv[1] : NULL;

	options->bare = !word;
	options->command = XP_COMMANDS;
	if (!word || strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
		options->command = XP_CMD_HELP;
	else if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0)
		options->command = XP_CMD_VERSION;
	else if (*word == '-')
		xp_error("unknown option '%s'; options follow the command, see 'xprof help'", word);
	else if ((options->command = xp_command_find(word)) == XP_COMMANDS)
		report_unknown_command(word);
	return options->command == XP_COMMANDS ? -EINVAL : 0;
}

/* Changes `xprof NAME --help` to `xprof help NAME`. */
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
		.output_dir = XP_RECORDING_DEFAULT,
		.fdr_version = 1,
		.hz = 99,
		.call_mode = XP_CALL_MODE_OPTION_AUTO,
		.trigger_limit = 6,
		.limit = 30,
		.by = -1,
	};
	err = parse_command(options, argc, argv);
	if (err || options->bare)
		return err;
	err = parse_flags(options, argc - 1, argv + 1);
	if (err)
		return err;
	/* optind counts from the command, because parse_flags() got argv + 1. */
	separated = strcmp(argv[optind], "--") == 0;
	options->operands = argv + 1 + optind;
	options->operand_count = (size_t)(argc - 1 - optind);
	if (options->help) {
		turn_to_help(options, argv);
		return 0;
	}
	if (options->verbose && options->quiet)
		return xp_fail(-EINVAL, "--verbose cannot be used with --quiet");
	if (options->command == XP_CMD_RECORD) {
		if (options->open)
			options->formats |= 1u << XP_FORMAT_HTML;
		return xp_option_record_check(options, separated);
	}
	if (options->command == XP_CMD_RESTORE && !options->pids.count)
		return xp_fail(-EINVAL, "no process; give -p PID");
	if (options->command == XP_CMD_EXPORT && xp_option_export_check(options))
		return -EINVAL;
	if (options->command == XP_CMD_REPORT && xp_option_report_check(options))
		return -EINVAL;
	return check_operands(options);
}

void xp_options_free(struct xp_options *options)
{
	xp_option_triggers_free(&options->triggers);
	free(options->pids.pids);
	free(options->functions.texts);
	free(options->usdt.texts);
	free(options->requests.texts);
	free(options->comms.texts);
	free(options->labels.texts);
	options->pids = (struct xp_pid_list){ 0 };
	options->functions = (struct xp_text_list){ 0 };
	options->usdt = (struct xp_text_list){ 0 };
	options->requests = (struct xp_text_list){ 0 };
	options->comms = (struct xp_text_list){ 0 };
	options->labels = (struct xp_text_list){ 0 };
}
