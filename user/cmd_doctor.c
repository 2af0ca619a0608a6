// SPDX-License-Identifier: BSD-2-Clause
/* `xprof doctor`: shows what xprof can record on this machine and of a process, and how to enable the rest. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arch/x86_64/instructions.h"
#include "base/small_file.h"
#include "base/why.h"
#include "commands.h"
#include "elf/sled_table.h"
#include "kernel/attach.h"
#include "kernel/attach_samples.h"
#include "kernel/preflight.h"
#include "kernel/privilege.h"
#include "kernel/wait_programs.h"
#include "record/bpf_side.h"
#include "sled/patch_check.h"
#include "target/remote.h"
#include "target/target.h"

/* ---- the machine ---- */

static void print_checks(const struct xp_preflight *preflight)
{
	for (size_t i = 0; i < preflight->count; i++) {
		const struct xp_check_result *result = &preflight->results[i];

		xp_put_line(stdout, "%-9s %-14s %s", xp_check_state_name(result->state), result->name, result->detail);
		if (result->state == XP_CHECK_MISSING || result->state == XP_CHECK_DEGRADED)
			xp_put_line(stdout, "%-9s %-14s needed for %s%s%s", "", "", result->need,
				    result->remedy ? ": " : "", result->remedy ? result->remedy : "");
	}
}

/* Prints the privileges. A missing privilege is "missing" only if all recordings require it. */
static void print_privileges(void)
{
	putchar('\n');
	for (size_t i = 0; i < xp_privilege_count; i++) {
		const struct xp_privilege *privilege = &xp_privileges[i];
		const char *state = xp_privilege_has(privilege->capability) ? "ok"
				    : privilege->required		    ? "missing"
									    : "degraded";

		xp_put_line(stdout, "%-9s %-22s %s", state, privilege->name, privilege->use);
	}
}

/* ---- patched sleds ---- */

/* Returns whether ptrace is disabled for all users until the next boot. */
static bool is_ptrace_off(void)
{
	uint64_t scope;

	return !xp_small_file_number("/proc/sys/kernel/yama/ptrace_scope", &scope) && scope == 3;
}

/* Returns whether sleds can be patched. */
static bool print_patching(const struct xp_preflight *preflight)
{
	bool pokes;
	int err;

	if (!preflight->privileged) {
		xp_put_line(stdout, "%-9s %-14s %s", "untested", "patched sleds", "cannot be tested without privilege");
		return false;
	}
	if (is_ptrace_off()) {
		xp_put_line(stdout, "%-9s %-14s %s", "degraded", "patched sleds",
			    "kernel.yama.ptrace_scope is 3: sleds are probed");
		xp_put_line(stdout, "%-9s %-14s %s", "", "",
			    "needed to record sleds at low cost: changing it takes a reboot");
		return false;
	}
	if (!xp_privilege_has(CAP_CHECKPOINT_RESTORE)) {
		xp_put_line(stdout, "%-9s %-14s %s", "degraded", "patched sleds",
			    "CAP_CHECKPOINT_RESTORE is missing: sleds are probed");
		return false;
	}
	err = xp_remote_try(&pokes);
	if (err) {
		xp_put_line(stdout, "%-9s %-14s %s: sleds are probed", "degraded", "patched sleds", xp_why(err));
		return false;
	}
	xp_put_line(
	    stdout, "%-9s %-14s sleds call code with a few probes; xprof writes the calls %s", "ok", "patched sleds",
	    pokes ? "by ptrace, because the kernel forbids writes through /proc/PID/mem" : "through /proc/PID/mem");
	return true;
}

/* Prints whether memory mode works. */
static void print_memory(void)
{
	const struct xp_instructions instructions = xp_instructions_try();

	if (!instructions.rdfsbase) {
		xp_put_line(stdout, "%-9s %-14s %s", "degraded", "memory sleds", XP_NO_RDFSBASE);
		xp_put_line(stdout, "%-9s %-14s needed to record calls of patched sleds without the kernel", "", "");
		return;
	}
	xp_put_line(stdout, "%-9s %-14s rdfsbase%s: patched sleds record calls without the kernel", "ok",
		    "memory sleds", instructions.rdpid ? " and rdpid" : "");
}

/* ---- loading and attaching as record does ---- */

#define TRIAL_RING_BYTES (256u << 10)

struct trial {
	const struct xp_preflight *preflight;
	struct xp_bpf_side bpf;
};

/* A function to probe. xprof never calls it. */
static __attribute__((noinline, used)) void probed(void)
{
	__asm__ volatile("nop");
}

static int find_probed(uint64_t *offset)
{
	const uint64_t address = (uintptr_t)probed;
	struct xp_mappings mappings;
	int err = xp_mappings_read(&mappings, getpid());

	if (err)
		return err;
	err = -ENOENT;
	for (size_t i = 0; i < mappings.count && err; i++)
		if (address - mappings.list[i].start < mappings.list[i].end - mappings.list[i].start) {
			*offset = address - mappings.list[i].start + mappings.list[i].file_offset;
			err = 0;
		}
	xp_mappings_free(&mappings);
	return err;
}

