/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Copies of binaries for those who look names up in them: nm, addr2line, `go tool pprof`, xprof itself. A large one is
 * copied without its code and constants, which are holes then: its symbols, debug information and Go's tables are what
 * names and lines are made of. Disassemblers find nothing in it.
 */
#ifndef XPROF_ELF_COPY_H
#define XPROF_ELF_COPY_H

#include <stdint.h>

/* Up to this size all is copied. */
#define XP_ELF_COPY_WHOLE_BYTES (8ull << 20)

/*
 * Copies the ELF file from_fd to to_fd, an empty one. *bytes: how much may be written, and then how much of it is left.
 * -EFBIG when that is too little, -EINVAL of what is no regular file, -ENOMEM, those of read(2) and write(2).
 */
int xp_elf_copy(int from_fd, int to_fd, uint64_t *bytes);

#endif
