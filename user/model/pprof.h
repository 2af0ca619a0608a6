/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes a model of one of pprof's own profiles: of `xprof export --pprof`, or of another program. It has its names
 * already. It has calls if what is counted are "calls", and samples otherwise.
 */
#ifndef XPROF_MODEL_PPROF_H
#define XPROF_MODEL_PPROF_H

#include "model/model.h"
#include "model/select.h"

/* Whether this is a file with such a profile. */
bool xp_pprof_file_is_one(const char *path);

/*
 * The caller frees the model, also after an error. Of the selection, names and functions count. Returns 0 or -errno:
 * -EBADMSG if the file is malformed or counts nothing (already reported), -ENOMEM, or an error of open(2).
 */
int xp_model_read_pprof(struct xp_model *model, const char *path, const struct xp_select *select);

#endif
