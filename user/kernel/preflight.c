/* SPDX-License-Identifier: BSD-2-Clause */
#include "kernel/preflight.h"

#include <errno.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/clock.h"
#include "base/small_file.h"
#include "kernel/attach.h"
#include "kernel/privilege.h"

#define KERNEL_MAJOR_MIN 5
#define KERNEL_MINOR_MIN 15
/* Without uprobe_multi, each sled requires a file descriptor. */
#define SINGLE_FILES_WANTED 65536
#define PID_NS_INITIAL "pid:[4026531836]" /* PROC_PID_INIT_INO, include/linux/proc_ns.h */

struct check {
	const char *name;
	const char *need;
	const char *remedy;
	bool privileged; /* cannot be tried without privilege */
	enum xp_check_state (*probe)(struct xp_preflight *preflight, struct xp_check_result *result);
};

/* ---- small readers ---- */

static void __attribute__((format(printf, 2, 3))) say(struct xp_check_result *result, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(result->detail, sizeof(result->detail), format, args);
	va_end(args);
}

/* Reads the first line of a small file. */
static int read_line(const char *path, char *line, size_t size)
{
	ssize_t bytes = xp_small_file_read(line, size, "%s", path);

	line[strcspn(line, "\n")] = 0;
	return bytes > 0 ? 0 : bytes ? (int)bytes : -ENODATA;
}

bool xp_kernel_version_parse(const char *release, unsigned int *major, unsigned int *minor)
{
	return sscanf(release, "%3u.%5u", major, minor) == 2;
}

void xp_lockdown_parse(const char *text, char *mode, size_t mode_size)
{
	const char *open = strchr(text, '[');
	const char *close = open ? strchr(open, ']') : NULL;

	mode[0] = 0;
	if (close)
		snprintf(mode, mode_size, "%.*s", (int)(close - open - 1), open + 1);
}

/* ---- the machine ---- */

static enum xp_check_state probe_machine(struct xp_preflight *preflight, struct xp_check_result *result)
{
	struct utsname names;

	(void)preflight;
	if (uname(&names))
		return XP_CHECK_UNTESTED;
	say(result, "%s", names.machine);
	/* uname(2) reports "i686" on a 32-bit kernel, and under setarch(8). */
	return strcmp(names.machine, "x86_64") ? XP_CHECK_MISSING : XP_CHECK_OK;
}

/* Linux 5.15 is the first with bpf_get_attach_cookie(), commit 7adfc6c9b315. */
static enum xp_check_state probe_kernel(struct xp_preflight *preflight, struct xp_check_result *result)
{
	unsigned int major, minor;
	struct utsname names;

	(void)preflight;
	if (uname(&names) || !xp_kernel_version_parse(names.release, &major, &minor))
		return XP_CHECK_UNTESTED;
	say(result, "%s", names.release);
	return major > KERNEL_MAJOR_MIN || (major == KERNEL_MAJOR_MIN && minor >= KERNEL_MINOR_MIN) ? XP_CHECK_OK
												    : XP_CHECK_MISSING;
}

/* Only capabilities of the initial user namespace count. Its uid map covers the full range of ids. */
static enum xp_check_state probe_privilege(struct xp_preflight *preflight, struct xp_check_result *result)
{
	unsigned int inside = 0, outside = 0, length = 0;
	char line[64], lacks[96] = "";

	for (size_t i = 0; i < xp_privilege_count; i++) {
		const struct xp_privilege *privilege = &xp_privileges[i];
		size_t used = strlen(lacks);

		if (privilege->required && !xp_privilege_has(privilege->capability))
			snprintf(lacks + used, sizeof(lacks) - used, " %s", privilege->name);
	}
	if (lacks[0]) {
		say(result, "user %u lacks%s", geteuid(), lacks);
		return XP_CHECK_MISSING;
	}
	if (!read_line("/proc/self/uid_map", line, sizeof(line)) &&
	    sscanf(line, "%u %u %u", &inside, &outside, &length) == 3 && length != UINT32_MAX) {
		say(result, "root of a user namespace (a rootless container) only");
		return XP_CHECK_MISSING;
	}
	preflight->privileged = true;
	say(result, "%s", geteuid() ? "CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE" : "root");
	return XP_CHECK_OK;
}

