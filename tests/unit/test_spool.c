// SPDX-License-Identifier: BSD-2-Clause
/* The spool: recover makes a log from its contents, also after a crash and on a full disk. */
#include "unit.h"

#include "trace/spool.h"
#include "export/logs.h"
#include "format/spool_format.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file_lock.h"
#include "format/fdr_reader.h"
#include "check/fdr_rules.h"

#define CHUNK_BYTES (16u << 10)
#define DISK_BYTES (8u << 20)
#define NAME "program.500.spool"
#define PATIENCE_NS XP_FILE_LOCK_PATIENCE_NS

static char place[] = "/tmp/xprof-test-spool-XXXXXX";
static int dir; /* a small disk if root runs the tests */
static bool small_disk;
static struct xp_spool_result result;

static const struct xp_log_info info = {
	.pid = 500,
	.fdr_version = 1,
	.constant_tsc = true,
	.cycle_hz = 1000000000,
	.start_tsc = 1000,
	.wall_ns = 5000000000,
	.comm = "program",
	.exe = "/usr/bin/program",
	.final_name = "program.500.fdr",
};

/* ---- a separate disk ---- */

int unit_set_up(void **state)
{
	char options[32];

	(void)state;
	if (!mkdtemp(place))
		return -1;
	snprintf(options, sizeof(options), "size=%u", DISK_BYTES);
	/* In a mount namespace of this process, so that no mount remains. */
	small_disk = !unshare(CLONE_NEWNS) && !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
		     !mount("none", place, "tmpfs", 0, options);
	signal(SIGXFSZ, SIG_IGN);
	return 0;
}

int unit_tear_down(void **state)
{
	(void)state;
	if (small_disk)
		umount2(place, MNT_DETACH);
	return rmdir(place);
}

static int open_dir(void **state)
{
	(void)state;
	dir = open(place, O_RDONLY | O_DIRECTORY);
	return dir < 0;
}

static int empty_dir(void **state)
{
	static const char *const names[] = { NAME, "program.500.fdr", "program.500.fdr.part", "filler", "x" };

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unlinkat(dir, names[i], 0);
	close(dir);
	return 0;
}

static bool exists(const char *name)
{
	return !faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW);
}

/* ---- writing ---- */

static uint8_t chunk[CHUNK_BYTES];
static struct xp_fdr_enc enc;

/* Makes a chunk of records of the functions first, first + 1, ... */
static void fill(uint32_t first, uint32_t count)
{
	xp_fdr_enc_begin(&enc, chunk, sizeof(chunk), 1, 2000 + first);
	for (uint32_t i = 0; i < count; i++)
		assert_int_equal(xp_fdr_enc_function(&enc, 1, 2000 + first + i, first + i, XP_FDR_ENTER), 0);
}

static struct xp_spool *create(const struct xp_log_info *with)
{
	struct xp_spool *spool;

	assert_int_equal(xp_spool_create(&spool, dir, NAME, with), 0);
	return spool;
}

/* ---- reading ---- */

#define TIDS 64

struct contents {
	uint16_t version;
	uint32_t threads;
	uint64_t functions;
	uint64_t events;
	uint32_t next[TIDS]; /* function ids are in order */
};

static struct contents contents;

