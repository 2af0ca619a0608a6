// SPDX-License-Identifier: BSD-2-Clause
#include "unwind/cfi_tables.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/child.h"
#include "base/fd_message.h"
#include "base/util.h"
#include "unwind/cfi_store.h"
#include "unwind/cfi_worker.h"

/*
 * Limits of the jobs that are sent to the process. A sent job can no longer be overtaken. Several jobs are sent, so
 * that the process is not idle until xprof collects a table. Only one job of a foreign file is sent at a time, because
 * it may use the whole time limit of a file.
 */
#define SENT_MAX 8
#define SENT_BYTES_MAX (8u << 20)
#define OPEN_TRIES 10
#define END_MS 50 /* time for an idle process and its child to exit, so that the CPU time of both is counted */

/* A file. */
struct entry {
	uint64_t again_ns; /* for an absent file: the time when it may be requested again (CLOCK_MONOTONIC); 0: never */
	bool is_absent;
	uint8_t failures; /* number of failed attempts to open the file */
	bool is_foreign;  /* set when the file is first requested */
	bool is_wide;	  /* true: pieces of the file have XP_CFI_WIDE_BYTES; known from the first table */
};

/* A piece waiting for its table. */
struct job {
	struct job *next;
	uint64_t id;
	size_t entry;
	struct xp_cfi_piece *piece;
	struct xp_cfi_range range;
	uint64_t bytes; /* bytes of the file in the piece */
	bool is_foreign;
	bool is_system;
	int fd;
	char path[];
};

struct xp_cfi_tables {
	struct entry *entries; /* indexed by struct xp_file.index */
	size_t entry_count;
	struct xp_cfi_store stores[2]; /* the second one is for foreign files */
	struct job *jobs;	       /* the first sent_count jobs are sent; the others are sorted by is_behind() */
	size_t job_count;
	size_t foreign_count; /* jobs of foreign files */
	size_t sent_count;
	uint64_t last_id;
	int finished; /* number of finished pieces that xp_cfi_tables_collect() has not returned yet */
	pid_t pid;
	int socket;   /* -1: no process */
	int epoll_fd; /* watches socket, which changes */
};

/* ---- entries ---- */

static struct entry *entry_of(struct xp_cfi_tables *tables, size_t index)
{
	if (index >= tables->entry_count) {
		size_t count = XP_MAX(index + 1, tables->entry_count * 2);
		struct entry *entries = reallocarray(tables->entries, count, sizeof(*entries));

		if (!entries)
			return NULL;
		memset(entries + tables->entry_count, 0, (count - tables->entry_count) * sizeof(*entries));
		tables->entries = entries;
		tables->entry_count = count;
	}
	return &tables->entries[index];
}

static uint32_t piece_bytes(const struct entry *entry)
{
	return entry->is_wide ? XP_CFI_WIDE_BYTES : XP_CFI_PIECE_BYTES;
}

/* Returns the key of a piece. Only the first 4 GiB of a file have pieces. */
static uint64_t key_of(const struct xp_cfi_tables *tables, size_t index, uint64_t offset)
{
	const struct entry *entry = &tables->entries[index];

	return (uint64_t)index << 32 | (uint64_t)entry->is_wide << 31 | offset / piece_bytes(entry);
}

/* ---- jobs ---- */

/*
 * Returns whether `job` must wait for `other`. Small pieces come first, because most samples need them (libc rather
 * than a compiler). All jobs of foreign files come last.
 */
static bool is_behind(const struct job *job, const struct job *other)
{
	return job->is_foreign == other->is_foreign ? job->bytes > other->bytes : job->is_foreign;
}

static void insert_job(struct xp_cfi_tables *tables, struct job *job)
{
	struct job **at = &tables->jobs;

	for (size_t i = 0; i < tables->sent_count; i++)
		at = &(*at)->next;
	while (*at && !is_behind(*at, job))
		at = &(*at)->next;
	job->next = *at;
	*at = job;
	tables->job_count++;
	tables->foreign_count += job->is_foreign;
}

/* Returns whether the file belongs to neither root nor the user who records. */
static bool is_foreign(const struct stat *st)
{
	return st->st_uid && st->st_uid != geteuid();
}

/*
 * Returns whether the file is a system file outside of containers that only root can change. A file of a container can
 * have the same path, but is a different file.
 */
