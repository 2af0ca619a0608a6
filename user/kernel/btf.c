// SPDX-License-Identifier: BSD-2-Clause
#include "kernel/btf.h"

#include <bpf/btf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/file_view.h"
#include "base/util.h"

#define KERNEL_BTF "/sys/kernel/btf/vmlinux"
#define FIELDS_MAX XP_ARRAY_SIZE(((struct xp_kernel_struct *)0)->fields)
/* Nesting of structs, typedefs and other references. */
#define DEPTH_MAX 16

const struct xp_kernel_struct xp_kernel_structs[] = {
	{ "pt_regs",
	  { "r15", "r14", "r13", "r12", "bp", "bx", "r11", "r10", "r9", "r8", "ax", "cx", "dx", "si", "di", "orig_ax",
	    "ip", "flags", "sp" } },
	{ "signal_struct", { "live", "sum_sched_runtime" } },
	{ "inode", { "i_ino" } },
	{ "file", { "f_inode" } },
	{ "mm_struct", { "end_code", "start_stack" } },
	{ "sched_entity", { "sum_exec_runtime" } },
	{ "thread_struct", { "fsbase" } },
	{ "thread_info", { "flags" } },
	{ "list_head", { "next" } },
	{ "uprobe_task", { "vaddr", "xol_vaddr" } },
	{ "task_struct",
	  { "thread_info", "__state", "flags", "exit_code", "pid", "tgid", "start_time", "comm", "mm", "signal", "se",
	    "thread", "utask", "ptraced", "ptrace_entry" } },
	{ "linux_binprm", { "file" } },
	{ NULL, { NULL } },
};

struct field {
	const char *name;
	uint32_t bit_offset;
	int type; /* in the result */
};

/* Returns "" if there is none. */
static const char *name_of(const struct btf *kernel, uint32_t offset)
{
	return btf__name_by_offset(kernel, offset) ?: "";
}

static int copy_type(struct btf *result, const struct btf *kernel, uint32_t number, unsigned int depth);

/*
 * Copies a nested struct and returns its number. Uses the copy of a listed struct if it is listed earlier. Copies other
 * structs completely, if they have few fields (atomic_t).
 */
static int copy_inner(struct btf *result, const struct btf *kernel, const struct btf_type *type, unsigned int depth)
{
	const char *name = name_of(kernel, type->name_off);
	int inner = name[0] ? btf__find_by_name_kind(result, name, BTF_KIND_STRUCT) : -ENOENT;
	struct field fields[FIELDS_MAX];
	uint32_t count = btf_vlen(type);

	if (inner >= 0)
		return inner;
	if (count > FIELDS_MAX || btf_kflag(type))
		return -EBADMSG;
	for (uint32_t i = 0; i < count; i++) {
		const struct btf_member *member = &btf_members(type)[i];
		int copy = copy_type(result, kernel, member->type, depth + 1);

		if (copy < 0)
			return copy;
		fields[i] = (struct field){ name_of(kernel, member->name_off), member->offset, copy };
	}
	inner = btf__add_struct(result, NULL, type->size);
	for (uint32_t i = 0; i < count && inner >= 0; i++) {
		int err = btf__add_field(result, fields[i].name, fields[i].type, fields[i].bit_offset, 0);

		if (err)
			return err;
	}
	return inner;
}

/* Returns the number of the copy in the result, or -errno. Does not copy what pointers point to. */
static int copy_type(struct btf *result, const struct btf *kernel, uint32_t number, unsigned int depth)
{
	int copy, resolved = btf__resolve_type(kernel, number);
	const struct btf_type *type = resolved < 0 ? NULL : btf__type_by_id(kernel, resolved);

	if (!type || depth > DEPTH_MAX)
		return -EBADMSG;
	switch (btf_kind(type)) {
	case BTF_KIND_INT:
		return btf__add_int(result, name_of(kernel, type->name_off), type->size, btf_int_encoding(type));
	case BTF_KIND_PTR:
		return btf__add_ptr(result, 0);
	case BTF_KIND_ARRAY:
		copy = copy_type(result, kernel, btf_array(type)->type, depth + 1);
		return copy < 0 ? copy : btf__add_array(result, copy, copy, btf_array(type)->nelems);
	case BTF_KIND_STRUCT:
		return copy_inner(result, kernel, type, depth);
	default:
		return -EBADMSG;
	}
}

