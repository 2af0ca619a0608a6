/* SPDX-License-Identifier: BSD-2-Clause */
/* The log of a process: its spool, and the files that are made from it at the end. */
#ifndef XPROF_TRACE_PROCESS_LOG_H
#define XPROF_TRACE_PROCESS_LOG_H

#include "elf/line_table.h"
#include "trace/spool.h"
#include "trace/thread.h"

struct xp_process_log {
	struct xp_spool *spool; /* from the first chunk or name until the log is made */
	char spool_name[64];	/* "": none yet */
	char name[64];		/* name of the finished log; "": none yet */
	uint64_t bytes;		/* size of the log, including holes */
	unsigned int version;
	int error;	      /* error of the spool or the files: the log is incomplete */
	char side_name[64];   /* name of the side ELF; "" if none is needed */
	uint64_t open_tsc;    /* start of the first call that was open when the part began; 0: none */
	size_t noted_objects; /* number of ranges whose objects are in the spool's notes */
};

/*
 * Call this for a flight recorder before it writes a log. Stores the functions and their IDs, for `recover` if xprof is
 * killed. The spool contains nothing else, and is removed at the end. An error is stored in process->log.error.
 */
void xp_process_spool_names(struct xp_process *process);
/* Stores a thread's chunk. Returns 0 or the first error, which is kept in process->log.error. */
int xp_process_spool_chunk(struct xp_process *process, struct xp_thread *thread);
/* Writes the files after all threads have ended. Returns 0 or the first error. */
int xp_process_finish_log(struct xp_process *process);

/* Describes a log, except its name. Borrows from the process. */
struct xp_log_info xp_process_log_info(const struct xp_process *process);
/* Writes the side ELF if the log needs one. */
int xp_process_name_functions(struct xp_process *process);
/* Writes the side ELF of a finished log again, with a line for each function ID of the log, from 1. */
int xp_process_add_lines(struct xp_process *process, const struct xp_source_line *lines);

#endif
