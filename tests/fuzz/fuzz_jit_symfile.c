// SPDX-License-Identifier: BSD-2-Clause
/* Fuzzes the reader of the ELF files that JIT compilers provide for debuggers. */
#include <errno.h>
#include <string.h>

#include "fuzz.h"

#include "jit/symfile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct xp_jit_symfile symfile;
	int err = xp_jit_symfile_read(&symfile, data, size);

	CHECK(err == 0 || err == -EBADMSG);
	if (err)
		return 0;
	for (size_t i = 0; i < symfile.count; i++) {
		const struct xp_jit_function *function = &symfile.functions[i];

		CHECK(function->size && *function->name && strlen(function->name) < size);
		CHECK(!i || function->address - function[-1].address >= function[-1].size);
	}
	xp_jit_symfile_free(&symfile);
	return 0;
}
