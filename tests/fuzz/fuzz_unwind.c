// SPDX-License-Identifier: BSD-2-Clause
/*
 * Fuzzes the walk of a stack: registers, the stack and the unwind table of what is mapped are all the target's. Words
 * of the stack that would point nowhere are made to point into code or the stack, so that walks get far.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"

#include "base/util.h"
#include "unwind/unwind.h"
#include "xprof/event.h"

#define CODE 0x400000ull
#define JIT 0x500000ull
#define ROWS_MAX 64
#define DEREFS 4
#define ROUNDS 12

/* The input: this, row_count rows of 6 bytes, and the stack. */
struct head {
	uint64_t sp;
	uint64_t bp;
	uint16_t ip; /* in the code */
	uint8_t row_count;
	uint8_t flags;
	uint32_t missing;
	struct xp_cfi_deref derefs[DEREFS];
};
enum { IS_WHOLE = 1, BY_FRAME_POINTER = 2, IS_LATE = 4, HAS_TIME = 8, HAS_CODE = 16, CODE_IS_LATE = 32 };

static struct xp_file file = { .kind = XP_FILE_DISK, .path = "/bin/program" };
static struct xp_file jit_file = { .index = 1, .kind = XP_FILE_ANON, .path = "//anon" };

struct tables {
	struct xp_cfi_table *table;
	bool is_late;
	bool code_is_late;
	unsigned int round;
};

static int find_table(void *arg, const struct xp_file *of, uint64_t offset, const struct xp_cfi_table **table)
{
	const struct tables *tables = arg;

	(void)offset;
	*table = of == &file && !tables->is_late ? tables->table : NULL;
	return of == &file && tables->is_late ? -EAGAIN : 0;
}

/* The JIT code has the file's rules, at other addresses after each change. */
static int find_code(void *arg, uint64_t address, struct xp_cfi_found *found)
{
	const struct tables *tables = arg;
	const struct xp_cfi_row *row;

	if (tables->code_is_late && address % 16 == 0)
		return -EAGAIN;
	if (!tables->table)
		return -ENOENT;
	row = xp_cfi_find(tables->table, address - JIT + tables->round / 4 * 256);
	found->row = *row;
	if (row->rule == XP_CFI_DEREF)
		found->deref = *xp_cfi_deref(tables->table, row);
	return row->rule == XP_CFI_NONE ? -ENOENT : 0;
}

/* A table that may be opened: what that refuses is fuzzed elsewhere. */
static struct xp_cfi_table *make_table(const struct head *head, const uint8_t *data)
{
	struct xp_cfi_header header = { .magic = XP_CFI_MAGIC, .deref_count = DEREFS };
	struct xp_cfi_row rows[ROWS_MAX + 1] = { { 0 } };
	int fd = memfd_create("table", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct xp_cfi_table *table = NULL;
	uint32_t pc = 0;

	for (int i = 0; i < head->row_count; i++, data += 6) {
		uint8_t rule = data[5] % XP_CFI_RULES;

		pc += 1 + data[0];
		rows[i] = (struct xp_cfi_row){ pc, data[1] | data[2] << 8, (int8_t)data[3], rule };
		if (rule == XP_CFI_DEREF)
			rows[i].cfa = head->derefs[data[1] % DEREFS].rbp_base == XP_CFI_BASE_CFA ? data[1] % DEREFS : 0;
		if (rule == XP_CFI_REG && XP_CFI_REG_OF(rows[i].cfa) / 2 == XP_CFI_REG_RBP / 2)
			rows[i].cfa = XP_CFI_REG_CFA(XP_CFI_REG_RBX, XP_CFI_REG_WORDS(rows[i].cfa));
		if (rule == XP_CFI_PLT)
			rows[i].cfa = 1 + data[1] % 15;
		if (rule == XP_CFI_NONE || rule == XP_CFI_SIGNAL || rule == XP_CFI_END || rule == XP_CFI_CLONE)
			rows[i].cfa = 0, rows[i].rbp = 0;
	}
	rows[head->row_count].pc = pc + 256;
	header.row_count = head->row_count + 1;
	CHECK(fd >= 0 && write(fd, &header, sizeof(header)) == sizeof(header));
	CHECK(write(fd, rows, header.row_count * sizeof(*rows)) == (ssize_t)(header.row_count * sizeof(*rows)));
	CHECK(write(fd, head->derefs, sizeof(head->derefs)) == sizeof(head->derefs));
	CHECK(!fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW));
	if (xp_cfi_table_open(&table, fd))
		table = NULL;
	close(fd);
	return table;
}

/* Small words mean places in the code, in the JIT code and in the stack. */
static void relocate(uint8_t *stack, size_t size, uint64_t sp)
{
	for (size_t at = 0; at + 8 <= size; at += 8) {
		uint64_t word;

		memcpy(&word, stack + at, sizeof(word));
		if (word >> 24 == 1)
			word = CODE + (word & 0xfff);
		else if (word >> 24 == 2)
			word = JIT + (word & 0xfff);
		else if (word >> 24 == 3)
			word = sp + (word & 0xffff);
		memcpy(stack + at, &word, sizeof(word));
	}
}