static int attach_calls(struct trial *trial)
{
	const struct xp_programs *programs = &trial->bpf.programs;
	int fd = xp_open_format(O_RDONLY, "/proc/self/exe");
	struct xp_attach *attach = NULL;
	uint64_t offset;
	int err = XP_MIN(fd, 0) ?: xp_programs_attach_tasks(&trial->bpf.programs)
				  ?: find_probed(&offset)
				  ?: xp_attach_new(&attach, trial->preflight->has_uprobe_multi);

	if (!err)
		err = xp_attach_own_uprobe(attach, xp_programs_sled_fd(programs, XP_EVENT_ENTRY, false), fd, getpid(),
					   offset);
	xp_attach_free(attach);
	if (fd >= 0)
		close(fd);
	return err;
}

static int attach_samples(struct trial *trial)
{
	const struct xp_sampler_options options = { .program_fd = trial->bpf.programs.fds.sample, .hz = 99 };
	struct xp_sampler *sampler = NULL;
	int err = xp_programs_attach_tasks(&trial->bpf.programs)
			  ?: xp_programs_attach_switches(&trial->bpf.programs)
			  ?: xp_sampler_new(&sampler, &options)
			  ?: xp_sampler_add_thread(sampler, getpid());

	xp_sampler_free(sampler);
	return err;
}

static int attach_waits(struct trial *trial)
{
	const struct xp_wait_options options = { .programs = &trial->bpf.programs, .stacks = XP_STACKS_DUMP };
	struct xp_wait_programs waits = { 0 };
	int err = xp_wait_programs_open(&waits, &options) ?: xp_wait_programs_attach(&waits);

	xp_wait_programs_close(&waits);
	return err;
}

/* All options of record that change which BPF programs are loaded. */
#define TRIAL_SAMPLES                                                                                                  \
	.targets = 1, .tasks = true, .samples = true, .switches = true, .births = true, .stacks = XP_STACKS_DUMP

static const struct {
	const char *name;
	const char *ok;
	enum xp_check_state state; /* result if the trial fails */
	struct xp_programs_options options;
	int (*attach)(struct trial *trial);
} trials[] = {
	{ "calls",
	  "uprobes and tracepoints load and attach",
	  XP_CHECK_MISSING,
	  { .targets = 1,
	    .tasks = true,
	    .sleds = true,
	    .stub = true,
	    .threads = true,
	    .args = XP_ARGS_MAX,
	    .only_targets = true,
	    .follow_children = true },
	  attach_calls },
	{ "samples",
	  "perf events and tracepoints load and attach",
	  XP_CHECK_MISSING,
	  { TRIAL_SAMPLES },
	  attach_samples },
	{ "waits",
	  "the scheduler's tracepoints load and attach, for record --off-cpu",
	  XP_CHECK_DEGRADED,
	  { TRIAL_SAMPLES },
	  attach_waits },
};

/* Loads and attaches as record does. Returns whether nothing is missing. */
static bool print_trials(const struct xp_preflight *preflight)
{
	struct xp_clock *clock = NULL;
	bool all = true;

	for (size_t i = 0; i < XP_ARRAY_SIZE(trials); i++) {
		struct xp_programs_options options = trials[i].options;
		struct trial trial = { .preflight = preflight };
		int err;

		xp_why_clear();
		if (!preflight->privileged) {
			xp_put_line(stdout, "%-9s %-14s %s", "untested", trials[i].name,
				    "cannot be tested without privilege");
			continue;
		}
		options.uprobe_multi = preflight->has_uprobe_multi;
		err = (clock ? 0 : xp_clock_open(&clock))
			      ?: xp_bpf_side_open(&trial.bpf, &options, TRIAL_RING_BYTES, clock)
			      ?: trials[i].attach(&trial);
		xp_bpf_side_close(&trial.bpf);
		all &= !err || trials[i].state != XP_CHECK_MISSING;
		if (err && !xp_why_has(err))
			xp_why_set(err, "record cannot load or attach its programs: %s; -v shows the kernel's messages",
				   strerror(-err));
		xp_put_line(stdout, "%-9s %-14s %s", xp_check_state_name(err ? trials[i].state : XP_CHECK_OK),
			    trials[i].name, err ? xp_why(err) : trials[i].ok);
	}
	xp_clock_free(clock);
	return all;
}

/* ---- analyzers ---- */

static const struct analyzer {
	const char *name;
	const char *pattern; /* glob for its file names, which include Debian's llvm-xray-14 */
	const char *reads;
	const char *remedy;
} analyzers[] = {
	{ "llvm-xray", "llvm-xray*", "XRay logs", "apt install llvm" },
	{ "perf", "perf", "perf.data", "apt install linux-perf (Ubuntu: linux-tools-generic)" },
	{ "google-pprof", "google-pprof", "CPU profiles", "apt install google-perftools" },
	{ "go", "go", "CPU profiles, by go tool pprof", "apt install golang-go" },
};

/*
 * Prints the analyzers in one directory of PATH. Runs no analyzer: the version comes from the target of a symbolic
 * link.
 */
