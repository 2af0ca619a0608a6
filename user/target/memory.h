/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory and the mappings of another process: all reads go through here. The process may change or vanish at any
 * moment. An access may wait forever: the process itself, if it handles its own page faults (userfaultfd), or the
 * server of a file that it has mapped (FUSE). Such a wait in the kernel may survive even SIGKILL. So a child process
 * does the reading. It is killed if it takes too long, and abandoned if it survives that. The target process is then
 * skipped for a while, longer each time.
 *
 * There are two ways to name what is read. By pid: whatever program the process runs now, with no descriptor, for
 * thousands of processes with JIT code. Or one program's memory (struct xp_program_memory): also protected memory, and
 * never that of a program which replaced it, so that sleds are checked and written safely. memory_window.h makes many
 * small reads of the latter cheap.
 *
 * A child serves one thread and the tasks that this thread waits for (shield.h), even if xprof is killed meanwhile.
 */
#ifndef XPROF_TARGET_MEMORY_H
#define XPROF_TARGET_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct xp_target_memory;

/* The first read starts the child. Returns 0 or -ENOMEM. */
int xp_target_memory_new(struct xp_target_memory **memory);
void xp_target_memory_free(struct xp_target_memory *memory);
/* The memory of the calling thread, freed when the thread ends. Returns NULL if out of memory. */
struct xp_target_memory *xp_target_memory_own(void);
/* Call this in a child of fork(2): leaves the memory child to the parent. The next read starts another child. */
void xp_target_memory_forked(struct xp_target_memory *memory);
/* Starts the child now, so that later accesses take less time. Returns 0 or -errno of creating a process. */
int xp_target_memory_start(struct xp_target_memory *memory);

/*
 * Reads /proc/PID/maps, terminated. The kernel takes the lock of the process's mappings for this. The process may hold
 * that lock forever, by a fault that waits for a FUSE server. Returns 0 or -errno: -ESRCH if the process has ended,
 * -E2BIG if the text exceeds max bytes, -ETIMEDOUT, -ENOMEM. The caller frees the text.
 */
int xp_target_memory_maps(struct xp_target_memory *memory, pid_t pid, char **text, size_t max);
/*
 * Returns an O_PATH descriptor of the file mapped from exactly start to end, or -errno: -ENOENT if there is none;
 * -EACCES; others as above.
 */
int xp_target_memory_map_file(struct xp_target_memory *memory, pid_t pid, uint64_t start, uint64_t end);

/*
 * Returns 0 if all bytes were read, or -errno: -EFAULT if some are not mapped, -ESRCH if the process has ended, -EPERM,
 * -ETIMEDOUT if reading takes too long or did so recently, or an error of creating a process. With memory NULL, reads
 * only this process, without a child.
 */
int xp_target_memory_read(struct xp_target_memory *memory, pid_t pid, uint64_t address, void *to, size_t size);
/* Reads up to size bytes as far as they are mapped. Returns their number, or -EFAULT if there are none. */
ssize_t xp_target_memory_read_some(struct xp_target_memory *memory, pid_t pid, uint64_t address, void *to, size_t size);

/* The memory of one program. It stays that program's memory, even if the pid is reused. */
struct xp_program_memory {
	pid_t pid;
	int fd;		 /* /proc/PID/mem */
	uint64_t serial; /* unique */
};

/*
 * Opens the memory through one of the process's threads, for reading and optionally writing. Accesses nothing. Returns
 * 0 or -errno: -ESRCH if it has ended, -EACCES if not allowed.
 */
int xp_program_memory_open(struct xp_program_memory *program, pid_t pid, pid_t tid, bool writable);
void xp_program_memory_close(struct xp_program_memory *program);

/*
 * Reads up to size bytes, even from protected memory; fewer at the end of a mapping. Returns their number; 0 if the
 * program is gone, by exec or by its end; or -errno: -EIO if nothing is mapped there, others as above.
 */
ssize_t xp_program_memory_read(struct xp_target_memory *memory, const struct xp_program_memory *program,
			       uint64_t address, void *to, size_t size);
/*
 * Writes size bytes, at most a page, to memory that was opened as writable. Returns 0 or -errno: -ESRCH if the program
 * is gone, others as above.
 */
int xp_program_memory_write(struct xp_target_memory *memory, const struct xp_program_memory *program, uint64_t address,
			    const void *from, size_t size);
#endif
