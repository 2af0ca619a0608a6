/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <bpf/btf.h>

#include "unit.h"

#include "kernel/btf.h"

/* ---- the running kernel's BTF ---- */

static bool find(const struct btf *btf, const struct btf_type *type, const char *name, uint32_t base,
		 uint32_t *bit_offset, int64_t *size)
{
	for (uint32_t i = 0; i < btf_vlen(type); i++) {
		const struct btf_member *member = &btf_members(type)[i];
		const char *its_name = btf__name_by_offset(btf, member->name_off);
		const struct btf_type *inner = btf__type_by_id(btf, member->type);
		uint32_t at = base + btf_member_bit_offset(type, i);

		if (!strcmp(its_name, name)) {
			*bit_offset = at;
			*size = btf__resolve_size(btf, member->type);
			return true;
		}
		if (!its_name[0] && btf_is_composite(inner) && find(btf, inner, name, at, bit_offset, size))
			return true;
	}
	return false;
}

static void expect_same(const struct btf *small, const struct btf *whole, const struct xp_kernel_struct *wanted)
{
	int number = btf__find_by_name_kind(small, wanted->name, BTF_KIND_STRUCT);
	int its_number = btf__find_by_name_kind(whole, wanted->name, BTF_KIND_STRUCT);

	assert_true(number > 0);
	assert_true(its_number > 0);
	assert_int_equal(btf__resolve_size(small, number), btf__resolve_size(whole, its_number));
	for (const char *const *field = wanted->fields; *field; field++) {
		uint32_t at, its;
		int64_t size, its_size;

		assert_true(find(small, btf__type_by_id(small, number), *field, 0, &at, &size));
		assert_true(find(whole, btf__type_by_id(whole, its_number), *field, 0, &its, &its_size));
		assert_int_equal(at, its);
		assert_int_equal(size, its_size);
	}
}

/* Compares with libbpf's result for the kernel's complete BTF. */
TEST(this_kernel)
{
	struct btf *whole = btf__load_vmlinux_btf(), *small;
	char path[64];
	int fd;

	if (!whole)
		skip();
	fd = xp_kernel_btf_file();
	assert_true(fd >= 0);
	assert_int_equal(xp_kernel_btf_file(), fd);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	small = btf__parse(path, NULL);
	assert_non_null(small);
	for (const struct xp_kernel_struct *wanted = xp_kernel_structs; wanted->name; wanted++)
		expect_same(small, whole, wanted);
	assert_true(btf__type_cnt(small) < 100);
	btf__free(small);
	btf__free(whole);
	close(fd);
}

/* ---- hand-made BTF ---- */

enum fault {
	NONE,
	NO_STRUCT,
	NO_FIELD,
	BIT_FIELD,
	FLOAT_FIELD,
	TYPEDEF_LOOP,
};

static int add_struct(struct btf *btf, const struct xp_kernel_struct *wanted, int type, enum fault fault)
{
	int inner, number, err = 0;
	uint32_t at = 128;

	/* All fields except the first are in an unnamed struct after 16 bytes. */
	inner = btf__add_struct(btf, NULL, 512);
	for (const char *const *field = wanted->fields + 1; wanted->fields[0] && *field && !err; field++, at += 64)
		err = btf__add_field(btf, *field, type, at, 0);
	number = btf__add_struct(btf, wanted->name, 1024);
	if (fault != NO_FIELD)
		err = err ?: btf__add_field(btf, wanted->fields[0], type, 64, fault == BIT_FIELD ? 3 : 0);
	err = err ?: btf__add_field(btf, NULL, inner, 128, 0);
	return err ? err : number;
}

/* The last struct, or its first field, has the fault. */
static struct btf *make(enum fault fault)
{
	struct btf *btf = btf__new_empty();
	int type, wrong;

	assert_non_null(btf);
	type = btf__add_int(btf, "long unsigned int", 8, 0);
	type = btf__add_typedef(btf, "word_t", btf__add_volatile(btf, type));
	wrong = type;
	if (fault == FLOAT_FIELD)
		wrong = btf__add_float(btf, "double", 8);
	if (fault == TYPEDEF_LOOP) {
		wrong = btf__add_typedef(btf, "one", btf__type_cnt(btf) + 1);
		assert_true(btf__add_typedef(btf, "two", wrong) > 0);
	}
	for (const struct xp_kernel_struct *wanted = xp_kernel_structs; wanted->name; wanted++) {
		bool is_last = !wanted[1].name;

		if (is_last && fault == NO_STRUCT)
			break;
		assert_true(add_struct(btf, wanted, is_last ? wrong : type, is_last ? fault : NONE) > 0);
	}
	return btf;
}

TEST(inner_structs)
{
	struct btf *whole = make(NONE), *small;

	assert_int_equal(xp_kernel_btf_reduce(&small, whole), 0);
	for (const struct xp_kernel_struct *wanted = xp_kernel_structs; wanted->name; wanted++)
		expect_same(small, whole, wanted);
	btf__free(small);
	btf__free(whole);
}

TEST(faults)
{
	static const int errors[] = { [NO_STRUCT] = -ENOENT,
				      [NO_FIELD] = -ENOENT,
				      [BIT_FIELD] = -EBADMSG,
				      [FLOAT_FIELD] = -EBADMSG,
				      [TYPEDEF_LOOP] = -EBADMSG };

	for (int fault = NO_STRUCT; fault <= TYPEDEF_LOOP; fault++) {
		struct btf *whole = make(fault), *small;

		assert_int_equal(xp_kernel_btf_reduce(&small, whole), errors[fault]);
		btf__free(whole);
	}
}