/* Reads the log, which must be valid. */
static void read_log(const char *name)
{
	struct xp_fdr_rules *rules;
	struct xp_violation violation;
	struct xp_fdr_reader reader;
	struct xp_fdr_record record;
	struct stat st;
	uint8_t *bytes;
	int fd, more;

	memset(&contents, 0, sizeof(contents));
	fd = openat(dir, name, O_RDONLY);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(st.st_size, result.file_bytes);
	bytes = mmap(NULL, st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(bytes, MAP_FAILED);
	assert_int_equal(xp_fdr_reader_init(&reader, bytes, st.st_size, &violation), 0);
	assert_int_equal(xp_fdr_rules_new(&rules, &reader), 0);
	while ((more = xp_fdr_reader_next(&reader, &record, &violation)) == 1) {
		assert_int_equal(xp_fdr_rules_record(rules, &record), 0);
		if (record.is_function) {
			assert_int_equal(record.function.fn_id, contents.next[record.tid % TIDS]++);
			contents.functions++;
		} else if (record.kind == XP_FDR_CUSTOM_EVENT || record.kind == XP_FDR_TYPED_EVENT) {
			contents.events++;
		}
	}
	if (more || !xp_fdr_rules_finish(rules, &violation))
		fail_msg("0x%llx: %s", (unsigned long long)violation.offset, violation.text);
	contents.version = reader.header.version;
	contents.threads = xp_fdr_rules_threads(rules);
	xp_fdr_rules_free(rules);
	munmap(bytes, st.st_size);
	close(fd);
}

/* Ends the spool as at the end of a recording. An error shortens the spool. */
static int make_log(struct xp_spool *spool)
{
	xp_spool_flush(spool);
	xp_spool_free(spool);
	return xp_fdr_make(dir, NAME, 0, NULL, &result);
}

static void finish(struct xp_spool *spool)
{
	assert_int_equal(make_log(spool), 0);
	assert_string_equal(result.final_name, "program.500.fdr");
	assert_string_equal(result.exe, "/usr/bin/program");
	assert_string_equal(result.comm, "program");
	assert_int_equal(result.pid, 500);
	assert_false(exists(NAME));
	assert_false(exists("program.500.fdr.part"));
	read_log("program.500.fdr");
	assert_int_equal(contents.functions, result.stats.functions);
	assert_int_equal(contents.version, result.fdr_version);
}

/* Three threads with several chunks each, far more than the buffer can hold. */
static void append_much(struct xp_spool *spool, uint32_t chunks)
{
	for (uint32_t i = 0; i < chunks; i++)
		for (int tid = 1; tid <= 3; tid++) {
			fill(2000 * i, 2000);
			assert_int_equal(xp_spool_append(spool, tid, "worker", &enc), 0);
		}
}

/* ---- tests ---- */

TEST_WITH(whole, open_dir, empty_dir)
{
	struct xp_spool *spool = create(&info);

	append_much(spool, 40);
	finish(spool);
	assert_int_equal(contents.version, 1);
	assert_int_equal(contents.threads, 3);
	assert_int_equal(result.threads, 3);
	assert_int_equal(contents.functions, 3 * 40 * 2000);
	assert_int_equal(contents.events, 3); /* the names */
	assert_int_equal(result.dropped_bytes, 0);
}

TEST_WITH(nothing_at_all, open_dir, empty_dir)
{
	finish(create(&info));
	assert_int_equal(contents.threads, 1);
	assert_int_equal(result.threads, 0);
	assert_int_equal(contents.functions, 0);
}

TEST_WITH(typed_events_make_it_version_5, open_dir, empty_dir)
{
	struct xp_spool *spool = create(&info);

	fill(0, 10);
	assert_int_equal(xp_spool_append(spool, 1, "a", &enc), 0);
	xp_fdr_enc_begin(&enc, chunk, sizeof(chunk), 1, 3000);
	assert_int_equal(xp_fdr_enc_typed(&enc, 1, 3000, 1, "x", 1), 0);
	assert_int_equal(xp_fdr_enc_custom(&enc, 1, 3001, "x", 1), 0);
	assert_int_equal(xp_spool_append(spool, 1, "a", &enc), 0);
	finish(spool);
	assert_int_equal(contents.version, 5);
	assert_int_equal(contents.events, 1 + 2);
	assert_int_equal(result.stats.events, 2);
}

TEST_WITH(one_tid_is_one_thread, open_dir, empty_dir)
{
	struct xp_spool *spool = create(&info);

	for (uint32_t i = 0; i < 100; i++) {
		fill(10 * i, 10);
		assert_int_equal(xp_spool_append(spool, 7, i % 2 ? "second" : "first", &enc), 0);
		fill(10 * i, 10);
		assert_int_equal(xp_spool_append(spool, -7 - (int)i, NULL, &enc), 0);
	}
	assert_int_equal(make_log(spool), 0);
	assert_int_equal(result.threads, 101);
	assert_int_equal(result.stats.functions, 2000);
}

TEST_WITH(what_cannot_be, open_dir, empty_dir)
{
	static const char *const bad_names[] = {
		"", ".", "..", "a/b", "/x", NAME, ".fdr", "program.50.fdr", "program.500.fdr.part", NULL
	};
	struct xp_log_info other = info;
	struct xp_spool *spool;
	char long_name[XP_SPOOL_NAME_MAX + 2];

	memset(long_name, 'n', sizeof(long_name));
	long_name[sizeof(long_name) - 1] = 0;
	for (size_t i = 0; i < sizeof(bad_names) / sizeof(bad_names[0]); i++) {
		other.final_name = bad_names[i];
		assert_int_equal(xp_spool_create(&spool, dir, NAME, &other), -EINVAL);
		assert_null(spool);
	}
	other.final_name = long_name;
	assert_int_equal(xp_spool_create(&spool, dir, NAME, &other), -EINVAL);
	other.final_name = "s";
	assert_int_equal(xp_spool_create(&spool, dir, "s.part", &other), -EINVAL);
	other = info;
	other.cycle_hz = 0;
	assert_int_equal(xp_spool_create(&spool, dir, NAME, &other), -EINVAL);
	other = info;
	other.fdr_version = 3;
	assert_int_equal(xp_spool_create(&spool, dir, NAME, &other), -EINVAL);
	assert_false(exists(NAME));

	assert_int_equal(symlinkat("x", dir, NAME), 0);
	assert_int_equal(xp_spool_create(&spool, dir, NAME, &info), -EEXIST);
	assert_false(exists("x"));
	assert_int_equal(xp_fdr_make(dir, NAME, PATIENCE_NS, NULL, &result), -ELOOP);
	assert_int_equal(unlinkat(dir, NAME, 0), 0);

	spool = create(&info);
	enc.len = 15;
	assert_int_equal(xp_spool_append(spool, 1, "a", &enc), -EINVAL);
	enc.len = XP_SPOOL_CHUNK_MAX + 1;
	assert_int_equal(xp_spool_append(spool, 1, "a", &enc), -EINVAL);
	finish(spool);
}

/* The temporary and the final name may be links made by another user. */
TEST_WITH(links_in_the_way, open_dir, empty_dir)
{
	struct xp_spool *spool = create(&info);

	assert_int_equal(symlinkat("x", dir, "program.500.fdr"), 0);
	assert_int_equal(symlinkat("x", dir, "program.500.fdr.part"), 0);
	append_much(spool, 1);
	finish(spool);
	assert_false(exists("x"));
}

/* A child that was started meanwhile has the spool's descriptor until it has closed inherited descriptors. */
TEST_WITH(closed_beside_a_child, open_dir, empty_dir)
{
	struct xp_spool *spool = create(&info);
	pid_t child;
	int err;

	append_much(spool, 2);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		pause();
		_exit(0);
	}
	err = make_log(spool);
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_int_equal(err, 0);
}

