// SPDX-License-Identifier: BSD-2-Clause
#include "target/chosen_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/child.h"
#include "base/fd_message.h"
#include "base/small_file.h"
#include "base/util.h"
#include "target/mount_kind.h"

#define COPIES_MAX 256
#define COPIES_BYTES_MAX (1ull << 30)
#define CHILD_SECONDS 5 /* the child ends after this time even if no xprof is left to kill it */
#define END_MS 20
#define STUCK_MAX 16 /* skipped file systems; if the list is full, other slow ones are skipped, too */
#define RETRY_NS (16 * XP_NS_PER_S)
#define RETRY_SHIFT_MAX 8u
/* Limit for waiting on slow servers: this much at the start, then a tenth of the elapsed time. */
#define WAITS_BURST_NS (8 * XP_NS_PER_S)
#define WAITS_SHARE 10

/* A copy of a file. The file may change later, but the copy keeps the contents with which its process started. */
struct copy {
	dev_t dev; /* these four identify the file */
	ino_t inode;
	off_t size;
	struct statx_timestamp changed;
	int fd; /* sealed */
	bool is_overlaid;
	bool is_readable; /* by the user without capabilities */
	dev_t copy_dev;
	ino_t copy_inode;
};

struct stuck {
	dev_t dev; /* 0: a path whose lookup timed out */
	pid_t left;
	unsigned int times;
	uint64_t retry_ns;
};

static struct {
	pthread_mutex_t lock;
	struct copy copies[COPIES_MAX];
	size_t copy_count;
	uint64_t copy_bytes;
	struct stuck stuck[STUCK_MAX];
	size_t stuck_count;
	bool has_warned;
	uint64_t first_ns; /* time of the first wait */
	uint64_t waited_ns;
} chosen = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- queries that send no request to the file system ---- */

static int look(int dir, const char *path, int flags, struct statx *st)
{
	unsigned int wanted = STATX_TYPE | STATX_INO | STATX_SIZE | STATX_CTIME | STATX_MNT_ID;

	return statx(dir, path, flags | AT_STATX_DONT_SYNC, wanted, st) ? -errno : 0;
}

static int stat_of(int err, const struct statx *from, struct stat *st)
{
	memset(st, 0, sizeof(*st));
	if (err)
		return err;
	st->st_dev = makedev(from->stx_dev_major, from->stx_dev_minor);
	st->st_ino = from->stx_ino;
	st->st_mode = from->stx_mode;
	return 0;
}

int xp_chosen_stat(int place, struct stat *st)
{
	struct statx from;

	return stat_of(look(place, "", AT_EMPTY_PATH, &from), &from, st);
}

int xp_chosen_stat_link(const char *link, struct stat *st)
{
	struct statx from;

	return stat_of(look(AT_FDCWD, link, 0, &from), &from, st);
}

/* ---- file systems that did not answer ---- */

static struct stuck *find_stuck(dev_t dev)
{
	for (size_t i = 0; i < chosen.stuck_count; i++)
		if (chosen.stuck[i].dev == dev)
			return &chosen.stuck[i];
	return NULL;
}

/* Returns a free slot, or the slot whose retry time is the earliest. Returns NULL if no slot is due. */
static struct stuck *find_place(uint64_t now_ns)
{
	struct stuck *due = &chosen.stuck[0];

	if (chosen.stuck_count < STUCK_MAX)
		return &chosen.stuck[chosen.stuck_count];
	for (size_t i = 1; i < STUCK_MAX; i++)
		if (chosen.stuck[i].retry_ns < due->retry_ns)
			due = &chosen.stuck[i];
	return due->retry_ns <= now_ns ? due : NULL;
}

static bool may_wait(dev_t dev)
{
	uint64_t now_ns = xp_now_ns();
	const struct stuck *stuck = find_stuck(dev);

	if (chosen.waited_ns > WAITS_BURST_NS + (now_ns - chosen.first_ns) / WAITS_SHARE)
		return false;
	return stuck ? stuck->retry_ns <= now_ns : find_place(now_ns) != NULL;
}

