/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process to be traced, as /proc shows it: whether it can be traced, and its mappings. Everything read here is under
 * the target's control and may change or vanish at any moment.
 */
#ifndef XPROF_TARGET_TARGET_H
#define XPROF_TARGET_TARGET_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

struct xp_target_info {
	char comm[16];
	char exe[4096];	     /* as in readlink(/proc/PID/exe), " (deleted)" included */
	uint64_t start_time; /* clock ticks after boot: identifies a process permanently, together with the pid */
};

/*
 * Checks that pid can be traced, and describes it. Returns 0, or -errno with a sentence (why.h) that has the remedy:
 * - -ESRCH if there is no such process or only a zombie;
 * - -EINVAL for a kernel thread, xprof itself, or a thread's id;
 * - -ENOEXEC for a 32-bit process;
 * - -EACCES if /proc does not show it;
 * - -ETIMEDOUT if its mappings cannot be read in time (memory.h).
 */
int xp_target_check(pid_t pid, struct xp_target_info *info);

/*
 * Opens the list of all processes (pid 0), or of the threads of a process. Returns NULL with errno set, ENOENT if the
 * process has ended. The caller closes it by closedir().
 */
DIR *xp_target_list(pid_t pid);
/* The next process or thread of a list; 0: its end. What starts or ends meanwhile may be there or not. */
pid_t xp_target_next(DIR *list);

/* The process (thread group) of a thread, or 0 if it is unknown. */
pid_t xp_target_process(pid_t tid);

/* Returns only the start time; 0 for any error, and if the process does not exist or is a zombie. */
uint64_t xp_target_start_time(pid_t pid);

/* CPU time of all threads of the process; 0 if it has ended. */
uint64_t xp_target_cpu_ns(pid_t pid);
/* Its parent; 0 if it has ended, or the parent is in another PID namespace. */
pid_t xp_target_parent(pid_t pid);
/* Number of threads; 0 if it has ended. */
unsigned int xp_target_threads(pid_t pid);

/* Whether a thread runs, and has not begun to end. */
bool xp_target_thread_lives(pid_t pid, pid_t tid);
/* Whether the process has a thread in this state: 'R' runs or waits for a CPU, 'D' waits in the kernel; see proc(5). */
bool xp_target_has_thread(pid_t pid, char state);
/* comm of a thread; "" if it has ended. */
void xp_target_thread_name(pid_t pid, pid_t tid, char name[16]);

/* One executable mapping. */
struct xp_mapping {
	uint64_t start;
	uint64_t end;
	uint64_t file_offset;
	uint64_t dev;	/* makedev(major, minor) */
	uint64_t inode; /* 0: no file */
	size_t first;	/* index of the first mapping of the same file in the list */
	bool shared;	/* writes to it would go to the file */
	bool moved; /* memory without a file, in place of this part of the file's text: see xp_mappings_read_all() */
	char *path; /* as the target sees it, octal escapes undone; without a file: "", or a name such as "[vdso]" or
		       "[heap]" */
};

struct xp_mappings {
	struct xp_mapping *list; /* in address order */
	size_t count;
};

/* Maximum number of executable mappings that are read from a process. */
#define XP_MAPPINGS_MAX 65536

/*
 * Reads the executable file mappings of pid. Returns 0 or -errno: -ESRCH if it has ended, -E2BIG if there are more than
 * XP_MAPPINGS_MAX, -ETIMEDOUT, -ENOMEM. The caller frees them.
 */
int xp_mappings_read(struct xp_mappings *mappings, pid_t pid);
/*
 * Reads all executable mappings, including those without a file. A program can move its text to huge pages at the same
 * addresses (iodlr, node --use-largepages). Memory without a file that lies between two mappings of one file, which
 * leave exactly its place, is taken for such text: the mapping has the file's identity and offset, and is `moved`.
 */
int xp_mappings_read_all(struct xp_mappings *mappings, pid_t pid);
/* Reads /proc/PID/maps completely, terminated, like xp_target_memory_maps(). The caller frees it. */
int xp_mappings_text(char **text, pid_t pid);
/* Parses the text of /proc/PID/maps, for tests. Skips malformed lines. */
int xp_mappings_parse(struct xp_mappings *mappings, char *text, bool all);
void xp_mappings_free(struct xp_mappings *mappings);

/*
 * Opens the file of a mapping by its inode, even if its path now leads to another file, or is in another mount
 * namespace. If there is no mapping with these bounds any more, uses another mapping of its inode (not with inode 0).
 * If permissions do not allow that, uses the path, if it leads to a file with that inode. Returns a descriptor (of a
 * copy if a process serves the file system, see chosen_file.h) or -errno: -ENOEXEC if it is not a regular file.
 */
int xp_mapping_open(pid_t pid, const struct xp_mapping *mapping);
/* Like xp_mapping_open(), without these fallbacks. inode 0: any file that is mapped from start to end. */
int xp_mapping_open_exact(pid_t pid, uint64_t start, uint64_t end, uint64_t inode);

/* Opens a path in the root directory of the process, if it has this inode (0: any). See chosen_file.h. */
int xp_target_open_path(pid_t pid, const char *path, uint64_t inode);
/* Device and inode of the process's program. Returns 0 or -errno. */
int xp_target_stat_exe(pid_t pid, struct stat *st);

#endif
