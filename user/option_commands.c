// SPDX-License-Identifier: BSD-2-Clause
/* The table of commands: options.h. */
#include <limits.h>

#include "options.h"

const struct xp_command_info xp_command_table[XP_COMMANDS] = {
	[XP_CMD_RECORD] = {
		.name = "record",
		.synopsis = "(-p PID|NAME[,...] | -t TID | -a | --exec PATH | -- CMD [ARG...])",
		.summary = "record function calls and samples of running processes",
		.description = "Samples the target and writes one gperftools CPU profile per process and one "
			       "perf.data for all of them. If a target is built with -fxray-instrument, xprof also "
			       "attaches to its XRay sleds and writes every call to an FDR log. The recording ends "
			       "after --duration, when the target ends, or at the first SIGINT or SIGTERM. A "
			       "second signal, at least a second later, aborts it.",
		.operands_max = UINT_MAX,
		.operands = XP_OPERAND_CHILD,
	},
	[XP_CMD_REPORT] = {
		.name = "report",
		.synopsis = "[DIR|FILE...]",
		.summary = "show the top functions of a recording",
		.description = "Prints a table of functions for each process: samples in the function itself "
			       "(Flat), samples that include its callees (Cum), and the calls that its sleds "
			       "counted with their time, callees included. Takes the directory of a recording, "
			       "xprof.out by default, gperftools profiles and FDR logs.",
		.operands_min = 1,
		.operands_max = UINT_MAX,
		.operands = XP_OPERAND_FILE,
		.reads_recordings = true,
	},
	[XP_CMD_EXPORT] = {
		.name = "export",
		.synopsis = "[DIR|FILE]",
		.summary = "write a recording for flame graphs and other viewers",
		.description = "Writes the samples, the calls or the waits of a recording in formats that other programs read, with the names "
			       "of all functions in them, so that they can be read on any machine. Takes the directory "
			       "of a recording, xprof.out by default, one gperftools profile or one FDR log.",
		.operands_min = 1,
		.operands_max = 1,
		.operands = XP_OPERAND_FILE,
		.reads_recordings = true,
	},
	[XP_CMD_VIEW] = {
		.name = "view",
		.synopsis = "[DIR]",
		.summary = "show a recording in a browser",
		.description = "Writes recording.html, the page that export --format html makes of a recording, into its "
			       "directory, xprof.out by default. Opens the page in the browser, under sudo that of the "
			       "user who ran sudo. Without a display, prints the path of the page.",
		.operands_min = 1,
		.operands_max = 1,
		.operands = XP_OPERAND_FILE,
		.reads_recordings = true,
	},
	[XP_CMD_EXPLAIN] = {
		.name = "explain",
		.synopsis = "[DIR]",
		.summary = "tell why the slowest calls of a recording were slow",
		.description = "Shows the slowest calls of a function: when, where and by whom they were called, what "
			       "they called, when they ran and what they waited for; and what they have in common that "
			       "usual calls have not. Without calls in the recording, shows the longest waits. DIR is "
			       "xprof.out by default.",
		.operands_min = 1,
		.operands_max = 1,
		.operands = XP_OPERAND_FILE,
		.reads_recordings = true,
	},
	[XP_CMD_DIFF] = {
		.name = "diff",
		.synopsis = "[[A] B]",
		.summary = "show what has changed between two recordings",
		.description = "Prints which functions grew or shrank from A to B, in ms of each second of CPU time, and "
			       "which of these changes lie within the noise of sampling. Functions are the same if "
			       "their names and those of their files are, whatever their addresses. Takes directories "
			       "of recordings, or their files. Without A, compares xprof.out with B; without both, "
			       "xprof.out.old with xprof.out.",
		.operands_min = 2,
		.operands_max = XP_RECORDINGS_MAX,
		.operands = XP_OPERAND_FILE,
		.reads_recordings = true,
	},
	[XP_CMD_LIST] = {
		.name = "list",
		.synopsis = "PID|FILE...",
		.summary = "list the instrumented functions of a process or an ELF file",
		.description = "Prints the id, address, sleds and name of each instrumented function. A number "
			       "means a process; write ./NUMBER for a file whose name is a number.",
		.operands_min = 1,
		.operands_max = UINT_MAX,
		.operands = XP_OPERAND_FILE,
	},
	[XP_CMD_RECOVER] = {
		.name = "recover",
		.synopsis = "DIR...",
		.summary = "recover the files of a recording that was cut off",
		.description = "Writes the final files from the spools that a recording left in its directory when "
			       "xprof was killed or the disk was full. After a kill, up to a second of calls before it "
			       "is missing.",
		.operands_min = 1,
		.operands_max = UINT_MAX,
		.operands = XP_OPERAND_FILE,
	},
	[XP_CMD_RESTORE] = {
		.name = "restore",
		.synopsis = "-p PID|NAME[,...]",
		.summary = "restore the sleds of a process after xprof was killed",
		.description = "A recording with patched sleds restores them when it ends. If xprof is killed, the "
			       "sleds stay patched, and each calls an empty function. This command finds them from "
			       "the memory and the files of the process only. The next recording of the process "
			       "does the same. If the task that attaches probes was killed as well, breakpoints "
			       "may remain: this command removes them, too.",
	},
	[XP_CMD_DOCTOR] = {
		.name = "doctor",
		.synopsis = "[PID]",
		.summary = "show what this machine can record and how to enable the rest",
		.description = "Checks privileges, kernel, BPF, the clock and memory limits. With PID, also checks "
			       "whether that process can be recorded.",
		.operands_max = 1,
		.operands = XP_OPERAND_PROCESS,
	},
	[XP_CMD_HELP] = {
		.name = "help",
		.synopsis = "[COMMAND]",
		.summary = "explain a command",
		.description = "Without COMMAND, lists the commands.",
		.operands_max = 1,
		.operands = XP_OPERAND_COMMAND,
	},
	[XP_CMD_VERSION] = {
		.name = "version",
		.synopsis = "",
		.summary = "print the version",
		.description = "Prints the versions of xprof and of the libbpf that it uses.",
	},
};