/* ---- after a crash ---- */

/* Makes a spool as after a crash: flushed, and closed without a finish. */
static void leave_spool(uint32_t chunks)
{
	struct xp_spool *spool = create(&info);

	append_much(spool, chunks);
	assert_int_equal(xp_spool_flush(spool), 0);
	assert_int_equal(xp_fdr_make(dir, NAME, PATIENCE_NS, NULL, &result), -EBUSY);
	xp_spool_free(spool);
	assert_true(exists(NAME));
}

TEST_WITH(recovered, open_dir, empty_dir)
{
	leave_spool(10);
	assert_int_equal(xp_fdr_make(dir, NAME, PATIENCE_NS, NULL, &result), 0);
	assert_false(exists(NAME));
	read_log("program.500.fdr");
	assert_int_equal(contents.functions, 3 * 10 * 2000);
	assert_int_equal(result.stats.functions, 3 * 10 * 2000);
	assert_int_equal(result.dropped_bytes, 0);
}

static void cut(off_t size)
{
	int fd = openat(dir, NAME, O_RDWR);

	assert_int_equal(ftruncate(fd, size), 0);
	close(fd);
}

static void write_at(off_t offset, const void *data, size_t size)
{
	int fd = openat(dir, NAME, O_RDWR);

	assert_int_equal(pwrite(fd, data, size, offset), size);
	close(fd);
}

