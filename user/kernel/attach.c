/* SPDX-License-Identifier: BSD-2-Clause */
#include "kernel/attach.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "arch/x86_64/code_shapes.h"
#include "base/array.h"
#include "base/interrupt.h"
#include "base/release.h"
#include "base/shield.h"
#include "base/small_file.h"
#include "base/util.h"
#include "target/target.h"

/*
 * The time that the kernel should need for one link, because nothing can interrupt it meanwhile. Larger links are
 * better otherwise: detaching a link takes about 10 ms, however few probes it has, because the kernel waits for running
 * programs.
 */
#define BATCH_NS 100000000u
#define BATCH_MIN 256u
#define BATCH_FIRST 4096u
#define BATCH_MAX 16384u
/* Each perf event is a single probe: checks for an interrupt only once per this many. */
#define SINGLES_BATCH 16u
/* A function begins with one or two nops of at most 15 bytes. */
#define LONG_NOPS_MAX 64
/*
 * The kernel sometimes refuses probes with EBUSY for a short time: this happened in 2 of 10 recordings with --follow of
 * a program that calls vfork() and executes itself.
 */
#define BUSY_NS XP_NS_PER_S
#define BUSY_PAUSE_US 2000

/*
 * An exiting task closes its files in ascending order, but the kernel releases the last one first (task_work_run(),
 * kernel/task_work.c). So links use descriptors from this number on, and anchors lower ones. If xprof is killed, the
 * links are then released before the anchors.
 */
#define LINK_FD_MIN 512

struct link {
	int fd;
	pid_t pid; /* 0: every process */
	uint32_t group;
	uint32_t probes;
	bool anchor;
	bool extra; /* an anchor that is not the one of a process */
};

struct xp_attach {
	bool multi;
	pthread_mutex_t lock; /* protects the links; not held while the kernel works */
	struct link *links;
	size_t count;
	size_t room;
	uint32_t perf_type; /* type number of the uprobe PMU */
	uint32_t batch;	    /* atomic; size of the next link, in probes */
	void (*tell)(void *arg, size_t probes);
	void *tell_arg;
};

/*
 * Grows the descriptor table so that move_up() does not have to. If tasks share the table, as under the shield, the
 * kernel waits for an RCU grace period to grow it (expand_fdtable(), fs/file.c).
 */
static void make_room_for_links(void)
{
	int file = open("/dev/null", O_RDONLY | O_CLOEXEC), high;

	if (file < 0)
		return;
	high = fcntl(file, F_DUPFD_CLOEXEC, LINK_FD_MIN);
	if (high >= 0)
		close(high);
	close(file);
}

int xp_attach_new(struct xp_attach **result, bool multi)
{
	struct xp_attach *attach = calloc(1, sizeof(*attach));

	if (!attach)
		return -ENOMEM;
	make_room_for_links();
	attach->multi = multi;
	attach->batch = BATCH_FIRST;
	pthread_mutex_init(&attach->lock, NULL);
	*result = attach;
	return 0;
}

static bool has_anchor(struct xp_attach *attach, pid_t pid)
{
	bool found = false;

	pthread_mutex_lock(&attach->lock);
	for (size_t i = 0; i < attach->count && !found; i++)
		found = attach->links[i].anchor && !attach->links[i].extra && attach->links[i].pid == pid;
	pthread_mutex_unlock(&attach->lock);
	return found;
}

/* Moves the file to a descriptor of LINK_FD_MIN or more, if one is free. */
static int move_up(int fd)
{
	int moved = fcntl(fd, F_DUPFD_CLOEXEC, LINK_FD_MIN);

	if (moved < 0)
		return fd;
	close(fd);
	return moved;
}

