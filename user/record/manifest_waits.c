// SPDX-License-Identifier: BSD-2-Clause
/* The waits of a recording (--off-cpu), in manifest.json. */
#include "record/manifest_parts.h"

static json_t *thread_value(const void *arg, size_t index)
{
	const struct xp_wait_sum *sum = (const struct xp_wait_sum *)arg + index;
	uint64_t off_ns = sum->blocked_ns + sum->runnable_ns;
	struct section section = begin();

	put_number(&section, "pid", (uint64_t)sum->pid);
	put_number(&section, "tid", (uint64_t)sum->tid);
	put_number(&section, "image", sum->image);
	put_text(&section, "name", sum->comm);
	put_number(&section, "waits", sum->waits);
	put_number(&section, "missed", sum->missed);
	put_seconds(&section, "running_s", sum->span_ns - XP_MIN(off_ns, sum->span_ns));
	put_seconds(&section, "runnable_s", sum->runnable_ns);
	put_seconds(&section, "blocked_s", sum->blocked_ns);
	return done(&section);
}

/* The profiles of waits. Skips images without such a profile. */
static json_t *profiles_value(const struct xp_samples *samples)
{
	const struct xp_sampled_processes *processes = &samples->processes;
	size_t count = xp_perf_out_counts(samples->perf).bytes ? processes->image_count : 0;
	json_t *profiles = json_array();

	for (size_t i = 0; i < count; i++) {
		const struct xp_image *image = processes->images[i];
		char name[XP_FILE_PROFILE_BYTES];
		struct section section;

		if (!image->waits)
			continue;
		section = begin();
		put_number(&section, "pid", (uint64_t)image->pid);
		put_number(&section, "image", image->number);
		put_text(&section, "comm", image->comm);
		put_text(&section, "file", xp_sampled_profile_name(name, image, XP_WAIT_PROFILE_SUFFIX));
		put_number(&section, "waits", image->waits);
		append(&profiles, done(&section));
	}
	return profiles;
}

json_t *xp_manifest_waits_value(const struct xp_off_cpu *off_cpu)
{
	const struct xp_waits *waits = &off_cpu->waits;
	size_t threads = XP_MIN(waits->sum_count, (size_t)XP_MANIFEST_THREADS_MAX);
	struct section section = begin(), filtered = begin();
	struct xp_off_cpu_totals totals;

	xp_off_cpu_totals(off_cpu, &totals);
	put_number(&section, "seen", totals.seen);
	put_number(&section, "written", totals.written);
	put_number(&filtered, "shorter", totals.too_short);
	put_number(&filtered, "not_chosen", totals.skipped);
	put(&section, "filtered", done(&filtered));
	put_number(&section, "lost", totals.lost);
	put_number(&section, "missed", totals.missed);
	put_number(&section, "stacks_lost", off_cpu->counters.no_stack);
	put_number(&section, "sums_lost", off_cpu->counters.sums_lost);
	put_seconds(&section, "running_s", totals.span_ns - totals.blocked_ns - totals.runnable_ns);
	put_seconds(&section, "runnable_s", totals.runnable_ns);
	put_seconds(&section, "blocked_s", totals.blocked_ns);
	put(&section, "profiles", profiles_value(waits->samples));
	put_number(&section, "thread_count", totals.threads);
	put(&section, "threads", list(threads, thread_value, waits->sums));
	put_number(&section, "threads_omitted", waits->sum_count - threads);
	return done(&section);
}