#define FRAME_BYTES (48 + 16 + 2000 * 8)

/* The last frame is truncated, at any byte. */
TEST_WITH(recovered_after_truncation, open_dir, empty_dir)
{
	static const int cuts[] = { 1, 8, 15999, 16000, 16001, 16016, 16040, 16063 };

	for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
		leave_spool(2);
		cut(XP_SPOOL_HEADER_BYTES + 6 * FRAME_BYTES - cuts[i]);
		assert_int_equal(xp_fdr_make(dir, NAME, PATIENCE_NS, NULL, &result), 0);
		read_log("program.500.fdr");
		assert_int_equal(contents.functions, 5 * 2000);
		assert_int_equal(result.dropped_bytes, FRAME_BYTES - cuts[i]);
	}
}

TEST_WITH(recovered_with_damage, open_dir, empty_dir)
{
	/* In the fourth frame: its magic, length, checksum, first record and the TSC there, a record in the middle. */
	static const int places[] = { 0, 8, 40, 48, 48 + 4, 48 + 16 + 8 * 700 };

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		leave_spool(2);
		write_at(XP_SPOOL_HEADER_BYTES + 3 * FRAME_BYTES + places[i], "\xff\xff\xff\xff", 4);
		assert_int_equal(xp_fdr_make(dir, NAME, PATIENCE_NS, NULL, &result), 0);
		read_log("program.500.fdr");
		assert_int_equal(contents.functions, 3 * 2000);
		assert_int_equal(result.stats.functions, 3 * 2000);
		assert_int_equal(result.dropped_bytes, 3 * FRAME_BYTES);
	}
}

TEST_WITH(not_a_spool, open_dir, empty_dir)
{
	struct xp_spool_header header;
	int fd;

	assert_int_equal(xp_fdr_make(dir, NAME, PATIENCE_NS, NULL, &result), -ENOENT);
	assert_int_equal(mkfifoat(dir, NAME, 0600), 0);
	assert_int_equal(xp_fdr_make(dir, NAME, PATIENCE_NS, NULL, &result), -EBADMSG);
	assert_int_equal(unlinkat(dir, NAME, 0), 0);

	leave_spool(1);
	cut(100);
	assert_int_equal(xp_fdr_make(dir, NAME, PATIENCE_NS, NULL, &result), -EBADMSG);
	assert_true(exists(NAME));
	cut(0);
	assert_int_equal(xp_fdr_make(dir, NAME, PATIENCE_NS, NULL, &result), -ENODATA);
	assert_false(exists(NAME));

	/* A forged header with a valid checksum. */
	leave_spool(1);
	fd = openat(dir, NAME, O_RDWR);
	assert_int_equal(pread(fd, &header, sizeof(header), 0), sizeof(header));
	close(fd);
	strcpy(header.final_name, "../escaped");
	header.check = xp_spool_header_check(&header);
	write_at(0, &header, sizeof(header));
	assert_int_equal(xp_fdr_make(dir, NAME, PATIENCE_NS, NULL, &result), -EBADMSG);
	/* A file with another name does not belong to xprof. */
	strcpy(header.final_name, "manifest.json");
	header.check = xp_spool_header_check(&header);
	write_at(0, &header, sizeof(header));
	assert_int_equal(xp_fdr_make(dir, NAME, PATIENCE_NS, NULL, &result), -EBADMSG);
	memset(header.final_name, 'a', sizeof(header.final_name));
	header.check = xp_spool_header_check(&header);
	write_at(0, &header, sizeof(header));
	assert_int_equal(xp_fdr_make(dir, NAME, PATIENCE_NS, NULL, &result), -EBADMSG);
	assert_true(exists(NAME));
}

