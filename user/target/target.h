/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process to be traced, as /proc shows it: whether it can be traced at all, and what it has mapped. Everything read
 * here is under the target's control and may change or vanish at any moment.
 */
#ifndef XPROF_TARGET_H
#define XPROF_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

struct xp_target_info {
	char comm[16];
	char exe[4096];	     /* as readlink(/proc/PID/exe) has it, " (deleted)" included */
	uint64_t start_time; /* clock ticks after boot: with the pid, it names a process for good */
};

/*
 * Whether pid can be traced, and what it is. 0, or with a sentence and its remedy in why:
 * -ESRCH no such process or a zombie, -EINVAL a kernel thread, xprof itself, or a thread's id, -ENOEXEC a 32-bit
 * process, -EACCES /proc does not show it.
 */
int xp_target_check(pid_t pid, struct xp_target_info *info, char *why, size_t why_size);

/* The process (thread group) that a thread belongs to, 0 when it cannot be told. */
pid_t xp_target_process(pid_t tid);

/* The start time alone, 0 when there is no such process or only its zombie. */
uint64_t xp_target_start_time(pid_t pid);

/* CPU time that the process has taken, all threads together; 0 when it is gone. */
uint64_t xp_target_cpu_ns(pid_t pid);
/* How many threads it has; 0 when it is gone. */
unsigned int xp_target_threads(pid_t pid);

/* comm of a thread; "" when it is gone. */
void xp_target_thread_name(pid_t pid, pid_t tid, char name[16]);

/* One executable mapping. */
struct xp_mapping {
	uint64_t start;
	uint64_t end;
	uint64_t file_offset;
	uint64_t dev;	/* makedev(major, minor) */
	uint64_t inode; /* 0: no file */
	bool shared;	/* writes to it would go to the file */
	char *path; /* as the target sees it, octal escapes undone; "[vdso]", "[heap]", "" and so on without a file */
};

struct xp_mappings {
	struct xp_mapping *list; /* in address order */
	size_t count;
};

/* At most this many executable mappings are looked at in a process. */
#define XP_MAPPINGS_MAX 65536

/* The executable file mappings of pid. -ESRCH gone, -E2BIG more than XP_MAPPINGS_MAX, -ENOMEM. The caller frees. */
int xp_mappings_read(struct xp_mappings *mappings, pid_t pid);
/* All of them, those without a file too. */
int xp_mappings_read_all(struct xp_mappings *mappings, pid_t pid);
/* /proc/PID/maps whole, terminated; -ESRCH gone, -E2BIG, -ENOMEM. The caller frees. */
int xp_mappings_text(char **text, pid_t pid);
/* The same from the text of /proc/PID/maps, for tests. Lines that are none are skipped. */
int xp_mappings_parse(struct xp_mappings *mappings, char *text, bool all);
void xp_mappings_free(struct xp_mappings *mappings);

/*
 * Opens the file behind a mapping: the very inode, whatever the path means now or in another mount namespace. Where the
 * mapping is not there with these bounds, another one of its inode will do; inode 0: none will. Who may not open that
 * is served by the path, if it leads to a file of that inode. A descriptor, of a copy where the file system is served
 * by a process (chosen_file.h), or -errno; -ENOEXEC: no regular file.
 */
int xp_mapping_open(pid_t pid, const struct xp_mapping *mapping);

/* Its program, or what a path leads to in its root directory, if it has this inode (0: any), see chosen_file.h. */
int xp_target_open_exe(pid_t pid, uint64_t inode);
int xp_target_open_path(pid_t pid, const char *path, uint64_t inode);
/* Device and inode of its program. -errno. */
int xp_target_stat_exe(pid_t pid, struct stat *st);

#endif