static bool is_system(const char *path, const struct stat *st)
{
	static const char *const places[] = { "/usr/bin/", "/usr/sbin/", "/usr/lib", "/bin/", "/sbin/", "/lib" };
	struct stat here;
	size_t i = 0;

	while (i < XP_ARRAY_SIZE(places) && strncmp(path, places[i], strlen(places[i])))
		i++;
	return i < XP_ARRAY_SIZE(places) && !strstr(path, "/..") && !st->st_uid &&
	       !(st->st_mode & (S_IWGRP | S_IWOTH)) && !stat(path, &here) && here.st_dev == st->st_dev &&
	       here.st_ino == st->st_ino;
}

/* Creates a job. Returns NULL and sets errno on error. */
static struct job *new_job(const char *path, uint64_t offset, uint32_t bytes, int fd)
{
	uint64_t start = offset - offset % bytes, wide = offset - offset % XP_CFI_WIDE_BYTES;
	struct job *job;
	struct stat st;

	if (fstat(fd, &st))
		return NULL;
	job = calloc(1, sizeof(*job) + strlen(path) + 1);
	if (!job)
		return NULL;
	strcpy(job->path, path);
	job->range = (struct xp_cfi_range){
		.start = (uint32_t)start,
		.end = (uint32_t)XP_MIN(start + bytes, (uint64_t)UINT32_MAX),
		.wide_start = (uint32_t)wide,
		.wide_end = (uint32_t)XP_MIN(wide + XP_CFI_WIDE_BYTES, (uint64_t)UINT32_MAX),
	};
	job->bytes = XP_MIN((uint64_t)st.st_size - XP_MIN((uint64_t)st.st_size, start), (uint64_t)bytes);
	job->is_foreign = is_foreign(&st);
	job->is_system = is_system(path, &st);
	job->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (job->fd >= 0)
		return job;
	free(job);
	return NULL;
}

static void remove_first_job(struct xp_cfi_tables *tables)
{
	struct job *job = tables->jobs;

	tables->jobs = job->next;
	tables->job_count--;
	tables->foreign_count -= job->is_foreign;
	if (tables->sent_count)
		tables->sent_count--;
	close(job->fd);
	free(job);
}

/*
 * Changes a file to wide pieces, after its first wide table. Waiting samples request the missing wide pieces. The
 * tables of the few narrow pieces that are already sent will not be used.
 */
static void become_wide(struct xp_cfi_tables *tables, size_t entry)
{
	struct job **link = &tables->jobs;
	size_t place = 0;

	tables->entries[entry].is_wide = true;
	while (*link) {
		struct job *job = *link;

		if (place++ < tables->sent_count || job->entry != entry) {
			link = &job->next;
			continue;
		}
		*link = job->next;
		xp_cfi_store_remove(&tables->stores[job->is_foreign], job->piece);
		tables->job_count--;
		tables->foreign_count -= job->is_foreign;
		tables->finished++;
		close(job->fd);
		free(job);
	}
}

/* Stores a finished table. It may cover a wider piece than the requested one. */
static void keep_table(struct xp_cfi_tables *tables, const struct job *job, struct xp_cfi_table *table)
{
	struct xp_cfi_store *store = &tables->stores[job->is_foreign];
	struct xp_cfi_piece *piece = job->piece;
	uint64_t now_ns = xp_now_ns(), key;

	if (xp_cfi_table_header(table)->is_wide) {
		if (!tables->entries[job->entry].is_wide)
			become_wide(tables, job->entry);
		xp_cfi_store_remove(store, piece);
		key = key_of(tables, job->entry, job->range.start);
		piece = xp_cfi_store_find(store, key, now_ns) ? NULL : xp_cfi_store_add(store, key);
	}
	if (piece)
		xp_cfi_store_insert(store, piece, table, now_ns);
	else /* the table is already stored, or out of memory and requested again */
		xp_cfi_table_free(table);
}

