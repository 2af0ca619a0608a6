/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The kernel's types that the BPF programs use. Made by vmlinux/regenerate from vmlinux/types.txt: edit that. */
#ifndef __VMLINUX_H__
#define __VMLINUX_H__

typedef signed char __s8;
typedef unsigned char __u8;
typedef short int __s16;
typedef short unsigned int __u16;
typedef int __s32;
typedef unsigned int __u32;
typedef long long int __s64;
typedef long long unsigned int __u64;
typedef __s8 s8;
typedef __u8 u8;
typedef __s16 s16;
typedef __u16 u16;
typedef __s32 s32;
typedef __u32 u32;
typedef __s64 s64;
typedef __u64 u64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;
typedef int __kernel_pid_t;
typedef __kernel_pid_t pid_t;

enum {
	false = 0,
	true = 1,
};

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERF_EVENT_ARRAY = 4,
	BPF_MAP_TYPE_PERCPU_HASH = 5,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};

enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
	BPF_EXIST = 2,
};

enum {
	BPF_F_NO_PREALLOC = 1,
	BPF_F_INNER_MAP = 4096,
};

enum {
	BPF_F_INDEX_MASK = 0xffffffffULL,
	BPF_F_CURRENT_CPU = 0xffffffffULL,
};

enum {
	BPF_RB_NO_WAKEUP = 1,
	BPF_RB_FORCE_WAKEUP = 2,
};

enum {
	BPF_RB_AVAIL_DATA = 0,
	BPF_RB_RING_SIZE = 1,
	BPF_RB_CONS_POS = 2,
	BPF_RB_PROD_POS = 3,
};

struct pt_regs {
	long unsigned int r15;
	long unsigned int r14;
	long unsigned int r13;
	long unsigned int r12;
	long unsigned int bp;
	long unsigned int bx;
	long unsigned int r11;
	long unsigned int r10;
	long unsigned int r9;
	long unsigned int r8;
	long unsigned int ax;
	long unsigned int cx;
	long unsigned int dx;
	long unsigned int si;
	long unsigned int di;
	long unsigned int orig_ax;
	long unsigned int ip;
	long unsigned int flags;
	long unsigned int sp;
} __attribute__((preserve_access_index));
typedef struct { int counter; } atomic_t;

struct signal_struct {
	atomic_t live;
	long long unsigned int sum_sched_runtime;
} __attribute__((preserve_access_index));

struct inode {
	long unsigned int i_ino;
} __attribute__((preserve_access_index));

struct file {
	struct inode *f_inode;
} __attribute__((preserve_access_index));

struct mm_struct {
	long unsigned int end_code;
	long unsigned int start_stack;
} __attribute__((preserve_access_index));

struct sched_entity {
	u64 sum_exec_runtime;
} __attribute__((preserve_access_index));

struct thread_struct {
	long unsigned int fsbase;
} __attribute__((preserve_access_index));

struct thread_info {
	long unsigned int flags;
} __attribute__((preserve_access_index));

struct list_head {
	struct list_head *next;
} __attribute__((preserve_access_index));

struct uprobe_task {
	long unsigned int vaddr;
	long unsigned int xol_vaddr;
} __attribute__((preserve_access_index));

struct task_struct {
	struct thread_info thread_info;
	unsigned int __state;
	unsigned int flags;
	int exit_code;
	pid_t pid;
	pid_t tgid;
	u64 start_time;
	char comm[16];
	struct mm_struct *mm;
	struct signal_struct *signal;
	struct sched_entity se;
	struct thread_struct thread;
	struct uprobe_task *utask;
	struct list_head ptraced;
	struct list_head ptrace_entry;
} __attribute__((preserve_access_index));

struct linux_binprm {
	struct file *file;
} __attribute__((preserve_access_index));

enum {
	BPF_F_USER_STACK = 256,
};

enum {
	BPF_LOCAL_STORAGE_GET_F_CREATE = 1,
};

#endif
