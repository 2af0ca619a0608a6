/* SPDX-License-Identifier: BSD-2-Clause */
#include "record/recording.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "kernel/privilege.h"
#include "record/progress.h"
#include "base/util.h"

/* What may be spent on getting ready at least, however short the recording is to be. */
#define ATTACH_NS_MIN (10 * XP_NS_PER_S)

static uint64_t attach_limit_ns(const struct xp_options *options)
{
	return XP_MAX(options->duration_ns, ATTACH_NS_MIN);
}

static void show_attaching(void *progress, size_t probes)
{
	xp_progress_attaching(progress, probes);
}

/* It was told to end, or has taken too long, before there was anything to record. */
static void explain_end(struct xp_recording *rec)
{
	if (xp_interrupt_timed_out())
		snprintf(rec->why, sizeof(rec->why),
			 "attaching takes longer than %.0f s and was given up, nothing was recorded: choose functions "
			 "with --functions GLOB, or give a longer -d, which bounds attaching too",
			 attach_limit_ns(rec->options) / (double)XP_NS_PER_S);
	else
		snprintf(rec->why, sizeof(rec->why),
			 "stopped while attaching: nothing was recorded, and all that was attached is taken away");
}

static int attach(struct xp_recording *rec)
{
	struct xp_progress progress;
	int err = xp_setup_budget(rec);

	xp_progress_begin(&progress);
	if (rec->attach)
		xp_attach_on_batch(rec->attach, show_attaching, &progress);
	if (!err)
		err = xp_targets_attach(rec);
	if (rec->attach)
		xp_attach_on_batch(rec->attach, NULL, NULL);
	xp_progress_end(&progress);
	if (err == -ECANCELED)
		explain_end(rec);
	return err ? err : xp_targets_check(rec);
}

/* From the first probe to the last file. Sets *stored when there is something to keep in the output directory. */
static int record_all(struct xp_recording *rec, int signal_fd, bool *stored)
{
	struct xp_totals totals;
	int code = XP_EXIT_OK;
	int reserved_fd;
	int err = attach(rec);

	xp_interrupt_set_deadline(0);
	if (err)
		return xp_failure_report(rec, err, "cannot attach");
	xp_survey_forecast(rec);
	if (rec->options->dry_run) {
		xp_announce_dry_run(rec);
		return XP_EXIT_OK;
	}
	xp_announce(rec);
	rec->why[0] = 0;
	*stored = true;
	err = xp_run(rec, signal_fd);
	if (err)
		code = xp_failure_report(rec, err, "the recording was cut short");
	xp_finish_stop(rec);
	xp_run_unblock_signals();
	if (rec->with_sleds && !rec->with_samples && !rec->attached_count)
		xp_warn(
		    "nothing was recorded: no program with XRay sleds ran. `clang -fxray-instrument` builds them in");
	err = xp_finish_detach(rec);
	if (err && code == XP_EXIT_OK)
		code = xp_failure_report(rec, err, "the last records could not be read");
	reserved_fd = xp_summary_reserve(rec);
	err = xp_finish_files(rec);
	if (err && code == XP_EXIT_OK)
		code = xp_failure_exit_code(err);
	xp_recording_totals(rec, &totals);
	err = xp_summary_manifest(rec, &totals, reserved_fd);
	if (err) {
		xp_error("cannot write manifest.json: %s%s", strerror(-err), xp_failure_remedy(err));
		code = code == XP_EXIT_OK ? XP_EXIT_FAILED : code;
	}
	xp_summary_print(rec, &totals);
	if (code == XP_EXIT_OK && totals.lost + totals.samples_lost && rec->options->strict) {
		xp_error("%" PRIu64 " events were lost (--strict), and %" PRIu64 " samples", totals.lost,
			 totals.samples_lost);
		code = XP_EXIT_LOST;
	}
	return code;
}

static int record_in(struct xp_recording *rec, const struct xp_preflight *preflight)
{
	bool stored = false;
	int signal_fd = xp_run_block_signals(rec);
	int err, code;

	if (signal_fd < 0)
		return xp_failure_report(rec, signal_fd, "signalfd");
	if (rec->options->duration_ns)
		xp_interrupt_set_deadline(xp_now_ns() + attach_limit_ns(rec->options));
	err = xp_setup(rec, preflight);
	code = err ? xp_failure_report(rec, err, "cannot set up") : record_all(rec, signal_fd, &stored);
	code = xp_finish_launch(rec, code, stored);
	xp_setup_free(rec);
	close(signal_fd);
	if (!rec->options->dry_run && xp_outdir_close(&rec->outdir, stored) && code == XP_EXIT_OK)
		code = XP_EXIT_FAILED;
	return code;
}

/* Leaves sleds alone that take a capability which is not there; an error where nothing would be recorded then. */
static int check_sleds(struct xp_recording *rec, const struct xp_preflight *preflight)
{
	const struct xp_options *options = rec->options;
	bool single = options->uprobes == XP_UPROBES_SINGLE || !preflight->has_uprobe_multi;
	char why[256];
	int err = 0;

	if (!rec->with_sleds)
		return 0;
	if (single && !xp_privilege_has(CAP_SYS_ADMIN)) {
		snprintf(why, sizeof(why), "sleds take CAP_SYS_ADMIN%s",
			 preflight->has_uprobe_multi ? " with --uprobes single" : " before Linux 6.6");
		err = -EACCES;
	} else if (options->exec_path || options->follow) {
		err = xp_privilege_probe_all(why, sizeof(why));
	}
	if (!err)
		return 0;
	if (!rec->with_samples) {
		snprintf(rec->why, sizeof(rec->why), "%s; run xprof with sudo", why);
		return err;
	}
	rec->with_sleds = false;
	xp_info("sleds are left alone: %s", why);
	return 0;
}

int xp_record(const struct xp_options *options)
{
	struct xp_recording rec = {
		.options = options,
		.outdir.fd = -1,
		.with_sleds = !options->no_sleds && !options->all && !options->tid,
		.with_samples = !options->no_samples && !options->exec_path,
	};
	struct xp_preflight preflight;
	struct xp_short_text path;
	int code, err;

	xp_preflight_run(&preflight);
	code = xp_preflight_require(&preflight);
	if (code != XP_EXIT_OK)
		return code;
	err = check_sleds(&rec, &preflight);
	if (err)
		return xp_failure_report(&rec, err, "cannot trace");
	if (options->exec_path && stat(options->exec_path, &rec.exec_file)) {
		snprintf(rec.why, sizeof(rec.why), "--exec %s: %s", xp_short_text(&path, options->exec_path),
			 strerror(errno));
		return xp_failure_report(&rec, -errno, "--exec");
	}
	/* Targets that cannot be traced are refused before anything is written. */
	for (size_t i = 0; i < options->pids.count; i++) {
		struct xp_target_info info;

		err = xp_target_check(options->pids.pids[i], &info, rec.why, sizeof(rec.why));
		if (err)
			return xp_failure_report(&rec, err, "cannot trace");
	}
	err = xp_clock_open(&rec.clock);
	if (err)
		return xp_failure_report(&rec, err, "cannot set up the clock");
	if (!options->dry_run) {
		err = xp_outdir_open(&rec.outdir, options->output_dir, rec.why, sizeof(rec.why));
		if (err) {
			xp_clock_free(rec.clock);
			return xp_failure_report(&rec, err, "cannot make the output directory");
		}
	}
	return record_in(&rec, &preflight);
}
