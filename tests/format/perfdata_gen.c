// SPDX-License-Identifier: BSD-2-Clause
/*
 * Writes a perf.data of cpu-clock samples of 1 ms, from a description on standard input with tabs between the fields.
 * Addresses are hexadecimal, all other numbers decimal. The contents of perf's features are invented.
 *
 *   perfdata_gen OUT LATE_NS HZ TSC NS LEVEL[@BYTES] [waits [usdt]]
 *
 * NS is the time at TSC; LEVEL: of zstd, 0: none. Lines:
 *
 *   kernel START BYTES
 *   module START BYTES PATH
 *   map TSC PID TID START BYTES OFFSET BUILD_ID PATH             BUILD_ID: - for none
 *   comm TSC PID TID NAME
 *   exec TSC PID TID NAME
 *   fork TSC BORN_TSC PID TID PPID MAPS
 *   exit TSC PID TID PPID
 *   sample TSC PID TID CPU KERNEL_COUNT ADDRESS...
 *   wait (as sample)                                             2 ms in futex(2), one of four, with `waits`
 *   waiting TSC PID TID CPU BLOCKED RUNNABLE STATE WAKER_TID WAKER_NAME ADDRESS...   every one, with `waits`
 *   usdt TSC PID TID CPU TEXT                                    with `usdt`
 *   jit TSC PATH
 *   buildid BUILD_ID PATH                                        of the kernel, for the features
 *   sync                                                         writes all records so far
 *   cut                                                          ends without the features, like a crash
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "format/perfdata.h"

#define FIELDS_MAX 5000
#define PERIOD_NS 1000000

static char *fields[FIELDS_MAX];
static size_t field_count;
static struct xp_perfdata_build_id kernel_id = { .kernel = true };
static bool cut;

static uint64_t hex(size_t field)
{
	return field < field_count ? strtoull(fields[field], NULL, 16) : 0;
}

static uint64_t number(size_t field)
{
	return field < field_count ? strtoull(fields[field], NULL, 10) : 0;
}

static int next_line(void)
{
	static char *line;
	static size_t room;
	ssize_t length = getline(&line, &room, stdin);
	char *rest = line;

	if (length <= 0)
		return 0;
	if (line[length - 1] == '\n')
		line[length - 1] = 0;
	for (field_count = 0; field_count < FIELDS_MAX && (fields[field_count] = strsep(&rest, "\t")); field_count++)
		;
	return 1;
}

static size_t take_build_id(uint8_t *to, const char *text)
{
	size_t bytes = 0;

	for (; bytes < XP_PERFDATA_BUILD_ID_BYTES && sscanf(text + 2 * bytes, "%2hhx", &to[bytes]) == 1; bytes++)
		;
	return bytes;
}

static int put_map(struct xp_perfdata *perfdata)
{
	uint8_t build_id[XP_PERFDATA_BUILD_ID_BYTES];
	struct xp_perfdata_map map = {
		.pid = number(2),
		.tid = number(3),
		.start = hex(4),
		.bytes = hex(5),
		.file_offset = hex(6),
		.dev = 0x801,
		.inode = 42,
		.build_id = build_id,
		.build_id_bytes = take_build_id(build_id, fields[7]),
		.path = fields[8],
	};

	return xp_perfdata_map(perfdata, number(1), &map);
}

static int put_sample(struct xp_perfdata *perfdata)
{
	static const struct xp_wait_record wait = {
		.blocked_ns = 1500000,
		.runnable_ns = 500000,
		.chance = XP_WAIT_CHANCE_ONE / 4,
		.state = XP_WAIT_LOCK,
		.syscall = 202,
		.waker_pid = 9,
		.waker_tid = 10,
		.waker_comm = "a waker",
	};
	uint64_t addresses[FIELDS_MAX];
	struct xp_perfdata_sample sample = {
		.tsc = number(1),
		.pid = number(2),
		.tid = number(3),
		.cpu = number(4),
		.kernel = addresses,
		.kernel_count = number(5),
		.user = addresses + number(5),
		.user_count = field_count - 6 - number(5),
	};

	for (size_t i = 6; i < field_count; i++)
		addresses[i - 6] = hex(i);
	if (!strcmp(fields[0], "wait"))
		return xp_perfdata_wait(perfdata, &sample, &wait);
	return xp_perfdata_sample(perfdata, &sample);
}

static int put_waiting(struct xp_perfdata *perfdata)
{
	uint64_t addresses[FIELDS_MAX];
	const struct xp_perfdata_sample sample = {
		.tsc = number(1),
		.pid = number(2),
		.tid = number(3),
		.cpu = number(4),
		.user = addresses,
		.user_count = field_count - 10,
	};
	struct xp_wait_record wait = {
		.blocked_ns = number(5),
		.runnable_ns = number(6),
		.chance = XP_WAIT_CHANCE_ONE,
		.state = (unsigned char)fields[7][0],
		.syscall = -1,
		.waker_pid = number(8),
		.waker_tid = number(8),
		.lock = strtoull(fields[7] + 1, NULL, 16),
	};

	snprintf(wait.waker_comm, sizeof(wait.waker_comm), "%s", fields[9]);
	for (size_t i = 10; i < field_count; i++)
		addresses[i - 10] = hex(i);
	return xp_perfdata_wait(perfdata, &sample, &wait);
}

static int put_usdt(struct xp_perfdata *perfdata)
{
	const uint64_t address = 0x1000;
	const struct xp_perfdata_sample sample = {
		.tsc = number(1),
		.pid = number(2),
		.tid = number(3),
		.cpu = number(4),
		.user = &address,
		.user_count = 1,
	};

	return xp_perfdata_usdt(perfdata, &sample, fields[5]);
}

static int take_kernel_id(void)
{
	static uint8_t build_id[XP_PERFDATA_BUILD_ID_BYTES];

	kernel_id.build_id = build_id;
	kernel_id.build_id_bytes = take_build_id(build_id, fields[1]);
	kernel_id.path = strdup(fields[2]);
	return kernel_id.path ? 0 : -ENOMEM;
}

static int put_line(struct xp_perfdata *perfdata)
{
	const char *what = fields[0];

	if (!strcmp(what, "kernel") && field_count == 3)
		return xp_perfdata_kernel(perfdata, hex(1), hex(2));
	if (!strcmp(what, "module") && field_count == 4)
		return xp_perfdata_module(perfdata, hex(1), hex(2), fields[3]);
	if (!strcmp(what, "map") && field_count == 9)
		return put_map(perfdata);
	if (!strcmp(what, "comm") && field_count == 5)
		return xp_perfdata_comm(perfdata, number(1), number(2), number(3), fields[4], false);
	if (!strcmp(what, "exec") && field_count == 5)
		return xp_perfdata_comm(perfdata, number(1), number(2), number(3), fields[4], true);
	if (!strcmp(what, "fork") && field_count == 7)
		return xp_perfdata_fork(
		    perfdata, number(1),
		    &(struct xp_perfdata_birth){ number(3), number(4), number(5), number(2), number(6) });
	if (!strcmp(what, "exit") && field_count == 5)
		return xp_perfdata_exit(perfdata, number(1), number(2), number(3), number(4));
	if ((!strcmp(what, "sample") || !strcmp(what, "wait")) && field_count > 6)
		return put_sample(perfdata);
	if (!strcmp(what, "waiting") && field_count > 10)
		return put_waiting(perfdata);
	if (!strcmp(what, "usdt") && field_count == 6)
		return put_usdt(perfdata);
	if (!strcmp(what, "jit") && field_count == 3)
		return xp_perfdata_jit(perfdata, number(1), fields[2]);
	if (!strcmp(what, "buildid") && field_count == 3)
		return take_kernel_id();
	if (!strcmp(what, "sync"))
		return xp_perfdata_sync(perfdata);
	cut = !strcmp(what, "cut");
	return cut ? 0 : -EBADMSG;
}

static int write_file(int fd, char **argv)
{
	char *const command[] = { "xprof", "record", "a b", NULL };
	char *plain_bytes;
	struct xp_perfdata_options options = {
		.event_type = PERF_TYPE_SOFTWARE,
		.event_config = PERF_COUNT_SW_CPU_CLOCK,
		.period = PERIOD_NS,
		.late_ns = strtoull(argv[2], NULL, 10),
		.waits = argv[7],
		.usdt = argv[7] && argv[8],
		.compression_level = strtoul(argv[6], &plain_bytes, 10),
	};
	struct xp_perfdata_features features = {
		.hostname = "the-host",
		.release = "6.7.8-made-up",
		.version = "xprof 9.9",
		.arch = "x86_64",
		.cpu = "A made up CPU",
		.cpus = 4,
		.cpus_online = 3,
		.memory_kb = 123456,
		.argv = command,
		.event = "cpu-clock",
		.wall_ns = 1700000000000000000,
		.mono_ns = strtoull(argv[5], NULL, 10),
		.build_ids = &kernel_id,
	};
	struct xp_perfdata *perfdata;
	int err = xp_perfdata_conversion(&options.conversion, strtoull(argv[3], NULL, 10), strtoull(argv[4], NULL, 10),
					 features.mono_ns);

	if (*plain_bytes)
		options.plain_bytes = strtoul(plain_bytes + 1, NULL, 10);
	if (!err)
		err = xp_perfdata_new(&perfdata, fd, &options);
	if (err)
		return err;
	while (!err && !cut && next_line())
		err = put_line(perfdata);
	features.build_id_count = !!kernel_id.path;
	if (!err && !cut)
		err = xp_perfdata_finish(perfdata, &features);
	xp_perfdata_free(perfdata);
	return err;
}

int main(int argc, char **argv)
{
	int fd, err;

	if (argc < 7 || argc > 9)
		return 2;
	fd = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0644);
	if (fd < 0) {
		perror(argv[1]);
		return 1;
	}
	err = write_file(fd, argv);
	if (close(fd) && !err)
		err = -errno;
	if (err)
		fprintf(stderr, "perfdata_gen: %s: %s: %s\n", argv[1], field_count ? fields[0] : "", strerror(-err));
	return !!err;
}
