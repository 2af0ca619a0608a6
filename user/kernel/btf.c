// SPDX-License-Identifier: BSD-2-Clause
#include "kernel/btf.h"

#include <bpf/btf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/btf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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
	{ "mm_struct", { "start_stack" } },
	{ "sched_entity", { "sum_exec_runtime" } },
	{ "thread_struct", { "fsbase" } },
	{ "thread_info", { "flags" } },
	{ "list_head", { "next" } },
	{ "uprobe_task", { "vaddr", "xol_vaddr" } },
	{ "task_struct",
	  { "thread_info", "__state", "flags", "on_cpu", "exit_code", "pid", "tgid", "start_time", "comm", "mm",
	    "signal", "se", "thread", "utask", "ptraced", "ptrace_entry" } },
	{ "linux_binprm", { "file" } },
	{ NULL, { NULL } },
};

/* The kernel's BTF. Its types have no index: they are found one after the other, as far as needed. */
struct source {
	const uint8_t *types;
	uint32_t types_bytes;
	const char *strings; /* terminated */
	uint32_t strings_bytes;
	uint32_t *places; /* offset in types of type number [i] */
	uint32_t count;	  /* found so far; 0 is void, which has no offset */
	uint32_t room;
	uint32_t next; /* offset of the next type */
};

struct field {
	const char *name;
	uint32_t bit_offset;
	int type; /* in the result */
};

static int open_source(struct source *source, const void *bytes, size_t size)
{
	const struct btf_header *header = bytes;
	uint64_t room;

	*source = (struct source){ .count = 1 };
	if (size < sizeof(*header) || header->magic != BTF_MAGIC || header->version != BTF_VERSION ||
	    header->hdr_len < sizeof(*header) || header->hdr_len > size || header->hdr_len % 4 || header->type_off % 4)
		return -EBADMSG;
	room = size - header->hdr_len;
	if ((uint64_t)header->type_off + header->type_len > room || !header->str_len ||
	    (uint64_t)header->str_off + header->str_len > room)
		return -EBADMSG;
	source->types = (const uint8_t *)bytes + header->hdr_len + header->type_off;
	source->types_bytes = header->type_len;
	source->strings = (const char *)bytes + header->hdr_len + header->str_off;
	source->strings_bytes = header->str_len;
	return source->strings[header->str_len - 1] ? -EBADMSG : 0;
}

/* Size of the data that follows the type; -1: unknown kind. */
static int64_t trailer_bytes(const struct btf_type *type)
{
	uint64_t count = btf_vlen(type);

	switch (btf_kind(type)) {
	case BTF_KIND_INT:
	case BTF_KIND_VAR:
	case BTF_KIND_DECL_TAG:
		return 4;
	case BTF_KIND_ARRAY:
		return sizeof(struct btf_array);
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION:
		return count * sizeof(struct btf_member);
	case BTF_KIND_ENUM:
		return count * sizeof(struct btf_enum);
	case BTF_KIND_ENUM64:
		return count * sizeof(struct btf_enum64);
	case BTF_KIND_FUNC_PROTO:
		return count * sizeof(struct btf_param);
	case BTF_KIND_DATASEC:
		return count * sizeof(struct btf_var_secinfo);
	default:
		return btf_kind(type) <= BTF_KIND_TYPE_TAG ? 0 : -1;
	}
}

/* Finds one more type. Returns -ENOENT at the end. */
static int find_next(struct source *source)
{
	uint32_t left = source->types_bytes - source->next;
	const struct btf_type *type = (const void *)(source->types + source->next);
	int64_t trailer;

	if (!left)
		return -ENOENT;
	if (left < sizeof(*type))
		return -EBADMSG;
	trailer = trailer_bytes(type);
	if (trailer < 0 || sizeof(*type) + trailer > left)
		return -EBADMSG;
	if (source->count >= source->room) {
		uint32_t room = source->room ? 2 * source->room : 4096;
		uint32_t *places = realloc(source->places, room * sizeof(*places));

		if (!places)
			return -ENOMEM;
		source->places = places;
		source->room = room;
	}
	source->places[source->count++] = source->next;
	source->next += sizeof(*type) + trailer;
	return 0;
}