static void note_stuck(dev_t dev, pid_t left)
{
	uint64_t now_ns = xp_now_ns();
	struct stuck *stuck = find_stuck(dev);

	if (!stuck) {
		stuck = find_place(now_ns);
		chosen.stuck_count += chosen.stuck_count < STUCK_MAX;
	}
	if (!stuck)
		return;
	if (stuck->left)
		(void)xp_child_wait(stuck->left, 0);
	stuck->dev = dev;
	stuck->left = left;
	stuck->retry_ns = now_ns + (RETRY_NS << XP_MIN(stuck->times, RETRY_SHIFT_MAX));
	stuck->times++;
	if (!chosen.has_warned)
		xp_warn("a FUSE file system, or an overlay, does not respond: programs on it are skipped for a while, "
			"so their "
			"functions may have no names; copy them to a local disk");
	chosen.has_warned = true;
}

/* ---- the child ---- */

struct answer {
	int32_t err;
	bool is_served;
	bool is_overlaid; /* an overlay may have FUSE layers */
	bool is_readable;
	uint64_t bytes;
};

struct job {
	const char *path; /* path to look up; NULL: open place */
	int dir;	  /* directory of the path */
	int place;
	int to_fd; /* for the copy */
	uint64_t bytes_max;
};

static int copy_bytes(int from_fd, const struct job *job, uint64_t *bytes)
{
	static char piece[256 << 10];
	ssize_t got;

	while ((got = pread(from_fd, piece, sizeof(piece), (off_t)*bytes)) > 0) {
		int err = *bytes + (uint64_t)got > job->bytes_max
			      ? -EFBIG
			      : xp_pwrite_all(job->to_fd, piece, (size_t)got, (off_t)*bytes);

		if (err)
			return err;
		*bytes += (uint64_t)got;
	}
	return got < 0 ? -errno : 0;
}

/*
 * Returns whether the real user may read the file without capabilities. faccessat() may send a request to the server.
 */
static bool user_may_read(int fd)
{
	return !faccessat(fd, "", R_OK, AT_EMPTY_PATH);
}

static int reopen(int place)
{
	return xp_open_format(O_RDONLY | O_NONBLOCK | O_NOCTTY, "/proc/self/fd/%d", place);
}

/*
 * Opens the file, or copies it if a process serves its file system. The mount may be unknown here, but fstatfs() works.
 */
static struct answer open_or_copy(const struct job *job)
{
	struct answer answer = { 0 };
	struct statfs system;
	int fd;

	if (fstatfs(job->place, &system)) {
		answer.err = -errno;
		return answer;
	}
	answer.is_overlaid = system.f_type == OVERLAYFS_SUPER_MAGIC;
	answer.is_served = answer.is_overlaid || system.f_type == FUSE_SUPER_MAGIC;
	if (!answer.is_served)
		return answer;
	answer.is_readable = user_may_read(job->place);
	fd = reopen(job->place);
	answer.err = fd < 0 ? fd : copy_bytes(fd, job, &answer.bytes);
	return answer;
}

static int do_job(void *arg)
{
	struct job *job = arg;
	struct answer answer = { 0 };
	int found = -1;

	if (job->path) {
		found = openat(XP_CHILD_FDS, job->path, O_PATH | O_CLOEXEC);
		answer.err = found < 0 ? -errno : 0;
	} else {
		job->place = XP_CHILD_FDS;
		job->to_fd = XP_CHILD_FDS + 1;
		answer = open_or_copy(job);
	}
	return xp_fd_message_send(XP_CHILD_CHANNEL, &answer, sizeof(answer), found) == sizeof(answer) ? 0 : 1;
}

/* Waits for the child to end, because it may be blocked in closing the file after its answer. */
static bool end_child(struct xp_child *child, bool is_late)
{
	bool has_ended = !is_late && xp_child_wait(child->pid, END_MS) != -EAGAIN;

	if (has_ended)
		close(child->fd);
	return has_ended || xp_child_kill(child, is_late ? 2 * END_MS : END_MS);
}

