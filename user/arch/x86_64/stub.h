/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The stub: code that patched sleds call, with a uprobe site and a `ret` for each way of recording.
 *
 * The stub is the only content of a memfd. The target itself creates the memfd, so this works with any root directory,
 * mount namespace and privileges. The memfd is sealed; the kernel attaches uprobes to it as to any file.
 *
 * Every uprobe of the stub is on a nop of 1 byte, which all kernels emulate (arch/x86/kernel/uprobes.c,
 * branch_setup_xol_ops()). Linux 6.18 replaces a probed nop of 5 bytes with a call, Linux 7.2 a nop of 10 bytes. The
 * call is faster, but removing such a probe oopses Linux 6.18.0 to 6.18.39 and 6.19.0 to 7.1.4 (CVE-2026-72357) if
 * xprof is killed. So xprof never probes a nop of several bytes.
 *
 * A child of fork() inherits the breakpoints. In a child that is not recorded, a call through a breakpoint costs 1110
 * ns instead of 4. So the page after the stub holds a flag that the kernel clears in children (MADV_WIPEONFORK). If the
 * flag is 0, a slot jumps to a second nop, which has a uprobe only if children are recorded.
 *
 * Testing the flag changes the CPU's flags. They are dead at the entry and the end of a function, but may be live at an
 * event, in its middle. So the event slots do not test the flag: parent and child use the same nop.
 *
 * One more slot counts calls of functions that a budget has throttled (throttle.h). It increments a counter in the
 * process's memory, without entering the kernel. Each CPU has roughly its own set of counters, because a cache line
 * that all CPUs write to is expensive on a large machine. Counters of children start at 0 (MADV_WIPEONFORK), or
 * children share the counters of their parent (stub_map.h).
 */
#ifndef XPROF_ARCH_X86_64_STUB_H
#define XPROF_ARCH_X86_64_STUB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define XP_STUB_BYTES 4096 /* size of the file */
#define XP_STUB_FLAG 4096  /* offset of the flag, one byte: 1 in the process in which the stub was made */
#define XP_STUB_TABLE 4160 /* offset of the address of the process's table of call rings; 0: no table */
/*
 * Offset of the counters, which have 32 bits and wrap around. There are XP_STUB_SHARDS sets of XP_STUB_COUNTERS_MAX
 * counters.
 */
#define XP_STUB_COUNTERS 8192
#define XP_STUB_COUNTERS_MAX 128
#define XP_STUB_SHARDS 64
#define XP_STUB_COUNTERS_BYTES (4 * XP_STUB_SHARDS * XP_STUB_COUNTERS_MAX)
#define XP_STUB_ROOM (XP_STUB_COUNTERS + XP_STUB_COUNTERS_BYTES) /* size of all pages except call rings */

/* What the sled passes to the BPF program, in addition to the registers of the function: */
enum xp_stub_slot {
	XP_STUB_CALL,	/* r10d: xp_event_word() of an entry, exit or tail exit */
	XP_STUB_ARGS,	/* r10d: xp_event_word() of an entry with arguments */
	XP_STUB_CUSTOM, /* on the stack above the return address: the registers of the operands, the function ID */
	XP_STUB_TYPED,	/* the same */
	XP_STUB_SLOTS,
};

/* Offset of a slot in the page, which sleds call. */
uint32_t xp_stub_entry(enum xp_stub_slot slot);
/* Offset of the slot's uprobe. */
uint32_t xp_stub_probe(enum xp_stub_slot slot);
/* Returns the offset of the uprobe for children of fork(): on the second nop, or on the common nop of an event slot. */
uint32_t xp_stub_child_probe(enum xp_stub_slot slot);
/* Offset of the counting slot. r10d: xp_event_word() of 4 times the counter's index. */
#define XP_STUB_COUNT 0x200
/* Offset of a nop that no sled calls: for the anchor (attach.h) in a process without a dynamic linker. */
#define XP_STUB_ANCHOR 0x240
/* True if a slot starts at this offset. */
bool xp_stub_is_slot(uint64_t offset);
/*
 * The slots that record a call in memory (stub_memory.c), for CPUs and kernels that let programs execute rdfsbase.
 * r10d: as for XP_STUB_CALL. rdpid: use the slots with rdpid (instructions.h). Offsets of a slot in the page and of its
 * uprobe.
 */
#define XP_STUB_MEMORY 0x280
#define XP_STUB_MEMORY_BYTES 256
uint32_t xp_stub_memory_entry(bool rdpid);
uint32_t xp_stub_memory_probe(bool rdpid);
/* Returns the offset of the uprobe for children of fork(). Registers and stack are the same. */
uint32_t xp_stub_memory_child_probe(bool rdpid);
/*
 * Slots for --min-duration. The exit slots discard the entry of a short call, or continue in the slots above if they
 * cannot. The event slots keep the calls around the event.
 */
#define XP_STUB_TAKE_BACK (XP_STUB_MEMORY + 2 * XP_STUB_MEMORY_BYTES)
#define XP_STUB_TAKE_BACK_BYTES 320
#define XP_STUB_MEMORY_EVENT (XP_STUB_TAKE_BACK + 2 * XP_STUB_TAKE_BACK_BYTES)
#define XP_STUB_MEMORY_EVENT_BYTES 128
uint32_t xp_stub_take_back_entry(bool rdpid);
/* slot: XP_STUB_CUSTOM or XP_STUB_TYPED. */
uint32_t xp_stub_memory_event_entry(enum xp_stub_slot slot);
uint32_t xp_stub_memory_event_probe(enum xp_stub_slot slot);
/*
 * The instructions of these slots that access the table or a ring, by index from 0. Copies an instruction and returns
 * its offset in the page; 0: no such index. If all of them are replaced with nops of XP_STUB_NOP, a thread at any place
 * in these slots returns as usual and needs neither table nor rings.
 */