/* *type is NULL if the number is that of void. */
static int find_type(struct source *source, uint32_t number, const struct btf_type **type)
{
	int err = 0;

	while (!err && number >= source->count)
		err = find_next(source);
	*type = number && !err ? (const void *)(source->types + source->places[number]) : NULL;
	return err;
}

static const char *name_of(const struct source *source, uint32_t offset)
{
	return offset < source->strings_bytes ? source->strings + offset : "";
}

static int find_struct(struct source *source, const char *name, const struct btf_type **type)
{
	for (uint32_t number = 1;; number++) {
		int err = find_type(source, number, type);

		if (err)
			return err;
		if (btf_kind(*type) == BTF_KIND_STRUCT && !strcmp(name_of(source, (*type)->name_off), name))
			return 0;
	}
}

static int copy_type(struct btf *result, struct source *source, uint32_t number, unsigned int depth);

/*
 * A nested struct: a copy of the listed struct if it is listed earlier; otherwise all of it, if it has few fields
 * (atomic_t).
 */
static int copy_inner(struct btf *result, struct source *source, const struct btf_type *type, unsigned int depth)
{
	const char *name = name_of(source, type->name_off);
	int inner = name[0] ? btf__find_by_name_kind(result, name, BTF_KIND_STRUCT) : -ENOENT;
	struct field fields[FIELDS_MAX];
	uint32_t count = btf_vlen(type);

	if (inner >= 0)
		return inner;
	if (count > FIELDS_MAX || btf_kflag(type))
		return -EBADMSG;
	for (uint32_t i = 0; i < count; i++) {
		const struct btf_member *member = &btf_members(type)[i];
		int copy = copy_type(result, source, member->type, depth + 1);

		if (copy < 0)
			return copy;
		fields[i] = (struct field){ name_of(source, member->name_off), member->offset, copy };
	}
	inner = btf__add_struct(result, NULL, type->size);
	for (uint32_t i = 0; i < count && inner >= 0; i++) {
		int err = btf__add_field(result, fields[i].name, fields[i].type, fields[i].bit_offset, 0);

		if (err)
			return err;
	}
	return inner;
}

/* Returns the number of the copy in the result, or -errno. The programs do not use what a pointer points to. */
static int copy_type(struct btf *result, struct source *source, uint32_t number, unsigned int depth)
{
	const struct btf_type *type;
	int copy, err = find_type(source, number, &type);

	if (err)
		return err;
	if (!type || depth > DEPTH_MAX)
		return -EBADMSG;
	switch (btf_kind(type)) {
	case BTF_KIND_TYPEDEF:
	case BTF_KIND_CONST:
	case BTF_KIND_VOLATILE:
	case BTF_KIND_RESTRICT:
	case BTF_KIND_TYPE_TAG:
		return copy_type(result, source, type->type, depth + 1);
	case BTF_KIND_INT:
		return btf__add_int(result, name_of(source, type->name_off), type->size, btf_int_encoding(type));
	case BTF_KIND_PTR:
		return btf__add_ptr(result, 0);
	case BTF_KIND_ARRAY:
		copy = copy_type(result, source, btf_array(type)->type, depth + 1);
		return copy < 0 ? copy : btf__add_array(result, copy, copy, btf_array(type)->nelems);
	case BTF_KIND_STRUCT:
		return copy_inner(result, source, type, depth);
	default:
		return -EBADMSG;
	}
}