/* Finds a field in the struct, or in an anonymous struct or union in it, which begins at bit_offset. */
static int find_field(const struct btf *kernel, const struct btf_type *type, const char *name, uint32_t bit_offset,
		      struct field *field, unsigned int depth)
{
	if (depth > DEPTH_MAX)
		return -EBADMSG;
	for (uint32_t i = 0; i < btf_vlen(type); i++) {
		const struct btf_member *member = &btf_members(type)[i];
		const char *its_name = name_of(kernel, member->name_off);
		uint32_t at = bit_offset + btf_member_bit_offset(type, i);
		const struct btf_type *inner;
		int err;

		if (!strcmp(its_name, name)) {
			*field = (struct field){ name, at, (int)member->type };
			return btf_member_bitfield_size(type, i) ? -EBADMSG : 0;
		}
		if (its_name[0])
			continue;
		inner = btf__type_by_id(kernel, member->type);
		err = -ENOENT;
		if (inner && btf_is_composite(inner))
			err = find_field(kernel, inner, name, at, field, depth + 1);
		if (err != -ENOENT)
			return err;
	}
	return -ENOENT;
}

static int copy_struct(struct btf *result, const struct btf *kernel, const struct xp_kernel_struct *wanted)
{
	struct field fields[FIELDS_MAX];
	int number = btf__find_by_name_kind(kernel, wanted->name, BTF_KIND_STRUCT);
	const struct btf_type *type = number < 0 ? NULL : btf__type_by_id(kernel, number);
	int err = type ? 0 : -ENOENT;
	size_t count = 0;

	for (; !err && count < FIELDS_MAX && wanted->fields[count]; count++) {
		struct field *field = &fields[count];

		err = find_field(kernel, type, wanted->fields[count], 0, field, 0);
		if (err)
			break;
		field->type = copy_type(result, kernel, field->type, 0);
		if (field->type < 0)
			err = field->type;
	}
	if (err)
		return err;
	err = btf__add_struct(result, wanted->name, type->size);
	for (size_t i = 0; i < count && err >= 0; i++)
		err = btf__add_field(result, fields[i].name, fields[i].type, fields[i].bit_offset, 0);
	return err < 0 ? err : 0;
}

int xp_kernel_btf_reduce(struct btf **result, const struct btf *kernel)
{
	struct btf *btf = btf__new_empty();
	int err = btf ? 0 : -errno;

	for (const struct xp_kernel_struct *wanted = xp_kernel_structs; wanted->name && !err; wanted++)
		err = copy_struct(btf, kernel, wanted);
	if (err)
		btf__free(btf);
	else
		*result = btf;
	return err;
}

/*
 * Maps the kernel's BTF. Before Linux 6.16 (commit a539e2a6d51d) the file cannot be mapped; libbpf then reads it, which
 * takes 7 ms more CPU time.
 */
static struct btf *load_kernel(void)
{
	struct xp_file_view view;
	struct btf *kernel;

	if (xp_file_view_open(&view, AT_FDCWD, KERNEL_BTF))
		return btf__load_vmlinux_btf();
	kernel = btf__new(view.bytes, view.size);
	xp_file_view_close(&view);
	return kernel;
}

static int make_file(void)
{
	struct btf *kernel = load_kernel(), *reduced;
	int err = kernel ? xp_kernel_btf_reduce(&reduced, kernel) : -errno, fd;
	const void *bytes;
	uint32_t size;

	btf__free(kernel);
	if (err)
		return err;
	bytes = btf__raw_data(reduced, &size);
	fd = bytes ? xp_memfd_make("xprof_btf", bytes, size) : -ENOMEM;
	btf__free(reduced);
	return fd;
}

int xp_kernel_btf_file(void)
{
	static int fd = -1;

	if (fd < 0)
		fd = make_file();
	return fd;
}