/*
 * Waits for the child's answer. Sets *found to a descriptor, or -1. Returns the child's result, or -ETIMEDOUT: the
 * caller must abandon the child.
 */
static int get_answer(int socket, struct answer *answer, int *found)
{
	struct pollfd ready = { .fd = socket, .events = POLLIN };
	uint64_t end_ns = xp_now_ns() + XP_CHOSEN_WAIT_NS, now_ns;
	int got = 0;

	*found = -1;
	while ((now_ns = xp_now_ns()) < end_ns && got <= 0)
		got = poll(&ready, 1, (int)((end_ns - now_ns) / 1000000 + 1));
	if (got <= 0)
		return -ETIMEDOUT;
	return xp_fd_message_receive(socket, answer, sizeof(*answer), found) == sizeof(*answer) ? answer->err : -EIO;
}

static int run(struct job *job, dev_t dev, struct answer *answer, int *found)
{
	/* The child may be abandoned, so it must not keep descriptors of the recording open. */
	const struct xp_child_options options = {
		.name = "xprof-file",
		.channel = XP_CHILD_SOCKET,
		.fds = { job->path ? job->dir : job->place, job->to_fd },
		.fd_count = job->path ? 1 : 2,
		.limits.seconds = CHILD_SECONDS,
	};
	uint64_t begin_ns = xp_now_ns();
	struct xp_child child;
	int err;

	*found = -1;
	if (!may_wait(dev))
		return -ETIMEDOUT;
	err = xp_child_start(&child, &options, do_job, job);
	if (!err) {
		err = get_answer(child.fd, answer, found);
		if (!end_child(&child, err == -ETIMEDOUT))
			note_stuck(dev, child.pid);
		else if (err == -ETIMEDOUT)
			note_stuck(dev, 0);
	}
	if (!chosen.first_ns)
		chosen.first_ns = begin_ns;
	chosen.waited_ns += xp_now_ns() - begin_ns;
	return err;
}

/* ---- copies ---- */

static bool is_of(const struct copy *copy, const struct statx *st)
{
	return copy->inode == st->stx_ino && copy->dev == makedev(st->stx_dev_major, st->stx_dev_minor) &&
	       copy->size == (off_t)st->stx_size && copy->changed.tv_sec == st->stx_ctime.tv_sec &&
	       copy->changed.tv_nsec == st->stx_ctime.tv_nsec;
}

static const struct copy *find_copy(const struct statx *st)
{
	for (size_t i = 0; i < chosen.copy_count; i++)
		if (is_of(&chosen.copies[i], st))
			return &chosen.copies[i];
	return NULL;
}

/* Takes ownership of the memfd. */
static int add_copy(const struct statx *st, int fd, const struct answer *answer)
{
	struct copy *copy = &chosen.copies[chosen.copy_count];
	struct stat own;

	if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) || fstat(fd, &own))
		return -errno;
	*copy = (struct copy){
		.dev = makedev(st->stx_dev_major, st->stx_dev_minor),
		.inode = st->stx_ino,
		.size = (off_t)st->stx_size,
		.changed = st->stx_ctime,
		.fd = fd,
		.is_overlaid = answer->is_overlaid,
		.is_readable = answer->is_readable,
		.copy_dev = own.st_dev,
		.copy_inode = own.st_ino,
	};
	chosen.copy_count++;
	chosen.copy_bytes += answer->bytes;
	return 0;
}