static enum xp_check_state probe_pid_namespace(struct xp_preflight *preflight, struct xp_check_result *result)
{
	char link[64];
	ssize_t n = readlink("/proc/self/ns/pid", link, sizeof(link) - 1);

	(void)preflight;
	if (n < 0) {
		say(result, "/proc/self/ns/pid: %s", strerror(errno));
		return XP_CHECK_UNTESTED;
	}
	link[n] = 0;
	say(result, "%s, %s", link, strcmp(link, PID_NS_INITIAL) ? "a container's" : "the host's");
	return strcmp(link, PID_NS_INITIAL) ? XP_CHECK_MISSING : XP_CHECK_OK;
}

/* Confidentiality forbids reads by BPF (5.4, commit 9d1f8be5cf42); integrity does not. */
static enum xp_check_state probe_lockdown(struct xp_preflight *preflight, struct xp_check_result *result)
{
	char line[128], mode[32];

	(void)preflight;
	if (read_line("/sys/kernel/security/lockdown", line, sizeof(line))) {
		say(result, "not in this kernel");
		return XP_CHECK_OK;
	}
	xp_lockdown_parse(line, mode, sizeof(mode));
	say(result, "%s", mode);
	return strcmp(mode, "confidentiality") ? XP_CHECK_OK : XP_CHECK_MISSING;
}

/* ---- BPF ---- */

/* BTF of the kernel: Linux 5.4, commit 341dfcf8d78e, with CONFIG_DEBUG_INFO_BTF. */
static enum xp_check_state probe_btf(struct xp_preflight *preflight, struct xp_check_result *result)
{
	const char *path = "/sys/kernel/btf/vmlinux";

	(void)preflight;
	if (access(path, R_OK)) {
		say(result, "%s: %s", path, strerror(errno));
		return XP_CHECK_MISSING;
	}
	say(result, "%s", path);
	return XP_CHECK_OK;
}

/* BPF ring buffers: Linux 5.8, commit 457f44363a88. */
static enum xp_check_state probe_ring(struct xp_preflight *preflight, struct xp_check_result *result)
{
	int fd = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "xprof_probe", 0, 0, sysconf(_SC_PAGESIZE), NULL);

	(void)preflight;
	if (fd < 0) {
		say(result, "bpf(BPF_MAP_CREATE): %s", strerror(errno));
		return XP_CHECK_MISSING;
	}
	close(fd);
	say(result, "works");
	return XP_CHECK_OK;
}

int xp_load_nothing(enum bpf_prog_type type, unsigned int attach_type)
{
	const struct bpf_insn code[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = (enum bpf_attach_type)attach_type);
	int fd = bpf_prog_load(type, "xprof_probe", "Dual BSD/GPL", code, XP_ARRAY_SIZE(code), &options);

	return fd < 0 ? -errno : fd;
}

/*
 * Raw tracepoints: Linux 4.17, commit c4f6699dfcb8. Like all BPF programs on events, they depend on CONFIG_BPF_EVENTS
 * (linux/bpf_types.h). This check loads a program that names no tracepoint: to look up a name, libbpf reads all of the
 * kernel's BTF, which takes longer than all other checks together.
 */
static enum xp_check_state probe_tracepoints(struct xp_preflight *preflight, struct xp_check_result *result)
{
	int fd = xp_load_nothing(BPF_PROG_TYPE_RAW_TRACEPOINT, 0);

	(void)preflight;
	if (fd < 0) {
		say(result, "BPF program for tracepoints: %s", strerror(-fd));
		return XP_CHECK_MISSING;
	}
	close(fd);
	say(result, "works");
	return XP_CHECK_OK;
}

/* ---- uprobes ---- */

/* The uprobe PMU: Linux 4.17, commit 33ea4b24277b. */
static enum xp_check_state probe_uprobe(struct xp_preflight *preflight, struct xp_check_result *result)
{
	char line[32];
	int fd;