#define XP_STUB_NOP 0x90
#define XP_STUB_ACCESS_BYTES_MAX 8
size_t xp_stub_ring_access(size_t number, uint32_t *offset);
/* Offset of unused bytes at the end of the page, for xp_remote_begin_calls(). */
#define XP_STUB_SCRATCH 0xff0

/*
 * The memory to which these slots write, which follows the counters. The process shares it with xprof (call_rings.h).
 * First come XP_CALL_BLOCKS blocks for the rings. A ring has one block, or XP_CALL_LARGE_BLOCKS of them: a page with
 * its header, and its records. Then comes one table for each process that shares the memory. XP_STUB_TABLE, which no
 * other process can write, chooses the table.
 *
 * An entry of a table is XP_CALL_KEY() of a thread's fs base and the number of its ring's first block. The thread has
 * the entry that XP_CALL_ENTRY_OF() of its fs base says, or the neighbor of that entry. Block 0 is nobody's: a thread
 * without TLS takes a free entry for its own.
 *
 * Whatever a process writes there, the stub writes only to headers and records: the address of a block, and the mask
 * for the positions in a large ring, are in the code. Numbers without casts and suffixes: they are in the code.
 */
#define XP_STUB_RINGS 0xa000
#define XP_CALL_BLOCKS 256
#define XP_CALL_RING_RECORDS 16384
#define XP_CALL_HEADER_BYTES 4096
#define XP_CALL_BLOCK_BYTES (XP_CALL_HEADER_BYTES + 16 * XP_CALL_RING_RECORDS)
#define XP_CALL_LARGE_BLOCKS 8
#define XP_CALL_LARGE_RECORDS (XP_CALL_LARGE_BLOCKS * XP_CALL_RING_RECORDS)
#define XP_CALL_ENTRY_BITS 11
#define XP_CALL_TABLE_BYTES (8 << XP_CALL_ENTRY_BITS)
#define XP_CALL_TABLES_MAX 256
/* Their offset in the memory. If the mask in a header is false, records go to the blocks in between. */
#define XP_CALL_TABLES ((XP_CALL_BLOCKS + XP_CALL_LARGE_BLOCKS) * XP_CALL_BLOCK_BYTES)
#define XP_CALL_RINGS_BYTES (XP_CALL_TABLES + XP_CALL_TABLES_MAX * XP_CALL_TABLE_BYTES)
#define XP_CALL_ENTRY_FACTOR 0x9e3779b1
#define XP_CALL_ENTRY_OF(fs_base) ((uint32_t)(fs_base)*XP_CALL_ENTRY_FACTOR >> (32 - XP_CALL_ENTRY_BITS))
#define XP_CALL_KEY(fs_base, block) ((uint64_t)(fs_base) << 8 | (block))
#define XP_CALL_RECORD_BYTES 16
#define XP_CALL_CPU_BITS 12

/* The first bytes of a ring. */
struct xp_call_header {
	uint64_t limit; /* the thread reserves a record while head < limit; xprof increases the limit */
	uint64_t final; /* records before this one are never discarded: BPF has later ones */
	uint64_t head;	/* records reserved so far, without discarded ones; written by the thread */
	/* Number of short calls that the thread has discarded so far. The other bits change with `final`. */
	uint64_t taken_back;
	uint64_t min_ticks; /* shorter calls are discarded; << XP_CALL_CPU_BITS, as the time of a record */
	uint32_t mask;	    /* number of records - 1 */
};
_Static_assert(offsetof(struct xp_call_header, head) == 16, "cmpxchg16b takes head and taken_back");
#define XP_CALL_TAKEN_BACK_BITS 52

struct xp_call_record {
	uint64_t time; /* TSC << XP_CALL_CPU_BITS | CPU */
	uint32_t word; /* xp_event_word(); 0: not committed yet */
	uint32_t sp;   /* stack pointer / 8: at an exit, the slot of the return address; at an entry, 1 less */
};
_Static_assert(sizeof(struct xp_call_record) == XP_CALL_RECORD_BYTES, "xp_call_record");

/* Makes the content of the file: an ELF file with one section of code, which starts at XP_STUB_TEXT. */
#define XP_STUB_TEXT 0x100
#define XP_STUB_TEXT_BYTES 0x700
void xp_stub_make(uint8_t page[XP_STUB_BYTES]);

/*
 * stub_memory.c: makes the slots that record in memory, and the rows of their unwind table, which follow a row at
 * `location`. The rows have at most XP_STUB_MEMORY_CFI_BYTES; returns their end.
 */
void xp_stub_make_memory(uint8_t page[XP_STUB_BYTES]);
#define XP_STUB_MEMORY_CFI_BYTES (2 * (40 + 100) + 2 * 36)
uint8_t *xp_stub_put_memory_cfi(uint8_t *to, uint32_t location);

/*
 * Creates a file with a stub in this process. Returns the descriptor or -errno.
 *
 * xp_stub_map() maps it together with its flag, its counters and empty call rings, XP_STUB_MAP_BYTES in all. Returns
 * NULL with errno set on failure.
 */
#define XP_STUB_MAP_BYTES (XP_STUB_ROOM + XP_CALL_RINGS_BYTES)
int xp_stub_open(void);
uint8_t *xp_stub_map(int fd);

/* True if fd is a stub of this version of xprof and is sealed against writes. Reads all of fd and opens nothing. */
bool xp_stub_verify(int fd);
/* True if a mapping of this name may be a stub and is worth checking. */
bool xp_stub_is_named(const char *path);

#endif