/* The crash happened in xp_fdr_make(). */
TEST_WITH(recovered_over_a_part, open_dir, empty_dir)
{
	int fd;

	leave_spool(2);
	fd = openat(dir, "program.500.fdr.part", O_CREAT | O_WRONLY, 0600);
	assert_int_equal(write(fd, "rubbish", 7), 7);
	close(fd);
	assert_int_equal(xp_fdr_make(dir, NAME, PATIENCE_NS, NULL, &result), 0);
	read_log("program.500.fdr");
	assert_int_equal(contents.functions, 6 * 2000);
	assert_false(exists("program.500.fdr.part"));
}

/* ---- full disks ---- */

static void fill_disk(size_t leave_bytes)
{
	static const uint8_t zeros[4096];
	int fd = openat(dir, "filler", O_CREAT | O_RDWR, 0600);
	off_t size;

	while (write(fd, zeros, sizeof(zeros)) == sizeof(zeros))
		;
	size = lseek(fd, 0, SEEK_END);
	assert_true(size > (off_t)leave_bytes);
	assert_int_equal(ftruncate(fd, size - (off_t)leave_bytes), 0);
	close(fd);
}

/* The spool fills the disk: the log gets everything that fits. */
TEST_WITH(disk_full_while_recording, open_dir, empty_dir)
{
	uint64_t accepted = 0;
	struct xp_spool *spool;
	int err = 0;

	if (!small_disk)
		skip();
	for (int version = 1; version <= 5; version += 4) {
		struct xp_log_info other = info;

		other.fdr_version = version;
		spool = create(&other);
		accepted = 0;
		for (uint32_t i = 0; i < 10000; i++) {
			fill(accepted, 2000);
			err = xp_spool_append(spool, 1, "w", &enc);
			if (err)
				break;
			accepted += 2000;
		}
		assert_int_equal(err, -ENOSPC);
		fill(0, 1);
		assert_int_equal(xp_spool_append(spool, 2, "w", &enc), -ENOSPC); /* and without a gap */
		finish(spool);
		assert_in_range(contents.functions, accepted - 50000, accepted);
		assert_int_equal(contents.next[2], 0);
		assert_true(result.file_bytes > 7u << 20);
		assert_int_equal(unlinkat(dir, "program.500.fdr", 0), 0);
	}
}

/* Other files have filled the disk: no data is lost, because the log reuses the spool's blocks. */
TEST_WITH(disk_full_at_the_end, open_dir, empty_dir)
{
	if (!small_disk)
		skip();
	for (int version = 1; version <= 5; version += 4) {
		struct xp_log_info other = info;
		struct xp_spool *spool;

		other.fdr_version = version;
		spool = create(&other);
		append_much(spool, 70);
		assert_int_equal(xp_spool_flush(spool), 0);
		fill_disk(400 << 10);
		finish(spool);
		assert_int_equal(contents.functions, 3 * 70 * 2000);
		assert_int_equal(result.dropped_bytes, 0);
		assert_int_equal(unlinkat(dir, "program.500.fdr", 0), 0);
		assert_int_equal(unlinkat(dir, "filler", 0), 0);
	}
}

/* No space is left: the spool's tail makes space. */
TEST_WITH(disk_entirely_full_at_the_end, open_dir, empty_dir)
{
	struct xp_spool *spool;

	if (!small_disk)
		skip();
	spool = create(&info);
	append_much(spool, 70);
	assert_int_equal(xp_spool_flush(spool), 0);
	fill_disk(0);
	finish(spool);
	assert_in_range(contents.functions, 3 * 70 * 2000 - 80000, 3 * 70 * 2000 - 1);
	assert_in_range(result.dropped_bytes, 1, 80000 * 8);
}

