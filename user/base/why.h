/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Error messages: a sentence with the reason of an error, set where the error occurs and printed where it is reported.
 * Each thread keeps the sentence of its newest error.
 */
#ifndef XPROF_BASE_WHY_H
#define XPROF_BASE_WHY_H

#include <stdbool.h>

/* Sets the sentence. The arguments may include the previous sentence. Returns err. */
int xp_why_set(int err, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Returns whether the sentence is about this error. */
bool xp_why_has(int err);
/* Returns the sentence about this error, or else strerror(-err). Valid until the next error of this thread. */
const char *xp_why(int err);
/* Clears the sentence: the error has been handled. */
void xp_why_clear(void);

#endif