static void finish_first_job(struct xp_cfi_tables *tables, int err, int fd)
{
	const struct job *job = tables->jobs;
	struct xp_cfi_store *store = &tables->stores[job->is_foreign];
	struct xp_cfi_table *table = NULL;

	if (!err)
		err = xp_cfi_table_open(&table, fd);
	if (!err) {
		const struct xp_cfi_header *header = xp_cfi_table_header(table);

		xp_debug("%s: unwind table of %" PRIu32 " rows from %" PRIu32 " KiB on in %.1f ms", job->path,
			 header->row_count, (header->is_wide ? job->range.wide_start : job->range.start) >> 10,
			 (double)header->build_ns / 1e6);
		keep_table(tables, job, table);
	} else if (err == -ENOENT) { /* no table for this piece */
		xp_debug("%s: no unwind table from %" PRIu32 " KiB on", job->path, job->range.start >> 10);
		xp_cfi_store_insert(store, job->piece, NULL, xp_now_ns());
	} else {
		tables->entries[job->entry].is_absent = true;
		xp_cfi_store_remove(store, job->piece);
		xp_debug("%s: no unwind table: %s", job->path, err == -EIO ? "cannot be read" : strerror(-err));
	}
	tables->finished++;
	remove_first_job(tables);
}

/* ---- the process ---- */

static void stop(struct xp_cfi_tables *tables)
{
	if (tables->socket < 0)
		return;
	close(tables->socket);
	tables->socket = -1;
	if (xp_child_wait(tables->pid, END_MS) != -EAGAIN)
		return;
	kill(tables->pid, SIGKILL);
	while (waitpid(tables->pid, NULL, 0) < 0 && errno == EINTR)
		;
}

static int start(struct xp_cfi_tables *tables)
{
	struct epoll_event event = { .events = EPOLLIN };
	int socket = xp_cfi_worker_start(&tables->pid);

	if (socket < 0)
		return socket;
	tables->socket = socket;
	if (!epoll_ctl(tables->epoll_fd, EPOLL_CTL_ADD, socket, &event))
		return 0;
	stop(tables);
	return -ENOMEM;
}

/* Handles the death of the process, whether the file that it was reading caused the death or not. */
static void bury(struct xp_cfi_tables *tables)
{
	xp_debug("the process that builds unwind tables has died; another one will start when needed");
	stop(tables);
	if (tables->sent_count)
		finish_first_job(tables, -EIO, -1);
	tables->sent_count = 0;
}

static uint64_t sent_weight(const struct job *job)
{
	return job->is_foreign ? SENT_BYTES_MAX : XP_MIN(job->bytes, (uint64_t)SENT_BYTES_MAX);
}

static bool may_send(const struct xp_cfi_tables *tables, const struct job *job, uint64_t sent_bytes)
{
	return !tables->sent_count ||
	       (tables->sent_count < SENT_MAX && sent_bytes + sent_weight(job) <= SENT_BYTES_MAX);
}

/* Sends as many jobs as allowed. Ignores errors of the process, because they also appear when its answers are read. */
static int send_jobs(struct xp_cfi_tables *tables)
{
	struct job *job = tables->jobs;
	uint64_t sent_bytes = 0;
	int err = 0;

	if (job && tables->socket < 0)
		err = start(tables);
	for (size_t i = 0; i < tables->sent_count; i++, job = job->next)
		sent_bytes += sent_weight(job);
	while (!err && job && may_send(tables, job, sent_bytes)) {
		struct xp_cfi_request request = { .id = job->id, .range = job->range, .is_system = job->is_system };

		if (xp_fd_message_send(tables->socket, &request, sizeof(request), job->fd) < 0)
			break;
		tables->sent_count++;
		sent_bytes += sent_weight(job);
		job = job->next;
	}
	return err;
}

/* Starts the process and sends jobs. If the process cannot be started, all files stay without tables. */
static void serve_jobs(struct xp_cfi_tables *tables)
{
	while (send_jobs(tables))
		finish_first_job(tables, -ECHILD, -1);
}

static void receive_answers(struct xp_cfi_tables *tables)
{
	while (tables->socket >= 0) {
		struct xp_cfi_answer answer;
		int fd;
		ssize_t got = xp_fd_message_receive(tables->socket, &answer, sizeof(answer), &fd);

		if (got == -EAGAIN)
			break;
		if (got == sizeof(answer) && tables->sent_count && answer.id == tables->jobs->id)
			finish_first_job(tables, answer.err > 0 ? -EIO : answer.err, fd);
		else
			bury(tables);
		if (fd >= 0)
			close(fd);
	}
}

int xp_cfi_tables_new(struct xp_cfi_tables **tables)
{
	struct xp_cfi_tables *new = calloc(1, sizeof(*new));
	int err;

	*tables = NULL;
	if (!new)
		return -ENOMEM;
	new->socket = -1;
	new->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	err = new->epoll_fd < 0 ? -errno : start(new);
	if (err)
		xp_cfi_tables_free(new);
	else
		*tables = new;
	return err;
}