/* Takes ownership of the links. */
static int add_links(struct xp_attach *attach, const struct link *added, size_t count)
{
	int err;

	pthread_mutex_lock(&attach->lock);
	err = XP_ARRAY_RESERVE(attach->links, attach->room, attach->count + count);
	if (!err) {
		memcpy(attach->links + attach->count, added, count * sizeof(*added));
		attach->count += count;
	}
	pthread_mutex_unlock(&attach->lock);
	return err;
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

/* Returns one link for all probes, or -errno. */
static int link_multi(int program_fd, const char *path, pid_t pid, const struct xp_uprobe *probes, size_t count)
{
	uint64_t *offsets = malloc(count * sizeof(*offsets));
	uint64_t *cookies = malloc(count * sizeof(*cookies));
	uint64_t *semaphores = malloc(count * sizeof(*semaphores));
	struct uprobe_multi_attr attr = {
		.prog_fd = program_fd,
		.attach_type = XP_TRACE_UPROBE_MULTI,
		.path = (uintptr_t)path,
		.offsets = (uintptr_t)offsets,
		.ref_ctr_offsets = (uintptr_t)semaphores,
		.cookies = (uintptr_t)cookies,
		.cnt = count,
		.pid = pid,
	};
	int fd = -ENOMEM;

	if (!offsets || !cookies || !semaphores)
		goto out;
	for (size_t i = 0; i < count; i++) {
		offsets[i] = probes[i].offset;
		cookies[i] = probes[i].cookie;
		semaphores[i] = probes[i].semaphore;
	}
	/* Direct system call: libbpf before 1.3 does not know this link type. */
	fd = syscall(__NR_bpf, BPF_LINK_CREATE, &attr, sizeof(attr));
	if (fd < 0)
		fd = -errno;
out:
	free(offsets);
	free(cookies);
	free(semaphores);
	return fd;
}

/*
 * Raises the limit of open files, because each offset needs a descriptor. Raises the hard limit too, as far as
 * permitted.
 */
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

static int link_single(uint32_t perf_type, int program_fd, const char *path, pid_t pid, const struct xp_uprobe *probe)
{
	struct perf_event_attr attr = {
		.type = perf_type,
		.size = sizeof(attr),
		.config = probe->semaphore << 32,
		.config1 = (uintptr_t)path,
		.config2 = probe->offset,
	};
	LIBBPF_OPTS(bpf_link_create_opts, opts, .perf_event.bpf_cookie = probe->cookie);
	/*
	 * An event of one process covers all CPUs. An event of all processes must name a CPU, but sees the hits on all
	 * CPUs.
	 */
	int event = syscall(__NR_perf_event_open, &attr, pid ? pid : -1, pid ? -1 : 0, -1, PERF_FLAG_FD_CLOEXEC);
	int fd;

	if (event < 0)
		return -errno;
	fd = bpf_link_create(program_fd, event, BPF_PERF_EVENT, &opts);
	if (fd < 0)
		fd = -errno;
	close(event); /* the link keeps it open */
	return fd;
}

/*
 * Returns the pass in which a link is closed: links that are not anchors first, then the anchors that are not of a
 * process, then the anchors of processes.
 */
static int turn_of(const struct link *link)
{
	return !link->anchor ? 0 : link->extra ? 1 : 2;
}

/*
 * Closing a link takes 20 to 80 ms, mostly for RCU grace periods. Links that are closed at the same time share the
 * grace periods.
 */
static void close_turn(struct link *links, size_t count, int turn)
{
	int fds[XP_RELEASED_TOGETHER];
	size_t some = 0;

	for (size_t i = count; i--;) {
		if (links[i].fd < 0 || turn_of(&links[i]) != turn)
			continue;
		fds[some++] = links[i].fd;
		links[i].fd = -1;
		if (some == XP_RELEASED_TOGETHER) {
			xp_release_files(fds, some);
			some = 0;
		}
	}
	xp_release_files(fds, some);
}

struct departure {
	struct link *links;
	size_t count;
};

static int close_in_order(void *arg)
{
	const struct departure *departure = arg;
	size_t count = departure->count, anchors = 0;

	for (size_t i = 0; i < count; i++)
		anchors += departure->links[i].anchor;
	close_turn(departure->links, count, 0);
	/*
	 * Does the same as synchronize_rcu(). With nohz_full, membarrier fails; closing a link then waits for a similar
	 * event.
	 */
	if (anchors && anchors < count)
		syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
	close_turn(departure->links, count, 1);
	close_turn(departure->links, count, 2);
	return 0;
}

/*
 * Closes the links in a shielded task, which keeps the order even if xprof is killed. If that task is killed, the links
 * that it was closing stay open until xprof ends.
 */
static void close_links(struct link *links, size_t count)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	struct departure departure = { links, count };

	if (!count)
		return;
	pthread_mutex_lock(&lock); /* release.h */
	if (xp_shielded(close_in_order, &departure))
		close_in_order(&departure);
	pthread_mutex_unlock(&lock);
}

uint32_t xp_attach_batch(uint32_t batch, uint64_t took_ns)
{
	if (took_ns > BATCH_NS)
		return XP_MAX(batch / 2, BATCH_MIN);
	return took_ns < BATCH_NS / 2 ? XP_MIN(batch * 2, BATCH_MAX) : batch;
}

