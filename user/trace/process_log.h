/* SPDX-License-Identifier: BSD-2-Clause */
/* The log of a process: its spool, and the files made of it at the end. For process.c and process_flight.c. */
#ifndef XPROF_TRACE_PROCESS_LOG_H
#define XPROF_TRACE_PROCESS_LOG_H

#include "trace/process.h"

/* Stores a thread's chunk. Returns 0 or the first error, which is kept in process->error. */
int xp_process_spool_chunk(struct xp_process *process, struct xp_thread *thread);
/* Makes the files, after all threads have ended. Returns the same. */
int xp_process_finish_log(struct xp_process *process);

/* The description of a log, except its name. Borrows from the process. */
struct xp_log_info xp_process_log_info(const struct xp_process *process);
/* Writes the side ELF if the log needs one. */
int xp_process_name_functions(struct xp_process *process);

#endif
