/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The call rings of a process and of its children: a memfd that the process maps after its stubs, and that xprof maps,
 * too. It contains the rings, and a table for each process (stub.h). An entry of a table has the fs base of a thread
 * and the number of its ring.
 *
 * A ring is given to each thread that exists when the sleds are patched, and to each new thread that BPF reports
 * (XP_EVENT_THREAD), except threads that must not execute rdtsc. A thread may run before that report arrives, or reuse
 * the fs base of a thread that has exited. So the records of a ring are divided between threads by the record numbers
 * that BPF reads when threads start and exit, or by time where BPF cannot read them. A thread without a ring falls back
 * to the uprobe of the stub, which reports it.
 *
 * If children are recorded, a child of fork() inherits the mapping, but not the address of a table, which is in memory
 * that fork() wipes. xprof chooses a free table, and a ring for the child's first thread, and writes the address of the
 * table into the child while it runs. Until then, the child falls back to the uprobe. Rings and table of an exited
 * process are used for other children. A process can write into the rings of its parent and its other relatives: it can
 * forge their calls, and do no other harm.
 *
 * Two threads with one fs base (clone() without CLONE_SETTLS) could write to one ring at the same time, so their key is
 * removed permanently. A vfork() child has its parent's fs base, but the parent waits: records of that time belong to
 * the child.
 *
 * The memory outlives the process, so the last record before SIGKILL is not lost.
 */
#ifndef XPROF_SLED_CALL_RINGS_H
#define XPROF_SLED_CALL_RINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/shared_pages.h"
#include "kernel/programs.h"
#include "sled/call_ring.h"
#include "sled/stub_map.h"

/*
 * The first XP_CALL_LARGE_RINGS rings are large: 2 MiB, or 2 ms of calls at full speed. Those beyond, and all of them
 * where memory is scarce, have 256 KiB. The threads of a busy server and xprof share the CPUs, so xprof may read a ring
 * only every 10 ms.
 */
#define XP_CALL_LARGE_RINGS 8
#define XP_CALL_RINGS_MAX (XP_CALL_BLOCKS - XP_CALL_LARGE_RINGS * (XP_CALL_LARGE_BLOCKS - 1)) /* with ring 0 */

/*
 * The ring of one thread. A large ring of a thread that starts during the recording gets 256 KiB of its pages at first,
 * and more when it has used half of those it has: allocating all takes a millisecond.
 */
struct xp_thread_ring {
	struct xp_call_ring ring;
	uint64_t *entry;      /* entry in the table of the process; in shared memory */
	bool told;	      /* BPF has the address of the header */
	uint64_t next_before; /* used by the caller: ring.next at an earlier time */
	uint64_t since_tsc;   /* when the thread got the ring: earlier events do not change it */
	pid_t left_tid;	      /* set by the caller: a thread that has exited, and whose calls may remain; 0: none */
	uint64_t free_tsc;    /* when the key was removed, to reuse the ring; 0: it has its key */
	bool shared;	      /* several threads have this fs base, so the key was removed */
	pid_t borrower;	      /* the vfork() child that uses the ring instead of the thread; 0: none */
	uint64_t gone_tsc;    /* when the vfork() child was found to have exited; 0: it has not */
	/* When the thread was found to have exited while events were lost: ignore later records. 0: it has not. */
	uint64_t ended_tsc;
	/* Number of discarded short calls at seen_tsc, the low 32 bits. */
	uint32_t seen_taken_back;
	uint64_t seen_tsc; /* 0: never checked */
};

struct xp_call_rings {
	/*
	 * Thread of each ring (0: it has exited; new records belong to the next thread with this fs base), and its fs
	 * base (0: the ring is free). Arrays of their own, because they are searched.
	 */
	pid_t tids[XP_CALL_RINGS_MAX];
	uint64_t fs_bases[XP_CALL_RINGS_MAX];
	pid_t pids[XP_CALL_RINGS_MAX];	   /* the process that a ring belongs to, if it is not free */
	size_t records[XP_CALL_RINGS_MAX]; /* of each ring */
	size_t ready[XP_CALL_RINGS_MAX];   /* those of them that have pages */
	struct xp_thread_ring list[XP_CALL_RINGS_MAX];
	size_t count;			  /* with ring 0, which is nobody's */
	pid_t tables[XP_CALL_TABLES_MAX]; /* the process that has each table; 0: it is free; -1: it stays empty */
	size_t clean_tables;		  /* number of tables, from the first on, that have their pages */
	/* Addresses of stubs whose call rings children of fork() inherit; set by the caller. */
	uint64_t stubs[XP_STUBS_MAX];
	size_t stub_count;
	unsigned int references;
	const struct xp_programs *programs;
	/*
	 * Number of the first record of the next ring: higher than those of all earlier rings, and a multiple of
	 * XP_CALL_LARGE_RECORDS, so that a ring is used from its first record on.
	 */
	uint64_t first_number;
	uint8_t *memory;
	struct xp_shared_pages pages; /* guards the memory: see xp_call_rings_torn() */
	size_t clean;		      /* number of rings, from ring 0 on, that have pages; unused ones are zero */
	size_t clean_bytes;	      /* of these rings */
	int fd;
	uint64_t address;   /* address of the memory in the process */
	bool bound;	    /* set by the caller: existing threads have their rings */
	bool refused;	    /* a thread got no ring, and must be reported again when one is free */
	bool given_up;	    /* set by the caller: no more threads get rings */
	bool no_children;   /* set by the caller: no more children get tables */
	uint64_t min_ticks; /* set by the caller before the first thread: the stub discards shorter calls; 0: none */
};

