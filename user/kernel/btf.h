/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kernel's type information (BTF), cut down to what the BPF programs use of it. libbpf relocates programs against
 * all of it, 5 MB that it reads, indexes and searches at each load; against this it has 50 types to look at.
 * The layout of BTF: linux/btf.h and Documentation/bpf/btf.rst.
 */
#ifndef XPROF_KERNEL_BTF_H
#define XPROF_KERNEL_BTF_H

#include <stddef.h>
#include <stdint.h>

struct btf;

/* A struct that programs use, and its fields: what vmlinux/types.txt lists. The last one has no name. */
struct xp_kernel_struct {
	const char *name;
	const char *fields[24]; /* up to NULL */
};
extern const struct xp_kernel_struct xp_kernel_structs[];

/*
 * A file with the running kernel's types in this form: its descriptor, for libbpf's btf_custom_path. The caller closes
 * it. -errno: it cannot be made, and libbpf has to read the kernel's own.
 */
int xp_kernel_btf_open(void);

/*
 * The same from the kernel's BTF in memory. -ENOENT a struct or field is not there, -EBADMSG this is no BTF or uses
 * what is not known of it, -ENOMEM. The caller frees with btf__free().
 */
int xp_kernel_btf_reduce(struct btf **result, const void *bytes, size_t size);

#endif
