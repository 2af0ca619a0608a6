// SPDX-License-Identifier: BSD-2-Clause
/* Fuzzes the comparison of one of pprof's own profiles with itself. The input is the message. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/util.h"
#include "diff/diff.h"
#include "model/depth.h"
#include "model/pprof.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition)                                                                                               \
	do {                                                                                                           \
		if (!(condition))                                                                                      \
			abort();                                                                                       \
	} while (0)

#include "gzip.h"

static void compare(const struct xp_model *model)
{
	struct xp_diff diff;
	int err = xp_diff_init(&diff, model->kind);

	for (size_t side = 0; !err && side < 2; side++)
		err = xp_diff_add(&diff, side, model);
	if (!err)
		err = xp_diff_make(&diff, XP_DIFF_SHARES, false);
	CHECK(!err || err == -E2BIG);
	for (size_t i = 0; !err && i < diff.row_count; i++)
		CHECK(xp_diff_value(&diff, &diff.rows[i], 0) == xp_diff_value(&diff, &diff.rows[i], 1));
	xp_diff_free(&diff);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct xp_select select = { 0 };
	struct xp_model_cut cut = { 0 };
	struct xp_model model;
	size_t zipped_size;
	uint8_t *zipped = gzip(data, size, &zipped_size);
	int fd = memfd_create("profile", MFD_CLOEXEC), err;
	char path[64];

	xp_log_level = XP_LOG_QUIET;
	CHECK(fd >= 0 && !xp_write_all(fd, zipped, zipped_size));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	err = xp_model_read_pprof(&model, path, &select);
	CHECK(!err || err == -EBADMSG);
	if (!err)
		err = xp_model_cut_depth(&model, &cut);
	if (!err)
		compare(&model);
	xp_model_free(&model);
	close(fd);
	free(zipped);
	return 0;
}
