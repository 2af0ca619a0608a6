// SPDX-License-Identifier: BSD-2-Clause
#include "target/vdso.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "target/target.h"

int xp_vdso_find(const void **image, size_t *bytes)
{
	struct xp_mappings mappings;
	int err = xp_mappings_read_all(&mappings, getpid());

	if (err)
		return err;
	err = -ENOENT;
	for (size_t i = 0; err && i < mappings.count; i++) {
		const struct xp_mapping *mapping = &mappings.list[i];

		if (strcmp(mapping->path, "[vdso]"))
			continue;
		*image = (const void *)(uintptr_t)mapping->start;
		*bytes = mapping->end - mapping->start;
		err = 0;
	}
	xp_mappings_free(&mappings);
	return err;
}

int xp_vdso_open(void)
{
	const void *image;
	size_t bytes;
	int err = xp_vdso_find(&image, &bytes);

	return err ? err : xp_memfd_make("vdso", image, bytes);
}
