/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The one way in which files and directories of a recording are made: new, nobody's but their owner's from the
 * beginning, whatever the umask says, and never through a link that somebody else has put there. What a recording
 * holds (addresses, arguments, names of others' files) is for nobody else to read.
 */
#ifndef XPROF_OWN_FILE_H
#define XPROF_OWN_FILE_H

/*
 * A file that has not been there, in a directory. access: O_WRONLY or O_RDWR. Its descriptor, or -errno of openat(2),
 * -EEXIST among them.
 */
int xp_own_file_create(int dir_fd, const char *name, int access);

/* The same for a directory, open for reading. -EEXIST also when somebody has put another one in its place. */
int xp_own_dir_create(int dir_fd, const char *name);

#endif