static void check(const struct xp_address_space *space, const struct xp_unwind_thread *thread, bool has_time,
		  const struct xp_frame *frames, const struct xp_unwind_result *result)
{
	CHECK(result->count >= 1 && result->count <= XP_UNWIND_FRAMES_MAX);
	CHECK(result->used_bytes <= thread->stack_bytes);
	CHECK(frames[0].address == thread->ip && !frames[0].interrupted);
	CHECK(result->end < XP_UNWIND_ENDS || (has_time && result->end == XP_UNWIND_WAITS &&
					       (result->file == &file || (!result->file && thread->code))));
	for (size_t i = 1; i < result->count; i++)
		CHECK(frames[i].vma == xp_address_space_find(space, frames[i].address - !frames[i].interrupted) &&
		      frames[i].vma);
}

/* What there is in one walk and not in the next: a word, the registers, the length. */
static void change(struct xp_unwind_thread *thread, uint8_t *stack, uint32_t size, unsigned int round)
{
	uint32_t words = size / 8, hash = (round + 1) * 0x9e3779b9u, from, to;

	if (words) {
		from = (hash >> 8) % words;
		to = (hash >> 16) % words;
		memcpy(stack + 8 * to, stack + 8 * from, 8);
	}
	if (round % 3 == 1)
		thread->ip += round;
	if (round % 4 == 2)
		thread->bp += 8;
	if (round % 5 == 3 && size >= 16) { /* deeper, or less */
		thread->sp += 16;
		thread->stack += 16;
		thread->stack_bytes -= 16;
	}
	if (round % 8 == 6)
		thread->stack_bytes -= thread->stack_bytes / 4;
	if (round % 8 == 7)
		thread->stack_missing = 0;
}

static struct head make_head(const uint8_t *data, size_t rest)
{
	struct head head;

	memcpy(&head, data, sizeof(head));
	if (head.sp >> 60 == 0) /* a usual one */
		head.sp = 0x7ffc00000000 + head.sp % 8192;
	if (head.bp >> 60 == 0)
		head.bp = head.sp + head.bp % 65536;
	head.row_count %= ROWS_MAX;
	if (head.row_count * 6u > rest)
		head.row_count = 0;
	for (int i = 0; i < DEREFS; i++) {
		head.derefs[i].base = XP_CFI_BASE_RSP + head.derefs[i].base % 2;
		head.derefs[i].rbp_base %= XP_CFI_BASE_RBP + 1;
		head.derefs[i].pad = 0;
	}
	return head;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct xp_frame frames[XP_UNWIND_FRAMES_MAX];
	const struct xp_vma vmas[] = { { CODE, CODE + 0x1000, 0, &file }, { JIT, JIT + 0x1000, 0, &jit_file } };
	const struct xp_vma replaced = { CODE + 0x400, CODE + 0x600, 0, &file };
	struct xp_unwind_result result;
	struct xp_unwinder *unwinder;
	struct xp_address_space space = { 0 };
	struct tables tables;
	struct xp_unwind_code code = { .find = find_code, .arg = &tables };
	struct head head;
	__u64 regs[XP_SAMPLE_REGS];
	uint8_t *stack; /* of exactly its size: the sanitizer sees what is read beyond */

	if (size < sizeof(head))
		return -1;
	head = make_head(data, size - sizeof(head));
	tables = (struct tables){
		.table = make_table(&head, data + sizeof(head)),
		.is_late = head.flags & IS_LATE,
		.code_is_late = head.flags & CODE_IS_LATE,
	};
	data += sizeof(head) + 6 * head.row_count;
	size = XP_MIN(size - sizeof(head) - 6 * head.row_count, (size_t)XP_STACK_BYTES_MAX);
	stack = malloc(size);
	CHECK((stack || !size) && !xp_address_space_map(&space, &vmas[0]) && !xp_address_space_map(&space, &vmas[1]));
	if (size)
		memcpy(stack, data, size);
	relocate(stack, size, head.sp);
	CHECK(!xp_unwinder_new(&unwinder, find_table, &tables, head.flags & BY_FRAME_POINTER));
	for (size_t i = 0; i < XP_SAMPLE_REGS; i++)
		regs[i] = head.bp + 32 * i;
	for (unsigned int round = 0; round < ROUNDS;
	     round++) { /* from the second one on by rules that are remembered */
		struct xp_unwind_thread thread = {
			.ip = CODE + head.ip % 0x1000,
			.sp = head.sp,
			.bp = head.bp,
			.regs = regs,
			.stack = stack,
			.stack_bytes = size,
			.stack_missing = head.missing,
			.is_whole = head.flags & IS_WHOLE,
			.code = head.flags & HAS_CODE ? &code : NULL,
		};

		tables.round = round;

		if (round > 1)
			change(&thread, stack, size, round);
		xp_unwind(unwinder, &space, &thread, head.flags & HAS_TIME, frames, &result);
		check(&space, &thread, head.flags & HAS_TIME, frames, &result);
		if (round == ROUNDS / 2)
			CHECK(!xp_address_space_map(&space, &replaced));
	}
	xp_unwinder_free(unwinder);
	xp_cfi_table_free(tables.table);
	xp_address_space_free(&space);
	free(stack);
	return 0;
}
