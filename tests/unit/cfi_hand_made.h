/* SPDX-License-Identifier: BSD-2-Clause */
/* Hand-written unwind tables: a sealed memfd as described in cfi_table.h. */
#ifndef XPROF_TESTS_CFI_HAND_MADE_H
#define XPROF_TESTS_CFI_HAND_MADE_H

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "unwind/cfi_table.h"

static inline struct xp_cfi_table *make_table(const struct xp_cfi_row *rows, uint32_t row_count,
					      const struct xp_cfi_deref *derefs, uint32_t deref_count)
{
	struct xp_cfi_header header = { .magic = XP_CFI_MAGIC, .row_count = row_count, .deref_count = deref_count };
	size_t row_bytes = row_count * sizeof(*rows), deref_bytes = deref_count * sizeof(*derefs);
	int fd = memfd_create("table", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct xp_cfi_table *table;

	if (fd < 0 || write(fd, &header, sizeof(header)) != sizeof(header) ||
	    write(fd, rows, row_bytes) != (ssize_t)row_bytes ||
	    write(fd, derefs, deref_bytes) != (ssize_t)deref_bytes ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW) || xp_cfi_table_open(&table, fd))
		abort();
	close(fd);
	return table;
}

#endif