static int make_copy(int place, const struct statx *st)
{
	struct answer answer = { 0 };
	struct job job = { .place = place, .bytes_max = COPIES_BYTES_MAX - chosen.copy_bytes };
	int err, none;

	if (chosen.copy_count == COPIES_MAX)
		return -EFBIG;
	job.to_fd = memfd_create("xprof-copy", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (job.to_fd < 0)
		return -errno;
	err = run(&job, makedev(st->stx_dev_major, st->stx_dev_minor), &answer, &none);
	if (none >= 0)
		close(none);
	if (!err && answer.is_served)
		err = add_copy(st, job.to_fd, &answer);
	if (err || !answer.is_served)
		close(job.to_fd);
	return err ? err : answer.is_served ? chosen.copies[chosen.copy_count - 1].fd : reopen(place);
}

/* Returns a descriptor that the caller owns. */
static int open_served(int place, const struct statx *st)
{
	const struct copy *copy;
	int fd;

	pthread_mutex_lock(&chosen.lock);
	copy = find_copy(st);
	fd = copy ? copy->fd : make_copy(place, st);
	copy = find_copy(st);
	if (copy && copy->fd == fd) {
		fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
		fd = fd < 0 ? -errno : fd;
	}
	pthread_mutex_unlock(&chosen.lock);
	return fd;
}

/* Returns the copy that st describes. The copy stays valid and unchanged. */
static const struct copy *copy_of(const struct stat *st)
{
	const struct copy *copy = NULL;

	pthread_mutex_lock(&chosen.lock);
	for (size_t i = 0; i < chosen.copy_count && !copy; i++)
		if (chosen.copies[i].copy_inode == st->st_ino && chosen.copies[i].copy_dev == st->st_dev)
			copy = &chosen.copies[i];
	pthread_mutex_unlock(&chosen.lock);
	return copy;
}

const char *xp_chosen_original(struct stat *st)
{
	const struct copy *copy = copy_of(st);

	if (!copy)
		return NULL;
	st->st_dev = copy->dev;
	st->st_ino = copy->inode;
	return copy->is_overlaid ? "an overlay, whose layers may be FUSE file systems" : "a FUSE file system";
}

bool xp_chosen_user_may_read(int fd)
{
	const struct copy *copy;
	struct stat st;

	if (fstat(fd, &st))
		return false;
	copy = copy_of(&st);
	return copy ? copy->is_readable : user_may_read(fd);
}

/* ---- opening ---- */

int xp_chosen_open_place(int place, pid_t pid, ino_t inode)
{
	struct statx st;
	int err = look(place, "", AT_EMPTY_PATH, &st);

	if (err)
		return err;
	if (!S_ISREG(st.stx_mode))
		return -ENOEXEC;
	if (inode && st.stx_ino != inode)
		return -ESTALE;
	return xp_mount_is_local(&st, pid) ? reopen(place) : open_served(place, &st);
}

int xp_chosen_open_link(const char *link, pid_t pid, ino_t inode)
{
	int place = open(link, O_PATH | O_CLOEXEC), fd;

	if (place < 0)
		return -errno;
	fd = xp_chosen_open_place(place, pid, inode);
	close(place);
	return fd;
}

/* Looks up the path in a child, because directories that are not cached may require a request to the server. */
static int find_slowly(int dir, const char *path)
{
	struct job job = { .path = path, .dir = dir };
	struct answer answer = { 0 };
	int place, err;

	pthread_mutex_lock(&chosen.lock);
	err = run(&job, 0, &answer, &place);
	pthread_mutex_unlock(&chosen.lock);
	return err ? err : place < 0 ? -EIO : place;
}

int xp_chosen_find(int root, const char *path)
{
	const struct open_how how = {
		.flags = O_PATH | O_CLOEXEC,
		.resolve = RESOLVE_CACHED | (root >= 0 ? RESOLVE_IN_ROOT : 0),
	};
	int dir = root, place, slash = -1;

	if (path[0] != '/')
		return -ENOENT;
	place = (int)syscall(SYS_openat2, root >= 0 ? root : AT_FDCWD, path, &how, sizeof(how));
	if (place >= 0 || (errno != EAGAIN && errno != ENOSYS && errno != EINVAL))
		return place < 0 ? -errno : place;
	if (root < 0) {
		slash = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
		dir = slash;
	}
	place = dir < 0 ? -EIO : find_slowly(dir, path + strspn(path, "/"));
	if (slash >= 0)
		close(slash);
	return place;
}

int xp_chosen_open_path(int root, const char *path, pid_t pid, ino_t inode)
{
	int place = xp_chosen_find(root, path), fd;

	if (place < 0)
		return place;
	fd = xp_chosen_open_place(place, pid, inode);
	close(place);
	return fd;
}
