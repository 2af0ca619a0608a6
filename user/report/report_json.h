/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes all rows of a report as JSON, without a limit; xprof-formats(5) documents it. */
#ifndef XPROF_REPORT_REPORT_JSON_H
#define XPROF_REPORT_REPORT_JSON_H

#include <stdio.h>

#include "model/tree.h"
#include "report/report.h"

/* Increase this when a member changes its meaning or is removed. */
#define XP_REPORT_JSON_VERSION 1

/* Writes the tables. ferror(out) reports errors. */
void xp_report_json(FILE *out, const struct xp_report_tables *tables, const struct xp_recorded *recorded);
/* Writes a tree. callers: the glob of --callers; NULL: not given. */
void xp_report_json_tree(FILE *out, const struct xp_model *model, const struct xp_model_tree *tree,
			 enum xp_model_group by, const char *callers);

#endif
