/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Builds the unwind table (cfi_table.h) of a piece of an ELF file from its .eh_frame. If .eh_frame has no entry for
 * some code, uses .debug_frame, which may be compressed. libelf and libdw parse the file, its sections and its entries;
 * cfi_program.h runs the programs of the entries.
 *
 * libelf and libdw trust their input, and a hostile file can make them loop forever. So this code runs in a separate
 * process (cfi_tables.h).
 */
#ifndef XPROF_UNWIND_CFI_BUILD_H
#define XPROF_UNWIND_CFI_BUILD_H

#include <stdint.h>

/* Parts of a file, as offsets: end is within the first 4 GiB. */
struct xp_cfi_range {
	uint32_t start; /* [start, end) is part of [wide_start, wide_end) */
	uint32_t end;
	uint32_t wide_start;
	uint32_t wide_end;
};
#define XP_CFI_WHOLE_FILE (&(const struct xp_cfi_range){ 0, UINT32_MAX, 0, UINT32_MAX })

/*
 * Builds the table of a part of the file. If an .eh_frame with an index (.eh_frame_hdr) describes all of the code,
 * builds the table of the narrow range, because the cost then depends on the range. Otherwise all entries of the file
 * must be read, so this builds the table of the wide range. fd: the ELF file, open for reading. The file is mapped: if
 * another process truncates it meanwhile, this process gets SIGBUS. to_fd: an empty file that receives the table.
 *
 * Returns 0 or -errno: -ENOENT if nothing is known about the piece and the file has no entries, -ENOEXEC if it is not
 * an ELF file, -EINVAL if it is malformed, -EFBIG if the table has more than XP_CFI_ROWS_MAX rows, -ENOMEM, or an error
 * of write(2).
 */
int xp_cfi_build(int fd, const struct xp_cfi_range *range, int to_fd);

#endif
