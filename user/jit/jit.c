// SPDX-License-Identifier: BSD-2-Clause
#include "jit/jit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/util.h"
#include "jit/code_bytes.h"
#include "jit/src_dump.h"
#include "jit/src_jvm.h"
#include "jit/src_map.h"
#include "target/mapped_file.h"
#include "target/target.h"

#define GDB_SOURCES_MAX 4
#define LOOK_NS 100000000ull	     /* maximum duration of a poll */
#define BYTES_OF_REFRESH (32u << 20) /* maximum number of code bytes that a poll reads */

/* Whether a file has GDB's JIT interface, and where. */
struct xp_jit_file {
	bool is_known;
	uint8_t tries; /* attempts to open it */
	struct xp_jit_gdb_file gdb;
};
#define OPEN_TRIES 3

/*
 * Maximum number of stored hits. There can be thousands of hits per second, but one hit is enough to search for new
 * code.
 */
#define HITS_MAX 16
/* How long a hit is kept. A JVM writes a perf map at the second poll after a hit in new code. */
#define HIT_WAIT_NS 10000000000ull

/* A GDB source in one binary of the process. */
struct gdb {
	const struct xp_file *file;
	struct xp_jit_src_gdb *source;
};

/* A sampled address in an unknown function. */
struct hit {
	uint64_t address;
	uint64_t tsc;
};

struct xp_jit {
	struct xp_jits *jits;
	pid_t pid;
	uint64_t start_time;
	struct xp_jit_code *code;
	uint64_t refreshed_tsc;
	struct xp_jit_bytes bytes;
	uint64_t look_begin_ns;
	bool is_over;
	bool is_finished;
	int finish_err;

	struct xp_jit_src_dump *dump;
	bool dump_failed;
	struct xp_jit_src_map *map;
	int map_error; /* error of the last attempt to open the perf map */
	struct gdb gdbs[GDB_SOURCES_MAX];
	size_t gdb_count;

	struct xp_jit_src_jvm jvm;

	struct xp_jit_dump_out *out; /* NULL: no jitdump is written */
	struct xp_jit_dump_out_counts out_counts;

	struct hit hits[HITS_MAX]; /* sampled addresses in unknown functions */
	size_t hit_count;
	size_t next_hit; /* index of the oldest hit, which the next hit overwrites */
};

void xp_jits_free(struct xp_jits *jits)
{
	xp_target_memory_free(jits->memory);
	jits->memory = NULL;
	free(jits->files);
	jits->files = NULL;
	jits->file_count = jits->file_room = 0;
}

static int open_registry(struct xp_jit *jit, unsigned int image)
{
	const struct xp_jit_dump_out_options options = {
		.dir_fd = jit->jits->dir_fd,
		.pid = jit->pid,
		.image = image - 1,
		.start_tsc = jit->jits->start_tsc,
		.bytes_left = &jit->jits->dump_bytes_left,
	};
	struct xp_jit_observer observer = { xp_jit_dump_out_load, xp_jit_dump_out_move, NULL };
	int err = jit->jits->with_dumps ? xp_jit_dump_out_new(&jit->out, &options) : 0;

	if (err)
		return err;
	observer.arg = jit->out;
	return xp_jit_code_new(&jit->code, &jit->jits->bytes_left, jit->out ? &observer : NULL);
}

int xp_jit_new(struct xp_jit **jit, struct xp_jits *jits, pid_t pid, unsigned int image)
{
	struct xp_jit *made;
	int err = jits->memory ? 0 : xp_target_memory_new(&jits->memory);

	if (err)
		return err;
	made = calloc(1, sizeof(*made));
	if (!made)
		return -ENOMEM;
	made->jits = jits;
	made->pid = pid;
	made->bytes = (struct xp_jit_bytes){ .memory = jits->memory, .pid = pid };
	made->start_time = xp_target_start_time(pid);
	made->jvm = (struct xp_jit_src_jvm){ .pid = pid, .start_time = made->start_time };
	err = open_registry(made, image);
	if (err) {
		xp_jit_free(made);
		return err;
	}
	*jit = made;
	return 0;
}

/* Closes the files of a process that has exited, because a recording may have thousands of such processes. */
static void close_sources(struct xp_jit *jit)
{
	xp_jit_src_dump_free(jit->dump);
	jit->dump = NULL;
	xp_jit_src_map_free(jit->map);
	jit->map = NULL;
	for (size_t i = 0; i < jit->gdb_count; i++)
		xp_jit_src_gdb_free(jit->gdbs[i].source);
	jit->gdb_count = 0;
	xp_jit_src_jvm_stop(&jit->jvm);
	xp_jit_bytes_free(&jit->bytes);
}

