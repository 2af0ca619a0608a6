/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The command line: one table of commands and one of options. getopt_long, --help, the man page and the shell
 * completions are all made from these tables, so they cannot disagree.
 */
#ifndef XPROF_OPTIONS_H
#define XPROF_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum xp_command {
	XP_CMD_RECORD,
	XP_CMD_REPORT,
	XP_CMD_LIST,
	XP_CMD_DUMP,
	XP_CMD_CHECK,
	XP_CMD_RECOVER,
	XP_CMD_RESTORE,
	XP_CMD_DOCTOR,
	XP_CMD_HELP,
	XP_CMD_VERSION,
	XP_COMMANDS, /* their number; in parsing also: none */
};

/* What stands behind the options. */
enum xp_operand_kind {
	XP_OPERAND_NONE,
	XP_OPERAND_FILE,
	XP_OPERAND_PROCESS,
	XP_OPERAND_COMMAND, /* of xprof */
	XP_OPERAND_CHILD,   /* a command to start */
};

struct xp_command_info {
	const char *name;
	const char *synopsis;	 /* what follows the name and the options */
	const char *summary;	 /* one line of `xprof help` */
	const char *description; /* a paragraph of `xprof help NAME` and the man page */
	unsigned int operands_min;
	unsigned int operands_max;
	enum xp_operand_kind operands;
};

enum xp_option_type {
	XP_OPTION_FLAG,	     /* bool */
	XP_OPTION_DURATION,  /* uint64_t in ns; a number without a unit is seconds */
	XP_OPTION_SIZE,	     /* uint64_t in bytes, a power of two, at least a page */
	XP_OPTION_NUMBER,    /* unsigned int, one of the choices */
	XP_OPTION_CHOICE,    /* int, the index of the choice */
	XP_OPTION_COUNT,     /* uint64_t, 1 or more; where `choices` is "max", that is UINT64_MAX */
	XP_OPTION_PERCENT,   /* double, 0.05 for 5%; above 0 and below 100% */
	XP_OPTION_FILE,	     /* const char * */
	XP_OPTION_DIRECTORY, /* const char * */
	XP_OPTION_TEXT,	     /* const char *, not empty */
	XP_OPTION_PIDS,	     /* struct xp_pid_list, adds to it */
	XP_OPTION_PATTERNS,  /* struct xp_text_list, adds to it */
};

struct xp_option {
	const char *name;
	char short_name;      /* 0: none */
	const char *argument; /* its name in help; NULL: takes none */
	const char *choices;  /* NUMBER and CHOICE: separated by '|' */
	enum xp_option_type type;
	unsigned int commands; /* 1u << enum xp_command, or'ed */
	size_t offset;	       /* of the member of struct xp_options that it sets */
	const char *group;     /* heading in help */
	const char *help;      /* a sentence */
};

struct xp_pid_list {
	pid_t *pids; /* each once, in the order given */
	size_t count;
};

struct xp_text_list {
	const char **texts;
	size_t count;
};

enum xp_uprobes {
	XP_UPROBES_AUTO,   /* multi where the kernel has it, single otherwise */
	XP_UPROBES_MULTI,  /* one BPF link for many offsets, Linux 6.6 */
	XP_UPROBES_SINGLE, /* one perf event per offset */
};

/* How far up user stacks are followed. */
enum xp_call_graph {
	XP_CALL_GRAPH_AUTO,  /* by unwind tables, where there are none by frame pointers */
	XP_CALL_GRAPH_FP,    /* by frame pointers */
	XP_CALL_GRAPH_DWARF, /* by unwind tables */
	XP_CALL_GRAPH_NONE,  /* not at all */
};

enum xp_sled_way {
	XP_SLED_WAY_PROBE, /* a uprobe on each sled */
	XP_SLED_WAY_PATCH, /* sleds patched from outside, uprobes on a stub */
	XP_SLED_WAY_AUTO,  /* patched where all that it takes is there */
};

/* Texts point into argv. What is not set is 0, false or NULL, except where a default is named. */
struct xp_options {
	enum xp_command command;
	bool help; /* handled by the parser: the command becomes help */
	bool verbose;
	bool quiet;

	/* record: exactly one target; restore: -p alone */
	struct xp_pid_list pids; /* -p */
	const char *exec_path;	 /* --exec: every process that runs this file */
	char **child_argv;	 /* -- CMD: NULL-terminated part of argv, NULL when not given */
	bool all;		 /* -a */
	uint64_t tid;		 /* -t: samples of this thread alone; 0: not given */
	bool follow;

	uint64_t duration_ns;	/* 0: until stopped */
	const char *output_dir; /* default xprof.out */
	bool dry_run;
	bool strict;

	bool no_sleds;
	bool no_samples;
	bool no_perf_data;
	bool no_compression;
	uint64_t hz;	  /* samples a second, default 99; UINT64_MAX: as many as the kernel allows */
	uint64_t period;  /* -c: events between samples, in place of hz; 0: not given */
	const char *cpus; /* -C: with -a, only these; NULL: all */
	enum xp_call_graph call_graph;
	bool jvm_attach; /* ask JVMs for perf maps */

	struct xp_text_list functions; /* --functions: globs in the order given, '!' in front excludes */
	unsigned int args;	       /* 0: only what entry sleds with arguments give; 1..6 */
	uint64_t min_duration_ns;      /* shorter calls are dropped; 0: none */
	unsigned int fdr_version;      /* 1 (default) or 5 */
	unsigned int jitdump_version;  /* 1 (default) or 2 */
	double max_overhead;	       /* share of the target's CPU time; 0: no matter */
	uint64_t flight_bytes;	       /* --flight: of each process's newest records; 0: all records, on disk */
	enum xp_uprobes uprobes;
	enum xp_sled_way sled_way; /* default: auto */
	uint64_t buffer_bytes;	   /* of each CPU's ring; 0: not given */

	/* report */
	uint64_t limit; /* rows of a table, default 30 */
	int sort;	/* enum xp_report_sort */
	bool lines;
	bool no_inlines;
	bool full_names;

	/* list */
	bool sleds;

	/* report, list, dump, check, recover, doctor, help */
	char **operands; /* part of argv */
	size_t operand_count;
};

extern const struct xp_command_info xp_command_table[XP_COMMANDS];
extern const struct xp_option xp_option_table[];
extern const size_t xp_option_count;

/*
 * Fills *options from argv. On a usage error (-EINVAL) the message is printed already. -ENOMEM is possible.
 * In every case the caller frees with xp_options_free(), which leaves argv alone.
 */
int xp_options_parse(struct xp_options *options, int argc, char **argv);
void xp_options_free(struct xp_options *options);

/* The command of this name, XP_COMMANDS when there is none. */
enum xp_command xp_command_find(const char *name);

/* Texts to values. 0, -EINVAL not of the form, -ERANGE too large. */
int xp_duration_parse(const char *text, uint64_t *ns);
int xp_size_parse(const char *text, uint64_t *bytes);

#endif
