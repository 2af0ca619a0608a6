/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The command line: one table of commands and one of options. getopt_long, --help, the man page and the shell
 * completions all use these tables, so they cannot disagree.
 */
#ifndef XPROF_OPTIONS_H
#define XPROF_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "model/moment.h"

enum xp_command {
	XP_CMD_RECORD,
	XP_CMD_REPORT,
	XP_CMD_EXPORT,
	XP_CMD_VIEW,
	XP_CMD_EXPLAIN,
	XP_CMD_DIFF,
	XP_CMD_LIST,
	XP_CMD_RECOVER,
	XP_CMD_RESTORE,
	XP_CMD_DOCTOR,
	XP_CMD_HELP,
	XP_CMD_VERSION,
	XP_COMMANDS, /* their number; during parsing also: no command */
};

#define XP_RECORDING_DEFAULT "xprof.out"
/* Maximum number of recordings with defaults: two for diff. */
#define XP_RECORDINGS_MAX 2

/* The arguments after the options. */
enum xp_operand_kind {
	XP_OPERAND_NONE,
	XP_OPERAND_FILE,
	XP_OPERAND_PROCESS,
	XP_OPERAND_COMMAND, /* a command of xprof */
	XP_OPERAND_CHILD,   /* a command to start */
};

struct xp_command_info {
	const char *name;
	const char *synopsis;	 /* arguments after the name and the options */
	const char *summary;	 /* one line of `xprof help` */
	const char *description; /* a paragraph of `xprof help NAME` and the man page */
	unsigned int operands_min;
	unsigned int operands_max;
	enum xp_operand_kind operands;
	bool reads_recordings; /* a missing operand is xprof.out; if diff lacks both, the first is xprof.out.old */
};

enum xp_option_type {
	XP_OPTION_FLAG,		     /* bool */
	XP_OPTION_DURATION,	     /* uint64_t in ns; a number without a unit is in seconds */
	XP_OPTION_MOMENT,	     /* struct xp_moment: a time of day, or of the recording */
	XP_OPTION_OPTIONAL_DURATION, /* struct xp_optional_duration; the value may be omitted */
	XP_OPTION_TIME_OR_BYTES,     /* struct xp_time_or_bytes: a duration, or a size from 1M on */
	XP_OPTION_SIZE,		     /* uint64_t in bytes, a power of two, at least a page */
	XP_OPTION_BYTES,	     /* uint64_t, at least 1M */
	XP_OPTION_NUMBER,	     /* unsigned int, one of the choices */
	XP_OPTION_CHOICE,	     /* int, the index of the choice */
	XP_OPTION_LIST,		     /* unsigned int, 1u << the index of each choice in a comma-separated list */
	XP_OPTION_COUNT,	     /* uint64_t, 1 or more; if `choices` is "max", that means UINT64_MAX */
	XP_OPTION_PERCENT,	     /* double, 0.05 for 5%; above 0 and below 100% */
	XP_OPTION_FILE,		     /* const char * */
	XP_OPTION_DIRECTORY,	     /* const char * */
	XP_OPTION_TEXT,		     /* const char *, not empty */
	XP_OPTION_PIDS,		     /* struct xp_pid_list; each use adds to it */
	XP_OPTION_PROCESSES,	     /* the same; a name represents the one process that has it */
	XP_OPTION_PATTERNS,	     /* struct xp_text_list; each use adds to it */
	XP_OPTION_TEXTS,	     /* struct xp_text_list; each use adds to it */
	XP_OPTION_TRIGGERS,	     /* struct xp_trigger_list; each use adds to it */
};

struct xp_option {
	const char *name;
	char short_name;      /* 0: none */
	const char *argument; /* name in help; NULL: no argument */
	const char *choices;  /* NUMBER, CHOICE and LIST: separated by '|'; SIZE: the smallest, NULL: 4K */
	enum xp_option_type type;
	unsigned int commands; /* 1u << enum xp_command, or'ed */
	size_t offset;	       /* offset of its member in struct xp_options */
	const char *group;     /* heading in help */
	const char *help;      /* one or two sentences */
};

struct xp_pid_list {
	pid_t *pids; /* without duplicates, in the order given */
	size_t count, room;
};

