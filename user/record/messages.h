/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The messages of a recording: announcements before it begins, and reports of failures with the remedy and the exit
 * code. The messages at its end are in summary.c.
 */
#ifndef XPROF_RECORD_MESSAGES_H
#define XPROF_RECORD_MESSAGES_H

#include <stddef.h>

struct xp_cost_seen;
struct xp_flight_log;
struct xp_process;
struct xp_recording;

/* Reports a failure once: prints the stored message (why.h) or the text of the errno. Returns the exit code. */
int xp_failure_report(int err, const char *doing);
int xp_failure_exit_code(int err);
/* Returns the remedy for an error of storage, to end a message with: "; make space there ...", or "". */
const char *xp_failure_remedy(int err);

/* Prints to stdout what a recording would attach. */
void xp_announce_dry_run(const struct xp_recording *recording);
void xp_announce_forecast(const struct xp_recording *recording);
/* Warns that recording costs the targets much CPU time, with the remedy. */
void xp_announce_cost(const struct xp_recording *recording, const struct xp_cost_seen *seen);
/* Reports a log of a flight recorder. arg: the recording. */
void xp_announce_flight(void *arg, const struct xp_process *process, const struct xp_flight_log *log);
/* Prints to stderr what is recorded, and until when. */
void xp_announce(const struct xp_recording *recording);

#endif