void xp_cfi_tables_free(struct xp_cfi_tables *tables)
{
	if (!tables)
		return;
	stop(tables);
	while (tables->jobs)
		remove_first_job(tables);
	xp_cfi_store_free(&tables->stores[0]);
	xp_cfi_store_free(&tables->stores[1]);
	free(tables->entries);
	if (tables->epoll_fd >= 0)
		close(tables->epoll_fd);
	free(tables);
}

void xp_cfi_tables_forked(struct xp_cfi_tables *tables)
{
	/* The parent shares the epoll instance, so closing a descriptor here does not remove it there. */
	close(tables->epoll_fd);
	tables->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (tables->socket >= 0)
		close(tables->socket);
	tables->socket = -1;
	tables->sent_count = 0;
}

enum xp_cfi_state xp_cfi_tables_get(struct xp_cfi_tables *tables, const struct xp_file *file, uint64_t offset,
				    const struct xp_cfi_table **table)
{
	struct entry *entry = file->index < tables->entry_count ? &tables->entries[file->index] : NULL;
	uint64_t now_ns = xp_now_ns();
	const struct xp_cfi_piece *piece;

	*table = NULL;
	if (offset > UINT32_MAX)
		return XP_CFI_ABSENT;
	if (!entry)
		return XP_CFI_UNASKED;
	piece = xp_cfi_store_find(&tables->stores[entry->is_foreign], key_of(tables, file->index, offset), now_ns);
	if (piece) {
		*table = piece->table;
		return !piece->is_made ? XP_CFI_BUILDING : piece->table ? XP_CFI_READY : XP_CFI_ABSENT;
	}
	if (entry->again_ns && now_ns >= entry->again_ns) {
		entry->again_ns = 0;
		entry->is_absent = false;
	}
	return entry->is_absent ? XP_CFI_ABSENT : XP_CFI_UNASKED;
}

static int ask(struct xp_cfi_tables *tables, const struct xp_file *file, uint64_t offset, int fd)
{
	struct job *job = new_job(file->path ?: "", offset, piece_bytes(&tables->entries[file->index]), fd);
	int err;

	if (!job)
		return -errno;
	tables->entries[file->index].is_foreign = job->is_foreign;
	err = xp_cfi_tables_have_room(tables, file) ? 0 : -EAGAIN;
	job->piece =
	    err ? NULL : xp_cfi_store_add(&tables->stores[job->is_foreign], key_of(tables, file->index, offset));
	if (!job->piece) {
		close(job->fd);
		free(job);
		return err ?: -ENOMEM;
	}
	job->id = ++tables->last_id;
	job->entry = file->index;
	tables->entries[file->index].failures = 0;
	insert_job(tables, job);
	serve_jobs(tables);
	return 0;
}

int xp_cfi_tables_ask(struct xp_cfi_tables *tables, const struct xp_file *file, uint64_t offset, int fd)
{
	struct entry *entry = entry_of(tables, file->index);
	const struct xp_cfi_table *table;

	if (!entry)
		return -ENOMEM;
	if (xp_cfi_tables_get(tables, file, offset, &table) != XP_CFI_UNASKED)
		return 0;
	if (fd >= 0)
		return ask(tables, file, offset, fd);
	/* The process may have exited, but another process of the same container may be able to open the file later. */
	entry->is_absent = true;
	entry->again_ns = ++entry->failures < OPEN_TRIES ? xp_now_ns() + XP_CFI_AGAIN_NS : 0;
	return 0;
}

bool xp_cfi_tables_have_room(const struct xp_cfi_tables *tables, const struct xp_file *file)
{
	bool is_foreign = file->index < tables->entry_count && tables->entries[file->index].is_foreign;

	if (xp_cfi_store_is_full(&tables->stores[is_foreign], xp_now_ns()))
		return false;
	return tables->job_count < XP_CFI_WAITING_MAX && (!is_foreign || tables->foreign_count < XP_CFI_FOREIGN_MAX);
}

int xp_cfi_tables_fd(const struct xp_cfi_tables *tables)
{
	return tables->epoll_fd;
}

int xp_cfi_tables_collect(struct xp_cfi_tables *tables)
{
	int finished;

	receive_answers(tables);
	serve_jobs(tables);
	finished = tables->finished;
	tables->finished = 0;
	return finished;
}