struct xp_optional_duration {
	bool given;
	uint64_t ns; /* 0: without a value */
};

/* An amount of time or of data. */
struct xp_time_or_bytes {
	bool given;
	uint64_t ns;	/* 0: an amount of data */
	uint64_t bytes; /* 0: an amount of time */
};

struct xp_text_list {
	const char **texts;
	size_t count, room;
};

/* --trigger 'GLOB>TIME' */
struct xp_trigger_option {
	const char *text; /* value of the option */
	char *glob;	  /* owned */
	uint64_t above_ns;
};

#define XP_TRIGGERS_MAX 64
#define XP_TRIGGER_LIMIT_MAX 3600

struct xp_trigger_list {
	struct xp_trigger_option *list; /* the shortest time first */
	size_t count;			/* at most XP_TRIGGERS_MAX */
};

enum xp_uprobes {
	XP_UPROBES_AUTO,   /* multi if the kernel has it, otherwise single */
	XP_UPROBES_MULTI,  /* one BPF link for many offsets, Linux 6.6 */
	XP_UPROBES_SINGLE, /* one perf event per offset */
};

/* How user stacks are unwound. */
enum xp_call_graph {
	XP_CALL_GRAPH_AUTO,  /* unwind tables, or frame pointers for code without tables */
	XP_CALL_GRAPH_FP,    /* frame pointers */
	XP_CALL_GRAPH_DWARF, /* unwind tables */
	XP_CALL_GRAPH_NONE,  /* no callers */
};

enum xp_call_mode_option {
	XP_CALL_MODE_OPTION_PROBE,  /* a uprobe on each sled */
	XP_CALL_MODE_OPTION_PATCH,  /* sleds patched from outside, uprobes on a stub */
	XP_CALL_MODE_OPTION_MEMORY, /* patched sleds whose calls are recorded in memory */
	XP_CALL_MODE_OPTION_AUTO,   /* the cheapest mode that works */
};

/* In the order of enum xp_export_format. */
enum xp_format_option {
	XP_FORMAT_PPROF,
	XP_FORMAT_FOLDED,
	XP_FORMAT_HTML,
	XP_FORMAT_PERFETTO,
};

/* How an export or a report groups samples. */
enum xp_by_option {
	XP_BY_OPTION_PROCESS,
	XP_BY_OPTION_THREAD,
	XP_BY_OPTION_COMM,
	XP_BY_OPTION_CPU,
	XP_BY_OPTION_NONE,
	XP_BY_OPTION_CGROUP,
};

/* The value that `xprof diff` compares and sorts by. */
enum xp_diff_sort_option {
	XP_DIFF_SORT_OPTION_FLAT,
	XP_DIFF_SORT_OPTION_CUM,
};

/* Strings point into argv. Members are 0, false or NULL by default, unless a comment gives another default. */
struct xp_options {
	enum xp_command command;
	bool help; /* the parser handles it and changes the command to help */
	bool bare; /* no command was given; the command becomes help */
	bool verbose;
	bool quiet;

	/* record: exactly one target; restore: only -p */
	struct xp_pid_list pids; /* -p */
	const char *exec_path;	 /* --exec: every process that runs this file */
	char **child_argv;	 /* -- CMD: NULL-terminated part of argv; NULL: not given */
	bool all;		 /* -a */
	uint64_t tid;		 /* -t: sample this thread only; 0: not given */
	bool follow;

	uint64_t duration_ns;		/* 0: until stopped */
	const char *output_dir;		/* default xprof.out; with rotate, the directory of the parts */
	struct xp_time_or_bytes rotate; /* --rotate: when a part ends */
	struct xp_time_or_bytes keep;	/* --keep: older parts are deleted */
	bool dry_run;
	bool strict;

	bool no_sleds;
	bool no_samples;
	bool compress;
	bool no_compression;
	bool switch_events;
	struct xp_optional_duration off_cpu; /* --off-cpu: minimum length of a wait */
	uint64_t hz;	  /* samples per second, default 99; UINT64_MAX: as many as the kernel allows */
	uint64_t period;  /* -c: events between samples, instead of hz; 0: not given */
	const char *cpus; /* -C: with -a, the CPUs to sample; NULL: all */
	enum xp_call_graph call_graph;
	bool jvm_attach; /* request perf maps from JVMs */

