/* SPDX-License-Identifier: BSD-2-Clause */
/* The last step of writing manifest.json (manifest.h): the reserved file gets its text and its name. */
#ifndef XPROF_RECORD_MANIFEST_FILE_H
#define XPROF_RECORD_MANIFEST_FILE_H

/* fd: as of xp_manifest_reserve(), closed in any case. Returns 0 or -errno; then no file is left. */
int xp_manifest_file_write(int dir_fd, int fd, const char *text);

#endif