/* The file may not grow: the spool keeps its data, and reports the error. */
TEST_WITH(file_size_limit, open_dir, empty_dir)
{
	struct rlimit before, limit;
	struct xp_spool *spool;
	uint64_t accepted = 0;
	int err = 0;

	spool = create(&info);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	limit = before;
	limit.rlim_cur = 1 << 20;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	while (!err && accepted < 1000000) {
		fill(accepted, 2000);
		err = xp_spool_append(spool, 1, "w", &enc);
		accepted += err ? 0 : 2000;
	}
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_int_equal(err, -EFBIG);
	finish(spool);
	assert_int_equal(contents.functions, ((1 << 20) - XP_SPOOL_HEADER_BYTES) / FRAME_BYTES * 2000);
}

/* The log cannot be created: the spool is kept, is complete, and can be recovered. */
TEST_WITH(failed_finish_keeps_the_spool, open_dir, empty_dir)
{
	struct rlimit before, limit;
	struct xp_spool *spool = create(&info);

	append_much(spool, 10);
	assert_int_equal(xp_spool_flush(spool), 0);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	limit = before;
	limit.rlim_cur = 100000;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_int_equal(make_log(spool), -EFBIG);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_true(exists(NAME));
	assert_false(exists("program.500.fdr"));
	assert_false(exists("program.500.fdr.part"));
	assert_int_equal(xp_fdr_make(dir, NAME, PATIENCE_NS, NULL, &result), 0);
	read_log("program.500.fdr");
	assert_int_equal(contents.functions, 3 * 10 * 2000);
}

static int truncate_entry(const char *name, off_t size)
{
	int fd = openat(dir, name, O_WRONLY), err = ftruncate(fd, size);

	close(fd);
	return err;
}

static int write_down(void *arg, const uint8_t *note, size_t bytes)
{
	const struct xp_spool_object *object = (const struct xp_spool_object *)note;
	char *paths = arg;

	sprintf(paths + strlen(paths), "%.*s ", (int)(bytes - sizeof(*object)), object->path);
	return 0;
}

static void note(struct xp_spool *spool, const char *path)
{
	struct {
		struct xp_spool_object object;
		char path[8];
	} note = { 0 };

	memcpy(note.path, path, strlen(path));
	assert_int_equal(xp_spool_note(spool, &note.object, sizeof(note.object) + strlen(path)), 0);
}

/* Notes are between the chunks, for the recovery of the spool, and not in the log. A truncated note ends the spool. */
TEST_WITH(notes, open_dir, empty_dir)
{
	struct xp_spool *spool = create(&info);
	char paths[64] = "";
	const struct xp_spool_taker taker = { write_down, paths };
	struct stat st;

	fill(0, 10);
	note(spool, "/one");
	assert_int_equal(xp_spool_append(spool, 1, "worker", &enc), 0);
	note(spool, "/two");
	assert_int_equal(xp_spool_flush(spool), 0);
	note(spool, "/torn");
	assert_int_equal(xp_spool_flush(spool), 0);
	xp_spool_free(spool);
	assert_int_equal(fstatat(dir, NAME, &st, 0), 0);
	assert_int_equal(truncate_entry(NAME, st.st_size - 1), 0);
	assert_int_equal(xp_fdr_make(dir, NAME, PATIENCE_NS, &taker, &result), 0);
	assert_string_equal(paths, "/one /two ");
	read_log("program.500.fdr");
	assert_int_equal(contents.functions, 10);
}

/* A killed flight recorder has left the names for its logs: recover reads the names, and makes no further log. */
TEST_WITH(names_only, open_dir, empty_dir)
{
	struct xp_log_info names = info;
	char paths[64] = "";
	const struct xp_spool_taker taker = { write_down, paths };
	struct xp_spool *spool;

	names.names_only = true;
	spool = create(&names);
	note(spool, "/one");
	assert_int_equal(xp_spool_flush(spool), 0);
	xp_spool_free(spool);
	assert_int_equal(xp_fdr_make(dir, NAME, PATIENCE_NS, &taker, &result), 0);
	assert_string_equal(paths, "/one ");
	assert_int_equal(result.file_bytes, 0);
	assert_false(exists("program.500.fdr") || exists(NAME));
}