void xp_jit_free(struct xp_jit *jit)
{
	if (!jit)
		return;
	close_sources(jit);
	xp_jit_code_free(jit->code);
	xp_jit_dump_out_free(jit->out);
	free(jit);
}

/* ---- finding sources ---- */

static int find_dump(struct xp_jit *jit, const struct xp_address_space *space)
{
	int err = 0;

	for (size_t i = 0; i < space->count && !jit->dump && !jit->dump_failed; i++) {
		const char *path = space->vmas[i].file->path;

		if (!xp_jit_src_dump_is_marker(path))
			continue;
		err = xp_jit_src_dump_open(&jit->dump, jit->pid, jit->start_time, path);
		if (!err)
			xp_jit_src_dump_read_with(jit->dump, jit->jits->memory);
		if (err && err != -ENOMEM && err != -ESRCH) {
			xp_debug("process %d: its jitdump %s is not read: %s", jit->pid, path, strerror(-err));
			jit->dump_failed = true;
		}
	}
	return err == -ENOMEM ? err : 0;
}

static int find_map(struct xp_jit *jit)
{
	int err;

	if (jit->map || jit->dump)
		return 0;
	err = xp_jit_src_map_open(&jit->map, jit->pid, jit->start_time);
	if (err && err != -ENOENT && err != -ESRCH && err != jit->map_error)
		xp_debug("process %d: its perf map is not read: %s", jit->pid, strerror(-err));
	jit->map_error = err;
	return err == -ENOMEM ? err : 0;
}

static struct xp_jit_file *file_of(struct xp_jits *jits, const struct xp_file *file)
{
	if (XP_ARRAY_RESERVE(jits->files, jits->file_room, (size_t)file->index + 1))
		return NULL;
	while (jits->file_count <= file->index)
		jits->files[jits->file_count++] = (struct xp_jit_file){ 0 };
	return &jits->files[file->index];
}

/* Calls jits->watch(), once per file of a process. The call is slow, so its duration does not count as poll time. */
static void watch(struct xp_jit *jit, int fd, uint64_t hook)
{
	uint64_t begin_ns = xp_now_ns();

	if (jit->jits->watch)
		jit->jits->watch(jit->jits->arg, jit->pid, fd, hook);
	jit->look_begin_ns += xp_now_ns() - begin_ns;
}

static int add_gdb(struct xp_jit *jit, const struct xp_vma *vma, int fd, const struct xp_jit_gdb_file *where)
{
	struct gdb *gdb = &jit->gdbs[jit->gdb_count];
	int err = xp_jit_src_gdb_open(&gdb->source, jit->pid, vma->start - vma->file_offset + where->descriptor);

	if (err)
		return err;
	xp_jit_src_gdb_read_with(gdb->source, jit->jits->memory);
	gdb->file = vma->file;
	jit->gdb_count++;
	if (where->hook && fd >= 0)
		watch(jit, fd, where->hook);
	return 0;
}

static bool has_gdb(const struct xp_jit *jit, const struct xp_file *file)
{
	for (size_t i = 0; i < jit->gdb_count; i++)
		if (jit->gdbs[i].file == file)
			return true;
	return jit->gdb_count == GDB_SOURCES_MAX;
}

static int look_at(struct xp_jit *jit, const struct xp_vma *vma)
{
	struct xp_jit_file *file = file_of(jit->jits, vma->file);
	int fd, err = 0;

	if (!file)
		return -ENOMEM;
	if (file->is_known && (!file->gdb.descriptor || has_gdb(jit, vma->file)))
		return 0;
	fd = xp_mapped_file_open(jit->pid, vma);
	if (!file->is_known) {
		file->is_known = fd >= 0 || ++file->tries == OPEN_TRIES;
		err = fd >= 0 ? xp_jit_gdb_file_look(&file->gdb, fd) : 0;
		err = err == -ENOMEM ? err : 0;
	}
	if (!err && file->gdb.descriptor && !has_gdb(jit, vma->file))
		err = add_gdb(jit, vma, fd, &file->gdb);
	if (fd >= 0)
		close(fd);
	return err;
}