	if (read_line("/sys/bus/event_source/devices/uprobe/type", line, sizeof(line))) {
		say(result, "no uprobe PMU");
		return XP_CHECK_MISSING;
	}
	fd = xp_load_nothing(BPF_PROG_TYPE_KPROBE, 0);
	if (fd < 0) {
		say(result, "BPF program for uprobes: %s", strerror(-fd));
		return XP_CHECK_MISSING;
	}
	close(fd);
	preflight->has_uprobe = true;
	say(result, "uprobe PMU, type %s", line);
	return XP_CHECK_OK;
}

/*
 * uprobe_multi: Linux 6.6, commit 89ae89f53d20. Checks this by an attempt on "/", which is not a regular file. The
 * kernel returns EBADF if it accepts all earlier arguments (bpf_uprobe_multi_link_attach()), and EINVAL if it does not
 * know such links.
 */
static enum xp_check_state probe_uprobe_multi(struct xp_preflight *preflight, struct xp_check_result *result)
{
	uint64_t offset = 0;
	/* union bpf_attr's link_create with uprobe_multi, which Debian 12's headers lack. */
	struct {
		uint32_t prog_fd, target_fd, attach_type, flags;
		uint64_t path, offsets, ref_ctr_offsets, cookies;
		uint32_t cnt, multi_flags, pid, pad;
	} attr = {
		.attach_type = XP_TRACE_UPROBE_MULTI,
		.path = (uintptr_t) "/",
		.offsets = (uintptr_t)&offset,
		.cnt = 1,
	};
	int link, err, fd = xp_load_nothing(BPF_PROG_TYPE_KPROBE, XP_TRACE_UPROBE_MULTI);

	say(result, "not in this kernel: one perf event per sled instead");
	if (fd < 0)
		return XP_CHECK_DEGRADED;
	attr.prog_fd = fd;
	link = syscall(SYS_bpf, BPF_LINK_CREATE, &attr, sizeof(attr));
	err = errno;
	if (link >= 0)
		close(link);
	close(fd);
	if (link >= 0 || err != EBADF)
		return XP_CHECK_DEGRADED;
	preflight->has_uprobe_multi = true;
	say(result, "one link for all sleds of a file");
	return XP_CHECK_OK;
}

static enum xp_check_state probe_files(struct xp_preflight *preflight, struct xp_check_result *result)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return XP_CHECK_UNTESTED;
	say(result, "RLIMIT_NOFILE %ju, at most %ju", (uintmax_t)limit.rlim_cur, (uintmax_t)limit.rlim_max);
	return preflight->has_uprobe_multi || limit.rlim_max >= SINGLE_FILES_WANTED ? XP_CHECK_OK : XP_CHECK_DEGRADED;
}

/* The kernel defines levels up to 2; Debian and Ubuntu add 3 and 4. CAP_PERFMON overrides all levels. */
static enum xp_check_state probe_paranoid(struct xp_preflight *preflight, struct xp_check_result *result)
{
	char line[32];

	if (read_line("/proc/sys/kernel/perf_event_paranoid", line, sizeof(line))) {
		say(result, "no perf events in this kernel");
		return XP_CHECK_MISSING;
	}
	say(result, "perf_event_paranoid %s%s", line, preflight->privileged ? ", which CAP_PERFMON overrides" : "");
	return preflight->privileged ? XP_CHECK_OK : XP_CHECK_UNTESTED;
}

/* ---- the clock ---- */

static enum xp_check_state probe_tsc_flags(struct xp_preflight *preflight, struct xp_check_result *result)
{
	bool constant, nonstop;

	(void)preflight;
	xp_clock_cpu_flags(&constant, &nonstop);
	say(result, "%s, %s", constant ? "constant_tsc" : "no constant_tsc",
	    nonstop ? "nonstop_tsc" : "no nonstop_tsc");
	return constant && nonstop ? XP_CHECK_OK : XP_CHECK_DEGRADED;
}