static size_t find_in(const struct analyzer *analyzer, const char *dir_path)
{
	char pattern[PATH_MAX], real[PATH_MAX];
	glob_t found = { 0 };
	size_t count = 0;

	snprintf(pattern, sizeof(pattern), "%s/%s", dir_path, analyzer->pattern);
	glob(pattern, 0, NULL, &found);
	for (size_t i = 0; i < found.gl_pathc; i++) {
		if (access(found.gl_pathv[i], X_OK) || !realpath(found.gl_pathv[i], real))
			continue;
		xp_put_line(stdout, "%-9s %-14s %s", "ok", strrchr(found.gl_pathv[i], '/') + 1, real);
		count++;
	}
	globfree(&found);
	return count;
}

static void print_analyzer(const struct analyzer *analyzer)
{
	const char *path = getenv("PATH");
	char *dirs = strdup(path ? path : ""), *rest = dirs, *dir;
	size_t found = 0;

	/* An empty entry means the current directory, which holds no installed programs. The first directory counts. */
	while (dirs && !found && (dir = strsep(&rest, ":")))
		if (*dir == '/')
			found = find_in(analyzer, dir);
	free(dirs);
	if (!found)
		xp_put_line(stdout, "%-9s %-14s reads %s: %s", "missing", analyzer->name, analyzer->reads,
			    analyzer->remedy);
}

/* ---- a process ---- */

static size_t print_objects(pid_t pid, const struct xp_mappings *mappings)
{
	size_t instrumented = 0;

	for (size_t i = 0; i < mappings->count; i++) {
		const struct xp_mapping *mapping = &mappings->list[i];
		struct xp_sled_table *table;
		int err, fd;

		if (mapping->first != i)
			continue;
		fd = xp_mapping_open(pid, mapping);
		if (fd < 0) {
			xp_put_line(stdout, "%-9s %-14s %s: %s", "untested", "object", mapping->path, strerror(-fd));
			continue;
		}
		err = xp_sled_table_open(&table, fd);
		close(fd);
		if (err)
			continue;
		xp_put_line(stdout, "%-9s %-14s %s: %zu function%s, %zu sled%s", "ok", "object", mapping->path,
			    table->function_count, xp_plural_s(table->function_count), table->sled_count,
			    xp_plural_s(table->sled_count));
		xp_sled_table_free(table);
		instrumented++;
	}
	return instrumented;
}

static enum xp_exit print_process(const char *operand, bool can_patch)
{
	struct xp_mappings mappings;
	struct xp_target_info info;
	int err, obstacle;
	long pid;

	errno = 0;
	pid = *operand && !operand[strspn(operand, "0123456789")] ? strtol(operand, NULL, 10) : 0;
	if (errno || pid <= 0 || pid > INT_MAX)
		return xp_fail(XP_EXIT_USAGE, "'%s' is not a process id; see 'xprof help doctor'", operand);
	err = xp_target_check(pid, &info);
	if (err)
		return xp_fail(XP_EXIT_FAILED, "%s", xp_why(err));
	putchar('\n');
	xp_put_line(stdout, "%-9s %-14s %ld (%s)", "ok", "process", pid, info.comm);
	err = xp_mappings_read(&mappings, pid);
	if (err)
		return xp_fail(XP_EXIT_FAILED, "process %ld: cannot read its mappings: %s", pid, strerror(-err));
	obstacle = xp_patch_check(pid, 0);
	if (obstacle)
		xp_put_line(stdout, "%-9s %-14s its sleds are probed, not patched: %s", "degraded", "patched sleds",
			    xp_why(obstacle));
	else if (can_patch)
		xp_put_line(stdout, "%-9s %-14s its sleds can be patched%s", "ok", "patched sleds",
			    xp_instructions_try().rdfsbase ? ", and can record calls in memory" : "");
	if (!print_objects(pid, &mappings)) {
		xp_put_line(stdout, "%-9s %-14s no XRay sleds found: build with clang -fxray-instrument", "missing",
			    "object");
		err = -ENOENT;
	}
	xp_mappings_free(&mappings);
	return err ? XP_EXIT_FAILED : XP_EXIT_OK;
}

enum xp_exit xp_cmd_doctor(const struct xp_options *options)
{
	struct xp_preflight preflight;
	enum xp_exit code = XP_EXIT_OK;
	bool can_patch;

	xp_preflight_run(&preflight);
	print_checks(&preflight);
	can_patch = print_patching(&preflight);
	if (can_patch)
		print_memory();
	if (!print_trials(&preflight))
		code = XP_EXIT_ENVIRONMENT;
	print_privileges();
	putchar('\n');
	for (size_t i = 0; i < XP_ARRAY_SIZE(analyzers); i++)
		print_analyzer(&analyzers[i]);
	if (options->operand_count)
		code = print_process(options->operands[0], can_patch) ?: code;
	for (size_t i = 0; i < preflight.count; i++)
		if (preflight.results[i].state == XP_CHECK_MISSING && code == XP_EXIT_OK)
			code = XP_EXIT_ENVIRONMENT;
	if (fflush(stdout) || ferror(stdout))
		return xp_fail(XP_EXIT_FAILED, "cannot write to standard output: %s", strerror(errno));
	return code;
}
