// SPDX-License-Identifier: BSD-2-Clause
/* The table of commands: options.h. */
#include <limits.h>

#include "options.h"

const struct xp_command_info xp_command_table[XP_COMMANDS] = {
	[XP_CMD_RECORD] = {
		.name = "record",
		.synopsis = "(-p PID|NAME[,...] | -t TID | -a | --exec PATH | -- CMD [ARG...])",
		.summary = "record function calls and samples of running processes",
		.description = "Samples the target and, if it was built with -fxray-instrument, records each call "
			       "of its functions. The recording ends after --duration, when the target ends, or at "
			       "the first SIGINT or SIGTERM; a second signal, at least a second later, aborts it. "
			       "xprof report, go tool pprof, perf and llvm-xray read the files.",
		.operands_max = UINT_MAX,
		.operands = XP_OPERAND_CHILD,
	},
	[XP_CMD_REPORT] = {
		.name = "report",
		.synopsis = "[DIR|FILE...]",
		.summary = "show the top functions of a recording",
		.description = "Prints a table of functions for each process: samples in the function itself "
			       "(Flat), samples that include its callees (Cum), and its recorded calls with their "
			       "time, callees included. Reads a recording, by default xprof.out, gperftools "
			       "profiles and FDR logs; of a directory of record --rotate, all recordings, or those "
			       "of a time in UTC: DIR@14:00..14:10.",
		.operands_min = 1,
		.operands_max = UINT_MAX,
		.operands = XP_OPERAND_FILE,
		.reads_recordings = true,
	},
	[XP_CMD_EXPORT] = {
		.name = "export",
		.synopsis = "[DIR|FILE]",
		.summary = "write a recording for flame graphs and other viewers",
		.description = "Writes the samples, calls or waits of a recording in formats of other programs. "
			       "The files contain all names, so they can be read on any machine. Reads a "
			       "recording, by default xprof.out, a gperftools profile or an FDR log; of a "
			       "directory of record --rotate, the sum of all recordings, or of a time in UTC: "
			       "DIR@14:00..14:10.",
		.operands_min = 1,
		.operands_max = 1,
		.operands = XP_OPERAND_FILE,
		.reads_recordings = true,
	},
	[XP_CMD_VIEW] = {
		.name = "view",
		.synopsis = "[DIR]",
		.summary = "show a recording in a browser",
		.description = "Writes recording.html, the page of export --format html, to the directory of the "
			       "recording, by default xprof.out, and opens it in a browser. With sudo, this is the "
			       "browser of the user who ran sudo. Without a display, prints the path of the page.",
		.operands_min = 1,
		.operands_max = 1,
		.operands = XP_OPERAND_FILE,
		.reads_recordings = true,
	},
	[XP_CMD_EXPLAIN] = {
		.name = "explain",
		.synopsis = "[DIR]",
		.summary = "show why the slowest calls of a recording were slow",
		.description = "Finds the functions that handle requests, and groups their slow calls by cause. Then "
			       "shows contended locks, the slowest calls with callers, callees and waits, and what "
			       "slow calls have in common. If the recording has no calls, explains threads by "
			       "their waits and samples. "
			       "DIR is xprof.out by default.",
		.operands_min = 1,
		.operands_max = 1,
		.operands = XP_OPERAND_FILE,
		.reads_recordings = true,
	},
	[XP_CMD_DIFF] = {
		.name = "diff",
		.synopsis = "[[A] B]",
		.summary = "show what changed between two recordings",
		.description = "Prints which functions grew or shrank from A to B, in ms per second of CPU time, "
			       "and which of these changes are within the noise of sampling. Reads directories of "
			       "recordings, or their files; of a directory of record --rotate, all recordings, or "
			       "those of a time in UTC: DIR@yesterdayT14:00..14:10. Without A, compares xprof.out "
			       "with B; without both, xprof.out.old with xprof.out.",
		.operands_min = 2,
		.operands_max = XP_RECORDINGS_MAX,
		.operands = XP_OPERAND_FILE,
		.reads_recordings = true,
	},
	[XP_CMD_LIST] = {
		.name = "list",
		.synopsis = "PID|NAME|FILE...",
		.summary = "list the functions whose calls can be recorded, and how",
		.description = "Prints ID, address, sleds and name of each function with sleds. For a file without "
			       "sleds, prints the functions and how their calls could be recorded: by jumps patched "
			       "into their code, or by probes. Then it prints the USDT probes. A number is a PID; write ./NUMBER for a file with this name. If "
			       "there is no file NAME, lists the process with this name, as -p NAME of record does.",
		.operands_min = 1,
		.operands_max = UINT_MAX,
		.operands = XP_OPERAND_FILE,
	},
	[XP_CMD_RECOVER] = {
		.name = "recover",
		.synopsis = "DIR...",
		.summary = "recover the files of an interrupted recording",
		.description = "Makes the final files of a recording that ended without them because xprof was "
			       "killed or the disk was full. After a kill, up to a second of calls is missing.",
		.operands_min = 1,
		.operands_max = UINT_MAX,
		.operands = XP_OPERAND_FILE,
	},
	[XP_CMD_RESTORE] = {
		.name = "restore",
		.synopsis = "-p PID|NAME[,...]",
		.summary = "restore the sleds of a process after xprof was killed",
		.description = "Restores patched sleds that call an empty function because xprof was killed, and "
			       "removes breakpoints that it left. The next recording of the process does the same.",
	},
	[XP_CMD_DOCTOR] = {
		.name = "doctor",
		.synopsis = "[PID]",
		.summary = "show what this machine can record and how to enable the rest",
		.description = "Checks privileges, kernel, BPF, clock and memory limits. With PID, also checks "
			       "whether this process can be recorded.",
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