/* Finds a field in the struct, or in an anonymous struct or union in it, which begins at bit_offset. */
static int find_field(struct source *source, const struct btf_type *type, const char *name, uint32_t bit_offset,
		      struct field *field, unsigned int depth)
{
	if (depth > DEPTH_MAX)
		return -EBADMSG;
	for (uint32_t i = 0; i < btf_vlen(type); i++) {
		const struct btf_member *member = &btf_members(type)[i];
		const char *its_name = name_of(source, member->name_off);
		uint32_t at = bit_offset + btf_member_bit_offset(type, i);
		const struct btf_type *inner;
		int err;

		if (!strcmp(its_name, name)) {
			*field = (struct field){ name, at, (int)member->type };
			return btf_member_bitfield_size(type, i) ? -EBADMSG : 0;
		}
		if (its_name[0])
			continue;
		err = find_type(source, member->type, &inner);
		if (!err && inner && btf_is_composite(inner))
			err = find_field(source, inner, name, at, field, depth + 1);
		else if (!err)
			err = -ENOENT;
		if (err != -ENOENT)
			return err;
	}
	return -ENOENT;
}

static int copy_struct(struct btf *result, struct source *source, const struct xp_kernel_struct *wanted)
{
	struct field fields[FIELDS_MAX];
	const struct btf_type *type;
	size_t count = 0;
	int err = find_struct(source, wanted->name, &type);

	for (; !err && count < FIELDS_MAX && wanted->fields[count]; count++) {
		struct field *field = &fields[count];

		err = find_field(source, type, wanted->fields[count], 0, field, 0);
		if (err)
			break;
		field->type = copy_type(result, source, field->type, 0);
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

int xp_kernel_btf_reduce(struct btf **result, const void *bytes, size_t size)
{
	struct source source;
	struct btf *btf = NULL;
	int err = open_source(&source, bytes, size);

	if (err)
		return err;
	btf = btf__new_empty();
	if (!btf)
		return -errno;
	for (const struct xp_kernel_struct *wanted = xp_kernel_structs; wanted->name && !err; wanted++)
		err = copy_struct(btf, &source, wanted);
	free(source.places);
	if (err) {
		btf__free(btf);
		return err;
	}
	*result = btf;
	return 0;
}

static int write_file(const struct btf *btf)
{
	uint32_t size;
	const void *bytes = btf__raw_data(btf, &size);
	int fd, err;

	if (!bytes)
		return -ENOMEM;
	fd = memfd_create("xprof_btf", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	err = xp_write_all(fd, bytes, size);
	if (err) {
		close(fd);
		return err;
	}
	return fd;
}

/* Before Linux 6.16 (commit a539e2a6d51d), the file cannot be mapped, and a read() returns at most a page. */
static int read_kernel(void **bytes, size_t *size)
{
	int fd = open(KERNEL_BTF, O_RDONLY | O_CLOEXEC);
	struct stat st;
	size_t done = 0;
	int err = 0;

	if (fd < 0)
		return -errno;
	*bytes = fstat(fd, &st) ? NULL : malloc(st.st_size);
	if (!*bytes)
		err = -ENOMEM;
	while (!err && done < (size_t)st.st_size) {
		ssize_t n = read(fd, (uint8_t *)*bytes + done, st.st_size - done);

		if (n <= 0)
			err = n ? -errno : -EBADMSG;
		else
			done += n;
	}
	close(fd);
	if (err)
		free(*bytes);
	*size = done;
	return err;
}

int xp_kernel_btf_open(void)
{
	struct xp_file_view view;
	bool mapped = !xp_file_view_open(&view, AT_FDCWD, KERNEL_BTF);
	struct btf *btf;
	void *bytes = NULL;
	size_t size = 0;
	int err;

	if (mapped) {
		err = xp_kernel_btf_reduce(&btf, view.bytes, view.size);
		xp_file_view_close(&view);
	} else {
		err = read_kernel(&bytes, &size);
		if (err)
			return err;
		err = xp_kernel_btf_reduce(&btf, bytes, size);
		free(bytes);
	}
	if (err)
		return err;
	err = write_file(btf);
	btf__free(btf);
	return err;
}