struct request {
	struct xp_attach *attach;
	const struct xp_uprobe_set *uprobes;
	const char *path;
	struct link *links; /* out: the new links */
	size_t links_made;
	size_t done; /* probes */
	bool anchored;
};

/* Runs between two batches: reports progress, and returns an error if the recording or the process has ended. */
static int may_go_on(const struct request *request, size_t done)
{
	if (request->attach->tell)
		request->attach->tell(request->attach->tell_arg, done);
	if (xp_interrupted())
		return -ECANCELED;
	return request->uprobes->pid && !xp_target_start_time(request->uprobes->pid) ? -ESRCH : 0;
}

/* Returns one link for all probes, or -errno. */
static int try_link(const struct request *request, const struct xp_uprobe *probes, size_t count)
{
	const struct xp_attach *attach = request->attach;
	const struct xp_uprobe_set *uprobes = request->uprobes;

	return attach->multi ? link_multi(uprobes->program_fd, request->path, uprobes->pid, probes, count)
			     : link_single(attach->perf_type, uprobes->program_fd, request->path, uprobes->pid, probes);
}

/* Makes one link for the next batch of probes. */
static int attach_link(const struct request *request, struct link *link)
{
	struct xp_attach *attach = request->attach;
	const struct xp_uprobe_set *uprobes = request->uprobes;
	const struct xp_uprobe *probes = uprobes->list + request->done;
	uint32_t batch = __atomic_load_n(&attach->batch, __ATOMIC_RELAXED);
	size_t some = attach->multi ? XP_MIN(uprobes->count - request->done, batch) : 1;
	uint64_t begin_ns = xp_now_ns(), end_ns = begin_ns + BUSY_NS;
	int fd = try_link(request, probes, some);

	while (fd == -EBUSY && xp_now_ns() < end_ns && !xp_interrupted()) {
		usleep(BUSY_PAUSE_US);
		begin_ns = xp_now_ns();
		fd = try_link(request, probes, some);
	}
	if (fd < 0)
		return fd;
	/* A short last link does not predict the time of longer ones. */
	if (some == batch)
		__atomic_store_n(&attach->batch, xp_attach_batch(batch, xp_now_ns() - begin_ns), __ATOMIC_RELAXED);
	*link = (struct link){ .fd = fd, .pid = uprobes->pid, .group = uprobes->group, .probes = (uint32_t)some };
	return 0;
}

static int attach_next(void *arg)
{
	struct request *request = arg;
	struct link *link = &request->links[request->links_made];
	int err = attach_link(request, link);

	if (err)
		return err;
	link->anchor = !request->anchored;
	link->extra = request->uprobes->anchor;
	if (request->anchored)
		link->fd = move_up(link->fd);
	request->anchored = true;
	request->done += link->probes;
	request->links_made++;
	return 0;
}

static int attach_request(void *arg)
{
	struct request *request = arg;
	int err = 0;

	while (request->done < request->uprobes->count && !err) {
		if (request->done && (request->attach->multi || request->done % SINGLES_BATCH == 0))
			err = may_go_on(request, request->done);
		if (!err)
			err = attach_next(request);
	}
	return err;
}

/* Attaches all probes or none. */
static int attach_all(struct request *request)
{
	const struct xp_uprobe_set *uprobes = request->uprobes;
	size_t least = request->attach->multi ? BATCH_MIN : 1;
	int err;

	request->links = calloc(uprobes->count / least + 1, sizeof(*request->links));
	if (!request->links)
		return -ENOMEM;
	request->anchored = !uprobes->anchor && has_anchor(request->attach, uprobes->pid);
	err = xp_shielded(attach_request, request);
	/*
	 * The task was killed, and the kernel may have left breakpoints. A new link for the same probes adopts the
	 * breakpoints, and closing that link removes them.
	 */
	if (err == -ECHILD) {
		if (request->done < uprobes->count)
			xp_shielded(attach_next, request);
		err = -EINTR;
	}
	if (!err)
		err = add_links(request->attach, request->links, request->links_made);
	if (err)
		close_links(request->links, request->links_made);
	free(request->links);
	return err;
}

void xp_attach_on_batch(struct xp_attach *attach, void (*tell)(void *arg, size_t probes), void *arg)
{
	attach->tell = tell;
	attach->tell_arg = arg;
}

size_t xp_attach_max(bool multi)
{
	return multi ? XP_ATTACH_MAX : XP_ATTACH_SINGLE_MAX;
}