	struct xp_text_list usdt;      /* [OBJECT:]PROVIDER:NAME, each with globs */
	struct xp_text_list functions; /* --functions: globs in the order given; a leading '!' excludes */
	struct xp_text_list requests;  /* --request: globs in the order given */
	/* arguments to record, 1..6; 0: only arguments of entry sleds that have arguments */
	unsigned int args;
	uint64_t min_duration_ns; /* shorter calls are discarded; 0: none */
	unsigned int fdr_version; /* 1 (default) or 5 */
	double max_overhead;	  /* share of the target's CPU time; 0: no limit */
	/* --flight: memory for the newest records of each process; 0: xprof writes all records to disk */
	uint64_t flight_bytes;
	struct xp_trigger_list triggers; /* --trigger, with --flight only */
	uint64_t trigger_limit; /* logs per minute that triggers cause, default 6, at most XP_TRIGGER_LIMIT_MAX */
	enum xp_uprobes uprobes;
	enum xp_call_mode_option call_mode; /* default: auto */
	uint64_t buffer_bytes;		    /* ring buffer of each CPU; 0: not given */
	uint64_t max_bytes;		    /* --max-size of the recording; 0: the default */

	unsigned int formats; /* export these formats: 1u << enum xp_format_option, or'ed */
	bool open;	      /* show the page in a browser */

	const char *push;	    /* ENGINE=URL, not checked; NULL: not given */
	const char *push_auth;	    /* NULL: not given */
	struct xp_text_list labels; /* NAME=VALUE, not checked */

	/* report, export, explain, diff */
	struct xp_moment times[2]; /* --from and --to */

	/* report */
	uint64_t limit; /* rows of a table, default 30 */
	int sort;	/* enum xp_report_sort */
	bool lines;
	bool no_inlines;
	bool full_names;
	bool tree;	       /* report also uses calls and by */
	const char *callers;   /* glob; NULL: not given */
	const char *instr_map; /* file with the functions of a log; NULL: not given */

	/* export, which also uses pids, tid, functions, formats and full_names */
	bool calls;		   /* calls instead of samples */
	bool waits;		   /* --off-cpu of other commands than record: waits instead of samples */
	const char *export_path;   /* -o; "-": standard output; NULL: a file in the directory of the recording */
	struct xp_text_list comms; /* --comm: globs */
	int by;			   /* enum xp_by_option; -1, the default: depends on the format */
	bool debuginfod;

	/* explain, which also uses functions, full_names and instr_map */
	uint64_t slowest;  /* number of calls to show; 0: not given */
	uint64_t above_ns; /* explain only longer calls; 0: all */
	double tail;	   /* shares of calls; 0: not given */
	double against;
	bool json; /* also of report, diff and list */

	/* diff, which also uses comms, export_path, limit, full_names and instr_map */
	bool folded;
	bool html;
	bool normalize;
	bool wall;
	int diff_sort; /* enum xp_diff_sort_option */

	/* list */
	bool sleds;

	/* report, export, view, explain, diff, list, recover, doctor, help */
	char **operands; /* part of argv, or recordings */
	size_t operand_count;
	char *recordings[XP_RECORDINGS_MAX]; /* the operands, including defaults */
};

extern const struct xp_command_info xp_command_table[XP_COMMANDS];
extern const struct xp_option xp_option_table[];
extern const size_t xp_option_count;

/*
 * Fills *options from argv. Returns 0 or -errno: -EINVAL on a usage error, which is already printed, or -ENOMEM. The
 * caller always calls xp_options_free(), which does not touch argv.
 */
int xp_options_parse(struct xp_options *options, int argc, char **argv);
void xp_options_free(struct xp_options *options);

/* Returns the command of this name, or XP_COMMANDS. */
enum xp_command xp_command_find(const char *name);

/* Parse a value. Return 0 or -errno: -EINVAL if the text is malformed, -ERANGE if the value is too large. */
int xp_duration_parse(const char *text, uint64_t *ns);
int xp_size_parse(const char *text, uint64_t *bytes);

#endif
