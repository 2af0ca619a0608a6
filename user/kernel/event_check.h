/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether a record of a ring can be believed to be whole. Whoever reads records checks each once, before anything else:
 * a part of them may come from memory that a target can write.
 */
#ifndef XPROF_REC_CHECK_H
#define XPROF_REC_CHECK_H

#include <stddef.h>

#include "xprof/event.h"

/*
 * 0; -EBADMSG: it has no kind, is shorter than its kind and its own counts ask for, has more of something than there
 * can be, or a text that does not end.
 */
int xp_rec_check(const struct xp_rec *rec, size_t size);

#endif