/*
 * Maps the memfd in xprof, and removes keys that a killed xprof left. The first table is that of process pid. address:
 * where the process has mapped the memfd. Takes over fd. programs, which are borrowed, get the addresses of the
 * headers; NULL: there are none. Returns 0 or -errno. The result has one reference.
 */
int xp_call_rings_new(struct xp_call_rings **rings, pid_t pid, int fd, uint64_t address,
		      const struct xp_programs *programs);
struct xp_call_rings *xp_call_rings_share(struct xp_call_rings *rings);
/* Releases a reference. The last one frees the pages. NULL is allowed. */
void xp_call_rings_free(struct xp_call_rings *rings);

/*
 * Allocates pages for the rings of more threads, before the process is stopped, because this takes long. Fewer rings
 * are not an error.
 */
void xp_call_rings_prepare(struct xp_call_rings *rings, size_t threads);
/* Allocates more pages of a ring that needs them. Call it after records of the ring were taken. */
void xp_call_rings_grow(struct xp_call_rings *rings, struct xp_thread_ring *ring);
/* Returns whether the process has removed pages that xprof cannot replace: do not read the memory any more. */
static inline bool xp_call_rings_torn(const struct xp_call_rings *rings)
{
	return rings->pages.torn;
}

/*
 * Gives a ring to a thread that started, or was found, at this TSC, unless there are too many threads or there is no
 * memory. Ignores events from before the ring's current thread got it.
 */
void xp_call_rings_begin(struct xp_call_rings *rings, pid_t pid, pid_t tid, uint64_t fs_base, uint64_t tsc);
/* Records that a vfork() child uses the ring instead of the ring's thread. */
void xp_call_rings_lend(struct xp_thread_ring *ring, pid_t borrower);
/* Call this when the thread has exited, after reading its records. */
void xp_call_rings_end(struct xp_call_rings *rings, pid_t pid, pid_t tid);
/* Returns the ring of a thread, or of an fs base, of the process; NULL: none. */
struct xp_thread_ring *xp_call_rings_of(struct xp_call_rings *rings, pid_t pid, pid_t tid);
struct xp_thread_ring *xp_call_rings_at(struct xp_call_rings *rings, pid_t pid, uint64_t fs_base);

/*
 * Returns the next ring of the process after this one (NULL: the first one), including rings of exited threads. NULL:
 * there is none.
 */
struct xp_thread_ring *xp_call_rings_next(struct xp_call_rings *rings, pid_t pid, struct xp_thread_ring *ring);
/* Returns the thread of a ring; 0: it has exited. */
static inline pid_t xp_call_rings_owner(const struct xp_call_rings *rings, const struct xp_thread_ring *ring)
{
	return rings->tids[ring - rings->list];
}

/*
 * Prepares the rings of the process's exited threads for other threads. Call it when all events and records from before
 * done_tsc have been read, so that all threads that used an old key are known. Calls before() for each ring that is
 * freed.
 */
void xp_call_rings_recycle(struct xp_call_rings *rings, pid_t pid, uint64_t done_tsc,
			   void (*before)(void *arg, struct xp_thread_ring *ring), void *arg);
/* Clears all keys of the process. Its threads stop recording in memory, except for calls that are already in the stub.
 */
void xp_call_rings_stop(struct xp_call_rings *rings, pid_t pid);
/* Removes the rings of the process from BPF, which then ignores further events of their threads. */
void xp_call_rings_forget(struct xp_call_rings *rings, pid_t pid);
/* Returns the number of a process's table; -ENOENT: it has none. */
int xp_call_rings_table(const struct xp_call_rings *rings, pid_t pid);
/*
 * Gives a table and a ring for its first thread to a child of fork(), which shares the rings. fs_base: of that thread.
 * pid and start_time (target.h): of the child. Returns 0 or -errno: -EOPNOTSUPP if it has not inherited the rings,
 * -ENOSPC if there is no table or no memory, -ESRCH if it has exited or runs another program, or the errors of
 * xp_program_memory_write().
 */
int xp_call_rings_adopt(struct xp_call_rings *rings, pid_t pid, uint64_t start_time, uint64_t fs_base, uint64_t tsc);
/*
 * Call this when the process has exited: like xp_call_rings_forget(), and frees the rings and the table for other
 * processes. is_used: a task may still know the table, which therefore stays empty.
 */
void xp_call_rings_leave(struct xp_call_rings *rings, pid_t pid, bool is_used);

#endif
