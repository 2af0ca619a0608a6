/* SPDX-License-Identifier: BSD-2-Clause */
/* The log of a process: its spool, and the files that are made of it in the end. For process.c and process_flight.c. */
#ifndef XPROF_PROCESS_LOG_H
#define XPROF_PROCESS_LOG_H

#include "trace/process.h"

/* Stores a thread's chunk. 0 or the first error, which is kept in process->error. */
int xp_process_spool_chunk(struct xp_process *process, struct xp_thread *thread);
/* Makes the files, when all threads are over. The same. */
int xp_process_finish_log(struct xp_process *process);

/* For the making of a log; the name is left out. Borrows from the process. */
struct xp_spool_info xp_process_spool_info(const struct xp_process *process);
/* Makes the side ELF where the log needs one. */
int xp_process_name_functions(struct xp_process *process);

#endif