static bool has_time(const struct xp_jit *jit)
{
	return xp_now_ns() - jit->look_begin_ns < LOOK_NS;
}

/* Searches all mapped files for GDB's interface. Returns 1 if the poll time ended before all files were searched. */
static int find_gdbs(struct xp_jit *jit, const struct xp_address_space *space)
{
	int err = 0;

	for (size_t i = 0; i < space->count && !err; i++) {
		if (space->vmas[i].file->kind != XP_FILE_DISK)
			continue;
		if (!has_time(jit))
			return 1;
		err = look_at(jit, &space->vmas[i]);
	}
	return err;
}

/* ---- reading sources ---- */

/* Combines the results of two sources: returns the first error, or else 1 if one of the sources has more data. */
static int both(int a, int b)
{
	return a < 0 || !b ? a : b < 0 ? b : 1;
}

static int refresh_dump(struct xp_jit *jit, uint64_t now_tsc)
{
	int ret = jit->dump ? 1 : 0;

	while (ret == 1 && has_time(jit))
		ret = xp_jit_src_dump_refresh(jit->dump, jit->code, jit->jits->clock, now_tsc);
	if (ret >= 0 || ret == -ENOMEM)
		return ret;
	/* From now on, look for a perf map instead. */
	xp_debug("process %d: its jitdump is not read any further: %s", jit->pid, strerror(-ret));
	xp_jit_src_dump_free(jit->dump);
	jit->dump = NULL;
	jit->dump_failed = true;
	return 0;
}

static int refresh_map(struct xp_jit *jit, uint64_t now_tsc)
{
	int ret = jit->map ? 1 : 0;

	if (jit->map && jit->is_over)
		xp_jit_src_map_end(jit->map);
	while (ret == 1 && has_time(jit))
		ret = xp_jit_src_map_refresh(jit->map, jit->code, jit->is_over ? NULL : &jit->bytes, now_tsc);
	return ret < 0 && ret != -ENOMEM ? 0 : ret;
}

/* Reads GDB's interface if the process still runs. If it has exited, another process may have its PID. */
static int refresh_gdbs(struct xp_jit *jit, uint64_t now_tsc, bool is_told)
{
	int ret = 0;

	if (!jit->gdb_count || xp_target_start_time(jit->pid) != jit->start_time)
		return 0;
	for (size_t i = 0; i < jit->gdb_count && ret >= 0; i++)
		ret = both(ret, xp_jit_src_gdb_refresh(jit->gdbs[i].source, jit->code, &jit->bytes, now_tsc, is_told));
	return ret;
}

static void begin_look(struct xp_jit *jit, const struct xp_address_space *space)
{
	jit->look_begin_ns = xp_now_ns();
	xp_jit_bytes_begin(&jit->bytes, BYTES_OF_REFRESH);
	xp_jit_code_bind(jit->code, space);
}

static void end_look(struct xp_jit *jit)
{
	xp_jit_code_bind(jit->code, NULL);
	xp_rate_limit_spend(&jit->jits->looking, xp_now_ns() - jit->look_begin_ns);
}

/* ---- hits ---- */

void xp_jit_hit(struct xp_jit *jit, uint64_t address, uint64_t tsc)
{
	struct xp_jit_range range;

	/* If the last poll was before the sample, the known code at this address may be out of date. */
	if (!xp_jit_is_behind(jit, tsc) &&
	    (xp_jit_code_find(jit->code, address, tsc, &range) || !xp_jit_src_jvm_want(&jit->jvm, tsc)))
		return;
	jit->hits[jit->next_hit] = (struct hit){ address, tsc };
	jit->next_hit = (jit->next_hit + 1) % HITS_MAX;
	jit->hit_count = XP_MIN(jit->hit_count + 1, (size_t)HITS_MAX);
}

bool xp_jit_has_unknown(const struct xp_jit *jit)
{
	return jit->hit_count;
}

/* Removes hits whose functions are now known, and hits older than HIT_WAIT_NS. Call this after a poll. */
static void settle_hits(struct xp_jit *jit, uint64_t now_tsc)
{
	uint64_t wait_ticks = xp_clock_ticks(jit->jits->clock, HIT_WAIT_NS);
	size_t count = 0;

	for (size_t i = 0; i < jit->hit_count; i++) {
		const struct hit hit = jit->hits[i];
		struct xp_jit_range range;

		if (xp_jit_code_find(jit->code, hit.address, hit.tsc, &range) || now_tsc > hit.tsc + wait_ticks)
			continue;
		if (xp_jit_is_behind(jit, hit.tsc) || xp_jit_src_jvm_want(&jit->jvm, hit.tsc))
			jit->hits[count++] = hit;
	}
	jit->hit_count = count;
	jit->next_hit = count % HITS_MAX;
}

