/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A target process as /proc describes it: whether it can be traced, and its mappings. The target controls all of this
 * data, and can change it or exit at any moment.
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
	char exe[4096];	     /* as from readlink(/proc/PID/exe), may end with " (deleted)" */
	uint64_t start_time; /* clock ticks after boot; PID and start time together identify a process */
};

/*
 * Checks that pid can be traced, and describes it. Returns 0, or -errno with a sentence (why.h) that contains the
 * remedy:
 * - -ESRCH if there is no such process or only a zombie;
 * - -EINVAL for a kernel thread, xprof itself, or a TID that is not a PID;
 * - -ENOEXEC for a 32-bit process;
 * - -EACCES if /proc does not show the process;
 * - -ETIMEDOUT if its mappings cannot be read in time (memory.h).
 */
int xp_target_check(pid_t pid, struct xp_target_info *info);

/*
 * Opens the list of all processes (pid 0), or of the threads of a process. Returns NULL with errno set, ENOENT if the
 * process has ended. The caller closes the list with closedir().
 */
DIR *xp_target_list(pid_t pid);
/*
 * Returns the next process or thread of a list; 0: the end of the list. A process that starts or ends meanwhile may be
 * missing.
 */
pid_t xp_target_next(DIR *list);

/* Returns the process (thread group) of a thread, or 0 if it is unknown. */
pid_t xp_target_process(pid_t tid);

/* Returns the start time, or 0 after any error and if the process does not exist or is a zombie. */
uint64_t xp_target_start_time(pid_t pid);
/* Like xp_target_start_time(), for the process that had this PID ago_ns before now; 0 if another process has it now. */
uint64_t xp_target_start_time_ago(pid_t pid, uint64_t ago_ns);

/* Returns the CPU time of all threads of the process in ns; 0 if it has ended. */
uint64_t xp_target_cpu_ns(pid_t pid);
/* Returns the number of threads; 0 if the process has ended. */
unsigned int xp_target_threads(pid_t pid);

/* Returns whether a thread exists and is not exiting. */
bool xp_target_thread_lives(pid_t pid, pid_t tid);
/*
 * Returns whether the process has a thread in this state: 'R' runs or waits for a CPU, 'D' waits in the kernel; see
 * proc(5).
 */
bool xp_target_has_thread(pid_t pid, char state);
/* Gets the name of a thread; "" if it has ended. */
void xp_target_thread_name(pid_t pid, pid_t tid, char name[16]);

/* One executable mapping. */
struct xp_mapping {
	uint64_t start;
	uint64_t end;
	uint64_t file_offset;
	uint64_t dev;	/* makedev(major, minor) */
	uint64_t inode; /* 0: no file */
	size_t first;	/* index of the first mapping of the same file in the list */
	bool shared;	/* MAP_SHARED: writes change the file */
	bool moved;	/* this memory without a file replaces a part of the file's text: see xp_mappings_read_all() */
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
 * Reads the executable file mappings of pid. Returns 0 or -errno: -ESRCH if the process has ended, -E2BIG if there are
 * more than XP_MAPPINGS_MAX, -ETIMEDOUT, -ENOMEM. The caller frees the mappings.
 */
int xp_mappings_read(struct xp_mappings *mappings, pid_t pid);
/*
 * Reads all executable mappings, including those without a file. A program can move its text to huge pages at the same
 * addresses (iodlr, node --use-largepages). So memory without a file that exactly fills the gap between two mappings of
 * one file is treated as text of that file: the mapping gets the file's identity and offset, and `moved` is true.
 */
int xp_mappings_read_all(struct xp_mappings *mappings, pid_t pid);
/* Reads /proc/PID/maps completely, terminated, like xp_target_memory_maps(). The caller frees it. */
int xp_mappings_text(char **text, pid_t pid);
/* Parses the text of /proc/PID/maps, for tests. Skips malformed lines. */
int xp_mappings_parse(struct xp_mappings *mappings, char *text, bool all);
void xp_mappings_free(struct xp_mappings *mappings);

/*
 * Opens the file of a mapping by its inode, even if its path now leads to another file, or is in another mount
 * namespace. If no mapping has these bounds now, uses another mapping with this inode (except inode 0). If permissions
 * do not allow that, uses the path if it leads to a file with that inode. If a process serves the file system, opens a
 * copy (chosen_file.h). Returns a descriptor or -errno: -ENOEXEC if it is not a regular file.
 */
int xp_mapping_open(pid_t pid, const struct xp_mapping *mapping);
/* Like xp_mapping_open(), but opens only the mapping with these bounds. inode 0: accepts any file. */
int xp_mapping_open_exact(pid_t pid, uint64_t start, uint64_t end, uint64_t inode);

/* Opens a path in the root directory of the process, if the file has this inode (0: any). See chosen_file.h. */
int xp_target_open_path(pid_t pid, const char *path, uint64_t inode);
/* Gets device and inode of the process's executable. Returns 0 or -errno. */
int xp_target_stat_exe(pid_t pid, struct stat *st);

/*
 * Returns the sum of the time slices of the running threads, from /proc/PID/task/TID/schedstat: of the first 64, and
 * the average for each of the others. Returns 0 if the process has ended, or if the kernel does not count
 * (CONFIG_SCHED_INFO).
 */
uint64_t xp_time_slices(pid_t pid);

#endif
