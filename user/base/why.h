/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Why something has failed: a sentence about an error, set where the error occurs and printed where it is reported.
 * Each thread has one, that of its newest error.
 */
#ifndef XPROF_BASE_WHY_H
#define XPROF_BASE_WHY_H

#include <stdbool.h>

/* Sets the sentence. The arguments may include the one before. Returns err. */
int xp_why_set(int err, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Whether there is a sentence about this error. */
bool xp_why_has(int err);
/* That sentence, or else strerror(-err). Valid until the next error of this thread. */
const char *xp_why(int err);
/* The error has been handled: it does not explain a later one. */
void xp_why_clear(void);

#endif