/* ---- polls ---- */

int xp_jit_refresh(struct xp_jit *jit, const struct xp_address_space *space, uint64_t now_tsc)
{
	int ret = 0;

	if (jit->is_finished)
		return 0;
	begin_look(jit, space);
	if (!jit->is_over) {
		if (jit->jits->jvm_attach)
			xp_jit_src_jvm_refresh(&jit->jvm, space, jit->jits->clock, now_tsc);
		ret = find_dump(jit, space);
		ret = ret ? ret : find_map(jit);
		ret = ret ? ret : find_gdbs(jit, space);
		if (ret >= 0)
			ret = both(ret, refresh_gdbs(jit, now_tsc, false));
	}
	if (ret >= 0)
		ret = both(ret, refresh_dump(jit, now_tsc));
	if (ret >= 0)
		ret = both(ret, refresh_map(jit, now_tsc));
	end_look(jit);
	if (!ret)
		jit->refreshed_tsc = now_tsc;
	settle_hits(jit, now_tsc);
	return ret;
}

int xp_jit_told(struct xp_jit *jit, const struct xp_address_space *space, uint64_t tsc)
{
	int ret;

	begin_look(jit, space);
	ret = jit->is_finished ? 0 : refresh_gdbs(jit, tsc, true);
	end_look(jit);
	return XP_MIN(ret, 0);
}

void xp_jit_over(struct xp_jit *jit)
{
	jit->is_over = true;
}

bool xp_jit_is_gone(const struct xp_jit *jit)
{
	return !jit->start_time || xp_target_start_time(jit->pid) != jit->start_time;
}

bool xp_jit_is_finished(const struct xp_jit *jit)
{
	return jit->is_finished;
}

int xp_jit_finish(struct xp_jit *jit, const struct xp_address_space *space, uint64_t now_tsc, uint64_t end_ns)
{
	int ret = 1, err;

	if (jit->is_finished)
		return jit->finish_err;
	xp_jit_src_jvm_finish(&jit->jvm, jit->is_over, now_tsc, end_ns);
	while (ret == 1 && xp_now_ns() < end_ns)
		ret = xp_jit_refresh(jit, space, now_tsc);
	jit->refreshed_tsc = UINT64_MAX; /* no further data will arrive */
	xp_jit_code_bind(jit->code, space);
	xp_jit_code_settle(jit->code);
	xp_jit_code_bind(jit->code, NULL);
	err = jit->out ? xp_jit_dump_out_close(jit->out, now_tsc, &jit->out_counts) : 0;
	close_sources(jit);
	jit->is_finished = true;
	jit->finish_err = ret < 0 ? ret : err;
	return jit->finish_err;
}

/* ---- unwinding ---- */

/*
 * Returns whether samples in new code should wait for its unwinding data. GDB's interface has unwinding data; jitdumps
 * and perf maps usually have none.
 */
static bool may_have_rules(const struct xp_jit *jit)
{
	return xp_jit_code_has_rules(jit->code) || jit->gdb_count || !jit->refreshed_tsc;
}

int xp_jit_find_rule(const struct xp_jit *jit, uint64_t address, uint64_t tsc, struct xp_cfi_found *found)
{
	if (!may_have_rules(jit))
		return -ENOENT;
	if (!xp_jit_code_find_rule(jit->code, address, tsc, found))
		return xp_jit_is_behind(jit, tsc) ? -EAGAIN : -ENOENT;
	return found->row.rule == XP_CFI_NONE ? -ENOENT : 0;
}

bool xp_jit_is_behind(const struct xp_jit *jit, uint64_t tsc)
{
	return tsc > jit->refreshed_tsc;
}

uint32_t xp_jit_functions(const struct xp_jit *jit)
{
	return xp_jit_code_count(jit->code);
}

uint64_t xp_jit_refused(const struct xp_jit *jit)
{
	return xp_jit_code_refused(jit->code);
}

const char *xp_jit_dump(const struct xp_jit *jit, struct xp_jit_dump_out_counts *counts)
{
	*counts = jit->out_counts;
	return jit->out ? xp_jit_dump_out_name(jit->out) : NULL;
}