size_t xp_attach_room(struct xp_attach *attach)
{
	size_t max = xp_attach_max(attach->multi), probes = 0;

	pthread_mutex_lock(&attach->lock);
	for (size_t i = 0; i < attach->count; i++)
		probes += attach->links[i].probes;
	pthread_mutex_unlock(&attach->lock);
	return max - XP_MIN(probes, max);
}

int xp_attach_uprobes(struct xp_attach *attach, const struct xp_uprobe_set *uprobes)
{
	char path[64];
	struct request request = { .attach = attach, .uprobes = uprobes, .path = path };
	uint64_t perf_type;

	if (uprobes->count > xp_attach_room(attach))
		return -ENOBUFS;
	/* The kernel requires a path. This path names the inode, even if the file was renamed or deleted. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", uprobes->file_fd);
	if (!attach->multi) {
		if (xp_small_file_number("/sys/bus/event_source/devices/uprobe/type", &perf_type))
			return -EOPNOTSUPP;
		attach->perf_type = (uint32_t)perf_type;
		/* Only an estimate: another thread may attach probes at the same time. */
		raise_file_limit(attach->count + uprobes->count + 1024);
	}
	return attach_all(&request);
}

static int attach_one(struct xp_attach *attach, struct xp_uprobe_set *uprobes, uint64_t offset)
{
	uint8_t code[LONG_NOPS_MAX];
	ssize_t bytes = pread(uprobes->file_fd, code, sizeof(code), (off_t)offset);
	struct xp_uprobe probe = { .offset = offset };
	size_t nops = bytes > 0 ? xp_long_nops_bytes(code, (size_t)bytes) : 0;

	if (nops && nops == (size_t)bytes)
		return -EOPNOTSUPP;
	probe.offset += nops;
	uprobes->list = &probe;
	uprobes->count = 1;
	return xp_attach_uprobes(attach, uprobes);
}

int xp_attach_uprobe(struct xp_attach *attach, int program_fd, int file_fd, pid_t pid, uint64_t offset)
{
	struct xp_uprobe_set uprobes = { .program_fd = program_fd, .file_fd = file_fd, .pid = pid };

	return attach_one(attach, &uprobes, offset);
}

int xp_attach_own_uprobe(struct xp_attach *attach, int program_fd, int file_fd, pid_t pid, uint64_t offset)
{
	struct xp_uprobe_set uprobes = { .program_fd = program_fd, .file_fd = file_fd, .pid = pid, .anchor = true };

	return attach_one(attach, &uprobes, offset);
}

int xp_attach_anchor(struct xp_attach *attach, int program_fd, int file_fd, pid_t pid, uint64_t offset)
{
	return has_anchor(attach, pid) ? 0 : xp_attach_uprobe(attach, program_fd, file_fd, pid, offset);
}

static bool always(const struct link *link, uint32_t unused)
{
	(void)link;
	(void)unused;
	return true;
}

static bool of_process(const struct link *link, uint32_t pid)
{
	return link->pid == (pid_t)pid;
}

static bool of_group(const struct link *link, uint32_t group)
{
	return link->group == group;
}

/* Detaches the links for which belongs() is true. */
static void detach(struct xp_attach *attach, bool (*belongs)(const struct link *link, uint32_t what), uint32_t what)
{
	size_t kept = 0, gone = 0;
	struct link *links;

	pthread_mutex_lock(&attach->lock);
	links = calloc(attach->count + 1, sizeof(*links));
	for (size_t i = 0; i < attach->count; i++) {
		if (!belongs(&attach->links[i], what))
			attach->links[kept++] = attach->links[i];
		else if (links)
			links[gone++] = attach->links[i];
		else
			xp_release_files(&attach->links[i].fd, 1);
	}
	attach->count = kept;
	pthread_mutex_unlock(&attach->lock);
	close_links(links, gone);
	free(links);
}

void xp_attach_detach_group(struct xp_attach *attach, uint32_t group)
{
	detach(attach, of_group, group);
}

void xp_attach_detach_process(struct xp_attach *attach, pid_t pid)
{
	detach(attach, of_process, (uint32_t)pid);
}

void xp_attach_detach_all(struct xp_attach *attach)
{
	detach(attach, always, 0);
}

void xp_attach_free(struct xp_attach *attach)
{
	if (!attach)
		return;
	xp_attach_detach_all(attach);
	free(attach->links);
	free(attach);
}
