// SPDX-License-Identifier: BSD-2-Clause
/* Fuzzes the reader of Go's table of functions: the input is a table. The functions ascend, and names are in the table.
 */
#include <string.h>

#include "elf/go_functions.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct xp_go_functions functions;
	int err = xp_go_functions_parse(&functions, data, size, 0x1000);

	CHECK(err <= 0 && (!err || !functions.count));
	for (size_t i = 0; i < functions.count; i++) {
		const struct xp_go_function *function = &functions.all[i];
		const uint8_t *name = (const uint8_t *)function->name;

		CHECK(name >= data && name < data + size && memchr(name, 0, (size_t)(data + size - name)));
		CHECK(function->bytes && (!i || function->vaddr == function[-1].vaddr + function[-1].bytes));
		CHECK(xp_go_functions_find(&functions, function->vaddr) == function);
	}
	xp_go_functions_free(&functions);
	return 0;
}
