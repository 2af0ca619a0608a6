/* SPDX-License-Identifier: BSD-2-Clause */
/* The common part of fuzz targets: libFuzzer's entry, and a check that stops the fuzzer. */
#ifndef XPROF_FUZZ_FUZZ_H
#define XPROF_FUZZ_FUZZ_H

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition)                                                                                               \
	do {                                                                                                           \
		if (!(condition))                                                                                      \
			abort();                                                                                       \
	} while (0)

#endif
