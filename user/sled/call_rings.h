/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The call rings of a process: a memfd that the process maps behind its stubs, and xprof, too. It holds the table of
 * slots and the rings. A slot belongs to the thread whose fs base is its key.
 *
 * Who has a ring: the threads that exist when the sleds are patched, and each thread from its birth on, as BPF reports
 * it (XP_EVENT_THREAD). Threads that may not execute rdtsc are left out. A thread may run before
 * that report arrives, or reuse the fs base of one that has ended; so the records of a ring are split between threads
 * by the numbers that BPF reads at births and ends, or by their times where it cannot. A thread without a ring falls
 * through to the uprobe of the stub, which names it.
 *
 * Two threads with one fs base (clone() without CLONE_SETTLS) could write to one ring at the same time: their key is
 * taken away for good. A child of vfork() has its parent's fs base, but the parent waits: what the ring gets meanwhile
 * is the child's.
 *
 * The memory outlives the process: the last record before SIGKILL is there. A fork()'s child does not get it.
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

/* 256 KiB a thread: 16 384 records, at full speed the calls of 0.3 ms. Pages are taken when a thread gets its ring. */
#define XP_CALL_RINGS_MAX 256
#define XP_CALL_RING_RECORDS 16384u
#define XP_CALL_RING_BYTES ((size_t)XP_CALL_RING_RECORDS * XP_CALL_RECORD_BYTES)
#define XP_CALL_TABLE_BYTES ((size_t)XP_CALL_SLOTS * XP_CALL_SLOT_BYTES)
/* Size of the memfd and its mappings, at XP_STUB_SLOTS_TABLE behind a stub. */
#define XP_CALL_RINGS_BYTES (XP_CALL_TABLE_BYTES + XP_CALL_RINGS_MAX * XP_CALL_RING_BYTES)

/* The ring of one thread. */
struct xp_thread_ring {
	struct xp_call_ring ring;
	bool told;	      /* BPF knows the slot */
	uint64_t next_before; /* for the caller: ring.next at an earlier time */
	uint64_t since_tsc;   /* when it was bound: events from before that change nothing */
	pid_t left_tid;	      /* set by the caller: a thread that has ended, and may have left calls; 0: none */
	uint64_t free_tsc;    /* its key was taken away then, to be used for another thread; 0: it has its key */
	bool shared;	      /* several threads have this fs base: none of them has the key */
	pid_t borrower;	      /* the child of vfork() that runs in place of the thread; 0: none */
	uint64_t gone_tsc;    /* the borrower was found to have ended by then; 0: not so */
	/* The thread was found to have ended by then, and events were lost: nothing more is taken for it. 0: not so. */
	uint64_t ended_tsc;
	/* How many calls were taken back by then, the low 32 bits. */
	uint32_t seen_taken_back;
	uint64_t seen_tsc; /* 0: nobody has looked */
};

struct xp_call_rings {
	/*
	 * By ring: the thread (0: it has ended, and the records from now on belong to the next one with its fs base),
	 * and the fs base (0: the ring is free). They are searched, so they are together.
	 */
	pid_t tids[XP_CALL_RINGS_MAX];
	uint64_t fs_bases[XP_CALL_RINGS_MAX];
	struct xp_thread_ring list[XP_CALL_RINGS_MAX];
	size_t count;
	unsigned int references;
	const struct xp_programs *programs;
	pid_t pid;	       /* set by the caller, if there are programs */
	uint64_t first_number; /* of the records of the next ring: higher than those of all earlier ones */
	uint8_t *memory;
	struct xp_shared_pages pages; /* the same, guarded: see xp_call_rings_torn() */
	size_t clean; /* so many of the first rings have their pages, and those that are not used yet are zero */
	int fd;
	uint64_t address;   /* of the memory in the process */
	bool bound;	    /* set by the caller: the threads that existed have their rings */
	bool refused;	    /* a thread found no room, and tells again when there is some */
	bool given_up;	    /* set by the caller: no thread gets a ring any more */
	uint64_t min_ticks; /* set by the caller before the first thread: the stub takes shorter calls back; 0: none */
};

/*
 * Maps the memfd here, too. address: where the process has mapped it. Takes over fd. Keys that a killed xprof left are
 * taken away. The programs, which are borrowed (NULL: none), get to know the slots. Returns 0 or -errno. The result has
 * one reference.
 */
int xp_call_rings_new(struct xp_call_rings **rings, int fd, uint64_t address, const struct xp_programs *programs);
struct xp_call_rings *xp_call_rings_share(struct xp_call_rings *rings);
/* Drops a reference. The last one gives the pages back. NULL is allowed. */
void xp_call_rings_free(struct xp_call_rings *rings);

/*
 * Takes the pages of rings for so many more threads, which takes too long while the process is stopped. Fewer rings are
 * not an error.
 */
void xp_call_rings_prepare(struct xp_call_rings *rings, size_t threads);
/* Whether the process has taken pages away that xprof cannot have back: nothing more is to be read there. */
static inline bool xp_call_rings_torn(const struct xp_call_rings *rings)
{
	return rings->pages.torn;
}

/*
 * A thread began, or was found at that TSC. It may stay without a ring: too many threads, or no memory. Events from
 * before the ring's thread was bound change nothing.
 */
void xp_call_rings_begin(struct xp_call_rings *rings, pid_t tid, uint64_t fs_base, uint64_t tsc);
/* A child of vfork() runs in place of the ring's thread. */
void xp_call_rings_lend(struct xp_thread_ring *ring, pid_t borrower);
/* The thread has ended. The caller has taken its records. */
void xp_call_rings_end(struct xp_call_rings *rings, pid_t tid);
/* A thread's ring, and that of an fs base; NULL if there is none. */
struct xp_thread_ring *xp_call_rings_of(struct xp_call_rings *rings, pid_t tid);
struct xp_thread_ring *xp_call_rings_at(struct xp_call_rings *rings, uint64_t fs_base);

/*
 * Prepares the rings of ended threads for other threads. done_tsc: all events and records before it have been taken, so
 * that a thread that found an old key before that is known. before: called for each ring that is freed.
 */
void xp_call_rings_recycle(struct xp_call_rings *rings, uint64_t done_tsc,
			   void (*before)(void *arg, struct xp_thread_ring *ring), void *arg);
/* Takes all keys away: no more calls are recorded there, but for those that threads are in the middle of. */
void xp_call_rings_stop(struct xp_call_rings *rings);
/* BPF forgets the rings: no more events of their threads are handled. */
void xp_call_rings_forget(struct xp_call_rings *rings);

#endif
