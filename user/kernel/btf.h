/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kernel's type information (BTF), reduced to the types that the BPF programs use. libbpf relocates programs
 * against the full BTF: 5 MB to read, index and search at each load. The reduced BTF has 50 types: a recording of
 * samples starts 44 ms earlier with it (27 ms of CPU time, median of 25 on 2 CPUs, Linux 6.18).
 */
#ifndef XPROF_KERNEL_BTF_H
#define XPROF_KERNEL_BTF_H

struct btf;

/* A struct that the programs use, and its fields, as listed in vmlinux/types.txt. The last entry has no name. */
struct xp_kernel_struct {
	const char *name;
	const char *fields[24]; /* up to NULL */
};
extern const struct xp_kernel_struct xp_kernel_structs[];

/*
 * Returns the descriptor of a file with the reduced BTF of the running kernel, for libbpf's btf_custom_path. The file
 * is made once and stays open, because a recording loads the BPF programs twice: first for the forecast. Returns -errno
 * if the file cannot be made; libbpf then reads the full BTF. Not thread-safe.
 */
int xp_kernel_btf_file(void);

/*
 * Reduces the BTF of the kernel. Returns 0 or -errno: -ENOENT if a struct or field is missing, -EBADMSG if it uses an
 * unknown feature, -ENOMEM. The caller frees *result with btf__free().
 */
int xp_kernel_btf_reduce(struct btf **result, const struct btf *kernel);

#endif
