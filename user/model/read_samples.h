/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes a model of the samples and waits, or of the calls, of a recording. perf.data has the thread, the CPU and the
 * time of each sample; the jitdumps have the JIT functions at that time. Gperftools profiles without a recording, or of
 * other programs, distinguish only processes.
 */
#ifndef XPROF_MODEL_READ_SAMPLES_H
#define XPROF_MODEL_READ_SAMPLES_H

#include "model/facts.h"
#include "model/model.h"
#include "model/recorded.h"
#include "model/select.h"

/* What to read. */
struct xp_model_source {
	const struct xp_recorded *recorded;
	const char *directory; /* of perf.data, the jitdumps, the logs and the manifest; NULL: profiles and all logs */
	const struct xp_facts *facts;
	uint64_t offset_ns; /* of a part: when it began, since the first one, to which all times relate */
	const struct xp_select *select;
	const char *instr_map; /* the file with the functions of all logs, see objects.h; NULL: none */
	bool full_names;       /* as in struct xp_model */
};

/* The source of one of the directories in all->recorded, whose parts follow each other: with its time among them. */
struct xp_model_source xp_model_source_part(const struct xp_model_source *all, size_t directory);

/* Fills in what is known of the recording as a whole. */
void xp_model_describe(struct xp_model *model, const struct xp_model_source *source);

/*
 * Adds samples to an initialized model, and waits if it keeps them, and names them. Reports a malformed part, uses the
 * records before the error, and sets *broken. Returns 0 or -errno: -ENOMEM, -EAGAIN, or -ENODATA, after a message, if
 * the selection needs threads or times and there is no perf.data.
 */
int xp_model_read_samples(struct xp_model *model, const struct xp_model_source *source, bool *broken);

/*
 * Like xp_model_read_samples(), for the calls in the FDR logs of a recording: for each stack of open calls, the number
 * of calls of its innermost function, and their time without their callees. Never returns -ENODATA.
 *
 * Calls without an exit are counted, but have no time. With a time window, calls that begin in the window are counted,
 * and the time is that of all calls inside the window.
 *
 * Memory: the model and that of log_walk.h, independent of the length of the logs.
 */
int xp_model_read_calls(struct xp_model *model, const struct xp_model_source *source, bool *broken);

/*
 * Adds the selected samples of all gperftools profiles to the model, up to the first error in each. *broken: a profile
 * could not be read, which was reported. Returns 0 or -ENOMEM.
 */
int xp_gperf_samples_add(struct xp_model *model, const struct xp_model_source *source, bool *broken);

/*
 * Joins all kernel threads into one process, as the manifest counts them. Without a manifest, no process is known to be
 * a kernel thread. Returns 0 or -ENOMEM.
 */
int xp_model_join_kernel_threads(struct xp_model *model, const struct xp_facts *facts);

#endif
