/* SPDX-License-Identifier: BSD-2-Clause */
/* Samples and their profiles, in manifest.json. */
#include "record/manifest_parts.h"

/* Samples with a user stack: seen = complete + all others. with_zeros: also list reasons with 0 samples. */
static json_t *stacks_value(const uint64_t *stacks, bool with_zeros)
{
	struct section section = begin();
	uint64_t seen = 0;

	for (int end = 0; end < XP_UNWIND_ENDS; end++)
		seen += stacks[end];
	put_number(&section, "seen", seen);
	for (int end = 0; end < XP_UNWIND_ENDS; end++)
		if (stacks[end] || end == XP_UNWIND_COMPLETE || with_zeros)
			put_number(&section, xp_unwind_end_key((enum xp_unwind_end)end), stacks[end]);
	return done(&section);
}

/* JIT code of an image, which is in no file. */
static json_t *jit_value(const struct xp_image *image)
{
	struct xp_jit_dump_out_counts dump = { 0 };
	const char *dump_name = xp_jit_dump(image->jit, &dump);
	struct section section = begin();

	put_number(&section, "functions", xp_jit_functions(image->jit));
	put_number(&section, "functions_refused", xp_jit_refused(image->jit));
	if (dump_name && dump.bytes)
		put_text(&section, "dump", dump_name);
	if ((dump_name && dump.bytes) || dump.functions_lost) {
		put_number(&section, "dump_functions", dump.functions);
		put_number(&section, "dump_functions_lost", dump.functions_lost);
	}
	return done(&section);
}

static json_t *profile_value(const struct xp_image *image, bool has_stacks)
{
	char name[XP_FILE_PROFILE_BYTES];
	struct section section = begin();

	put_number(&section, "pid", image->pid);
	put_number(&section, "image", image->number);
	put_text(&section, "comm", image->comm);
	if (image->cgroup)
		put_text(&section, "cgroup", image->cgroup);
	put_text(&section, "file", xp_sampled_profile_name(name, image, XP_PROFILE_SUFFIX));
	put_number(&section, "since_tsc", image->since_tsc);
	put_number(&section, "samples", image->samples);
	if (has_stacks)
		put(&section, "stacks", stacks_value(image->stacks, false));
	if (image->jit)
		put(&section, "jit", jit_value(image));
	return done(&section);
}

static json_t *profiles_value(const struct xp_sampling *sampling)
{
	const struct xp_samples *samples = &sampling->samples;
	size_t count = xp_sampling_has_file(sampling) ? samples->processes.image_count : 0;
	json_t *profiles = json_array();

	for (size_t i = 0; i < count; i++)
		append(&profiles, profile_value(samples->processes.images[i], samples->stacks));
	return profiles;
}

static json_t *binary_value(const struct xp_sym_binary *binary)
{
	const struct xp_elf_copied *copied = &binary->copied;
	struct section section = begin();

	put_text(&section, "path", binary->path);
	if (copied->build_id_bytes)
		put(&section, "build_id", hex_value(copied->build_id, copied->build_id_bytes));
	put_number(&section, "inode", binary->identity.inode);
	if (binary->sym_path)
		put_text(&section, "names", xp_sym_binary_name(binary));
	if (copied->has_code) {
		put_number(&section, "exec_vaddr", copied->exec_vaddr);
		put_number(&section, "exec_offset", copied->exec_offset);
	}
	if (copied->lacks_debug)
		put_bool(&section, "lacks_debug", true);
	return done(&section);
}

json_t *xp_manifest_binaries_value(const struct xp_recording *recording)
{
	const struct xp_sym_files *sym = recording->sampling.samples.sym_files;
	json_t *binaries = json_array();

	for (size_t i = 0; sym && i < xp_sym_files_count(sym); i++)
		append(&binaries, binary_value(xp_sym_files_get(sym, i)));
	return binaries;
}

/* The files in sym/ with names of code that is in no file. offset: start of a part of the kernel's code. */
json_t *xp_manifest_symbols_value(const struct xp_recording *recording)
{
	const struct xp_sym_files *sym = recording->sampling.samples.sym_files;
	struct section section = begin();
	json_t *kernel = json_array();

	for (unsigned int i = 0; sym && i < XP_KERNEL_WINDOWS; i++)
		if (xp_sym_files_kernel(sym, i))
			append(&kernel, json_pack("{s:I, s:s}", "offset", (json_int_t)(i * XP_KERNEL_WINDOW_BYTES),
						  "names", xp_sym_files_kernel(sym, i)));
	put(&section, "kernel", kernel);
	if (sym && xp_sym_files_vdso(sym))
		put_text(&section, "vdso", xp_sym_files_vdso(sym));
	return done(&section);
}

json_t *xp_manifest_samples_value(const struct xp_recording *recording, const struct xp_totals *totals)
{
	static const char *const call_graphs[] = { "auto", "fp", "dwarf", "none" };
	const struct xp_sampling *sampling = &recording->sampling;
	struct section section = begin();
	uint64_t stacks[XP_UNWIND_ENDS];

	put_text(&section, "event", xp_sampler_event(sampling->sampler));
	put_number(&section, "period_ns", xp_sampler_period_ns(sampling->sampler, recording->clock->hz));
	put_number(&section, "seen", totals->samples + totals->samples_lost);
	put_number(&section, "written", totals->samples);
	put_number(&section, "lost", totals->samples_lost);
	put_number(&section, "idle", totals->idle);
	put_number(&section, "switches", sampling->switches);
	put_number(&section, "switches_lost", totals->switches_lost);
	put_number(&section, "missed", totals->missed);
	if (recording->options->usdt.count) {
		put_number(&section, "usdt", totals->usdt);
		put_number(&section, "usdt_lost", totals->usdt_lost);
	}
	put_number(&section, "kernel", sampling->samples.kernel_samples);
	if (recording->options->all && xp_sampling_cpus(sampling))
		put_number(&section, "cpus", xp_sampling_cpus(sampling));
	put_number(&section, "sideband_lost", xp_sideband_lost(sampling->sideband));
	put_text(&section, "call_graph", call_graphs[recording->options->call_graph]);
	if (sampling->samples.stacks) {
		xp_samples_stacks(&sampling->samples, stacks);
		put(&section, "stacks", stacks_value(stacks, true));
	}
	put(&section, "profiles", profiles_value(sampling));
	return done(&section);
}