/* Each check depends only on earlier ones: the first failure may explain later ones. */
static const struct check checks[] = {
	{ "machine", "sleds of x86-64", "run xprof on a 64-bit x86 kernel, without setarch", false, probe_machine },
	{ "kernel", "probes that know their sled", "boot Linux 5.15 or newer", false, probe_kernel },
	{ "privilege", "BPF, perf events, other processes",
	  "run `sudo xprof record ...`, outside of a rootless container; SECURITY in xprof(1) describes what works "
	  "without root",
	  false, probe_privilege },
	{ "pid namespace", "process IDs as BPF sees them",
	  "run xprof on the host, or in a container started with --pid=host", false, probe_pid_namespace },
	{ "lockdown", "BPF that may read", "boot without lockdown=confidentiality (integrity is fine)", true,
	  probe_lockdown },
	{ "BTF", "one BPF program for all kernels",
	  "use a kernel with CONFIG_DEBUG_INFO_BTF=y, such as a distribution's", false, probe_btf },
	{ "ring buffer", "records on their way to xprof", "use a kernel with CONFIG_BPF_SYSCALL=y, 5.8 or newer", true,
	  probe_ring },
	{ "tracepoints", "exec, fork and exit of the target", "use a kernel with CONFIG_BPF_EVENTS=y and BTF", true,
	  probe_tracepoints },
	{ "uprobes", "probes on sleds", "use a kernel with CONFIG_UPROBE_EVENTS=y and CONFIG_BPF_EVENTS=y", true,
	  probe_uprobe },
	{ "uprobe_multi", "attaching thousands of sleds at once", "boot Linux 6.6 or newer to attach and detach faster",
	  true, probe_uprobe_multi },
	{ "open files", "one perf event per sled without uprobe_multi",
	  "raise the hard limit: ulimit -Hn 1048576, or LimitNOFILE= of the service", true, probe_files },
	{ "perf events", "samples", "run `sudo xprof record ...`", false, probe_paranoid },
	{ "TSC", "durations in real time",
	  "ask the hypervisor for an invariant TSC; on hardware without one, durations are of varying cycles", false,
	  probe_tsc_flags },
};
_Static_assert(XP_ARRAY_SIZE(checks) <= XP_CHECKS_MAX, "room for the results");

static int silent(enum libbpf_print_level level, const char *format, va_list args)
{
	(void)level;
	(void)format;
	(void)args;
	return 0;
}

void xp_preflight_run(struct xp_preflight *preflight)
{
	/* A failed probe is a result; libbpf must not print it. */
	libbpf_print_fn_t print = libbpf_set_print(silent);

	*preflight = (struct xp_preflight){ 0 };
	for (size_t i = 0; i < XP_ARRAY_SIZE(checks); i++) {
		struct xp_check_result *result = &preflight->results[preflight->count++];

		result->name = checks[i].name;
		result->need = checks[i].need;
		if (checks[i].privileged && !preflight->privileged) {
			result->state = XP_CHECK_UNTESTED;
			say(result, "cannot be tested without privilege");
			continue;
		}
		result->state = checks[i].probe(preflight, result);
		if (result->state == XP_CHECK_MISSING || result->state == XP_CHECK_DEGRADED)
			result->remedy = checks[i].remedy;
	}
	libbpf_set_print(print);
}

enum xp_exit xp_preflight_require(const struct xp_preflight *preflight)
{
	enum xp_exit code = XP_EXIT_OK;

	for (size_t i = 0; i < preflight->count; i++) {
		const struct xp_check_result *result = &preflight->results[i];

		if (result->state == XP_CHECK_DEGRADED)
			xp_debug("%s: %s", result->name, result->detail);
		if (result->state != XP_CHECK_MISSING)
			continue;
		xp_error("%s: %s (needed for %s): %s", result->name, result->detail, result->need, result->remedy);
		code = XP_EXIT_ENVIRONMENT;
	}
	return code;
}

const char *xp_check_state_name(enum xp_check_state state)
{
	static const char *const names[] = { "ok", "degraded", "missing", "untested" };

	return names[state];
}
