// SPDX-License-Identifier: BSD-2-Clause
/* The kernel's code, modules and build ID, from strings and notes in the kernel's format. */
#include "sample/perf_kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "unit.h"

#include "format/perfdata_reader.h"

static FILE *file_of(char *text)
{
	FILE *file = fmemopen(text, strlen(text), "r");

	assert_non_null(file);
	return file;
}

static uint64_t text_of(const char *table)
{
	char copy[4096];
	uint64_t address;
	FILE *file;

	snprintf(copy, sizeof(copy), "%s", table);
	file = file_of(copy);
	address = xp_perf_kernel_text(file);
	fclose(file);
	return address;
}

TEST(test_text)
{
	assert_int_equal(text_of("0000000000000000 A fixed_percpu_data\n"
				 "ffffffff9a800000 T startup_64\n"
				 "ffffffff9a800000 T _stext\n"
				 "ffffffff9a800000 T _text\n"
				 "ffffffff9a800100 T _text\n"),
			 0xffffffff9a800000);
	assert_int_equal(text_of("0000000000000000 T _stext\n0000000000000000 T _text\n"), 0);
	assert_int_equal(text_of("ffffffff9a800000 T _text_end\n"), 0);
	assert_int_equal(text_of("what\n\n"), 0);
}

TEST(test_modules)
{
	char table[] = "xfs 2019328 1 - Live 0xffffffffc0a2b000\n"
		       "libcrc32c 12288 1 xfs, Live 0xffffffffc05f1000 (E)\n"
		       "hidden 4096 0 - Live 0x0000000000000000\n"
		       "kvm_amd 8192 0 - Live 0xffffffffc0700000\n"
		       "cut 1\n";
	char files[] = "kernel/fs/xfs/xfs.ko: kernel/lib/libcrc32c.ko\n"
		       "kernel/arch/x86/kvm/kvm.ko.xz:\n"
		       "updates/kvm-amd.ko.xz: kernel/arch/x86/kvm/kvm.ko.xz\n"
		       "kernel/arch/x86/kvm/kvm-amd.ko.xz:\n"
		       "kernel/hidden.ko:\n";
	static const struct {
		uint64_t start, bytes;
		const char *path;
	} expected[] = { { 0xffffffffc0a2b000, 2019328, "/m/kernel/fs/xfs/xfs.ko" },
			 { 0xffffffffc05f1000, 12288, "[libcrc32c]" },
			 { 0xffffffffc0700000, 8192, "/m/updates/kvm-amd.ko.xz" } };
	const struct xp_perfdata_options options = { .period = 1, .conversion = { 31, 1u << 31, 0 } };
	const struct xp_perfdata_features features = { 0 };
	struct xp_violation violation;
	struct xp_perfdata_record record;
	struct xp_perfdata_reader reader;
	struct xp_perfdata *perfdata;
	int fd = memfd_create("perfdata", 0);
	FILE *file = file_of(table), *paths = file_of(files);
	static uint8_t bytes[8192];
	ssize_t size;

	assert_int_equal(xp_perfdata_new(&perfdata, fd, &options), 0);
	assert_int_equal(xp_perf_kernel_modules(perfdata, file, paths, "/m"), 0);
	assert_int_equal(xp_perfdata_finish(perfdata, &features), 0);
	xp_perfdata_free(perfdata);
	fclose(file);
	fclose(paths);
	size = pread(fd, bytes, sizeof(bytes), 0);
	close(fd);
	assert_int_equal(xp_perfdata_reader_init(&reader, bytes, size, &violation), 0);
	assert_int_equal(xp_perfdata_reader_next(&reader, &record, &violation), 1); /* TIME_CONV */
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(xp_perfdata_reader_next(&reader, &record, &violation), 1);
		assert_int_equal(record.type, PERF_RECORD_MMAP);
		assert_int_equal(record.map.pid, -1);
		assert_int_equal(record.map.start, expected[i].start);
		assert_int_equal(record.map.bytes, expected[i].bytes);
		assert_string_equal(record.map.path, expected[i].path);
	}
	assert_int_equal(xp_perfdata_reader_next(&reader, &record, &violation), 0);
}

#define NOTE(name_bytes, bytes, type) name_bytes, 0, 0, 0, bytes, 0, 0, 0, type, 0, 0, 0

TEST(test_build_id)
{
	static const uint8_t notes[] = { NOTE(6, 1, 0),
					 'L',
					 'i',
					 'n',
					 'u',
					 'x',
					 0,
					 0,
					 0,
					 9,
					 0,
					 0,
					 0,
					 NOTE(4, 3, 1),
					 'G',
					 'N',
					 'U',
					 0,
					 7,
					 7,
					 7,
					 0,
					 NOTE(4, 5, 3),
					 'G',
					 'N',
					 'U',
					 0,
					 1,
					 2,
					 3,
					 4,
					 5,
					 0,
					 0,
					 0 };
	uint8_t id[4] = { 0 }, whole[20];

	assert_int_equal(xp_perf_kernel_build_id(notes, sizeof(notes), whole, sizeof(whole)), 5);
	assert_memory_equal(whole, "\1\2\3\4\5", 5);
	assert_int_equal(xp_perf_kernel_build_id(notes, sizeof(notes), id, sizeof(id)), 4);
	for (size_t cut = 0; cut < sizeof(notes); cut++) {
		uint8_t *copy = malloc(cut + 1);

		memcpy(copy, notes, cut);
		assert_int_equal(xp_perf_kernel_build_id(copy, cut, whole, sizeof(whole)), 0);
		free(copy);
	}
}
