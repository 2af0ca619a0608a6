/* SPDX-License-Identifier: BSD-2-Clause */
#include "attach.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shield.h"
#include "util.h"

/* MAX_UPROBE_MULTI_CNT, kernel/trace/bpf_trace.c. */
#define MULTI_MAX (1u << 20)

struct link {
	int fd;
	pid_t pid; /* 0: every process */
};

struct xp_attach {
	bool multi;
	struct link *links;
	size_t count;
	size_t room;
	uint32_t perf_type; /* of the uprobe PMU */
};

int xp_attach_new(struct xp_attach **result, bool multi)
{
	struct xp_attach *attach = calloc(1, sizeof(*attach));

	if (!attach)
		return -ENOMEM;
	attach->multi = multi;
	*result = attach;
	return 0;
}

static int add_link(struct xp_attach *attach, int fd, pid_t pid)
{
	if (attach->count == attach->room) {
		size_t room = attach->room ? 2 * attach->room : 64;
		struct link *links = realloc(attach->links, room * sizeof(*links));

		if (!links)
			return -ENOMEM;
		attach->links = links;
		attach->room = room;
	}
	attach->links[attach->count++] = (struct link){ fd, pid };
	return 0;
}

/* The part of union bpf_attr that BPF_LINK_CREATE reads for BPF_TRACE_UPROBE_MULTI, as in Linux 6.6. */
struct uprobe_multi_attr {
	uint32_t prog_fd;
	uint32_t target_fd;
	uint32_t attach_type;
	uint32_t flags;
	uint64_t path;
	uint64_t offsets;
	uint64_t ref_ctr_offsets;
	uint64_t cookies;
	uint32_t cnt;
	uint32_t multi_flags;
	uint32_t pid;
	uint32_t pad;
};

static int attach_multi(struct xp_attach *attach, int program_fd, const char *path, pid_t pid,
			const struct xp_uprobe *probes, size_t count)
{
	uint64_t *offsets = malloc(count * sizeof(*offsets));
	uint64_t *cookies = malloc(count * sizeof(*cookies));
	struct uprobe_multi_attr attr = {
		.prog_fd = program_fd,
		.attach_type = XP_TRACE_UPROBE_MULTI,
		.path = (uintptr_t)path,
		.offsets = (uintptr_t)offsets,
		.cookies = (uintptr_t)cookies,
		.cnt = count,
		.pid = pid,
	};
	int err = -ENOMEM;
	int fd;

	if (!offsets || !cookies)
		goto out;
	for (size_t i = 0; i < count; i++) {
		offsets[i] = probes[i].offset;
		cookies[i] = probes[i].cookie;
	}
	/* By hand: libbpf before 1.3 does not know this kind of link. */
	fd = syscall(__NR_bpf, BPF_LINK_CREATE, &attr, sizeof(attr));
	if (fd < 0) {
		err = -errno;
		goto out;
	}
	err = add_link(attach, fd, pid);
	if (err)
		close(fd);
out:
	free(offsets);
	free(cookies);
	return err;
}

static int uprobe_pmu_type(uint32_t *type)
{
	FILE *file = fopen("/sys/bus/event_source/devices/uprobe/type", "re");
	int fields;

	if (!file)
		return -EOPNOTSUPP;
	fields = fscanf(file, "%u", type);
	fclose(file);
	return fields == 1 ? 0 : -EOPNOTSUPP;
}

/* One file descriptor per offset is a lot: the hard limit as far as root may raise it. */
static void raise_file_limit(size_t wanted)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= wanted)
		return;
	limit.rlim_cur = wanted;
	limit.rlim_max = XP_MAX(limit.rlim_max, wanted);
	if (!setrlimit(RLIMIT_NOFILE, &limit))
		return;
	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static int attach_single(struct xp_attach *attach, int program_fd, const char *path, pid_t pid,
			 const struct xp_uprobe *probe)
{
	struct perf_event_attr attr = {
		.type = attach->perf_type,
		.size = sizeof(attr),
		.config1 = (uintptr_t)path,
		.config2 = probe->offset,
	};
	LIBBPF_OPTS(bpf_link_create_opts, opts, .perf_event.bpf_cookie = probe->cookie);
	/* An event of a process wants no CPU; one of all processes wants one, and sees the hits on all CPUs. */
	int event = syscall(__NR_perf_event_open, &attr, pid ? pid : -1, pid ? -1 : 0, -1, PERF_FLAG_FD_CLOEXEC);
	int fd, err;

	if (event < 0)
		return -errno;
	fd = bpf_link_create(program_fd, event, BPF_PERF_EVENT, &opts);
	err = fd < 0 ? -errno : add_link(attach, fd, pid);
	if (err && fd >= 0)
		close(fd);
	close(event); /* the link holds it */
	return err;
}

static void close_from(struct xp_attach *attach, size_t first)
{
	while (attach->count > first)
		close(attach->links[--attach->count].fd);
}

struct request {
	struct xp_attach *attach;
	int program_fd;
	const char *path;
	pid_t pid;
	const struct xp_uprobe *probes;
	size_t count;
};

static int attach_request(void *arg)
{
	const struct request *request = arg;
	struct xp_attach *attach = request->attach;
	size_t links_before = attach->count;
	int err = 0;

	for (size_t done = 0; done < request->count && !err;) {
		const struct xp_uprobe *probes = request->probes + done;
		size_t some = attach->multi ? XP_MIN(request->count - done, (size_t)MULTI_MAX) : 1;

		err = attach->multi
			  ? attach_multi(attach, request->program_fd, request->path, request->pid, probes, some)
			  : attach_single(attach, request->program_fd, request->path, request->pid, probes);
		done += some;
	}
	if (err)
		close_from(attach, links_before);
	return err;
}

int xp_attach_uprobes(struct xp_attach *attach, int program_fd, int file_fd, pid_t pid, const struct xp_uprobe *probes,
		      size_t count)
{
	char path[64];
	struct request request = { attach, program_fd, path, pid, probes, count };
	int err;

	/* The kernel wants a path; this one names the inode, whatever became of its name. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file_fd);
	if (!attach->multi) {
		err = uprobe_pmu_type(&attach->perf_type);
		if (err)
			return err;
		raise_file_limit(attach->count + count + 1024);
	}
	return xp_shielded(attach_request, &request);
}

struct departure {
	struct xp_attach *attach;
	pid_t pid; /* of the process to detach from; DETACH_ALL: from all */
};

#define DETACH_ALL (-1)

static int detach(void *arg)
{
	const struct departure *departure = arg;
	struct xp_attach *attach = departure->attach;
	size_t kept = 0;

	if (departure->pid == DETACH_ALL) {
		close_from(attach, 0);
		return 0;
	}
	for (size_t i = 0; i < attach->count; i++) {
		if (attach->links[i].pid == departure->pid)
			close(attach->links[i].fd);
		else
			attach->links[kept++] = attach->links[i];
	}
	attach->count = kept;
	return 0;
}

static void detach_shielded(struct xp_attach *attach, pid_t pid)
{
	struct departure departure = { attach, pid };

	/* Without the shield rather than not at all. */
	if (attach->count && xp_shielded(detach, &departure))
		detach(&departure);
}

void xp_attach_detach_process(struct xp_attach *attach, pid_t pid)
{
	detach_shielded(attach, pid);
}

void xp_attach_detach_all(struct xp_attach *attach)
{
	detach_shielded(attach, DETACH_ALL);
}

void xp_attach_free(struct xp_attach *attach)
{
	if (!attach)
		return;
	xp_attach_detach_all(attach);
	free(attach->links);
	free(attach);
}
